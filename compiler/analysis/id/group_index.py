"""Indices of groups of axes, walked along a path of the id graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from compiler.analysis.id.graph import GraphStep, Group, IdGraph
from compiler.ir.expr import Expr, const
from compiler.ir.id_exprs import Merge, Resize, Shift, Split, Swizzle, Window


def walk(graph: IdGraph, path: Iterable[GraphStep], known: Mapping[Group, Expr]) -> dict[Group, Expr]:
    """Index of every group that `path` reaches from those `known`, at the extents of the binding.

    A split walked back and a merge walked forward are the same map, as are the other two; xor is its own inverse. An
    axis of extent one that nothing leads to stands at 0.
    """
    index = dict(known)
    for step in path:
        sources, targets = step.sources, step.targets
        index.update((g, Expr()) for g in sources if g not in index and graph.axis(g).is_trivial)
        match step.expr.example:
            case Split() | Merge():
                if len(sources) == 2:
                    outer, inner = sources
                    index[targets[0]] = index[outer] * graph.size(inner).value + index[inner]
                else:
                    outer, inner = targets
                    extent = graph.size(inner).value
                    index[outer] = index[sources[0]] // extent
                    index[inner] = index[sources[0]] % extent
            case Swizzle():
                x, y = sources
                index[targets[1]] = index[y] ^ index[x]
            case Resize() as e:
                index[targets[0]] = index[sources[0]] + (e.left if step.forward else -e.left)
            case Shift() as e:
                rows = zip(e.by, e.factors, strict=True)
                start = sum((index[graph.group(a)] * factor for a, factor in rows), const(e.start)) % e.modulus
                index[targets[0]] = index[sources[0]] + (start if step.forward else start * -1)
            case Window() as e if step.forward:
                place = index[sources[0]] + e.before
                tile = index.setdefault(targets[0], place // e.step)
                index[targets[1]] = place - tile * e.step
            case Window() as e:
                index[targets[0]] = index[sources[0]] * e.step + index[sources[1]] - e.before
    return index
