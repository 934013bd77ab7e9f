"""Documents that are no explicit schedules, or odd ones: whatever reads cases must survive all of them."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parents[1] / "data"
CASES: list[dict[str, Any]] = json.loads((_DATA / "document_cases.json").read_text())
"""The explicit schedules of the documents, with what must be found of each."""
DESCRIBED: list[dict[str, Any]] = json.loads((_DATA / "explicit_schedules.json").read_text())
"""Explicit schedules that the documents describe in words, with what must be found of each."""

COPY: dict[str, Any] = {
    "name": "copy",
    "tensors": {name: {"shape": [32, 64], "dtype": "float32", "memory": "global"} for name in ("tv0", "tv1")},
    "ops": [{"op": "set", "in": ["tv0"], "out": "tv1"}],
    "inputs": ["tv0"],
    "outputs": ["tv1"],
    "schedule": [{"do": "parallelize", "tv": "tv1", "axis": 0, "type": "BIDx"}],
}
REFUSED: dict[str, Any] = {
    **COPY,
    "name": "refused",
    "schedule": [{"do": "split", "tv": "tv1", "axis": 7, "factor": 4}],
}
"""Its only step names an axis that the tensor does not have."""


def nested(depth: int) -> Any:
    """Arrays inside each other."""
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


GARBAGE: list[Any] = [
    None, True, 0, -1, 1.5, "", "text", [], [[]], {}, {"name": 1}, {"name": None}, {"name": "\x1b[31m\u202e"},
    {"tensors": {}}, {**COPY, "tensors": 1}, {**COPY, "ops": {}}, {**COPY, "schedule": [None]},
    {**COPY, "schedule": [{"do": []}]}, {**COPY, "schedule": [{"do": "split", "tv": {}}]},
    {**COPY, "name": nested(20)}, {**COPY, "inputs": [["tv0"]]}, {**COPY, "outputs": ["nothing"]},
    {**COPY, "schedule": [{"do": "split", "tv": "tv1", "axis": 0, "factor": 10**300}]},
    {**COPY, "schedule": [{"do": "split", "tv": "tv1", "axis": 0, "factor": 2**62}] * 40},
    {**COPY, "tensors": {"tv0": {"shape": [10**300], "dtype": "float32"}, "tv1": {"shape": [2], "dtype": "float32"}}},
]  # fmt: skip
"""One of each kind of nonsense that JSON can hold."""

_ODD: tuple[Any, ...] = (None, True, 0, -1, 1 << 40, 10**30, 0.5, "", "tv1", "BIDx", [], {}, [0], {"scalar": "n"})


def mutants(seed: int, count: int, of: list[dict[str, Any]] = CASES) -> Iterator[dict[str, Any]]:
    """Cases with a few places changed, most of them numbers and names of the schedule, so that most still are cases."""
    rng = random.Random(seed)
    for _ in range(count):
        case = copy.deepcopy(rng.choice(of))
        case.pop("expect", None)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            if rng.random() < 0.8:
                _nudge(rng, case)
            else:
                _break(rng, case)
        yield case


def _nudge(rng: random.Random, case: dict[str, Any]) -> None:
    """Another number, a step gone, repeated or moved, another tensor, type or kind of step."""
    steps = case.get("schedule")
    if not isinstance(steps, list) or not steps:
        return
    at = rng.randrange(len(steps))
    match rng.randrange(6):
        case 0:
            del steps[at]
        case 1:
            steps.insert(rng.randrange(len(steps) + 1), copy.deepcopy(steps[at]))
        case 2:
            steps.insert(rng.randrange(len(steps)), steps.pop(at))
        case _:
            holder, key = rng.choice([*_places(steps[at]), *_places(case.get("tensors"))])
            value = holder[key]
            if isinstance(value, bool):
                holder[key] = not value
            elif isinstance(value, int):
                holder[key] = max(-8, value + rng.choice((-value // 2, -2, -1, 1, 2, 3, value)))
            elif isinstance(value, str):
                same = [h[k] for h, k in _places(case) if k == key and isinstance(h[k], str)]
                holder[key] = rng.choice(same)


def _break(rng: random.Random, case: dict[str, Any]) -> None:
    """Any value replaced by an odd one or by another, or removed."""
    places = list(_places(case))
    holder, key = rng.choice(places)
    match rng.randrange(3):
        case 0:
            holder[key] = copy.deepcopy(rng.choice(_ODD))
        case 1:
            del holder[key]
        case _:
            other, there = rng.choice(places)
            if there in other if isinstance(other, dict) else there < len(other):
                holder[key] = copy.deepcopy(other[there])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def has_number_json_cannot_hold(value: Any) -> bool:
    """True for NaN and the infinities, wherever they stand."""
    if isinstance(value, dict):
        return any(map(has_number_json_cannot_hold, value.values()))
    if isinstance(value, list):
        return any(map(has_number_json_cannot_hold, value))
    return isinstance(value, float) and not math.isfinite(value)
