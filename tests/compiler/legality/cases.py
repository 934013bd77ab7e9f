"""A row of the rules' tables: the nearest legal schedule beside the nearest illegal one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from compiler.legality.rules import Schedule, check

Breach = tuple[str, str, int | float | str, int | float | str]
"""rule, where, found, limit."""


@dataclass(frozen=True)
class Case:
    """`legal` breaks no rule at all; `illegal` breaks exactly these."""

    name: str
    legal: Callable[[], Schedule]
    illegal: Callable[[], Schedule]
    breaches: tuple[Breach, ...]

    def __str__(self) -> str:
        return self.name


def breaches(schedule: Schedule) -> tuple[Breach, ...]:
    """What the rules say of a schedule; every refusal must also say how to mend it."""
    found = check(schedule)
    assert all(v.fix.endswith(".") for v in found)
    return tuple((v.rule, v.where, v.found, v.limit) for v in found)


def nearest(cases: Sequence[Case]) -> Callable[[Case], None]:
    """The test of a table, which a module holds under a name that begins with `test_`."""

    @pytest.mark.parametrize("case", cases, ids=str)
    def test(case: Case) -> None:
        assert breaches(case.legal()) == ()
        assert breaches(case.illegal()) == case.breaches

    return test
