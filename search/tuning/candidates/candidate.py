"""A candidate: one point of one scheduler's space, as a value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from search.space.knobs import KnobValue
from search.space.renamed import point_today


@dataclass(frozen=True, slots=True)
class Candidate:
    """`point` is sorted by knob name, so that equal candidates are equal values."""

    scheduler: str
    point: tuple[tuple[str, KnobValue], ...]

    @classmethod
    def of(cls, scheduler: str, point: Mapping[str, KnobValue]) -> Candidate:
        """The candidate of a point given in any order of its knobs."""
        return cls(scheduler, tuple(sorted(point.items())))

    @property
    def knobs(self) -> dict[str, KnobValue]:
        """The point as a mapping."""
        return dict(self.point)

    @property
    def key(self) -> str:
        """SHA-256 over the canonical JSON: the same in every process and on every machine."""
        canonical = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.scheduler}({', '.join(f'{name}={value}' for name, value in self.point)})"

    def to_json(self) -> dict[str, Any]:
        return {"scheduler": self.scheduler, "point": dict(self.point)}

    @classmethod
    def from_json(cls, data: object) -> Candidate:
        """The candidate under the names of today. Raises KeyError or TypeError for what `to_json` never wrote."""
        point = checked(data, "point", dict)
        read = {knob: checked(point, knob, *_KNOB_VALUES) for knob in point}
        return cls.of(checked(data, "scheduler", str), point_today(read))


_KNOB_VALUES = (int, float, str, bool)


def checked(data: object, name: str, *kinds: type) -> Any:
    """The field `name` of a decoded JSON object, of one of the types `kinds` (a boolean is no integer here).

    Raises KeyError if it is missing, TypeError if it is of another type or `data` is no object.
    """
    if not isinstance(data, dict):
        raise TypeError(f"found {type(data).__name__}, expected an object")
    if name not in data:
        raise KeyError(f"no field {name}")
    value = data[name]
    if type(value) not in kinds or value in (float("inf"), float("-inf")) or value != value:
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name}: found {value!r:.60}, expected {expected}")
    return value
