"""The split of a tile's body into one without guards for full tiles and one with them for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CachePolicy
from compiler.lower.kernel_ir import Accumulate, Declare, Elected, GlobalLoad, GlobalStore, If, Loop, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.passes.full_tiles import split_full_tiles
from compiler.lower.sync_ir import InitBarriers, Sync, WaitStores
from compiler.lower.traversal import walk

BX, TX, LANE, ROW, TILE = Var("bx", 4), Var("tx", 8), Var("lane", 4), Var("k1", 3), Var("k0", 5)
REG = Reg("r", DType.F32, const(0))


def access(index: Expr, extent: int, tail: bool = False, store: bool = False) -> Stmt:
    less = Less(index, const(extent))
    guards, cut = ((), less) if tail else ((less,), None)
    if store:
        return GlobalStore(REG, "v0", index, 1, CachePolicy.DEFAULT, guards, cut)
    return GlobalLoad(REG, "i0", index, 1, CachePolicy.DEFAULT, guards, cut)


def fold(index: Expr, extent: int) -> Stmt:
    return Accumulate(OpKind.SUM, Reg("s", DType.F32, const(0)), REG, (Less(index, const(extent)),))


def line(columns: int = 32) -> Expr:
    """bx tiles of 8 threads of 4 lanes."""
    return var(BX) * columns + var(TX) * 4


def guards(body: tuple[Stmt, ...]) -> Iterator[Less]:
    for s in walk(body):
        if isinstance(s, (GlobalLoad, GlobalStore, Accumulate)):
            yield from s.guards
        if isinstance(s, (GlobalLoad, GlobalStore)):
            yield from (s.tail,) if s.tail is not None else ()


def split(body: tuple[Stmt, ...]) -> If:
    (found,) = split_full_tiles(body)
    assert isinstance(found, If)
    return found


def holds(conditions: tuple[Less, ...], at: Mapping[str, int]) -> bool:
    return all(c.left.evaluate(at) < c.right.evaluate(at) for c in conditions)


BODIES: dict[str, tuple[Stmt, ...]] = {
    "a guard": (Declare("r", DType.F32, 4), access(line(), 100)),
    "a tail": (access(line() + var(LANE), 101, tail=True),),
    "a load and a store of their own extents": (access(line(), 100), Sync(), access(line(), 70, store=True)),
    "an element that is folded": (fold(line(), 100),),
    "a load and a fold of what is there": (access(line(), 100), Sync(), fold(line(), 100)),
    "rows in an unrolled loop": (Loop(ROW, const(3), True, (access(var(BX) * 3 + var(ROW), 10),)),),
}


@pytest.mark.parametrize("name", BODIES)
def test_full_tiles_have_no_guards_and_the_others_keep_theirs(name: str) -> None:
    body = BODIES[name]
    found = split(body)
    assert list(guards(found.then)) == []
    assert found.orelse == body
    assert [type(s) for s in walk(found.then)] == [type(s) for s in walk(body)]


@pytest.mark.parametrize("name", BODIES)
def test_a_tile_is_full_where_every_guard_holds_for_every_thread(name: str) -> None:
    """Neither more tiles than are full nor fewer."""
    found = split(BODIES[name])
    inside = [
        (
            bx,
            all(
                holds(tuple(guards(BODIES[name])), {"bx": bx, "tx": tx, "lane": lane, "k1": row})
                for tx, lane, row in ((t, i, r) for t in range(8) for i in range(4) for r in range(3))
            ),
        )
        for bx in range(4)
    ]
    assert {True, False} == {full for _, full in inside}
    assert [(bx, holds(found.conditions, {"bx": bx})) for bx in range(4)] == inside


@pytest.mark.parametrize("guarded", [access, fold])
def test_guards_that_always_hold_need_no_test(guarded: Callable[[Expr, int], Stmt]) -> None:
    """125 is the last element of the last thread: an extent of 126 is the nearest one without a rest."""
    (found,) = split_full_tiles((guarded(line() + 1, 126),))
    assert list(guards((found,))) == []
    assert isinstance(split((guarded(line() + 1, 125),)), If)


def test_a_fold_in_a_loop_is_split_with_its_loads() -> None:
    """The serial steps over a row: full ones in front, and the last with its guards."""
    steps = Loop(TILE, const(5), False, (access(var(TILE) * 32 + var(TX) * 4, 150), fold(var(TILE) * 32 + 3, 150)))
    (loop,) = split_full_tiles((steps,))
    assert isinstance(loop, Loop)
    (found,) = loop.body
    assert isinstance(found, If)
    assert list(guards(found.then)) == []
    assert found.orelse == steps.body


def test_a_body_without_guards_stays() -> None:
    body: tuple[Stmt, ...] = (Sync(), GlobalLoad(REG, "i0", line(), 1, CachePolicy.DEFAULT))
    assert split_full_tiles(body) == body


def test_a_guard_that_mixes_block_and_thread_in_a_quotient_keeps_the_body_whole() -> None:
    body = (access((var(BX) * 3 + var(TX)) // 2, 5),)
    assert split_full_tiles(body) == body


def test_the_split_stands_inside_the_tile_loop_and_behind_the_set_up() -> None:
    guarded = access(var(TILE) * 32 + var(TX) * 4, 100)
    loop = Loop(TILE, const(5), False, (guarded,))
    init = InitBarriers(0, 1, ())
    (first, inside, last) = split_full_tiles((init, loop, Elected((WaitStores(),))))
    assert first == init
    assert last == Elected((WaitStores(),))
    assert isinstance(inside, Loop)
    assert inside.body == (If((Less(var(TILE) * 32 + 28, const(100)),), (access_without(guarded),), (guarded,)),)
    (set_up, tile) = split_full_tiles((init, access(line(), 100)))
    assert set_up == init
    assert isinstance(tile, If)


def access_without(s: Stmt) -> Stmt:
    assert isinstance(s, GlobalLoad)
    return GlobalLoad(s.target, s.tensor, s.offset, s.width, s.cache)
