"""Where a tile of the copy engine lies in the shared tensor's allocation.

The engine reads or writes a tile as one dense run, the innermost dimension fastest, or as that run in the order of a
swizzle mode. So every tile must be contiguous in the allocation, and the allocation a whole number of tiles; inside a
tile any view will do, and holes only at its end (nvFuser, TMA: "Step 4: schedule the shared memory tensor").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd

from compiler.analysis.id.conditions import is_multiple
from compiler.analysis.id.graph import Group, IdGraph
from compiler.analysis.memory.allocation import AllocatedLayout, layout_of
from compiler.analysis.memory.memory_order import as_allocated, is_swizzled
from compiler.analysis.memory.swizzle import dense_index, mode_of_tiles, repeat_bytes, swizzle_mode
from compiler.analysis.memory.tile_layout import MovedTile, NotRecognised, TileLayout, lay_out_tile
from compiler.analysis.tma.bulk_run import BulkRun
from compiler.analysis.tma.tensor_map import TensorMapCopy
from compiler.arch import SWIZZLE_CHUNK_BYTES
from compiler.errors import Kept, Stage, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Var, Xor
from compiler.ir.form import remembered
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.size import Size
from compiler.ir.tensor import TensorView


@dataclass(frozen=True, slots=True)
class TilePlacement:
    """What a bulk copy needs of its shared tensor.

    `swizzle`: span in bytes of the hardware mode that the allocation domain has (0: none), None where it has an order
    that no mode makes. `breaches`: tiles that are not contiguous, not whole, or laid out as no mode does; and what only
    a launch can settle. `align`: the shared tensor's address must be a multiple of so many bytes.
    """

    swizzle: int | None
    breaches: tuple[Violation | Kept, ...]
    align: int = 128


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
        return TilePlacement(0, (), repeat_bytes(0))
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
    if isinstance(laid, NotRecognised):
        return TilePlacement(None, (_not_recognised(copy, laid),))
    mode = _mode(laid, copy)
    if mode is None:
        found: tuple[Violation | Kept, ...] = tuple(_wrong_order(copy, laid))
    else:
        laid = replace(laid, start=mode[1])
        found = (*_not_whole(copy, laid), *_not_the_mode(copy, laid, mode[0]))
    span = None if mode is None else mode[0]
    return TilePlacement(span, tuple(_settled(copy, laid, found)), repeat_bytes(span or 0))


def _mode(laid: TileLayout, copy: MovedTile) -> tuple[int, int] | None:
    """The span of the mode and the step at whose multiples tiles start."""
    dtype, likely = copy.dtype, copy.swizzle or 0
    if laid.inside is None:
        return mode_of_tiles(laid.tiles, laid.row, dtype, likely)
    span = swizzle_mode(laid.inside, laid.variables, laid.row, dtype, likely)
    return None if span is None else (span, laid.start)


def _not_recognised(copy: MovedTile, why: NotRecognised) -> Violation:
    return Violation(
        "tile_is_found_in_shared_memory",
        copy.shared,
        "not recognised",
        "a place for every element of the tile",
        "Make the shared tensor's allocation of the axes that the tile's consumer has.",
        f"where the tile of {copy.output} lies is not recognised: {why.reason}",
    )


def _wrong_order(copy: MovedTile, laid: TileLayout) -> Iterator[Violation]:
    """Why no mode lays the tile out so: it has holes or foreign elements inside, or is shuffled as no mode does.

    Nothing of a swizzle whose rows do not fill its span: that is a breach of the tensor map.
    """
    nbytes, name = copy.dtype.nbytes, copy.shared
    is_shuffled = copy.swizzle is not None and (copy.swizzle > 0 or _is_xored(laid))
    run = laid.run if is_shuffled else 0
    if run == 0:
        yield Violation(
            "tile_is_contiguous_in_shared_memory",
            name,
            _text(laid),
            str(dense_index(laid.variables)),
            "Set an allocation domain whose innermost axes are the tile's, in the order of its dimensions.",
            f"element {_indices(laid)} of the tile of {copy.output} lies {_text(laid)} elements from its start,"
            f" and the copy engine puts it at {dense_index(laid.variables)}",
        )
    elif not _fills_the_span(copy, laid):
        return
    elif run * nbytes != SWIZZLE_CHUNK_BYTES:
        yield Violation(
            "swizzle_moves_chunks_of_16_bytes",
            name,
            run * nbytes,
            SWIZZLE_CHUNK_BYTES,
            f"Split the columns by {SWIZZLE_CHUNK_BYTES // nbytes} before the swizzle.",
            f"the swizzle moves chunks of {run * nbytes} bytes, expected {SWIZZLE_CHUNK_BYTES}",
        )
    else:
        yield Violation(
            "swizzled_layout_is_a_hardware_mode",
            name,
            _text(laid),
            "the pattern of a 32, 64 or 128 byte mode",
            "View the tile as [-1, s, 8/s, s, 16 bytes] and swizzle axes 1 and 3, for a span of s chunks.",
            f"the tile of {copy.output} is swizzled as no mode of the hardware does",
        )


def _not_whole(copy: MovedTile, laid: TileLayout) -> Iterator[Violation | Kept]:
    """Every tile starts at a multiple of some step of at least a tile, and the allocation is a multiple of it too."""
    n, elems = laid.elems, laid.layout.elems
    step = gcd(elems, laid.start)
    breach = Violation(
        "shared_allocation_is_whole_tiles",
        copy.shared,
        f"{elems} elements, tiles at multiples of {laid.start or elems}",
        f"whole tiles of {n}",
        "Split the axes of the allocation by the tile, so that each tile starts where another ends.",
        f"the allocation of {elems} elements with tiles of {n} at multiples of {laid.start or elems}"
        " is not a whole number of tiles",
    )
    outer = laid.outermost
    if 0 < laid.start < n or outer is None or outer.symbolic is None:
        if step < n:
            yield breach
        return
    slot = laid.start or n
    whole = is_multiple(outer.size, Size(slot // gcd(slot, laid.stride)))
    if whole.holds or step < n:
        yield from whole.require(breach)
    else:
        # One tile with holes at its end: of other sizes nothing is known.
        yield _for_this_size(copy, outer)


def _not_the_mode(copy: MovedTile, laid: TileLayout, span: int) -> Iterator[Violation]:
    nbytes, name = copy.dtype.nbytes, copy.shared
    if span and laid.start * nbytes % repeat_bytes(span):
        yield Violation(
            "swizzled_tile_starts_on_the_pattern",
            name,
            laid.start * nbytes,
            repeat_bytes(span),
            f"Make the rows of a tile a multiple of 8, or round each tile up to {repeat_bytes(span)} bytes.",
            f"swizzled tiles start at multiples of {laid.start * nbytes} bytes, and the pattern repeats after"
            f" {repeat_bytes(span)}",
        )
    if copy.swizzle is not None and span != copy.swizzle and _fills_the_span(copy, laid):
        yield Violation(
            "swizzled_layout_is_a_hardware_mode",
            name,
            span,
            copy.swizzle,
            "Swizzle the tile alone, once.",
            f"the tile is laid out by {_mode_name(span)}, and the tensor map says {_mode_name(copy.swizzle)}",
        )


def _settled(copy: MovedTile, laid: TileLayout, found: tuple[Violation | Kept, ...]) -> Iterator[Violation | Kept]:
    """What was found, and for which sizes: a layout that unknown sizes shape is settled for those at hand alone."""
    unknown = laid.unknown
    for x in found:
        yield replace(x, stage=Stage.RUNTIME) if unknown and isinstance(x, Violation) else x
    if any(isinstance(x, Violation) for x in found):
        return
    for axis in unknown:
        yield _for_this_size(copy, axis)


def _for_this_size(copy: MovedTile, axis: IterDomain) -> Kept:
    name = copy.shared
    message = f"{name}: the place of the tile is known for this size of {axis} alone"
    return Kept("tile_is_contiguous_in_shared_memory", name, f"{axis.size} == {axis.extent}", message)


def _fills_the_span(copy: MovedTile, laid: TileLayout) -> bool:
    return copy.swizzle in (0, laid.row * copy.dtype.nbytes)


def _is_xored(laid: TileLayout) -> bool:
    return laid.inside is not None and any(isinstance(atom, Xor) for atom, _ in laid.inside.terms)


def _text(laid: TileLayout) -> str:
    return str(laid.inside) if laid.inside is not None else "a different number in different tiles of"


def _indices(laid: TileLayout) -> str:
    return "(" + ", ".join(str(v) for v in reversed(laid.variables)) + ")"


def _mode_name(span: int) -> str:
    return f"the {span} byte swizzle" if span else "no swizzle"
