"""The loop tree: which ops stand in which loop, in an order that respects values and puts loads first."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from enum import Enum

from compiler.analysis.facts import Facts
from compiler.arch import TMEM_ACCESS_REGISTERS, TMEM_COLUMN_BITS
from compiler.copies.instruction import Path, path_named
from compiler.errors import Unsupported
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import BufferKind, CopyVia, TensorOp, TensorView
from compiler.lower.thread_predicates import issuing_threads


@dataclass(frozen=True, slots=True)
class Leaf:
    """One op, all of whose loops are open."""

    op: TensorOp


@dataclass(frozen=True, slots=True)
class Nested:
    """A loop (by group number) around nodes; `unroll` if any of its tensors asks for it."""

    group: int
    extent: int
    unroll: bool
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AsyncLoads:
    """Bulk loads that are issued together, on one barrier (with one ring of `stages`).

    `frees`: a second barrier tells when a stage may be filled again. Not `is_bulk`: threads fill the stages themselves,
    `by_copies`: by cp.async, in one group a turn.
    """

    tensors: tuple[str, ...]
    stages: int
    prefetch: int
    body: tuple[Node, ...]
    frees: bool = False
    is_bulk: bool = True
    by_copies: bool = False


@dataclass(frozen=True, slots=True)
class TensorProducts:
    """Products in tensor memory that one thread asks for, with the loads that bring what they multiply: `tensors`, in
    `stages` places in turn. `is_reused`: a place has had others before, and a second barrier tells that they are read.
    """

    tensors: tuple[str, ...]
    stages: int
    is_reused: bool
    body: tuple[Node, ...]


class FoldPart(Enum):
    """The steps by which threads put a reduction together; between writing and reading partials stands a barrier.

    Of a maximum along with which sums are folded: SHIFT says what the first elements are measured from, RESCALE scales
    the sums to the maximum of now, FINISH settles rows without a finite maximum. GRID: blocks hand over what they sum.
    SLICES: those of a cluster send it, or slices of it, to each other.
    """

    SHIFT = "shift"
    RESCALE = "rescale"
    FINISH = "finish"
    WARP = "warp"
    WRITE = "write"
    SPREAD = "spread"
    READ = "read"
    CLUSTER_WRITE = "cluster_write"
    CLUSTER_READ = "cluster_read"
    GRID = "grid"
    SLICES = "slices"


@dataclass(frozen=True, slots=True)
class FoldStep:
    """One step of the fold of a reduction over threads or blocks, after the loops in which each thread folds."""

    tensor: str
    part: FoldPart


MOST_UNROLLED = 128
"""Turns of a serial loop over registers that are unrolled; the registers of a longer one are addressed in memory."""

Node = Leaf | Nested | AsyncLoads | TensorProducts | FoldStep

_Item = tuple[TensorOp, tuple[int, ...]]


def build_nest(facts: Facts) -> tuple[Node, ...]:
    """The loop tree of a scheduled fusion. Raises Unsupported where inlining asks for a loop twice in one body."""
    nest = facts.indexing.nest
    ops = (op for op in facts.sf.ops if not op.is_running)  # what it holds is set by the steps of its fold
    items = [(op, nest.path(facts.sf.tensor(op.output))) for op in ops]
    return _level(facts, items, 0, grouped=False)


def declaration_depth(facts: Facts, t: TensorView) -> int:
    """Number of loop statements shared with the consumers: the body in which the tensor lives."""
    return facts.indexing.nest.depth(t)


def _level(facts: Facts, items: list[_Item], depth: int, *, grouped: bool, asked: bool = False) -> tuple[Node, ...]:
    clusters: dict[tuple[str, object], list[_Item]] = {}
    for op, path in items:
        key = None if asked or grouped else _asked_for(facts, op, depth)
        clusters.setdefault(key or _key(facts, op, path, depth, grouped), []).append((op, path))
    nodes: list[Node] = []
    open_folds: list[TensorOp] = []
    placed: set[str] = set()
    measured: set[str] = set()
    for key in _ordered(facts, clusters):
        ops = [op for op, _ in clusters[key]]
        if any(_reads(op, open_folds) for op in ops):
            whole = [
                op
                for op in open_folds
                if op.output not in facts.online or placed.issuperset(facts.online[op.output].tensors)
            ]
            nodes += _fold_steps(facts, whole, depth)
            open_folds = [op for op in open_folds if op not in whole]
        steps = [step for step in _measures(facts, ops, depth) if step.tensor in placed - measured]
        measured |= {step.tensor for step in steps}
        placed |= {op.output for op in ops}
        nodes += steps
        nodes.append(_node(facts, key, clusters[key], depth))
        folded = {*facts.folds, *facts.online, *facts.grid_folds, *facts.cluster_sums}
        open_folds += [op for op in ops if op.output in folded]
    return (*nodes, *_fold_steps(facts, open_folds, depth))


def _reads(op: TensorOp, folds: list[TensorOp]) -> bool:
    return any(f.output in op.tensor_inputs for f in folds)


def _measures(facts: Facts, ops: list[TensorOp], depth: int) -> list[FoldStep]:
    """The steps before operators that read a running maximum, which those before them have just raised: where they
    stand in the same loop, the sums hold elements of earlier turns and are scaled."""
    read = {name for op in ops for name in op.tensor_inputs}
    folds = (facts.online[name] for name in dict.fromkeys(f.maximum for f in facts.online.values()))
    here = [f for f in folds if f.running in read]
    first = [declaration_depth(facts, facts.sf.tensor(f.maximum)) == depth for f in here]
    return [
        FoldStep(f.maximum, FoldPart.SHIFT if is_first else FoldPart.RESCALE)
        for f, is_first in zip(here, first, strict=True)
    ]


def _fold_steps(facts: Facts, ops: list[TensorOp], depth: int) -> list[FoldStep]:
    """The folds of the reductions that end here, step by step together, so that they share barriers; before the first
    use of any of them, so that what needs none goes on meanwhile."""
    found = (facts.folds.get(op.output) for op in ops)
    here = [f for f in found if f is not None and declaration_depth(facts, facts.sf.tensor(f.tensor)) == depth]
    shared, cluster = [f for f in here if f.is_shared], [f for f in here if f.cluster > 1]
    tops = [op.output for op in ops if op.output in facts.online and facts.online[op.output].maximum == op.output]
    online = [name for name in tops if declaration_depth(facts, facts.sf.tensor(name)) == depth]
    scaled = [f for f in here if f.is_online and f.tensor not in tops]
    return [
        *(FoldStep(f.tensor, FoldPart.WARP) for f in here if f.masks and f not in scaled),
        *(FoldStep(name, FoldPart.RESCALE) for name in online if name in facts.folds and facts.folds[name].masks),
        *(FoldStep(f.tensor, FoldPart.WARP) for f in scaled if f.masks),
        *(FoldStep(f.tensor, FoldPart.WRITE) for f in shared),
        *(FoldStep(f.tensor, FoldPart.SPREAD) for f in shared if f.is_spread),
        *(FoldStep(f.tensor, FoldPart.READ) for f in shared),
        *(FoldStep(f.tensor, FoldPart.CLUSTER_WRITE) for f in cluster),
        *(FoldStep(f.tensor, FoldPart.CLUSTER_READ) for f in cluster),
        *(FoldStep(name, FoldPart.FINISH) for name in online),
        *(FoldStep(op.output, FoldPart.GRID) for op in ops if _ends_here(facts, facts.grid_folds, op, depth)),
        *(FoldStep(op.output, FoldPart.SLICES) for op in ops if _ends_here(facts, facts.cluster_sums, op, depth)),
    ]


def _ends_here(facts: Facts, sums: Container[str], op: TensorOp, depth: int) -> bool:
    """Whether one of these sums over blocks ends in this body."""
    return op.output in sums and declaration_depth(facts, facts.sf.tensor(op.output)) == depth


def _asked_for(facts: Facts, op: TensorOp, depth: int) -> tuple[str, object] | None:
    """The products in tensor memory that an operator is one of, or that it loads an operand of, where they begin."""
    for group in facts.accumulators:
        if op.output in group.operands.union(group.tensors):
            begins = declaration_depth(facts, facts.sf.tensor(group.tensors[0]))
            return ("asked", group) if begins == depth else None
    return None


def _key(facts: Facts, op: TensorOp, path: tuple[int, ...], depth: int, grouped: bool) -> tuple[str, object]:
    t = facts.sf.tensor(op.output)
    starts_here = t.memory is MemoryType.SHARED and not grouped and declaration_depth(facts, t) == depth
    if starts_here and path_named(op.via).is_bulk:
        return "async", (t.circular, issuing_threads(facts, t), op.multicasts)
    if starts_here and path_named(op.via) is Path.CP_ASYNC and t.circular is not None:
        return "copies", t.circular
    turning = _turning(facts, op)
    if turning is not None and not grouped and declaration_depth(facts, turning) == depth:
        return "ring", turning.name
    if len(path) > depth:
        return "loop", path[depth]
    return "leaf", op.output


def _turning(facts: Facts, op: TensorOp) -> TensorView | None:
    """The circular buffer that threads fill by this op, or by the one op that reads what it makes."""
    t = facts.sf.tensor(op.output)
    if t.circular is not None:
        return t if op.via is CopyVia.PLAIN else None
    readers = facts.sf.consumers(t.name)
    if t.memory is not MemoryType.LOCAL or len(readers) != 1 or readers[0].via is not CopyVia.PLAIN:
        return None
    reader = facts.sf.tensor(readers[0].output)
    is_part = reader.circular is not None and reader.memory is MemoryType.SHARED and t.compute_at > reader.compute_at
    return reader if is_part else None


def most_unrolled(facts: Facts) -> int:
    """Turns of a serial loop over registers that are unrolled: with tensor memory as many as one of its copies has
    elements of the narrowest type, so that none of them goes by way of local memory."""
    nbits = [t.tensor.dtype.nbits for t in (p.layout for p in facts.tensor_memory.tensors)]
    return max([MOST_UNROLLED, *(TMEM_ACCESS_REGISTERS * TMEM_COLUMN_BITS // n for n in nbits)])


def is_specialized(t: TensorView) -> bool:
    """Whether warps of their own load the tensor."""
    return t.circular is not None and t.circular.kind is BufferKind.WARP_SPECIALIZED


def _node(facts: Facts, key: tuple[str, object], items: list[_Item], depth: int) -> Node:
    match key[0]:
        case "async":
            t = facts.sf.tensor(items[0][0].output)
            stages, prefetch = (t.circular.stages, t.circular.prefetch) if t.circular is not None else (1, 0)
            names = tuple(op.output for op, _ in items)
            frees = t.circular is not None and (t.circular.war_mbarrier or is_specialized(t))
            return AsyncLoads(names, stages, prefetch, _level(facts, items, depth, grouped=True), frees)
        case "copies":
            circular = facts.sf.tensor(items[0][0].output).circular
            assert circular is not None, "rings turn with circular buffers"
            names = tuple(op.output for op, _ in items)
            body = _level(facts, items, depth, grouped=True)
            return AsyncLoads(names, circular.stages, circular.prefetch, body, is_bulk=False, by_copies=True)
        case "ring":
            t = facts.sf.tensor(str(key[1]))
            assert t.circular is not None, "rings turn with circular buffers"
            body = _level(facts, items, depth, grouped=True)
            return AsyncLoads((t.name,), t.circular.stages, t.circular.prefetch, body, is_bulk=False)
        case "asked":
            made = next(g for g in facts.accumulators if g == key[1])
            body = _level(facts, items, depth, grouped=False, asked=True)
            return TensorProducts(made.tensors, made.stages, made.is_reused, body)
        case "loop":
            group = items[0][1][depth]
            tensors = (facts.sf.tensor(op.output) for op, _ in items)
            carried = [axis for t in tensors if (axis := facts.indexing.nest.carried(t, group)) is not None]
            extent = max(n for n, _ in carried)
            unroll = any(type_ is ParallelType.UNROLL for _, type_ in carried)
            unroll |= f"k{group}" in facts.indexing.register_loops and extent <= most_unrolled(facts)
            return Nested(group, extent, unroll, _level(facts, items, depth + 1, grouped=False))
        case _:
            return Leaf(items[0][0])


def _ordered(facts: Facts, clusters: dict[tuple[str, object], list[_Item]]) -> list[tuple[str, object]]:
    """Topological order of the clusters; of those that are ready, bulk loads first, then loads, then multicasts, then
    what waits for no other thread, then the rest."""
    where = {op.output: key for key, items in clusters.items() for op, _ in items}
    needs = {
        key: {where[n] for op, _ in items for n in _awaited(facts, op) if n in where} - {key}
        for key, items in clusters.items()
    }
    order: list[tuple[str, object]] = []
    left = list(clusters)
    while left:
        ready = [k for k in left if needs[k] <= set(order)]
        if not ready:
            names = ", ".join(op.output for k in left for op, _ in clusters[k])
            raise Unsupported(
                f"an inlining that needs a loop around {names} twice", "Inline them at smaller positions."
            )
        best = min(ready, key=lambda k: (_rank(facts, k, clusters[k]), left.index(k)))
        order.append(best)
        left.remove(best)
    return order


def _awaited(facts: Facts, op: TensorOp) -> list[str]:
    """What an operator waits for: its operands; of a running maximum, the maximum; of a fold of several values all."""
    found: list[str] = []
    for name in op.tensor_inputs:
        made = facts.sf.producer(name)
        found += made.tensor_inputs if made is not None and made.is_running else (name,)
        found += facts.online[name].tensors if name in facts.online else ()
    return found


def _rank(facts: Facts, key: tuple[str, object], items: list[_Item]) -> int:
    if any(op.multicasts for op, _ in items):
        return 2  # it waits for the blocks of the cluster
    if key[0] in ("async", "copies", "ring"):
        return 0
    from_global = (facts.sf.tensor(n).memory is MemoryType.GLOBAL for op, _ in items for n in op.tensor_inputs)
    if all(from_global):
        return 1
    return 4 if any(n in facts.folds for op, _ in items for n in op.tensor_inputs) else 3
