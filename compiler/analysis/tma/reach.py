"""Where a refused copy would need its tiles in global memory: can any tensor map reach them?

A tensor map has one box, so the elements of two tiles that lie wholly in the tensor are the same set but for a shift.
Where they are not, the schedule is impossible for the copy engine; everything else that is refused is merely not
recognised. Only refused copies are looked at, and of many tiles only the first and last few: two that differ prove it,
and not looking at all of them can only miss such a pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from compiler.analysis.id.graph import GraphStep, Group, IdGraph
from compiler.analysis.id.group_index import walk
from compiler.analysis.tma.view import ViewAxis
from compiler.ir.expr import Expr, Var, every_part, var
from compiler.ir.id_exprs import Split

MAX_TILES = 64
"""Looked at, of one schedule."""
MAX_ELEMS = 1 << 16
"""Of a tile that is looked at; no larger one fits in shared memory with elements of 4 bytes (own limit)."""
MAX_POINTS = 1 << 17
"""Elements of all tiles that are looked at: a few milliseconds (own limit)."""
AT_ONCE = 1 << 14
"""Elements that are worked out together, one tile at least: a pair that differs is mostly among the first."""


def tiles_differ(
    graph: IdGraph,
    bulk: Sequence[Group],
    others: Sequence[Group],
    path: Sequence[GraphStep],
    memory: Sequence[ViewAxis],
) -> bool:
    """True only if two tiles, both wholly in the tensor, are no shift of each other. `path` leads to `memory`."""
    extents = {g: graph.size(g).value for g in (*others, *bulk)}
    elems = prod(extents[g] for g in bulk)
    if elems > MAX_ELEMS:
        return False
    index = walk(graph, path, {g: var(Var(f"g{g}", n)) for g, n in extents.items()})
    cut = [g for step in path if isinstance(step.expr.example, Split) for g in step.targets]
    bounds = [(index[g], graph.size(g).value) for g in cut]
    offset = Expr()
    for axis in memory:
        # What the path does not lead to is of extent one.
        offset = offset + index.get(axis.group, Expr()) * axis.stride.value
    if not all(every_part(e, _is_small) for e in (offset, *(e for e, _ in bounds))):
        return False
    left = np.arange(elems, dtype=np.int64)
    places = {}
    for g in reversed(bulk):
        left, places[f"g{g}"] = np.divmod(left, extents[g])
    sample = _sample([extents[g] for g in others], min(MAX_TILES, MAX_POINTS // elems))
    tiles = np.array(sample, dtype=np.int64).reshape(len(sample), len(others))
    first: npt.NDArray[np.int64] | None = None
    for some in np.split(tiles, range(step := max(1, AT_ONCE // elems), len(tiles), step)):
        at = {**places, **{f"g{g}": some[:, i : i + 1] for i, g in enumerate(others)}}
        grid = len(some), elems
        inside = np.ones(len(some), dtype=np.bool_)
        for e, n in bounds:
            inside &= np.broadcast_to(np.less(e.evaluate(at), n), grid).all(axis=1)
        shapes = np.sort(np.broadcast_to(offset.evaluate(at), grid)[inside], axis=1)
        if not len(shapes):
            continue
        shapes = shapes - shapes[:, :1]
        first = shapes[0] if first is None else first
        if (shapes != first).any():
            return True
    return False


def _is_small(e: Expr) -> bool:
    """Whether it fits NumPy's integers, sums on the way included."""
    return max(-e.lo, e.hi) < 1 << 60


def _sample(extents: Sequence[int], limit: int) -> list[tuple[int, ...]]:
    """All indices, or the first few and the last of each axis where there are more than `limit`; never more."""
    width = min(max(extents, default=1), limit)
    kept: list[Sequence[int]] = [range(n) for n in extents]
    while prod(len(k) for k in kept) > limit:
        kept = [range(n) if n <= width else [*range(width - 1), n - 1] for n in extents]
        width -= 1
        if width == 0:
            return [(0,) * len(extents)]
    return list(product(*kept))
