"""Rules on the tile of a bulk copy in shared memory (nvFuser, TMA: "Step 4: schedule the shared memory tensor").

nvFuser trusts the schedule here, and a wrong one writes the wrong elements without a word; here each is a breach. What
remains for the allocator is the address: a multiple of `TilePlacement.align`. A layout that unknown sizes shape is
judged for those at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from compiler.analysis.id.conditions import is_multiple
from compiler.analysis.memory.memory_order import as_allocated
from compiler.analysis.memory.swizzle import dense_index, repeat_bytes
from compiler.analysis.memory.tile_layout import MovedTile, NotRecognised, TileLayout
from compiler.analysis.memory.tile_placement import TilePlacement
from compiler.arch import BULK_BYTES, BULK_SMEM_ALIGN, SWIZZLE_CHUNK_BYTES
from compiler.copies.instruction import Path, path_of
from compiler.errors import Condition, Kept, Stage, Violation
from compiler.ir.expr import Expr, Xor
from compiler.ir.iter_domain import IterDomain, MemoryType
from compiler.ir.size import Size
from compiler.ir.tensor import CopyVia, TensorOp, TensorView
from compiler.legality.rules import Schedule, model_rule, rule

_Found = Iterator[Violation | Kept]


def breaches(placed: TilePlacement) -> tuple[Violation | Kept, ...]:
    """Everything that these rules find of one placement."""
    return (*_refused(placed), *_for_these_sizes(placed))


def _refused(placed: TilePlacement) -> _Found:
    yield from _unfound(placed)
    yield from _apart(placed)
    yield from _not_whole(placed)
    yield from _between_patterns(placed)
    yield from _chunks(placed)
    yield from _modes(placed)


def _laid(placed: TilePlacement) -> tuple[MovedTile, TileLayout] | None:
    """The tile and its layout, where there is one to look at."""
    if placed.tile is None or not isinstance(placed.laid, TileLayout):
        return None
    return placed.tile, placed.laid


def _stage(laid: TileLayout) -> Stage:
    return Stage.RUNTIME if laid.unknown else Stage.COMPILE


@model_rule
def tile_is_found_in_shared_memory(s: Schedule) -> _Found:
    """The allocation of the shared tensor follows from the loops of the copy, or its tile cannot be placed (nvFuser,
    TMA: the producer must be replayable as the consumer)."""
    for placed in s.tile_placements.values():
        yield from _unfound(placed)


def _unfound(placed: TilePlacement) -> _Found:
    if placed.tile is not None and isinstance(placed.laid, NotRecognised):
        yield Violation(
            "tile_is_found_in_shared_memory",
            placed.tile.shared,
            "not recognised",
            "a place for every element of the tile",
            "Make the shared tensor's allocation of the axes that the tile's consumer has.",
            f"where the tile of {placed.tile.output} lies is not recognised: {placed.laid.reason}",
        )


@model_rule
def tile_is_contiguous_in_shared_memory(s: Schedule) -> _Found:
    """Every tile is one run of the shared allocation, in the order of the tensor map's dimensions or of a swizzle mode:
    no axis between those of the tile, no piece swapped, no hole but at the end (nvFuser, TMA: figures 13 and 15)."""
    for placed in s.tile_placements.values():
        yield from _apart(placed)
        yield from _for_these_sizes(placed)


def _apart(placed: TilePlacement) -> _Found:
    """Holes or foreign elements inside a tile, or another order than any mode could be."""
    if (found := _laid(placed)) is None or placed.swizzle is not None or _shuffled_run(placed):
        return
    tile, laid = found
    yield Violation(
        "tile_is_contiguous_in_shared_memory",
        tile.shared,
        _text(laid),
        str(dense_index(laid.variables)),
        "Set an allocation domain whose innermost axes are the tile's, in the order of its dimensions.",
        f"element {_indices(laid)} of the tile of {tile.output} lies {_text(laid)} elements from its start,"
        f" and the copy engine puts it at {dense_index(laid.variables)}",
        _stage(laid),
    )


def _for_these_sizes(placed: TilePlacement) -> Iterator[Kept]:
    """A tile that lies right for the sizes at hand: of others nothing is known where they shape its layout, or where it
    is one tile with holes at its end."""
    if (found := _laid(placed)) is None or placed.swizzle is None:
        return
    tile, laid = found
    whole = _slots(laid)
    if whole is not None and not whole.holds and _step(laid) >= laid.elems and laid.outermost is not None:
        yield _for_this_size(tile, laid.outermost)
    if laid.unknown and not any(isinstance(one, Violation) for one in _refused(placed)):
        yield from (_for_this_size(tile, axis) for axis in laid.unknown)


def _for_this_size(tile: MovedTile, axis: IterDomain) -> Kept:
    name = tile.shared
    message = f"{name}: the place of the tile is known for this size of {axis} alone"
    return Kept("tile_is_contiguous_in_shared_memory", name, f"{axis.size} == {axis.extent}", message)


@model_rule
def shared_allocation_is_whole_tiles(s: Schedule) -> _Found:
    """The shared allocation is a whole number of tiles, each starting where another may end (nvFuser, TMA: figures 13
    and 15)."""
    for placed in s.tile_placements.values():
        yield from _not_whole(placed)


def _not_whole(placed: TilePlacement) -> _Found:
    """Every tile starts at a multiple of some step of at least a tile, and the allocation is a multiple of it too."""
    if (found := _laid(placed)) is None or placed.swizzle is None:
        return
    tile, laid = found
    whole, fits = _slots(laid), _step(laid) >= laid.elems
    if fits and (whole is None or not whole.holds):
        return
    n, elems, start = laid.elems, laid.layout.elems, laid.start or laid.layout.elems
    breach = Violation(
        "shared_allocation_is_whole_tiles",
        tile.shared,
        f"{elems} elements, tiles at multiples of {start}",
        f"whole tiles of {n}",
        "Split the axes of the allocation by the tile, so that each tile starts where another ends.",
        f"the allocation of {elems} elements with tiles of {n} at multiples of {start} is not a whole number of tiles",
        _stage(laid),
    )
    if whole is None:
        yield breach
    else:
        yield from whole.require(breach)


def _step(laid: TileLayout) -> int:
    return gcd(laid.layout.elems, laid.start)


def _slots(laid: TileLayout) -> Condition | None:
    """That an outermost axis of unknown size is a whole number of tiles; None where the sizes at hand decide."""
    outer = laid.outermost
    if 0 < laid.start < laid.elems or outer is None or outer.symbolic is None:
        return None
    slot = laid.start or laid.elems
    return is_multiple(outer.size, Size(slot // gcd(slot, laid.stride)))


@model_rule
def swizzled_layout_is_a_hardware_mode(s: Schedule) -> _Found:
    """A swizzled tile lies as the 32, 64 or 128 byte mode of its tensor map puts it: the domain [-1, s, 8/s, s, 16
    bytes] with axis 1 xored into axis 3, or another view of it (nvFuser, TMA: "Data swizzle"; PTX ISA 5.5.7)."""
    for placed in s.tile_placements.values():
        yield from _modes(placed)


def _modes(placed: TilePlacement) -> _Found:
    if (found := _laid(placed)) is None or not _fills_the_span(*found):
        return
    tile, laid = found
    name, span = "swizzled_layout_is_a_hardware_mode", placed.swizzle
    if span is None and _shuffled_run(placed) * tile.dtype.nbytes == SWIZZLE_CHUNK_BYTES:
        yield Violation(
            name,
            tile.shared,
            _text(laid),
            "the pattern of a 32, 64 or 128 byte mode",
            "View the tile as [-1, s, 8/s, s, 16 bytes] and swizzle axes 1 and 3, for a span of s chunks.",
            f"the tile of {tile.output} is swizzled as no mode of the hardware does",
            _stage(laid),
        )
    elif span is not None and tile.swizzle is not None and span != tile.swizzle:
        yield Violation(
            name,
            tile.shared,
            span,
            tile.swizzle,
            "Swizzle the tile alone, once.",
            f"the tile is laid out by {_mode_name(span)}, and the tensor map says {_mode_name(tile.swizzle)}",
            _stage(laid),
        )


@model_rule
def swizzle_moves_chunks_of_16_bytes(s: Schedule) -> _Found:
    """The unit of a swizzle is 16 bytes, so the columns are split by 16 bytes of the element type before it (nvFuser,
    TMA: "Data swizzle"; PTX ISA 5.5.7)."""
    for placed in s.tile_placements.values():
        yield from _chunks(placed)


def _chunks(placed: TilePlacement) -> _Found:
    if (found := _laid(placed)) is None or placed.swizzle is not None or not _fills_the_span(*found):
        return
    tile, laid = found
    chunk = _shuffled_run(placed) * tile.dtype.nbytes
    if chunk not in (0, SWIZZLE_CHUNK_BYTES):
        yield Violation(
            "swizzle_moves_chunks_of_16_bytes",
            tile.shared,
            chunk,
            SWIZZLE_CHUNK_BYTES,
            f"Split the columns by {SWIZZLE_CHUNK_BYTES // tile.dtype.nbytes} before the swizzle.",
            f"the swizzle moves chunks of {chunk} bytes, expected {SWIZZLE_CHUNK_BYTES}",
            _stage(laid),
        )


@model_rule
def swizzled_tile_starts_on_the_pattern(s: Schedule) -> _Found:
    """Every swizzled tile starts at a multiple of 8 spans: the pattern is one of address bits, and a tile between two
    repeats would be shuffled by other bits than its own (PTX ISA 5.5.7)."""
    for placed in s.tile_placements.values():
        yield from _between_patterns(placed)


def _between_patterns(placed: TilePlacement) -> _Found:
    if (found := _laid(placed)) is None or not placed.swizzle:
        return
    tile, laid = found
    start, repeat = laid.start * tile.dtype.nbytes, repeat_bytes(placed.swizzle)
    if start % repeat:
        yield Violation(
            "swizzled_tile_starts_on_the_pattern",
            tile.shared,
            start,
            repeat,
            f"Make the rows of a tile a multiple of 8, or round each tile up to {repeat} bytes.",
            f"swizzled tiles start at multiples of {start} bytes, and the pattern repeats after {repeat}",
            _stage(laid),
        )


def _shuffled_run(placed: TilePlacement) -> int:
    """Elements that a swizzle that is no mode leaves side by side; 0 for a tile that nothing swizzles."""
    if (found := _laid(placed)) is None:
        return 0
    tile, laid = found
    is_shuffled = tile.swizzle is not None and (tile.swizzle > 0 or _is_xored(laid))
    return laid.run if is_shuffled else 0


def _fills_the_span(tile: MovedTile, laid: TileLayout) -> bool:
    """False for a swizzle whose rows do not fill its span: that is a breach of the tensor map."""
    return tile.swizzle in (0, laid.row * tile.dtype.nbytes)


def _is_xored(laid: TileLayout) -> bool:
    return laid.inside is not None and any(isinstance(atom, Xor) for atom, _ in laid.inside.terms)


def _text(laid: TileLayout) -> str:
    return str(laid.inside) if laid.inside is not None else "a different number in different tiles of"


def _indices(laid: TileLayout) -> str:
    return "(" + ", ".join(str(v) for v in reversed(laid.variables)) + ")"


def _mode_name(span: int) -> str:
    return f"the {span} byte swizzle" if span else "no swizzle"


# Lowering -------------------------------------------------------------------------------------------------------------


def _copies(s: Schedule) -> Iterator[tuple[TensorOp, TensorView]]:
    """Every bulk copy with the shared tensor at its end."""
    for op in s.sf.ops:
        if op.via.is_bulk:
            ends = (s.sf.tensor(op.output), s.sf.tensor(op.tensor_inputs[0]))
            yield from ((op, t) for t in ends if t.memory is MemoryType.SHARED)


@dataclass(frozen=True, slots=True)
class TileBetweenUnits:
    """A tile that `op` moves to or from `shared` and that does not start at multiples of `unit` bytes, but `start`
    elements behind the tensor's first."""

    op: TensorOp
    shared: TensorView
    start: Expr
    unit: int


