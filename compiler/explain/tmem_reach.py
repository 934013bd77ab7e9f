"""Which warp reaches which lane and column of tensor memory, by going through all threads of a copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from math import prod

import numpy as np
import numpy.typing as npt

from compiler.analysis.id.graph import IdGraph
from compiler.analysis.loops.axes import with_types_of_their_loops
from compiler.analysis.tmem.tmem import TmemAccess
from compiler.analysis.tmem.warps import block_shape, warps_of
from compiler.arch import TMEM_COLUMN_BITS
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var

Array = npt.NDArray[np.int64]

MAX_POINTS = 1 << 18
"""Places looked at; where loops make more, only their first iteration is."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Lanes `[lane, lane + lanes)` by 4-byte columns `[column, column + columns)`, which the same warps reach."""

    lane: int
    lanes: int
    column: int
    columns: int
    warps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReachedCells:
    """All patches of a copy, by lane and column; `is_whole` is False where only a loop's first iteration is shown."""

    patches: tuple[Patch, ...]
    is_whole: bool


def reached_by(sf: ScheduledFusion, graph: IdGraph, access: TmemAccess) -> ReachedCells | None:
    """What each warp reaches in one copy, in the tensor's own columns; None where the copy was not worked out."""
    sf = with_types_of_their_loops(sf)
    warp = warps_of(graph, block_shape(sf), sf.tensor(access.output)).warp
    if access.lane is None or access.column is None or warp is None:
        return None
    found = (access.lane, access.column, warp)
    variables = sorted({v for e in found for v in e.variables}, key=str)
    is_whole = prod(v.extent for v in variables) <= MAX_POINTS
    if not is_whole:
        loops = {v: Expr() for v in variables if v.name.startswith("i")}
        found = (found[0].substitute(loops), found[1].substitute(loops), found[2].substitute(loops))
        variables = [v for v in variables if v not in loops]
        if prod(v.extent for v in variables) > MAX_POINTS:
            return None
    return ReachedCells(_patches(*found, variables, sf.tensor(access.tensor).dtype.nbits), is_whole)


def _patches(lane: Expr, column: Expr, warp: Expr, variables: list[Var], nbits: int) -> tuple[Patch, ...]:
    shape = [v.extent for v in variables]
    values = {
        v.name: np.arange(v.extent, dtype=np.int64).reshape([-1 if i == at else 1 for i in range(len(variables))])
        for at, v in enumerate(variables)
    }
    rows = [np.broadcast_to(np.asarray(e.evaluate(values)), shape).ravel() for e in (lane, column, warp)]
    rows[1] = rows[1] * nbits // TMEM_COLUMN_BITS
    columns, warps = int(rows[1].max()) + 1, int(rows[2].max()) + 1
    place, by = np.divmod(np.unique((rows[0] * columns + rows[1]) * warps + rows[2]), warps)
    runs: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}
    for at_lane, at_column, count, who in _runs(place, by, columns):
        runs.setdefault(at_lane, []).append((at_column, count, who))
    patches: list[Patch] = []
    for same, group in groupby(enumerate(sorted(runs.items())), key=lambda one: (one[1][0] - one[0], one[1][1])):
        first, *others = [at_lane for _, (at_lane, _) in group]
        patches += [Patch(first, 1 + len(others), c, n, who) for c, n, who in same[1]]
    return tuple(patches)


def _runs(place: Array, by: Array, columns: int) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
    """Neighbouring columns of one lane that the same warps reach: lane, first column, how many, warps. `place` is the
    number of a cell, lane after lane, once for each warp of `by` that reaches it."""
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    stops = np.append(starts[1:], len(place))
    reached = (
        [tuple(by[a:b].tolist()) for a, b in zip(starts, stops, strict=True)] if len(starts) < len(place) else None
    )
    number = {who: n for n, who in enumerate(dict.fromkeys(reached))} if reached is not None else {}
    alike = np.array([number[who] for who in reached]) if reached is not None else by
    lane, column = np.divmod(place[starts], columns)
    is_first = (
        (np.diff(place[starts], prepend=-2) != 1) | (np.diff(lane, prepend=-1) != 0) | (np.diff(alike, prepend=-1) != 0)
    )
    firsts = np.flatnonzero(is_first)
    for first, stop in zip(firsts.tolist(), [*firsts[1:].tolist(), len(starts)], strict=True):
        who = (int(by[first]),) if reached is None else reached[first]
        yield int(lane[first]), int(column[first]), stop - first, who
