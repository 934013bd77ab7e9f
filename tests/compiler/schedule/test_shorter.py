"""Fewer steps for the same schedule: what is joined, and that what comes of it is equal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import InvalidStep
from compiler.ir.domain import ScheduledFusion
from compiler.schedule.apply import apply
from compiler.schedule.shorter import shortened
from compiler.schedule.steps import (
    InlineSelectedAt,
    Merge,
    Parallelize,
    Propagate,
    Reorder,
    Resize,
    SetAllocationDomain,
    Shift,
    Split,
    Step,
    Swizzle,
    Window,
)
from tests.compiler.schedules import P
from tests.compiler.scheduling import load


@pytest.mark.parametrize(
    ("taken", "short"),
    [
        pytest.param(
            (Reorder("s", ((0, 1), (1, 0))), Split("s", 0, 4), Reorder("s", ((0, 0), (2, 1), (1, 2))), Merge("s", 0)),
            (Split("s", 1, 4), Merge("s", 1, 0)),
            id="no-reorder-is-left",
        ),
        pytest.param(
            (Reorder("s", ((2, 0), (0, 1), (1, 2))), Reorder("s", ((1, 0), (0, 1), (2, 2)))),
            (Reorder("s", ((0, 0), (2, 1), (1, 2))),),
            id="two-reorders-are-one",
        ),
        pytest.param(
            (Reorder("s", ((0, 1), (1, 0))), Split("s", 2, 4)),
            (Split("s", 2, 4), Reorder("s", ((1, 0), (0, 1)))),
            id="axes-behind-the-named-ones-stay",
        ),
        pytest.param(
            (Reorder("s", ((0, 1), (1, 0))), Parallelize("s", 0, P.TIDX)),
            (Reorder("s", ((1, 0), (0, 1))), Parallelize("s", 0, P.TIDX)),
            id="a-type-asks-where-a-loop-lies",
        ),
        pytest.param(
            (Reorder("s", ((0, 1), (1, 0))), Propagate("v0", ("s",)), Split("s", 0, 4)),
            (Reorder("s", ((1, 0), (0, 1))), Propagate("v0", ("s",)), Split("s", 0, 4)),
            id="so-do-the-steps-of-others",
        ),
        pytest.param(
            (Reorder("s", ((0, 1), (1, 0))), SetAllocationDomain("s", (0, 1, 2), (Split("s", 0, 4),))),
            (SetAllocationDomain("s", (1, 0, 2), (Split("s", 0, 4),)), Reorder("s", ((1, 0), (0, 1)))),
            id="transforms-of-an-allocation-are-of-its-own-list",
        ),
        pytest.param(
            (InlineSelectedAt(("s",), 1), InlineSelectedAt(("r",), 2), InlineSelectedAt(("q",), 1)),
            (InlineSelectedAt(("s", "q"), 1), InlineSelectedAt(("r",), 2)),
            id="one-inlining-a-position",
        ),
        pytest.param(
            (InlineSelectedAt(("s",), 1), Parallelize("s", 0, P.TIDX), InlineSelectedAt(("q",), 1)),
            (InlineSelectedAt(("s",), 1), Parallelize("s", 0, P.TIDX), InlineSelectedAt(("q",), 1)),
            id="not-across-another-step",
        ),
    ],
)
def test_what_is_joined(taken: tuple[Step, ...], short: tuple[Step, ...]) -> None:
    assert shortened(taken) == short


def after(sf: ScheduledFusion, taken: tuple[Step, ...]) -> ScheduledFusion:
    for step in taken:
        sf = apply(sf, step)
    return sf


def any_step(choose: Callable[[int], int], sf: ScheduledFusion, tv: str) -> Step:
    """A step on some axes of the tensor, that may be refused."""
    count = len(sf.tensor(tv).loop)
    x, y = choose(count - 1), choose(count - 1)
    order = list(range(count))
    order.insert(x, order.pop(y))
    moves = tuple((old, new) for new, old in enumerate(order))
    kinds: list[Callable[[], Step]] = [
        lambda: Reorder(tv, moves),
        lambda: Reorder(tv, ((x, y),)),
        lambda: Split(tv, x, 2 + choose(3), bool(choose(1))),
        lambda: Merge(tv, x, y),
        lambda: Merge(tv, x),
        lambda: Swizzle(tv, x, y),
        lambda: Resize(tv, x, 1, choose(2)),
        lambda: Shift(tv, x, (y,), (3,), 4),
        lambda: Window(tv, x, 4, 6, 2),
        lambda: SetAllocationDomain(tv, tuple(order)),
        lambda: Parallelize(tv, x, P.UNROLL),
        lambda: Propagate("s", ("v0",)),
    ]
    return kinds[choose(len(kinds) - 1)]()


@settings(max_examples=200)
@given(st.data())
def test_fewer_steps_give_an_equal_fusion(data: st.DataObject) -> None:
    """Names of axes included, which say in which order they were made."""

    def choose(most: int) -> int:
        return data.draw(st.integers(0, most))

    first = sf = load((8, 12, 8))
    taken: list[Step] = []
    for _ in range(12):
        step = any_step(choose, sf, ("s", "s", "v0")[choose(2)])
        try:
            sf = apply(sf, step)
        except InvalidStep:
            continue
        taken.append(step)
    short = shortened(taken)
    assert after(first, short) == sf
    assert len(short) <= len(taken)
    assert shortened(short) == short
