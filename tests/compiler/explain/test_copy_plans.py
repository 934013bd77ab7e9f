"""Copies told as tiles: which are told, what a wider instruction could do, and what has no tile."""

from __future__ import annotations

import pytest

from compiler.arch import arch_named
from compiler.copies.instruction import Path
from compiler.explain.copy_plans import ExplainedCopy, explained_copies
from compiler.schedule.trace import ScheduleTrace
from tests.compiler.schedules import by_threads, from_wire


def told(elems: int, vector: int) -> list[ExplainedCopy]:
    """The copies of x to y of so many f32, by vectors."""
    x = {"name": "x", "shape": [elems], "dtype": "f32"}
    trace = ScheduleTrace(
        from_wire([x], [{"op": "copy", "in": ["x"], "out": "y"}], "y"), tuple(by_threads(vector=vector))
    )
    return list(explained_copies(trace.replay(), arch_named("sm_90a")))


@pytest.mark.parametrize(("vector", "nbytes"), [(4, 16), (2, 8), (1, 4)])
def test_copies_are_told_with_their_width(vector: int, nbytes: int) -> None:
    copies = told(256, vector)
    assert [copy.title for copy in copies] == ["r <- i0", "v0 <- r"]
    assert [copy.scheduled and (copy.scheduled.path, copy.scheduled.access_bytes) for copy in copies] == [
        (Path.VECTOR, nbytes)
    ] * 2


def test_the_summary_is_the_head_of_the_whole() -> None:
    for copy in told(256, 4):
        assert str(copy).startswith(f"{copy.summary()}\n\nround")


def test_a_copy_without_a_tile_says_why() -> None:
    one = ExplainedCopy("y", "x", None, reason="offset of a merged split")
    assert (str(one), one.summary()) == ("y <- x: no tile (offset of a merged split)",) * 2


def test_a_wider_instruction_is_named() -> None:
    narrow, wide = told(256, 1)[0], told(256, 4)[0]
    shown = ExplainedCopy("r", "i0", narrow.scheduled, wider=wide.scheduled)
    assert shown.summary().splitlines()[1] == "the tiles alone allow vector, 16 bytes an access"
