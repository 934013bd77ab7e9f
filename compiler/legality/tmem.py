"""What tensor memory allows: how it is allocated, and how warps reach it. Who may touch it: `legality.memory`.

The analysis finds the breaches (`analysis.tmem`); a rule here says what its name stands for, and where that comes from.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.errors import Kept, Violation
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule, model_rule

Breaches = Iterator[Violation | Kept]


def _found(s: Schedule, rule: str) -> Breaches:
    memory = s.tensor_memory
    for breach in memory.breaches:
        if breach.rule == rule:
            yield breach
    for access in memory.accesses:
        yield from (b for b in access.breaches if b.rule == rule)


@model_rule
def tmem_copies_keep_the_element_type(s: Schedule) -> Breaches:
    """The tensors on both sides of a tensor-memory copy have one element type (nvFuser, tensor memory)."""
    for op in s.sf.ops:
        if op.via not in (CopyVia.ST_TMEM, CopyVia.LD_TMEM):
            continue
        out = s.sf.tensor(op.output).dtype
        for name in op.tensor_inputs:
            if (found := s.sf.tensor(name).dtype) is not out:
                yield Violation(
                    "tmem_copies_keep_the_element_type",
                    f"{op.output}: {op.via}",
                    found,
                    out,
                    "Convert in registers.",
                    f"{name} holds {found}, {op.output} {out}",
                )


# Allocation ----------------------------------------------------------------------------------------------------------


@model_rule
def tmem_tensors_have_a_separator(s: Schedule) -> Breaches:
    """A tensor in tensor memory says which allocation axes are lanes and which are columns (nvFuser, tensor memory)."""
    return _found(s, "tmem_tensors_have_a_separator")


@model_rule
def tmem_lanes_fit(s: Schedule) -> Breaches:
    """Tensor memory has 128 lanes; a tensor's begin at lane 0 (PTX ISA, tcgen05; nvFuser, tensor memory)."""
    return _found(s, "tmem_lanes_fit")


@model_rule
def tmem_columns_fit(s: Schedule) -> Breaches:
    """Tensor memory has 512 columns of 4 bytes, and a region takes those of its tensors side by side (PTX ISA, tcgen05;
    nvFuser, tensor memory)."""
    return _found(s, "tmem_columns_fit")


@model_rule
def tmem_regions_fit_together(s: Schedule) -> Breaches:
    """Regions are allocated in powers of two of at least 32 columns, and share the 512 (PTX ISA, tcgen05.alloc)."""
    return _found(s, "tmem_regions_fit_together")


@model_rule
def tmem_regions_are_disjoint(s: Schedule) -> Breaches:
    """A region that tensors share names at least one, all of them in tensor memory and in no other region (nvFuser,
    tensor memory)."""
    return _found(s, "tmem_regions_are_disjoint")


@model_rule
def tmem_elements_have_places_of_their_own(s: Schedule) -> Breaches:
    """Strides of lanes and of columns send no two elements to one place."""
    return _found(s, "tmem_elements_have_places_of_their_own")


# Access --------------------------------------------------------------------------------------------------------------


@model_rule
def tmem_access_is_warp_collective(s: Schedule) -> Breaches:
    """Whole warps access tensor memory: the thread axes that run on from the innermost dimension multiply to a multiple
    of 32 (PTX ISA, tcgen05.ld: .sync.aligned; nvFuser, tensor memory)."""
    return _found(s, "tmem_access_is_warp_collective")


@model_rule
def tmem_outer_threads_start_at_a_warp(s: Schedule) -> Breaches:
    """A thread axis that does not run on from the inner ones steps by whole warps (nvFuser, tensor memory)."""
    return _found(s, "tmem_outer_threads_start_at_a_warp")


@model_rule
def tmem_access_moves_whole_words(s: Schedule) -> Breaches:
    """An access moves a multiple of 4 bytes a thread (PTX ISA, tcgen05.ld: registers of 32 bits; nvFuser, tensor
    memory)."""
    return _found(s, "tmem_access_moves_whole_words")


@model_rule
def tmem_access_width_is_a_power_of_two(s: Schedule) -> Breaches:
    """An access moves 1, 2, 4, .. 128 words of 4 bytes a thread (PTX ISA, tcgen05.ld: .x1 to .x128)."""
    return _found(s, "tmem_access_width_is_a_power_of_two")


@model_rule
def tmem_words_hold_neighbours(s: Schedule) -> Breaches:
    """Elements narrower than 4 bytes fill a column in memory order, and no access begins inside one (PTX ISA, tcgen05:
    cells of 32 bits)."""
    return _found(s, "tmem_words_hold_neighbours")


@model_rule
def tmem_access_has_a_hardware_pattern(s: Schedule) -> Breaches:
    """Threads and registers of a warp lie as one of 32x32b, 16x64b, 16x128b, 16x256b and 16x32bx2 has them (PTX ISA,
    tcgen05.ld shapes)."""
    return _found(s, "tmem_access_has_a_hardware_pattern")


@model_rule
def tmem_lane_stride_is_one(s: Schedule) -> Breaches:
    """The 32 threads of a warp take neighbouring lanes (PTX ISA, tcgen05.ld: 32x32b; nvFuser, tensor memory)."""
    return _found(s, "tmem_lane_stride_is_one")


@model_rule
def tmem_vector_is_in_memory_order(s: Schedule) -> Breaches:
    """A vector takes columns in memory order (nvFuser, vectorization)."""
    return _found(s, "tmem_vector_is_in_memory_order")


@model_rule
def tmem_warps_stay_in_their_subpartition(s: Schedule) -> Breaches:
    """Warp w reaches lanes 32 * (w mod 4) to 32 * (w mod 4) + 31 alone; a pattern of 16 lanes takes either half of them
    (PTX ISA, tcgen05: access restrictions; nvFuser, tensor memory)."""
    return _found(s, "tmem_warps_stay_in_their_subpartition")


@model_rule
def tmem_access_keeps_its_sizes(s: Schedule) -> Breaches:
    """Lanes and columns of an access are worked out for the sizes at hand; where they rest on one that is unknown when
    the kernel is compiled, a launch has the same."""
    return _found(s, "tmem_access_keeps_its_sizes")
