"""What copies of tiles from shared to tensor memory allow."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.errors import Violation
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule, model_rule


@model_rule
def tmem_tile_has_a_hardware_shape(s: Schedule) -> Iterator[Violation]:
    """A tile that one thread copies from shared to tensor memory is 16 or 32 bytes of all 128 lanes; in shared memory
    the 16 bytes of eight lanes follow each other, 128 bytes at fixed distances, without a swizzle (PTX ISA, tcgen05.cp:
    .128x128b, .128x256b; shared memory descriptor)."""
    for copy in s.tmem_tile_copies.values():
        if copy.fault:
            yield Violation(
                "tmem_tile_has_a_hardware_shape",
                f"{copy.output}: tile",
                copy.fault,
                "16 or 32 bytes of 128 lanes, in groups of eight lanes by 16 bytes",
                "Let the Bulk axes span 128 lanes and 16 or 32 bytes, and lay the shared tensor out as"
                " [lanes / 8, 16 bytes, 8 lanes, elements of 16 bytes].",
            )


@model_rule
def tmem_tiles_are_copied_by_one_thread(s: Schedule) -> Iterator[Violation]:
    """One thread of the block asks for every tile: its axes are Bulk, on blocks, or loops (PTX ISA, tcgen05.cp: issued
    by one thread)."""
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        for type_ in t.types if op.via is CopyVia.CP_TMEM else ():
            if type_.is_thread or type_ is ParallelType.VECTORIZE:
                yield Violation(
                    "tmem_tiles_are_copied_by_one_thread",
                    f"{t.name}: {type_}",
                    str(type_),
                    "Bulk, blocks, or a loop",
                    "Make the axes of a tile Bulk.",
                )
