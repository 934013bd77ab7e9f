"""Which cases of a table the ordinary run has: a share that stays the same, with every row and every column of it.
And tables whose cases are too small to be a test each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def shared(cases: Iterable[Any], one_in: int, first: int = 0) -> list[Any]:
    """One case in so many, from number `first` on; the others are for the long run. Tests of one table take different
    ones: each case is in some of them."""
    return [case if n % one_in == first else _long(case) for n, case in enumerate(cases)]


def _long(case: Any) -> Any:
    if isinstance(case, ParameterSet):
        return pytest.param(*case.values, marks=(*case.marks, pytest.mark.long), id=case.id)
    return pytest.param(case, marks=pytest.mark.long)


def crossed(rows: Iterable[Any], columns: Iterable[Any], one_in: int) -> list[Any]:
    """Pairs of a row and a column, one in so many along either; the others are for the long run. Every row and every
    column is there as long as there are `one_in` of the other."""
    across = list(columns)
    return [
        pytest.param(row, column, marks=() if (r + c) % one_in == 0 else pytest.mark.long)
        for r, row in enumerate(rows)
        for c, column in enumerate(across)
    ]


def inside(name: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `parametrize`, but one test has every value: starting a test and telling of it takes a millisecond, which is
    more than many cases take. What fails says of which value."""
    every = tuple(values)

    def together(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def one_by_one(**given: Any) -> None:
            for value in every:
                try:
                    test(**given, **{name: value})
                except BaseException as error:
                    error.add_note(f"{name}: {getattr(value, '__name__', value)}")
                    raise

        taken = inspect.signature(test)
        left = [one for one in taken.parameters.values() if one.name != name]
        one_by_one.__signature__ = taken.replace(parameters=left)  # type: ignore[attr-defined]  # pytest asks for it
        return one_by_one

    return together
