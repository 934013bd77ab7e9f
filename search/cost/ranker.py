"""By how much longer than predicted candidates take on a card, learnt from those that it has timed: a `CardRanker`.

    time = predicted time · exp(sum over features of weight · (feature - centre))

Features are shares of the predicted time and knobs (`ranker_features`). Weights were fitted within fusions
(`search.tuning.fitting`): a ranker says which candidate of a fusion is faster than another, and nothing of how long
the fusion takes. It holds for one card and one generator. For any other it is not used, and the order is the model's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, isfinite
from pathlib import Path
from typing import Any

from compiler.generator import GENERATOR
from search.cost.model import Prediction
from search.cost.ranker_features import FEATURES, Knobs, features_of, launch_knobs

FORMAT = "fusetune.ranker/1"

MOST_LOG = 1.5
"""The logarithm by which a time is corrected, at the most: further away nothing was learnt."""


LEAST_GAIN = 0.01
"""By so much its rank correlation must be above the model's: its penalty was chosen by that same figure, so that a
little is won by chance."""


class RankerError(Exception):
    """A file that holds no ranker: `path` and `reason`."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason} Make one with `python -m search rank fit`."


@dataclass(frozen=True, slots=True)
class Learnt:
    """Of one feature: the value that changes nothing, and what a step of one from there adds to the logarithm. For a
    knob's number that is the mean over what was learnt from: a candidate without the knob counts as an average one."""

    centre: float
    weight: float


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How well what was learnt from all fusions but one orders the candidates of that one: means of rank correlations
    (Spearman's) over the fusions, of the model alone and with what was learnt."""

    model: float
    ranker: float


@dataclass(frozen=True)
class CardRanker:
    """What was learnt of one card. `fusions` and `trials`: from how many; `generator` made their kernels, and
    `features` is the version of what was read of them."""

    card: str
    learnt: Mapping[str, Learnt]
    fusions: int
    trials: int
    held_out: HeldOut
    generator: str = GENERATOR
    features: int = FEATURES

    def why_not(self, card: str) -> str | None:
        """Why candidates for a card of this name are ordered without it, None where they are not."""
        if self.card != card:
            return f"it was fitted to the {self.card}"
        if self.generator != GENERATOR:
            return f"it was fitted to kernels of {self.generator}, this is {GENERATOR}"
        if self.features != FEATURES:
            return "it was fitted to other features than this version reads"
        if self.held_out.ranker < self.held_out.model + LEAST_GAIN:
            return "it orders fusions that it was not fitted to no better than the model"
        return None

    def times(self, knobs: Knobs, launches: Sequence[Prediction]) -> list[float]:
        """Microseconds of each launch of a candidate, to order candidates of one fusion by."""
        each = launch_knobs(knobs)
        if len(each) != len(launches):
            each = each * len(launches)
        return [
            one.total_us * self.factor(features_of(one.total_us, one.terms, [own]))
            for one, own in zip(launches, each, strict=True)
        ]

    def factor(self, features: Mapping[str, float]) -> float:
        """Measured over predicted time, but for a factor that all candidates of a fusion share."""
        known = ((self.learnt[name], value) for name, value in features.items() if name in self.learnt)
        log = sum(one.weight * (value - one.centre) for one, value in known)
        return exp(max(-MOST_LOG, min(MOST_LOG, log)))

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {"format": FORMAT, **asdict(self)}

    def write(self, path: Path) -> None:
        """Into a file, whole or not at all, whoever else writes it. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}.new")
        try:
            part.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def read(cls, path: Path) -> CardRanker:
        """Raises RankerError for a file that `write` never wrote, and OSError."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(data, dict) or data.get("format") != FORMAT:
                raise RankerError(path, f"no {FORMAT}.")
            learnt = {
                str(name): Learnt(_number(one["centre"]), _number(one["weight"]))
                for name, one in data["learnt"].items()
            }
            held_out = HeldOut(_number(data["held_out"]["model"]), _number(data["held_out"]["ranker"]))
            plain = {name: kind(data[name]) for name, kind in _PLAIN.items()}
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise RankerError(path, f"damaged ({type(error).__name__}: {error}).") from None
        return cls(learnt=learnt, held_out=held_out, **plain)


_PLAIN = {"card": str, "fusions": int, "trials": int, "generator": str, "features": int}


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value):
        raise ValueError(f"found {value!r}, expected a number")
    return float(value)
