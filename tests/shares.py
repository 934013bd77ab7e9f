"""Which cases of a table the ordinary run has: a share that stays the same, with every row and every column of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def shared(cases: Iterable[Any], one_in: int) -> list[Any]:
    """One case in so many, from the first; the others are for the long run."""
    return [case if n % one_in == 0 else pytest.param(case, marks=pytest.mark.long) for n, case in enumerate(cases)]


def crossed(rows: Iterable[Any], columns: Iterable[Any], one_in: int) -> list[Any]:
    """Pairs of a row and a column, one in so many along either; the others are for the long run. Every row and every
    column is there as long as there are `one_in` of the other."""
    across = list(columns)
    return [
        pytest.param(row, column, marks=() if (r + c) % one_in == 0 else pytest.mark.long)
        for r, row in enumerate(rows)
        for c, column in enumerate(across)
    ]
