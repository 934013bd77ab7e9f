"""Schedules that lowering has something to do for, and their kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule, check
from compiler.lower.kernel_ir import Elected, If, Kernel, Loop, Stmt
from compiler.lower.lower import lower_facts
from compiler.schedule import steps as st
from tests.compiler.schedules import (
    LOCAL,
    SHARED,
    P,
    Steps,
    by_threads,
    load_by_tma,
    parallel,
    schedule,
    store_by_tma,
    through_shared,
    unary,
)


def lowered(fusion: Fusion, steps: Sequence[st.Step]) -> tuple[Schedule, Kernel]:
    """The kernel of a schedule that must be legal."""
    s = schedule(fusion, steps)
    assert check(s) == ()
    return s, lower_facts(s)


def staged(
    tile: int, blocks: int, stages: int = 1, prefetch: int = -1, load: bool = True, store: bool = False
) -> Steps:
    """[block, iteration, tile] over one dimension: tiles come or go through the copy engine, threads take four each."""
    steps: Steps = []
    threaded = ["r", "v0"]
    if load:
        steps += [st.CacheInput("i0", "s", SHARED, CopyVia.TMA), st.CacheInput("s", "r", LOCAL)]
    else:
        steps += [st.CacheInput("i0", "r", LOCAL)]
    if store:
        steps += [st.CacheOutput("v0", "o", SHARED, CopyVia.TMA)]
        threaded = ["r", "o"]
    engine = [*(["s"] if load else []), *(["v0"] if store else [])]
    for tv in (*threaded, *engine):
        steps += [st.Split(tv, 0, tile), st.Split(tv, 0, blocks), st.Reorder(tv, ((0, 1),))]
    steps += [st.SetAllocationDomain("o", (0, 1, 2))] if store else []
    for tv in threaded:
        steps += [st.Split(tv, 2, 4), *parallel(tv, P.BIDX, P.SERIAL, P.TIDX, P.VECTORIZE)]
    for tv in engine:
        steps += parallel(tv, P.BIDX, P.SERIAL, P.BULK)
    steps += [st.InlineAt("r", 3)]
    steps += [st.InlineAt("s", 2)] if load else []
    steps += [st.InlineAt("o", 2)] if store else []
    return [*steps, st.CircularBuffer("s", stages, prefetch)] if load and stages > 1 else steps


def rows_and_lanes(order: ParallelType) -> Steps:
    """A thread holds two rows of four: r is loaded whole before v0 stores it."""
    steps: Steps = [st.CacheInput("i0", "r", LOCAL)]
    for tv in ("r", "v0"):
        steps += [st.Split(tv, 0, 2), *parallel(tv, P.BIDX, order, P.VECTORIZE)]
    return [*steps, st.InlineAt("r", 1)]


MADE: dict[str, Callable[[], tuple[Schedule, Kernel]]] = {
    "threads": lambda: lowered(unary((1003,)), by_threads(threads=32)),
    "registers": lambda: lowered(unary((6, 4)), rows_and_lanes(P.UNROLL)),
    "shared": lambda: lowered(unary((256,)), through_shared(64, 8, 4)),
    "box": lambda: lowered(unary((8, 48)), load_by_tma(4, 16)),
    "edge boxes": lambda: lowered(unary((6, 40)), load_by_tma(4, 16)),
    "stored box": lambda: lowered(unary((6, 40)), store_by_tma(4, 16)),
    "persistent": lambda: lowered(unary((1000,)), staged(32, 3)),
    "ring of 2": lambda: lowered(unary((1000,)), staged(32, 3, 2, 1)),
    "ring of 3": lambda: lowered(unary((1000,)), staged(32, 3, 3, 2)),
    "ring of 3, one ahead": lambda: lowered(unary((1000,)), staged(32, 3, 3, 1)),
    "ring of 4, none ahead": lambda: lowered(unary((1000,), dtype=DType.F16), staged(32, 3, 4, 0)),
    "ring of 3, few tiles": lambda: lowered(unary((128,)), staged(32, 3, 3, 2)),
    "stores": lambda: lowered(unary((1000,)), staged(32, 3, load=False, store=True)),
    "ring and stores": lambda: lowered(unary((1000,)), staged(32, 3, 3, 2, store=True)),
}


def without(body: tuple[Stmt, ...], victim: Stmt) -> tuple[Stmt, ...]:
    """The body without one statement, found by identity at any depth."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case Loop() | Elected():
                out.append(replace(s, body=without(s.body, victim)))
            case If():
                out.append(replace(s, then=without(s.then, victim), orelse=without(s.orelse, victim)))
            case _ if s is not victim:
                out.append(s)
            case _:
                continue
    return tuple(out)
