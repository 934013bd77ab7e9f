"""Reductions: what each thread folds, and the steps by which threads and blocks fold together (`analysis.fold`).

Partials go through shared memory under names of their own, so that barriers are found as for any other shared tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from compiler.analysis.facts import Facts
from compiler.analysis.id.indexing import IndexBound
from compiler.analysis.loops.fold import Fold, folded_dims
from compiler.arch import MAX_WORD_BYTES, WARP_THREADS
from compiler.ir.expr import Expr, Var, const, unguarded, var
from compiler.ir.id_exprs import Shift, Split
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import TensorOp, TensorView
from compiler.lower.kernel_ir import (
    Accumulate,
    Compute,
    Declare,
    Elected,
    If,
    RemoteStore,
    SharedStore,
    Shuffle,
    Stmt,
)
from compiler.lower.lane_partials import LanePartials
from compiler.lower.nest import FoldPart, FoldStep
from compiler.lower.online import finish, rescale, shift
from compiler.lower.operands import Barrier, Less, Reg, Shared
from compiler.lower.partials import Partials, Scaling
from compiler.lower.predicates import split_guards
from compiler.lower.spread_fold import read_spread, spread_fold
from compiler.lower.sync import Effects
from compiler.lower.sync_ir import ExpectBytes, WaitBarrier
from compiler.lower.traversal import each


def fold_effects(facts: Facts, step: FoldStep) -> Effects:
    """What a step touches of the partials of warps, and of those that blocks send to each other.

    Some of it is in order already. The one reader of a spread fold is the thread that writes to the same place in the
    next turn. Where the elected thread alone reads the partials of warps, it arrives at the mbarrier of the cluster's
    fold after that, and all threads wait there (PTX ISA, mbarrier.arrive releases, mbarrier.try_wait acquires). And
    where one thread both reads what blocks sent and sends next, its own order is enough.

    A sum that is folded along with a maximum is read with the partials of that.
    """
    none = frozenset[str]()
    if step.part in (FoldPart.SHIFT, FoldPart.RESCALE, FoldPart.FINISH, FoldPart.WARP, FoldPart.GRID):
        return Effects()
    if step.part is FoldPart.SLICES:
        return Effects(sent=frozenset((f"{step.tensor} of blocks",)))
    fold, online = facts.folds[step.tensor], facts.online.get(step.tensor)
    read = {step.tensor, online.maximum} if online is not None else {step.tensor}
    warps, blocks = frozenset((f"{fold.tensor} of warps",)), frozenset((f"{fold.tensor} of blocks",))
    match step.part:
        case FoldPart.WRITE:
            return Effects(writes=warps)
        case FoldPart.SPREAD:
            return Effects(reads=warps, writes=warps)
        case FoldPart.READ:
            released = warps if fold.is_spread and fold.has_one_reader else none
            return Effects(reads=frozenset(f"{name} of warps" for name in read), released=released)
        case FoldPart.CLUSTER_WRITE:
            return Effects(sent=blocks)
        case FoldPart.CLUSTER_READ:
            sent = frozenset(f"{name} of blocks" for name in read)
            by_one = fold.has_one_reader and not fold.is_read_by_lanes(fold.cluster)
            elected_alone = fold.groups == 1 and not fold.is_read_by_lanes(fold.slots)
            return Effects(reads=none if by_one else sent, released=warps if elected_alone else none)


def accumulate(facts: Facts, op: TensorOp, target: Reg, source: Reg) -> Accumulate:
    """One element into the thread's own fold, unless it is past the end of a folded axis."""
    t = facts.sf.tensor(op.output)
    guards, _ = split_guards(folded_bounds(facts, t), 1, t.name)
    return Accumulate(op.kind, target, source, guards)


def accumulate_product(facts: Facts, op: TensorOp, target: Reg, left: Reg, right: Reg) -> tuple[Stmt, ...]:
    """A product into the thread's own fold, rounded once with the sum, unless it is past the end of a folded axis."""
    t = facts.sf.tensor(op.output)
    guards, _ = split_guards(folded_bounds(facts, t), 1, t.name)
    if t.dtype.is_float:
        return _only(guards, (Compute(OpKind.FMA, target, (left, right, target), MathGrade.EXACT),))
    term = Reg(f"{t.name}_term", t.dtype, const(0))
    product = Compute(OpKind.MUL, term, (left, right), MathGrade.EXACT)
    return _only(guards, (Declare(term.name, term.dtype, 1), product, Accumulate(OpKind.SUM, target, term)))


