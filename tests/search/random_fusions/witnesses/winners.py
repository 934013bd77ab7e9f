"""Fusions that choose one element of each row: experts after a scale and a bias, tokens after a temperature and one.

Each finds the largest element of `scores * scale + bias` and then its position, in two passes over the row. A kernel
that works the sum out in two ways leaves rows in which no element equals their own maximum: their index is the number
of columns. `tests/data/winners` has them at the sizes at which this was seen.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.search.random_fusions.cases import Case
from tests.search.random_fusions.witnesses.witness import Array

FOLDER = Path(__file__).parents[3] / "data" / "winners"
NAMES = ("moe_bias_routing", "greedy_token_32k", "greedy_token_152k")
CHOSEN = 1
"""The output that has the positions."""


def winner(name: str, rows: int | None = None, columns: int | None = None) -> Case:
    """The fusion of that name, at other sizes if they are given."""
    document = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    sizes = dict(zip(document["inputs"][0]["shape"], (rows, columns), strict=True))
    resized = _resized(document, {old: new for old, new in sizes.items() if new is not None})
    return Case(name, resized, {"sizes": {}, "inputs": [{} for _ in document["inputs"]]})


def columns_of(case: Case) -> int:
    """Among how many elements each row chooses."""
    return int(case.document["inputs"][0]["shape"][1])


def without_winner(case: Case, outputs: Sequence[Array]) -> int:
    """Rows whose position is none of a row's. The inputs are finite, so every row has a largest element."""
    chosen = outputs[CHOSEN]
    return int(((chosen < 0) | (chosen >= columns_of(case))).sum())


def _resized(part: Any, sizes: dict[int, int]) -> Any:
    """The document with every number that is a size replaced; no other integer of these documents equals one."""
    match part:
        case dict():
            return {key: _resized(value, sizes) for key, value in part.items()}
        case list():
            return [_resized(value, sizes) for value in part]
        case bool() | float():
            return part
        case int():
            return sizes.get(part, part)
        case _:
            return part
