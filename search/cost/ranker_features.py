"""What a ranker reads of a candidate: what the model makes its time of, and its knobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

from search.space.knobs import KnobValue

FEATURES = 3
"""Rises when what is read changes, or the terms of a prediction mean something else: what was fitted to other features
is not used."""

_SHARE = "share of "

Knobs = Mapping[str, KnobValue]

_LEAST = 0.5
"""Stands for numbers below it in a logarithm: 0 and -1 are a step below 1."""


def launch_knobs(knobs: Knobs) -> list[dict[str, KnobValue]]:
    """The knobs of each launch, under the names that they have in a space of one launch."""
    numbers = sorted({int(name.partition(".")[0]) for name in knobs if "." in name})
    shared = {name: value for name, value in knobs.items() if "." not in name}
    if not numbers:
        return [shared]
    return [{**shared, **_own(knobs, f"{number}.")} for number in numbers]


def _own(knobs: Knobs, prefix: str) -> dict[str, KnobValue]:
    return {name.removeprefix(prefix): value for name, value in knobs.items() if name.startswith(prefix)}


def features_of(predicted_us: float, terms: Mapping[str, float], launches: Sequence[Knobs]) -> dict[str, float]:
    """By name: each term's share of the predicted time; of numbers their logarithm; and of words the share of the
    launches that have them. What a candidate has no knob for is left out."""
    found = {f"{_SHARE}{name}": us / predicted_us for name, us in terms.items()} if predicted_us else {}
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for knobs in launches:
        for name, value in knobs.items():
            if isinstance(value, str | bool):
                word = f"{name}={value}"
                sums[word] = sums.get(word, 0.0) + 1.0 / len(launches)
                counts[word] = 1
            else:
                sums[name] = sums.get(name, 0.0) + log2(max(value, _LEAST))
                counts[name] = counts.get(name, 0) + 1
    return found | {name: total / counts[name] for name, total in sums.items()}


def is_number(feature: str) -> bool:
    """Whether it is a knob's number: who lacks it has none, where words and terms that are lacking are 0."""
    return "=" not in feature and not feature.startswith(_SHARE)