def folded_bounds(facts: Facts, t: TensorView) -> tuple[IndexBound, ...]:
    """Bounds of folded axes: an element beside them must not take part. Those of kept axes only waste work."""
    own = facts.indexing.own(t)
    cut = (e.source for e in t.exprs if isinstance(e, Split | Shift) and e.source.is_reduction)
    folded = {(unguarded(own[a]), a.extent) for a in cut}
    if t.end is not None and t.logical[t.end.inner].is_reduction:
        folded |= {(b.index, b.extent) for b in facts.indexing.end_bound(t)}
    return tuple(b for b in facts.indexing.bounds(t) if (b.index, b.extent) in folded)


def lower_fold(facts: Facts, step: FoldStep, exchange: Exchange | None) -> tuple[Stmt, ...]:
    """The statements of a step. Every thread that reads ends with the same bits: partials are folded in one order.

    `exchange`: of a fold over a cluster, the one at hand.
    """
    if step.part in _ONLINE_PARTS:
        return _ONLINE_PARTS[step.part](facts, facts.online[step.tensor])
    fold = facts.folds[step.tensor]
    warps, blocks = facts.smem.partials_of(fold.tensor)
    match step.part:
        case FoldPart.WARP:
            return (Shuffle(fold.kind, fold.tensor, fold.dtype, fold.elems, fold.masks, fold.members),)
        case FoldPart.WRITE:
            width = _word(fold)

            def store(word: Expr) -> tuple[Stmt, ...]:
                at = word * width
                return (SharedStore(_reg(fold, at), _place(fold, warps, fold.slot, at), width),)

            return _only(tuple(Less(x, const(1)) for x in fold.leader), each("word", fold.elems // width, store))
        case FoldPart.SPREAD:
            return spread_fold(fold, warps, facts.indexing.nest.block())
        case FoldPart.READ if fold.is_spread:
            return _only(_holders(facts, fold), read_spread(fold, _word(fold), warps))
        case FoldPart.READ:
            return _only(_holders(facts, fold), _read(facts, fold, fold.slots, _of_warps, "p"))
        case FoldPart.CLUSTER_WRITE:
            assert exchange is not None, "blocks fold together through an exchange"
            expect = Elected((ExpectBytes(exchange.barrier, fold.exchange_bytes),))
            return (expect, *_only(_first_of_group(facts, fold), _send(fold, blocks, exchange)))
        case _:
            assert exchange is not None, "blocks fold together through an exchange"
            of_blocks = partial(_of_blocks, exchange)
            # All threads wait, also those that do not need the result: a block must not end while others send to it.
            read = _read(facts, fold, fold.cluster, of_blocks, "c")
            return (WaitBarrier(exchange.barrier, exchange.parity), *_only(_readers(fold, fold.cluster), read))


_ONLINE_PARTS = {FoldPart.SHIFT: shift, FoldPart.RESCALE: rescale, FoldPart.FINISH: finish}


def _of_warps(facts: Facts, fold: Fold, name: str) -> Partials:
    """The partials of the warps of a block."""
    warps, _ = facts.smem.partials_of(fold.tensor)
    run = 1 if fold.slot_major else _row_width(fold)
    return Partials(fold, name, fold.slots, _word(fold), run, lambda s, at: _place(fold, warps, s, at))


def _of_blocks(exchange: Exchange, facts: Facts, fold: Fold, name: str) -> Partials:
    """The partials of the blocks of a cluster. Those that are folded along with each other are in the same stage."""
    _, blocks = facts.smem.partials_of(fold.tensor)
    width = _exchanged_word(fold)
    return Partials(fold, name, fold.cluster, width, 1, lambda s, at: _block_place(fold, blocks, exchange, s, at))


_Found = Callable[[Facts, Fold, str], Partials]


def _read(facts: Facts, fold: Fold, count: int, partials: _Found, letter: str) -> tuple[Stmt, ...]:
    """The fold of partials in shared memory; of a sum that is folded along with a maximum, with those of that one."""
    online = facts.online.get(fold.tensor)
    part = online.sum_of(fold.tensor) if online is not None else None
    found = partials(facts, fold, f"{fold.tensor}_{letter}")
    if online is None or part is None:
        return _by_lanes(facts, found).statements() if fold.is_read_by_lanes(count) else found.statements()
    maxima = partials(facts, facts.folds[online.maximum], f"{fold.tensor}_{letter}m")
    dtype = facts.sf.tensor(online.running).dtype
    if fold.is_read_by_lanes(count):
        return _by_lanes(facts, found).scaled(_by_lanes(facts, maxima), part, dtype)
    return replace(found, scaling=Scaling(maxima, part, dtype)).statements()


def _by_lanes(facts: Facts, partials: Partials) -> LanePartials:
    """The same partials, read by lanes."""
    tx = var(Var("tx", facts.indexing.nest.block()[0]))
    lanes = 1 << (partials.count - 1).bit_length()
    return LanePartials(partials.fold, partials.count, tx % lanes, lambda slot: partials.place(slot, const(0)))


@dataclass(frozen=True, slots=True)
class Exchange:
    """Where the blocks of a cluster exchange partials in the fold at hand: the stage of their places, its barrier, and
    the parity of the barrier's phase."""

    stage: Expr
    barrier: Barrier
    parity: Expr


def _holders(facts: Facts, fold: Fold) -> tuple[Less, ...]:
    """Threads that need the block's result: those that read the whole fold's, or send it to the cluster."""
    if fold.cluster == 1:
        return _readers(fold, fold.slots)
    return _first_of_group(facts, fold, WARP_THREADS if fold.is_read_by_lanes(fold.slots) else 1)


def _readers(fold: Fold, count: int) -> tuple[Less, ...]:
    """Threads that need the result, of which there are `count` partials: with them their warps, where lanes read."""
    first = WARP_THREADS if fold.is_read_by_lanes(count) else 1
    return tuple(Less(var(v), const(first)) for v in fold.readers)


def _first_of_group(facts: Facts, fold: Fold, first: int = 1) -> tuple[Less, ...]:
    """One thread of those that fold together, or its warp."""
    t = facts.sf.tensor(fold.tensor)
    extents = dict(zip("xyz", facts.indexing.nest.block(), strict=True))
    folded = [p for p in folded_dims(t) if p.is_thread]
    names = {ParallelType.TIDX: "x", ParallelType.TIDY: "y", ParallelType.TIDZ: "z"}
    return tuple(Less(var(Var(f"t{names[p]}", extents[names[p]])), const(first)) for p in folded)


def _send(fold: Fold, base: int, exchange: Exchange) -> tuple[Stmt, ...]:
    """The block's result to every block of the cluster, its own included."""
    own, width = var(Var("cx", fold.cluster)), _exchanged_word(fold)

    def send(rank: Expr, word: Expr) -> tuple[Stmt, ...]:
        at = word * width
        return (
            RemoteStore(_reg(fold, at), _block_place(fold, base, exchange, own, at), rank, width, exchange.barrier),
        )

    return each("rank", fold.cluster, lambda rank: each("word", fold.elems // width, lambda word: send(rank, word)))


def _exchanged_word(fold: Fold) -> int:
    """The thread's elements in a word that blocks exchange: those that fill no word together go one by one."""
    return 1 if fold.exchanged_bytes > fold.dtype.nbytes else _word(fold)


def _only(conditions: tuple[Less, ...], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return (If(conditions, body),) if conditions else body


def _reg(fold: Fold, element: Expr) -> Reg:
    return Reg(fold.tensor, fold.dtype, element)


def _word(fold: Fold) -> int:
    """The thread's elements in a word of shared memory."""
    width = 1
    while fold.slot_major and fold.elems % (2 * width) == 0 and 2 * width * fold.dtype.nbytes <= MAX_WORD_BYTES:
        width *= 2
    return width


def _place(fold: Fold, base: int, slot: Expr, element: Expr) -> Shared:
    offset = (fold.place(slot) + element) * fold.dtype.nbytes + base
    return Shared(fold.tensor, fold.dtype, offset)


def _block_place(fold: Fold, base: int, exchange: Exchange, rank: Expr, element: Expr) -> Shared:
    """Where the partial of a block lies: [stage][rank][group][element]."""
    at = ((rank * fold.groups + fold.group) * fold.elems + element) * fold.exchanged_bytes
    return Shared(fold.tensor, fold.dtype, exchange.stage * fold.exchange_bytes + at + base)


def _row_width(fold: Fold) -> int:
    """Partials of one element, side by side, in one word."""
    width = 1
    while fold.slots % (2 * width) == 0 and 2 * width * fold.dtype.nbytes <= MAX_WORD_BYTES:
        width *= 2
    return width