def tiles_between_units(s: Schedule) -> Iterator[TileBetweenUnits]:
    """Tiles without swizzle that lie right, but start where the copy engine does not reach."""
    for op, shared in _copies(s):
        placed = s.tile_placements.get(op.output)
        if op.via is CopyVia.TMA and path_of(s, op) is Path.BULK_1D:
            continue  # moved as a run, which starts at less
        if placed is None or placed.swizzle != 0 or any(isinstance(b, Violation) for b in breaches(placed)):
            continue
        unit = BULK_SMEM_ALIGN if op.via is CopyVia.TMA else BULK_BYTES
        is_load = shared.name == op.output
        start = s.indexing.write_offset(shared) if is_load else s.indexing.read_offset(op, shared.name)
        if not (start * shared.dtype.nbytes).divisible_by(unit):
            yield TileBetweenUnits(op, shared, start, unit)


@rule
def tiles_start_at_units_of_shared_memory(s: Schedule) -> Iterator[Violation]:
    """A tile without swizzle starts on 128 bytes of shared memory (CUDA guide, tensor copies), a 1-D run on 16 bytes
    (PTX ISA, cp.async.bulk: dstMem, srcMem). Swizzled tiles start on their pattern, which the model asks for."""
    for tile in tiles_between_units(s):
        yield Violation(
            "tiles_start_at_units_of_shared_memory",
            f"{tile.op.output} <- {tile.op.tensor_inputs[0]}: address in {tile.shared.name}",
            f"{tile.start} elements",
            f"a multiple of {tile.unit} bytes",
            "Use larger tiles, or pad the rows of shared memory.",
        )


@rule
def tiles_lie_where_the_model_places_them(s: Schedule) -> Iterator[Violation]:
    """Shared memory is laid out by the allocation domain that is set. The model heeds one only where something makes it
    the memory order, and else places tiles by the loops (nvFuser, memory order): of what bulk copies reach, both are
    one."""
    for op, shared in _copies(s):
        if as_allocated(s.sf, shared) != shared:
            yield Violation(
                "tiles_lie_where_the_model_places_them",
                f"{op.output} <- {op.tensor_inputs[0]}: {shared.name}",
                "an allocation domain that is not the memory order",
                "one of the copy engine's axes, or of the loop axes in another order",
                "Set the allocation domain to the tile's axes.",
            )
