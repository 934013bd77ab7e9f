"""What `compiler/arch.py` says of the attached card's architecture is what its driver says."""

from __future__ import annotations

import pytest

from compiler.arch import arch_named, arch_names
from fusetune.launch.driver import device_attribute

pytestmark = pytest.mark.gpu


def test_limits_are_the_card_s() -> None:
    capability = tuple(device_attribute(0, f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
    arch = next(arch_named(name) for name in arch_names() if arch_named(name).capability == capability)
    limits = {
        "WARP_SIZE": arch.warp_threads,
        "MAX_THREADS_PER_BLOCK": arch.max_threads_per_block,
        "MAX_THREADS_PER_MULTIPROCESSOR": arch.max_threads_per_sm,
        "MAX_BLOCKS_PER_MULTIPROCESSOR": arch.max_blocks_per_sm,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": arch.registers_per_sm,
        "MAX_REGISTERS_PER_BLOCK": arch.registers_per_block,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": arch.smem_per_sm_bytes,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": arch.smem_per_block_optin_bytes,
        "MAX_SHARED_MEMORY_PER_BLOCK": arch.smem_per_block_default_bytes,
        "RESERVED_SHARED_MEMORY_PER_BLOCK": arch.smem_reserved_per_block_bytes,
        **{f"MAX_GRID_DIM_{axis}": extent for axis, extent in zip("XYZ", arch.max_grid, strict=True)},
        **{f"MAX_BLOCK_DIM_{axis}": extent for axis, extent in zip("XYZ", arch.max_block, strict=True)},
    }
    assert {name: device_attribute(0, name) for name in limits} == limits
