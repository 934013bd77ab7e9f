"""Rules on the tile of a tensor-map copy in shared memory (nvFuser, TMA: "Step 4: schedule the shared memory tensor").

nvFuser trusts the schedule here, and a wrong one writes the wrong elements without a word; here each is a breach. What
remains for the allocator is the address: a multiple of `TilePlacement.align`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.errors import Kept, Violation
from compiler.legality.rules import Schedule, model_rule


def _breaches(s: Schedule, name: str) -> Iterator[Violation | Kept]:
    for placement in s.tile_placements.values():
        yield from (x for x in placement.breaches if x.rule == name)


@model_rule
def tile_is_found_in_shared_memory(s: Schedule) -> Iterator[Violation | Kept]:
    """The allocation of the shared tensor follows from the loops of the copy, or its tile cannot be placed (nvFuser,
    TMA: the producer must be replayable as the consumer)."""
    yield from _breaches(s, "tile_is_found_in_shared_memory")


@model_rule
def tile_is_contiguous_in_shared_memory(s: Schedule) -> Iterator[Violation | Kept]:
    """Every tile is one run of the shared allocation, in the order of the tensor map's dimensions or of a swizzle mode:
    no axis between those of the tile, no piece swapped, no hole but at the end (nvFuser, TMA: figures 13 and 15)."""
    yield from _breaches(s, "tile_is_contiguous_in_shared_memory")


@model_rule
def shared_allocation_is_whole_tiles(s: Schedule) -> Iterator[Violation | Kept]:
    """The shared allocation is a whole number of tiles, each starting where another may end (nvFuser, TMA: figures 13
    and 15)."""
    yield from _breaches(s, "shared_allocation_is_whole_tiles")


@model_rule
def swizzled_layout_is_a_hardware_mode(s: Schedule) -> Iterator[Violation | Kept]:
    """A swizzled tile lies as the 32, 64 or 128 byte mode of its tensor map puts it: the domain [-1, s, 8/s, s, 16
    bytes] with axis 1 xored into axis 3, or another view of it (nvFuser, TMA: "Data swizzle"; PTX ISA 5.5.7)."""
    yield from _breaches(s, "swizzled_layout_is_a_hardware_mode")


@model_rule
def swizzle_moves_chunks_of_16_bytes(s: Schedule) -> Iterator[Violation | Kept]:
    """The unit of a swizzle is 16 bytes, so the columns are split by 16 bytes of the element type before it (nvFuser,
    TMA: "Data swizzle"; PTX ISA 5.5.7)."""
    yield from _breaches(s, "swizzle_moves_chunks_of_16_bytes")


@model_rule
def swizzled_tile_starts_on_the_pattern(s: Schedule) -> Iterator[Violation | Kept]:
    """Every swizzled tile starts at a multiple of 8 spans: the pattern is one of address bits, and a tile between two
    repeats would be shuffled by other bits than its own (PTX ISA 5.5.7)."""
    yield from _breaches(s, "swizzled_tile_starts_on_the_pattern")
