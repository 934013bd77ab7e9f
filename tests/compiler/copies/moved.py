"""What a copy moves, counted out element by element: the measure of copy plans and of derived tiles."""

from __future__ import annotations

from collections import Counter
from itertools import product

from compiler.analysis.loops.axes import with_types_of_their_loops
from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.memory.memory_order import as_allocated
from compiler.analysis.tmem.allocation import layout_of as tmem_layout
from compiler.copies.copy_plan import CopyPlan
from compiler.copies.derived import ScheduledCopy
from compiler.copies.registers import ThreadLayout
from compiler.copies.tile import GlobalTile, RegTile, SharedTile, Tile, TmemTile
from compiler.ir.algebra import backward, forward, phase
from compiler.ir.domain import ScheduledFusion, extents, producer_indices
from compiler.ir.expr import Expr, const
from compiler.ir.id_exprs import IdExpr, Shift, Split
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.tensor import TensorOp, TensorView

SECTOR, BANKS, BANK, LANES = 32, 32, 4, 32
P = ParallelType
Move = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Thread, place in the source, place in the target."""


def times_moved(plan: CopyPlan) -> Counter[tuple[int, int]]:
    """How often each element is moved."""
    return Counter(
        place for thread in range(plan.thread_count) for r in range(plan.round_count) for place in plan.moves(thread, r)
    )


def accesses(plan: CopyPlan, tile: GlobalTile | SharedTile) -> dict[tuple[int, int], list[list[int] | None]]:
    """By warp and round: for each lane the byte addresses of its access, None for an idle one."""
    found: dict[tuple[int, int], list[list[int] | None]] = {}
    for thread in range(plan.thread_count):
        for r in range(plan.round_count):
            at = [tile.address(*place) for place in plan.moves(thread, r)]
            found.setdefault((thread // LANES, r), []).append(at or None)
    return {key: lanes for key, lanes in found.items() if any(lanes)}


def sectors(plan: CopyPlan, tile: GlobalTile) -> int:
    """Sectors of all requests of a copy by threads, byte by byte."""
    nbytes = tile.dtype.nbytes
    total = 0
    for lanes in accesses(plan, tile).values():
        total += len({(a + b) // SECTOR for at in lanes if at for a in at for b in range(nbytes)})
    return total


def wavefronts(plan: CopyPlan, tile: SharedTile) -> int:
    """Wavefronts of all requests: phases of as many lanes as fill 128 bytes, the fullest bank of each."""
    nbytes, phase = tile.dtype.nbytes, min(LANES, BANKS * BANK // plan.access_bytes)
    total = 0
    for lanes in accesses(plan, tile).values():
        for first in range(0, len(lanes), phase):
            words = {(a + b) // BANK for at in lanes[first : first + phase] if at for a in at for b in range(nbytes)}
            total += max(Counter(w % BANKS for w in words).values(), default=0)
    return total


def moves_of_plan(copy: ScheduledCopy) -> set[Move]:
    """What the derived plan moves, in places of the tiles."""
    plan, layout = copy.plan(), copy.plan().layout
    source, target = _Places(copy.source), _Places(copy.target)
    found = set()
    for thread in range(plan.thread_count):
        for register in range(layout.register_count):
            place = layout(thread, register)
            if place is not None:
                found.add((thread, source.of(thread, place), target.of(thread, place)))
    return found


class _Places:
    """Where the elements of a tile are: byte address, lane and column, or register of the thread."""

    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        self.held: dict[tuple[int, tuple[int, int] | None], int] = {}
        if isinstance(tile, RegTile) and isinstance(tile.layout, ThreadLayout):
            threads, registers = range(tile.layout.thread_count), range(tile.layout.register_count)
            self.held = {(t, tile.layout(t, r)): r for t in threads for r in registers}

    def of(self, thread: int, place: tuple[int, int]) -> tuple[int, ...]:
        match self.tile:
            case GlobalTile() | SharedTile():
                return (self.tile.address(*place),)
            case TmemTile():
                return self.tile.lanes(*place), self.tile.columns(*place)
            case RegTile():
                return (self.held[thread, place],)


def moves_of_schedule(sf: ScheduledFusion, op: TensorOp, copy: ScheduledCopy) -> set[Move]:
    """What the first block moves in the first trip of the loops outside the tile, by the meaning of the transforms,
    without the holes of splits that do not divide and of shifts.

    Registers are numbered in the order of their places, as those of a tile are.
    """
    consumer, producer = as_allocated(sf, sf.tensor(op.output)), as_allocated(sf, sf.tensor(op.tensor_inputs[0]))
    types = with_types_of_their_loops(sf).tensor(op.output).types
    found: list[Move] = []
    for index in product(*(range(a.extent) if i in copy.loops else (0,) for i, a in enumerate(consumer.loop))):
        tid = {t: i for t, i in zip(types, index, strict=True) if t.is_thread}
        x, y, z = (tid.get(d, 0) for d in (P.TIDX, P.TIDY, P.TIDZ))
        own = backward({a: const(i) for a, i in zip(consumer.loop, index, strict=True)}, consumer.exprs)
        if any(_is_hole(e, own) for e in consumer.exprs):
            continue  # a hole: no element is there
        logical = tuple(own[a] for a in consumer.logical)
        at = producer_indices(op, producer, logical, extents(consumer.logical))
        read = forward(dict(zip(producer.logical, at, strict=True)), producer.exprs)
        thread = x + copy.block[0] * (y + copy.block[1] * z)
        found.append((thread, _allocated(producer, read), _allocated(consumer, own)))
    sources, targets = _ranked(producer, [m[1] for m in found]), _ranked(consumer, [m[2] for m in found])
    return {(m[0], s, t) for m, s, t in zip(found, sources, targets, strict=True)}


def _is_hole(e: IdExpr, own: dict[IterDomain, Expr]) -> bool:
    """True if no element of what `e` transforms is at the index. Shifted back, an index below 0 is one."""
    match e:
        case Split():
            return own[e.source].const >= e.source.extent
        case Shift():
            return not 0 <= (own[e.out] - phase(own, e)).const < e.source.extent
    return False


def _ranked(t: TensorView, places: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    if t.memory is not MemoryType.LOCAL:
        return places
    rank: dict[tuple[int, ...], tuple[int, ...]] = {place: (i,) for i, place in enumerate(sorted(set(places)))}
    return [rank[place] for place in places]


def _allocated(t: TensorView, index: dict[IterDomain, Expr]) -> tuple[int, ...]:
    known = forward(index, t.allocation.exprs if t.allocation is not None else ())
    if t.memory is MemoryType.TENSOR:
        layout = tmem_layout(t)
        return tuple(
            sum(known[a].const * s for a, s in zip(side.axes, side.strides, strict=True))
            for side in (layout.lanes, layout.columns)
        )
    if t.memory is MemoryType.GLOBAL and t.allocation is not None and None in t.allocation.strides:
        offset, step = 0, 1
        for axis in reversed(t.allocation.axes):
            offset += known[axis].const * step
            step *= axis.extent
        return (offset * t.dtype.nbytes,)
    offset = layout_of(t).offset(known).const
    return (offset if t.memory is MemoryType.LOCAL else offset * t.dtype.nbytes,)
