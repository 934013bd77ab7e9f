"""What copies allow that the tensor cores carry out: tiles from shared to tensor memory, and rows shifted inside it."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.tmem.allocation import shifted_from
from compiler.errors import Violation
from compiler.ir.iter_domain import ParallelType
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
def tmem_shift_has_the_hardware_shape(s: Schedule) -> Iterator[Violation]:
    """A shift moves 32 bytes of each of 31 lanes, of the 32 of a subpartition all but the last, to the next lane, in
    the same columns (PTX ISA, tcgen05.shift.down: .31x256b)."""
    for shift in s.tmem_shifts.values():
        if shift.fault:
            yield Violation(
                "tmem_shift_has_the_hardware_shape",
                f"{shift.output}: rows",
                shift.fault,
                "32 bytes of lanes 0 to 30 of a subpartition, to lanes 1 to 31",
                "Let the Bulk axes span 31 lanes and 32 bytes; resize the result's lane axis by one on the left.",
            )


@model_rule
def tmem_shift_is_all_that_reads_its_source(s: Schedule) -> Iterator[Violation]:
    """A shift overwrites what it reads: nothing else reads a tensor that is shifted, and the result lies in its
    columns, in no region of its own (PTX ISA, tcgen05.shift: in place)."""
    rule = "tmem_shift_is_all_that_reads_its_source"
    for name, source in shifted_from(s.sf).items():
        others = [op.output for op in s.sf.consumers(source) if op.output != name]
        if others:
            fix = "Read what is in registers before, or what is shifted."
            yield Violation(rule, f"{name}: {source}", f"read by {', '.join(others)} too", "the shift alone", fix)
        if any(name in region for region in s.sf.tmem_regions):
            fix = "Leave the result of the shift out of tmem_regions."
            yield Violation(rule, f"{name}: region", "a region that names it", f"the columns of {source}", fix)


@model_rule
def tmem_tiles_are_copied_by_one_thread(s: Schedule) -> Iterator[Violation]:
    """One thread of the block asks for every tile, or shift: its axes are Bulk, on blocks, or loops (PTX ISA,
    tcgen05.cp and tcgen05.shift: issued by one thread)."""
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        for type_ in t.types if op.via.by_tensor_cores else ():
            if type_.is_thread or type_ is ParallelType.VECTORIZE:
                yield Violation(
                    "tmem_tiles_are_copied_by_one_thread",
                    f"{t.name}: {type_}",
                    str(type_),
                    "Bulk, blocks, or a loop",
                    "Make the axes of a tile Bulk.",
                )
