"""Rules on the launch: block, grid, shared memory, registers."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.resources import registers_of_block
from compiler.errors import Violation
from compiler.legality.rules import Schedule, rule


@rule
def block_fits_the_architecture(s: Schedule) -> Iterator[Violation]:
    """Threads a block and a dimension (CUDA guide, technical specifications per compute capability)."""
    block = s.indexing.nest.block()
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
    x, y, z = s.indexing.nest.block()
    need = registers_of_block(s.arch, x * y * z, s.sf.max_registers)
    if need > s.arch.registers_per_block:
        yield Violation(
            "threads_times_registers_fit", "block", need, s.arch.registers_per_block, "Lower the cap or the threads."
        )
