"""A candidate: one point of one scheduler's space, as a value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from search.space.knobs import KnobValue


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
    def from_json(cls, data: Mapping[str, Any]) -> Candidate:
        """Raises KeyError or TypeError for what `to_json` did not write."""
        return cls.of(data["scheduler"], data["point"])
