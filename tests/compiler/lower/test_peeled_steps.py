"""Steps of a shifted row: which of them ask for its ends, and that no place is asked about twice or not at all."""

from __future__ import annotations

import pytest

from compiler.analysis.id.indexing import IndexBound
from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.tensor import CachePolicy
from compiler.lower.kernel_ir import GlobalLoad, Loop, Stmt
from compiler.lower.operands import Reg
from compiler.lower.passes.peeled_steps import peel_steps
from compiler.lower.passes.settled_conditions import settle_conditions
from compiler.lower.predicates import lane_guards

ROW, THREAD, LANE = Var("bx", 9), Var("tx", 4), Var("lane", 4)
PHASE = var(ROW) * 3 % 4


def steps(count: int, extent: int) -> tuple[Stmt, ...]:
    """Vectors of 4 along a run of `extent` elements, 4 threads and `count` steps."""
    k = Var("k", count)
    index = var(k) * 16 + var(THREAD) * 4 + var(LANE) - PHASE
    g = lane_guards([IndexBound(index, extent, True)], 4, "t")
    first = index.substitute({LANE: Expr()})
    load = GlobalLoad(
        Reg("r", DType.F32, var(k) * 4), "i0", first, 4, CachePolicy.DEFAULT, g.shared, g.tail, (), g.head
    )
    return (Loop(k, const(count), True, (load,)),)


def asked(s: Stmt) -> tuple[int, str]:
    """Turns of a piece, and the ends that it asks for."""
    turns, load = (s.trip.const, s.body[0]) if isinstance(s, Loop) else (1, s)
    assert isinstance(load, GlobalLoad)
    return turns, "head" * (load.head is not None) + "tail" * (load.tail is not None)


@pytest.mark.parametrize(
    ("count", "extent", "pieces"),
    [
        pytest.param(4, 61, [(1, "head"), (2, ""), (1, "tail")], id="last-step"),
        pytest.param(5, 63, [(1, "head"), (2, ""), (2, "tail")], id="two-last-steps"),
        pytest.param(2, 29, [(1, "head"), (1, "tail")], id="nothing-between"),
        pytest.param(1, 13, [(1, "headtail")], id="one-step"),
    ],
)
def test_the_ends_of_a_row_lie_in_its_first_and_last_steps(
    count: int, extent: int, pieces: list[tuple[int, str]]
) -> None:
    assert [asked(s) for s in settle_conditions(peel_steps(steps(count, extent)))] == pieces


def test_a_loop_over_the_lanes_of_a_vector_stays_whole() -> None:
    lane = Var("u", 4)
    index = var(lane) + var(THREAD) * 4 - PHASE
    g = lane_guards([IndexBound(index, 13, True)], 1, "t")
    load = GlobalLoad(Reg("r", DType.F32, var(lane)), "i0", index, 1, CachePolicy.DEFAULT, g.shared)
    body = (Loop(lane, const(4), True, (load,)),)
    assert peel_steps(body) == body


def test_guards_of_a_shifted_vector_hold_for_the_lanes_inside() -> None:
    index = var(THREAD) * 4 + var(LANE) - PHASE
    g = lane_guards([IndexBound(index, 10, True)], 4, "t")
    assert g.shared == ()
    assert g.head is not None
    assert g.tail is not None
    for row in range(9):
        for thread in range(4):
            for lane in range(4):
                at = {"bx": row, "tx": thread, "lane": lane}
                inside = all(c.left.evaluate(at) < c.right.evaluate(at) for c in (g.head, g.tail))
                assert inside == (0 <= thread * 4 + lane - row * 3 % 4 < 10)
