"""Barriers, waits and phases of staged kernels: enough of them, and none too many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from compiler.ir.expr import Expr, const
from compiler.lower.kernel_ir import Elected, If, Kernel, Loop, Stmt
from compiler.lower.sync_ir import CommitStores, ExpectBytes, FenceAsync, InitBarriers, Sync, WaitBarrier, WaitStores
from compiler.lower.traversal import map_exprs, walk
from tests.compiler.lower.interpreted_values import KernelFault
from tests.compiler.lower.kernels import MADE, without
from tests.compiler.lower.small_kernels import check

WAITS = (Sync, FenceAsync, WaitBarrier, WaitStores, CommitStores, ExpectBytes)
RINGS = {"ring of 2": (2, 1), "ring of 3": (3, 2), "ring of 3, one ahead": (3, 1), "ring of 4, none ahead": (4, 0)}
"""Stages and prefetch."""


@pytest.mark.parametrize("name", MADE)
def test_a_kernel_computes_its_fusion(name: str) -> None:
    s, kernel = MADE[name]()
    check(kernel, s.sf.fusion)


def waits_of(kernel: Kernel) -> list[Stmt]:
    return [s for s in walk(kernel.body) if isinstance(s, WAITS)]


ONE_THREAD = ("shared", "edge boxes", "stored box")
"""Every thread of these reads what it wrote itself."""

NEEDED = tuple(
    pytest.param(name, i, id=f"{name}: {type(s).__name__} {i}")
    for name in MADE
    if name not in ONE_THREAD and name != "ring of 3, few tiles"  # its ring never comes round
    for i, s in enumerate(waits_of(MADE[name]()[1]))
)


@pytest.mark.parametrize(("name", "i"), NEEDED)
def test_no_kernel_waits_for_nothing(name: str, i: int) -> None:
    """Without any one of its barriers, waits, fences and announcements a kernel has a race, or hangs."""
    s, kernel = MADE[name]()
    broken = replace(kernel, body=without(kernel.body, waits_of(kernel)[i]))
    with pytest.raises(KernelFault):
        check(broken, s.sf.fusion)


@pytest.mark.parametrize("name", ["persistent", *RINGS, "ring and stores"])
def test_waiting_for_the_other_phase_is_a_fault(name: str) -> None:
    s, kernel = MADE[name]()
    parities = {w.parity for w in walk(kernel.body) if isinstance(w, WaitBarrier)}

    def other(e: Expr) -> Expr:
        return e * -1 + const(1) if e in parities else e

    with pytest.raises(KernelFault):
        check(replace(kernel, body=map_exprs(kernel.body, other)), s.sf.fusion)


# The ring, counted out -----------------------------------------------------------------------------------------------


def issues(body: tuple[Stmt, ...], at: Mapping[str, int]) -> list[tuple[int, int]]:
    """(barrier's offset, bytes) of the announcements that these statements make, loops not entered."""
    found: list[tuple[int, int]] = []
    for s in body:
        match s:
            case If() if all(c.left.evaluate(at) < c.right.evaluate(at) for c in s.conditions):
                found += issues(s.then, at)
            case If():
                found += issues(s.orelse, at)
            case Elected():
                found += issues(s.body, at)
            case ExpectBytes():
                found.append((s.barrier.byte_offset.evaluate(at), s.nbytes))
            case _:
                continue
    return found


@pytest.mark.parametrize("name", RINGS)
def test_a_ring_is_filled_ahead_and_waited_for_in_turn(name: str) -> None:
    """One load a tile, the first `prefetch` of them before the loop; barriers in turn, their parity alternating."""
    stages, prefetch = RINGS[name]
    _, kernel = MADE[name]()
    (init,) = (s for s in kernel.body if isinstance(s, InitBarriers))
    (loop,) = (s for s in kernel.body if isinstance(s, Loop))
    assert init.count == stages
    for block in range(kernel.grid[0]):
        tiles = loop.trip.evaluate({"bx": block})
        before = issues(kernel.body, {"bx": block})
        inside, waited = [], []
        for i in range(tiles):
            at = {"bx": block, loop.var.name: i}
            inside += issues(loop.body, at)
            waits = {
                (w.barrier.byte_offset.evaluate(at), w.parity.evaluate(at))
                for w in walk(loop.body)
                if isinstance(w, WaitBarrier)
            }
            assert len(waits) == 1
            waited += list(waits)
        assert len(before) == prefetch
        assert [b for b, _ in before + inside] == [init.byte_offset + 8 * (i % stages) for i in range(tiles)]
        assert waited == [(init.byte_offset + 8 * (i % stages), i // stages % 2) for i in range(tiles)]


def test_a_block_with_fewer_tiles_than_prefetched_loads_fills_no_more_than_it_reads() -> None:
    _, kernel = MADE["ring of 3, few tiles"]()
    (loop,) = (s for s in kernel.body if isinstance(s, Loop))
    counts = [(loop.trip.evaluate({"bx": b}), len(issues(kernel.body, {"bx": b}))) for b in range(kernel.grid[0])]
    assert counts == [(2, 2), (1, 1), (1, 1)]


def test_stores_are_waited_for_before_their_tile_is_written_again_and_before_the_end() -> None:
    _, kernel = MADE["stores"]()
    (loop,) = (s for s in kernel.body if isinstance(s, Loop))
    kinds = [type(s).__name__ for s in walk(loop.body)]
    assert kinds.index("WaitStores") < kinds.index("SharedStore") < kinds.index("FenceAsync") < kinds.index("TmaStore")
    assert kernel.body[-1] == Elected((WaitStores(),))
