"""Vectors that several bounds may cut: stored whole or lane by lane, and asked for once where reads depend on it."""

from __future__ import annotations

import pytest

from compiler.analysis.id.indexing import IndexBound
from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.tensor import CachePolicy
from compiler.lower.cut_vectors import cut_access, cut_by_several, cut_store
from compiler.lower.kernel_ir import GlobalStore, If, Loop, SharedLoad, Stmt
from compiler.lower.operands import Less, Reg, Shared
from compiler.lower.passes.full_tiles import split_full_tiles
from compiler.lower.passes.settled_conditions import settle_conditions
from compiler.lower.passes.whole_vectors import ask_for_whole_vectors

BX, TX, LANE, STEP, EACH = Var("bx", 9), Var("tx", 32), Var("lane", 4), Var("k0", 2), Var("k1", 4)
HERE = var(TX) * 4 + var(STEP) * 128 - 3
"""Of a vector's first element in its run, which begins 3 places after an aligned one."""

IN_RUN, IN_ROW = IndexBound(HERE + var(LANE), 200, True), IndexBound(var(BX) * 200 + HERE + var(LANE), 1700)
STORE = GlobalStore(Reg("v0_r", DType.I8, const(0)), "v0", var(BX) * 200 + HERE, 4, CachePolicy.DEFAULT)


def stored(*bounds: IndexBound) -> If:
    return cut_store(STORE, STORE.offset + var(LANE), var(LANE), bounds, "v0")


def read(index: Expr, *conditions: Less) -> If:
    load = SharedLoad(Reg("i0_r", DType.I8, var(EACH)), Shared("i0_s", DType.I8, index * 129), 1)
    return If(conditions, (load,))


def lanes(*body: Stmt) -> Loop:
    return Loop(EACH, const(4), True, body)


def turn(*body: Stmt) -> Loop:
    return Loop(STEP, const(2), True, body)


INSIDE = (Less(const(-1), HERE + var(EACH)), Less(HERE + var(EACH), const(200)))


@pytest.mark.parametrize(
    ("bounds", "several"),
    [
        pytest.param((IN_RUN, IN_ROW), True, id="a run's and a row's"),
        pytest.param((IN_RUN,), False, id="one"),
        pytest.param((IN_RUN, IndexBound(var(TX), 30)), False, id="one that all lanes share"),
        pytest.param((IN_RUN, IndexBound(var(TX) * 4 + var(LANE), 100)), False, id="one that cuts no vector"),
        pytest.param((IN_RUN, IndexBound(var(TX) * 4 + var(LANE), 102)), True, id="and one that does"),
    ],
)
def test_bounds_that_cut_a_vector_are_counted(bounds: tuple[IndexBound, ...], several: bool) -> None:
    assert cut_by_several(bounds, 4) == several


def test_a_cut_vector_is_stored_whole_or_lane_by_lane() -> None:
    s = stored(IN_RUN, IN_ROW)
    assert set(s.conditions) == {
        Less(const(-1), HERE),
        Less(HERE + 3, const(200)),
        Less(var(BX) * 200 + HERE + 3, const(1700)),
    }
    assert cut_access(s) == STORE
    (loop,) = s.orelse
    assert isinstance(loop, Loop)
    (one,) = loop.body
    assert isinstance(one, GlobalStore)
    assert (one.width, len(one.guards)) == (1, 3)
    assert one.source.offset == var(loop.var)


def test_only_that_is_a_cut_vector() -> None:
    s = stored(IN_RUN, IN_ROW)
    for other in (
        STORE,
        If(s.conditions, s.then),
        If(s.conditions, s.orelse, s.then),
        If(s.conditions, s.then, s.then),
    ):
        assert cut_access(other) is None


def test_a_full_tile_asks_a_row_s_bound_once() -> None:
    (split,) = split_full_tiles((turn(stored(IN_RUN, IN_ROW)),))
    assert isinstance(split, If)
    assert split.conditions == (Less(var(BX) * 200 + (31 * 4 + 128), const(1700)),)
    (full,) = split.then
    assert isinstance(full, Loop)
    (left,) = full.body
    assert isinstance(left, If)
    assert set(left.conditions) == {Less(const(-1), HERE), Less(HERE + 3, const(200))}
    assert split.orelse == (turn(stored(IN_RUN, IN_ROW)),)


def test_a_vector_that_no_bound_of_a_full_tile_cuts_is_stored_whole() -> None:
    inside = IndexBound(var(BX) * 256 + var(TX) * 4 + var(STEP) * 128 + var(LANE), 1701)
    (split,) = split_full_tiles((turn(stored(inside, IndexBound(inside.index, 1703))),))
    assert isinstance(split, If)
    assert split.then == (turn(STORE),)


def test_what_is_read_for_a_whole_vector_is_read_without_conditions() -> None:
    s = stored(IN_RUN)
    (loop,) = settle_conditions(ask_for_whole_vectors((turn(lanes(read(HERE + var(EACH), *INSIDE)), s),)))
    assert isinstance(loop, Loop)
    (asked,) = loop.body
    assert isinstance(asked, If)
    assert asked.conditions == s.conditions
    assert asked.then == (lanes(*read(HERE + var(EACH)).then), STORE)
    assert asked.orelse[0] == lanes(read(HERE + var(EACH), *INSIDE))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param((turn(lanes(read(HERE)), stored(IN_RUN)),), id="a read without conditions"),
        pytest.param(
            (turn(lanes(read(HERE, Less(var(TX), const(9)))), stored(IN_RUN)),), id="others that do not follow"
        ),
        pytest.param((turn(lanes(read(HERE + var(EACH), *INSIDE)), STORE),), id="a store without conditions"),
        pytest.param((turn(STORE, lanes(read(HERE + var(EACH), *INSIDE)), stored(IN_RUN)),), id="another store before"),
        pytest.param((Loop(STEP, const(2), False, (stored(IN_RUN),)),), id="nothing that is read"),
    ],
)
def test_other_turns_stay_as_they_are(body: tuple[Stmt, ...]) -> None:
    assert ask_for_whole_vectors(body) == body
