"""Tiles of shared memory moved apart, so that each starts where the copy engine reaches.

A schedule may allocate tiles one after another that are shorter than the engine's steps (nvFuser, TMA: "We are free to
specify where to place different tiles in shared memory"). What lies between two tiles is nobody's, so a kernel leaves
room there: it takes more shared memory than the model counts, and nothing else of the schedule changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from compiler.analysis.memory.allocation import memory_order
from compiler.analysis.memory.tile_layout import TileLayout
from compiler.errors import Violation
from compiler.ir.id_exprs import IdExpr, Split
from compiler.ir.iter_domain import IterDomain
from compiler.ir.iter_domain import axis as make_axis
from compiler.ir.size import Size
from compiler.ir.tensor import Allocation, TensorView
from compiler.legality.rules import Schedule
from compiler.legality.tile_placement import breaches, tiles_between_units

_S = TypeVar("_S", bound=Schedule)


def with_tiles_apart(schedule: _S) -> _S:
    """The schedule with room behind each tile that is shorter than its unit; as it was where that moves any tile to a
    place that no rule allows."""
    moved: dict[str, TensorView] = {}
    for tile in tiles_between_units(schedule):
        laid, t = schedule.tile_placements[tile.op.output].laid, tile.shared
        spaced = _spaced(t, laid, tile.unit * 8 // t.dtype.nbits) if isinstance(laid, TileLayout) else None
        if spaced is None:
            return schedule
        moved[t.name] = spaced
    if not moved:
        return schedule
    found = replace(schedule, sf=schedule.sf.with_tensors(list(moved.values())))
    is_broken = any(isinstance(b, Violation) for placed in found.tile_placements.values() for b in breaches(placed))
    return schedule if is_broken or any(tiles_between_units(found)) else found


def _spaced(t: TensorView, laid: TileLayout, unit: int) -> TensorView | None:
    """The tensor whose tiles start at multiples of `unit` elements; None where no strides of its axes make it so."""
    step = laid.start
    if not step:
        return None
    room = -(-step // unit) * unit
    order, at = memory_order(t), dict(zip(laid.layout.axes, laid.layout.strides, strict=True))
    axes: list[tuple[IterDomain, int | None]] = []
    cuts: list[IdExpr] = []
    for axis in order:
        stride = at.get(axis)
        if stride is None or stride * axis.extent <= step:
            axes.append((axis, stride))
        elif stride % step == 0:
            axes.append((axis, stride // step * room))
        elif step % stride == 0 and axis.extent % (inner := step // stride) == 0:
            tile = make_axis(f"{axis.name}.tile", Size(axis.extent // inner))
            place = make_axis(f"{axis.name}.place", Size(inner))
            cuts.append(Split(axis, tile, place))
            axes += [(tile, room), (place, stride)]
        else:
            return None
    exprs = t.allocation.exprs if t.allocation is not None else ()
    allocation = Allocation(tuple(a for a, _ in axes), tuple(s for _, s in axes), (*exprs, *cuts))
    return replace(t, allocation=allocation)
