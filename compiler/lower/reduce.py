"""Reductions: what each thread folds, and the steps by which threads and blocks fold together (`analysis.fold`).

Partials go through shared memory under names of their own, so that barriers are found as for any other shared tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.analysis.facts import Facts
from compiler.analysis.fold import Fold, folded_dims
from compiler.analysis.indexing import Bound
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.id_exprs import Split
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import MathGrade, TensorOp, TensorView
from compiler.lower.kernel_ir import (
    Accumulate,
    Barrier,
    Compute,
    Declare,
    Elected,
    ExpectBytes,
    If,
    Less,
    Reg,
    RemoteStore,
    Shared,
    SharedLoad,
    SharedStore,
    Shuffle,
    Stmt,
    WaitBarrier,
    each,
)
from compiler.lower.nest import FoldPart, FoldStep
from compiler.lower.spread_fold import read_spread, spread_fold
from compiler.lower.sync import Effects

PARTIALS_AT_ONCE = 16
"""Elements of partials that a thread loads before it folds them: enough to hide the latency of shared memory, and few
registers."""

WORD_BYTES = 16
"""The widest access of shared memory by a thread (PTX ISA, ld and st)."""


def fold_effects(fold: Fold, part: FoldPart) -> Effects:
    """What a step touches of the partials of warps, and of those that blocks send to each other.

    Some of it is in order already. The one reader of a spread fold is the thread that writes to the same place in the
    next turn. Where the elected thread alone reads the partials of warps, it arrives at the mbarrier of the cluster's
    fold after that, and all threads wait there (PTX ISA, mbarrier.arrive releases, mbarrier.try_wait acquires). And
    where one thread both reads what blocks sent and sends next, its own order is enough.
    """
    warps, blocks = frozenset((f"{fold.tensor} of warps",)), frozenset((f"{fold.tensor} of blocks",))
    none = frozenset[str]()
    match part:
        case FoldPart.WRITE:
            return Effects(writes=warps)
        case FoldPart.SPREAD:
            return Effects(reads=warps, writes=warps)
        case FoldPart.READ:
            return Effects(reads=warps, released=warps if fold.is_spread and fold.has_one_reader else none)
        case FoldPart.CLUSTER_WRITE:
            return Effects(sent=blocks)
        case FoldPart.CLUSTER_READ:
            return Effects(reads=none if fold.has_one_reader else blocks, released=warps if fold.groups == 1 else none)
        case FoldPart.WARP:
            return Effects()


def accumulate(facts: Facts, op: TensorOp, target: Reg, source: Reg) -> Accumulate:
    """One element into the thread's own fold, unless it is past the end of a folded axis."""
    t = facts.sf.tensor(op.output)
    guards = tuple(Less(b.index, const(b.extent)) for b in folded_bounds(facts, t))
    return Accumulate(op.kind, target, source, guards)


def folded_bounds(facts: Facts, t: TensorView) -> tuple[Bound, ...]:
    """Bounds of folded axes: an element past them must not take part. Those of kept axes only waste work."""
    own = facts.indexing.own(t)
    folded = {(own[e.source], e.source.extent) for e in t.exprs if isinstance(e, Split) and e.source.is_reduction}
    return tuple(b for b in facts.indexing.bounds(t) if (b.index, b.extent) in folded)


def lower_fold(facts: Facts, step: FoldStep, exchange: Exchange | None) -> tuple[Stmt, ...]:
    """The statements of a step. Every thread that reads ends with the same bits: partials are folded in one order.

    `exchange`: of a fold over a cluster, the one at hand.
    """
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
            run = 1 if fold.slot_major else _row_width(fold)
            partials = _Partials(
                fold, f"{fold.tensor}_p", fold.slots, _word(fold), run, lambda s, at: _place(fold, warps, s, at)
            )
            return _only(_holders(facts, fold), partials.statements())
        case FoldPart.CLUSTER_WRITE:
            assert exchange is not None, "blocks fold together through an exchange"
            expect = Elected((ExpectBytes(exchange.barrier, fold.exchange_bytes),))
            return (expect, *_only(_first_of_group(facts, fold), _send(fold, blocks, exchange)))
        case FoldPart.CLUSTER_READ:
            assert exchange is not None, "blocks fold together through an exchange"
            at = exchange
            partials = _Partials(
                fold,
                f"{fold.tensor}_c",
                fold.cluster,
                _exchanged_word(fold),
                1,
                lambda s, e: _block_place(fold, blocks, at, s, e),
            )
            # All threads wait, also those that do not need the result: a block must not end while others send to it.
            return (WaitBarrier(at.barrier, at.parity), *_only(_readers(fold), partials.statements()))


