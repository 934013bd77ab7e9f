"""Rules on the launch: block, grid, shared memory, registers."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.memory.resources import registers_of_block
from compiler.analysis.sync.block_parts import block_parts, launched_block
from compiler.arch import WARPGROUP_WARPS
from compiler.errors import Violation
from compiler.legality.rules import Schedule, rule


@rule
def block_fits_the_architecture(s: Schedule) -> Iterator[Violation]:
    """Threads a block and a dimension, those that only load among them (CUDA guide, technical specifications per
    compute capability)."""
    block = launched_block(s.sf, s.indexing.nest)
    total = block[0] * block[1] * block[2]
    if total > s.arch.max_threads_per_block:
        yield Violation(
            "block_fits_the_architecture", "block", total, s.arch.max_threads_per_block, "Use fewer threads a block."
        )
    for name, size, most in zip("xyz", block, s.arch.max_block, strict=True):
        if size > most:
            yield Violation("block_fits_the_architecture", f"block.{name}", size, most, "Use a smaller dimension.")


@rule
def grid_fits_the_architecture(s: Schedule) -> Iterator[Violation]:
    """Blocks a grid dimension (CUDA guide, technical specifications per compute capability)."""
    for name, size, most in zip("xyz", s.indexing.nest.grid(), s.arch.max_grid, strict=True):
        if size > most:
            yield Violation(
                "grid_fits_the_architecture",
                f"grid.{name}",
                size,
                most,
                "Let a block do more, or use another dimension.",
            )


@rule
def shared_memory_fits_the_block(s: Schedule) -> Iterator[Violation]:
    """Dynamic shared memory up to the opt-in limit (CUDA guide, technical specifications per compute capability)."""
    if s.smem.total_bytes > s.arch.smem_per_block_optin_bytes:
        yield Violation(
            "shared_memory_fits_the_block",
            "shared memory",
            s.smem.total_bytes,
            s.arch.smem_per_block_optin_bytes,
            "Use smaller tiles or fewer stages.",
        )


@rule
def threads_times_registers_fit(s: Schedule) -> Iterator[Violation]:
    """A block's registers fit the file: the cap of each warp, warps spread evenly over the sub-partitions of an SM
    (CUDA occupancy rules)."""
    if s.sf.max_registers is None:
        return
    x, y, z = launched_block(s.sf, s.indexing.nest)
    need = registers_of_block(s.arch, x * y * z, s.sf.max_registers)
    if need > s.arch.registers_per_block:
        yield Violation(
            "threads_times_registers_fit", "block", need, s.arch.registers_per_block, "Lower the cap or the threads."
        )


@rule
def parts_of_a_block_are_whole_warps(s: Schedule) -> Iterator[Violation]:
    """Where warps of their own load, a warp belongs to one part of the block: threads that compute shuffle with, and
    wait at barriers for, those of their part alone (PTX ISA, barrier: a thread count of whole warps). Where the parts
    share registers, so does a warp group (PTX ISA, setmaxnreg)."""
    parts = block_parts(s.sf, s.indexing.nest)
    if parts is None:
        return
    unit = s.arch.warp_threads * (1 if parts.registers is None else WARPGROUP_WARPS)
    if any(run % unit for run in parts.runs):
        compute, load = parts.runs
        yield Violation(
            "parts_of_a_block_are_whole_warps",
            f"block, warps appended to {parts.on}",
            f"{compute} threads that compute beside {load} that load",
            f"multiples of {unit}",
            "Append the loading warps to the outermost thread dimension.",
        )
