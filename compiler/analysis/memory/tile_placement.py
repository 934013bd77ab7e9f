"""Where a tile of the copy engine lies in the shared tensor's allocation.

The engine reads or writes a tile as one dense run, the innermost dimension fastest, or as that run in the order of a
swizzle mode. So every tile must be contiguous in the allocation, and the allocation a whole number of tiles; inside a
tile any view will do, and holes only at its end (nvFuser, TMA: "Step 4: schedule the shared memory tensor").
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.analysis.id.graph import Group, IdGraph
from compiler.analysis.memory.allocation import AllocatedLayout, layout_of
from compiler.analysis.memory.memory_order import as_allocated, is_swizzled
from compiler.analysis.memory.swizzle import mode_of_tiles, repeat_bytes, swizzle_mode
from compiler.analysis.memory.tile_layout import MovedTile, NotRecognised, TileLayout, lay_out_tile
from compiler.analysis.tma.bulk_run import BulkRun
from compiler.analysis.tma.tensor_map import TensorMapCopy
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Var
from compiler.ir.iter_domain import ParallelType
from compiler.ir.remembered import remembered
from compiler.ir.tensor import TensorView


@dataclass(frozen=True)
class TilePlacement:
    """What a bulk copy needs of its shared tensor.

    `swizzle`: span in bytes of the hardware mode that the allocation domain has (0: none), None where it has an order
    that no mode makes. `align`: the shared tensor's address must be a multiple of so many bytes. `tile` and `laid`:
    what is moved at once, and where it lies; None for a run that is an axis of the allocation, which lies as it should.
    """

    swizzle: int | None
    align: int = 128
    tile: MovedTile | None = None
    laid: TileLayout | NotRecognised | None = None


def place_tile(sf: ScheduledFusion, graph: IdGraph, copy: TensorMapCopy) -> TilePlacement:
    """The placement of the tile of `copy`, whose `dims` are known."""
    dims = tuple((d.tile, d.tile_size.value) for d in copy.dims or ())
    shared = copy.shared_tensor
    moved = MovedTile(copy.op.output, shared.name, shared.dtype, dims, copy.swizzle)
    return _place(graph, moved, layout_of(as_allocated(sf, shared)), _loops(graph, sf.tensor(copy.op.output)))


def place_run(sf: ScheduledFusion, graph: IdGraph, run: BulkRun) -> TilePlacement:
    """The placement of a run, whose `elems` are known: a tile of one dimension that no mode shuffles.

    Where the run is the innermost axis of an allocation that nothing swizzles, it is one of any size.
    """
    (axis,) = sf.tensor(run.op.output).bulk_axes
    shared = as_allocated(sf, run.shared_tensor)
    layout = layout_of(shared)
    inner = [(a, n) for a, n in zip(layout.axes, layout.strides, strict=True) if not a.is_trivial][-1:]
    if not is_swizzled(shared) and any(graph.is_same(a, axis) and n == 1 for a, n in inner):
        return TilePlacement(0, repeat_bytes(0))
    moved = MovedTile(run.op.output, shared.name, shared.dtype, (((graph.group(axis),), axis.extent),), None)
    return _place(graph, moved, layout, _loops(graph, sf.tensor(run.op.output)))


def _loops(graph: IdGraph, consumer: TensorView) -> tuple[tuple[Group, Var], ...]:
    """The loops that choose a tile, with their indices."""
    types = enumerate(zip(consumer.loop, consumer.types, strict=True))
    return tuple((graph.group(a), Var(f"c{i}", a.extent)) for i, (a, t) in types if t is not ParallelType.BULK)


@remembered(64)
def _place(
    graph: IdGraph, copy: MovedTile, layout: AllocatedLayout, loops: tuple[tuple[Group, Var], ...]
) -> TilePlacement:
    laid = lay_out_tile(graph, copy, layout, loops)
    mode = None if isinstance(laid, NotRecognised) else _mode(laid, copy)
    if mode is None or isinstance(laid, NotRecognised):
        return TilePlacement(None, repeat_bytes(0), copy, laid)
    span, start = mode
    return TilePlacement(span, repeat_bytes(span), copy, replace(laid, start=start))


def _mode(laid: TileLayout, copy: MovedTile) -> tuple[int, int] | None:
    """The span of the mode and the step at whose multiples tiles start."""
    dtype, likely = copy.dtype, copy.swizzle or 0
    if laid.inside is None:
        return mode_of_tiles(laid.tiles, laid.row, dtype, likely)
    span = swizzle_mode(laid.inside, laid.variables, laid.row, dtype, likely)
    return None if span is None else (span, laid.start)
