"""The loop tree: which ops stand in which loop, in an order that respects values and puts loads first."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.analysis.facts import Facts
from compiler.errors import Unsupported
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import CopyVia, TensorOp, TensorView


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
    """Bulk loads that are issued together, on one barrier (with one ring of `stages`)."""

    tensors: tuple[str, ...]
    stages: int
    prefetch: int
    body: tuple[Node, ...]


Node = Leaf | Nested | AsyncLoads

_Item = tuple[TensorOp, tuple[int, ...]]


def build_nest(facts: Facts) -> tuple[Node, ...]:
    """The loop tree of a scheduled fusion. Raises Unsupported where inlining asks for a loop twice in one body."""
    nest = facts.indexing.nest
    items = [(op, nest.path(facts.sf.tensor(op.output))) for op in facts.sf.ops]
    return _level(facts, items, 0, grouped=False)


def declaration_depth(facts: Facts, t: TensorView) -> int:
    """Number of loop statements shared with the consumers: the body in which the tensor lives."""
    return sum(g is not None for g in facts.indexing.nest.group[t.name][: t.compute_at])


def _level(facts: Facts, items: list[_Item], depth: int, *, grouped: bool) -> tuple[Node, ...]:
    clusters: dict[tuple[str, object], list[_Item]] = {}
    for op, path in items:
        clusters.setdefault(_key(facts, op, path, depth, grouped), []).append((op, path))
    return tuple(_node(facts, key, clusters[key], depth) for key in _ordered(facts, clusters))


def _key(facts: Facts, op: TensorOp, path: tuple[int, ...], depth: int, grouped: bool) -> tuple[str, object]:
    t = facts.sf.tensor(op.output)
    loads_async = op.via is not CopyVia.PLAIN and t.memory is MemoryType.SHARED
    if loads_async and not grouped and declaration_depth(facts, t) == depth:
        return "async", t.circular
    if len(path) > depth:
        return "loop", path[depth]
    return "leaf", op.output


def _node(facts: Facts, key: tuple[str, object], items: list[_Item], depth: int) -> Node:
    match key[0]:
        case "async":
            t = facts.sf.tensor(items[0][0].output)
            stages, prefetch = (t.circular.stages, t.circular.prefetch) if t.circular is not None else (1, 0)
            names = tuple(op.output for op, _ in items)
            return AsyncLoads(names, stages, prefetch, _level(facts, items, depth, grouped=True))
        case "loop":
            group = items[0][1][depth]
            tensors = [facts.sf.tensor(op.output) for op, _ in items]
            extents, types = zip(*(_axis(facts, t, group) for t in tensors), strict=True)
            unroll = ParallelType.UNROLL in types
            return Nested(group, extents[0], unroll, _level(facts, items, depth + 1, grouped=False))
        case _:
            return Leaf(items[0][0])


def _axis(facts: Facts, t: TensorView, group: int) -> tuple[int, ParallelType]:
    position = facts.indexing.nest.group[t.name].index(group)
    return t.loop[position].extent, t.types[position]


def _ordered(facts: Facts, clusters: dict[tuple[str, object], list[_Item]]) -> list[tuple[str, object]]:
    """Topological order of the clusters; of those that are ready, bulk loads first, then loads, then the rest."""
    where = {op.output: key for key, items in clusters.items() for op, _ in items}
    needs = {
        key: {where[n] for op, _ in items for n in op.tensor_inputs if n in where} - {key}
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


def _rank(facts: Facts, key: tuple[str, object], items: list[_Item]) -> int:
    if key[0] == "async":
        return 0
    from_global = (facts.sf.tensor(n).memory is MemoryType.GLOBAL for op, _ in items for n in op.tensor_inputs)
    return 1 if all(from_global) else 2