@dataclass(frozen=True, slots=True)
class Exchange:
    """Where the blocks of a cluster exchange partials in the fold at hand: the stage of their places, its barrier, and
    the parity of the barrier's phase."""

    stage: Expr
    barrier: Barrier
    parity: Expr


def _holders(facts: Facts, fold: Fold) -> tuple[Less, ...]:
    """Threads that need the block's result: those that read the whole fold's, or send it to the cluster."""
    return _first_of_group(facts, fold) if fold.cluster > 1 else _readers(fold)


def _readers(fold: Fold) -> tuple[Less, ...]:
    return tuple(Less(var(v), const(1)) for v in fold.readers)


def _first_of_group(facts: Facts, fold: Fold) -> tuple[Less, ...]:
    """One thread of those that fold together."""
    t = facts.sf.tensor(fold.tensor)
    extents = dict(zip("xyz", facts.indexing.nest.block(), strict=True))
    folded = [p for p in folded_dims(t) if p.is_thread]
    names = {ParallelType.TIDX: "x", ParallelType.TIDY: "y", ParallelType.TIDZ: "z"}
    return tuple(Less(var(Var(f"t{names[p]}", extents[names[p]])), const(1)) for p in folded)


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
    """The thread's elements in a word that blocks exchange: those of less than a word go one by one."""
    return 1 if fold.exchanged_bytes > fold.dtype.nbytes else _word(fold)


def _only(conditions: tuple[Less, ...], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return (If(conditions, body),) if conditions else body


def _reg(fold: Fold, element: Expr) -> Reg:
    return Reg(fold.tensor, fold.dtype, element)


def _word(fold: Fold) -> int:
    """The thread's elements in a word of shared memory."""
    width = 1
    while fold.slot_major and fold.elems % (2 * width) == 0 and 2 * width * fold.dtype.nbytes <= WORD_BYTES:
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
    while fold.slots % (2 * width) == 0 and 2 * width * fold.dtype.nbytes <= WORD_BYTES:
        width *= 2
    return width


@dataclass(frozen=True)
class _Partials:
    """`count` partials of every element in shared memory. `width`: elements of one partial in a word; of one element
    alone `run` partials are a word."""

    fold: Fold
    name: str
    count: int
    width: int
    run: int
    place: Callable[[Expr, Expr], Shared]

    def statements(self) -> tuple[Stmt, ...]:
        """Loads a few partials, folds them in ascending order, and so on: the first ones become the result."""
        elems = self.fold.elems
        step = max(self.run, PARTIALS_AT_ONCE // elems, 1)
        step -= step % self.run
        out: list[Stmt] = [Declare(self.name, self.fold.dtype, min(step, self.count) * elems)]
        for first in range(0, self.count, step):
            slots = min(step, self.count - first)
            out += (*self.loads(first, slots), *self.folds(slots, starts=first == 0))
        return tuple(out)

    def loads(self, first: int, count: int) -> tuple[Stmt, ...]:
        """The partials from number `first` on, into registers."""

        def load(slot: Expr, at: Expr) -> tuple[Stmt, ...]:
            target = self.reg(slot * self.fold.elems + at)
            return (SharedLoad(target, self.place(slot + first, at), max(self.width, self.run)),)

        words = self.fold.elems // self.width
        return each(
            "slot", count // self.run, lambda s: each("word", words, lambda w: load(s * self.run, w * self.width))
        )

    def folds(self, count: int, *, starts: bool) -> tuple[Stmt, ...]:
        """Folds the `count` partials in registers; `starts`: the first of them becomes the result."""
        fold, taken = self.fold, 1 if starts else 0

        def start(e: Expr) -> tuple[Stmt, ...]:
            return (Compute(OpKind.COPY, _reg(fold, e), (self.reg(e),), MathGrade.EXACT),)

        def step(slot: Expr, e: Expr) -> tuple[Stmt, ...]:
            return (Accumulate(fold.kind, _reg(fold, e), self.reg((slot + taken) * fold.elems + e)),)

        rest = each("slot", count - taken, lambda s: each("element", fold.elems, lambda e: step(s, e)))
        return (*each("element", fold.elems, start), *rest) if starts else rest

    def reg(self, element: Expr) -> Reg:
        return Reg(self.name, self.fold.dtype, element)
