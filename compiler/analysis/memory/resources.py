"""How many blocks of a kernel one SM holds at a time.

The arithmetic is that of `cudaOccupancyMaxActiveBlocksPerMultiprocessor` (cuda_occupancy.h of the CUDA toolkit), and
tensor memory beside it: a block beyond that waits for its columns (PTX ISA, tcgen05.alloc).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from compiler.arch import REGISTER_UNIT, REGISTERS_PER_SM, TMEM_COLUMNS, Arch


class Limit(StrEnum):
    """What keeps another block off the SM."""

    BLOCKS = "blocks"
    WARPS = "warps"
    REGISTERS = "registers"
    SMEM = "smem"
    TMEM = "tmem"


@dataclass(frozen=True, slots=True)
class Occupancy:
    """`blocks` resident on one SM, with `warps` in all. 0 blocks: `limited_by` keeps the kernel from being launched."""

    blocks: int
    limited_by: Limit
    warps: int


def blocks_per_sm(arch: Arch, threads: int, registers: int, smem_bytes: int, tmem_columns: int = 0) -> Occupancy:
    """Occupancy for blocks of `threads`, `registers` a thread, `smem_bytes` of static and dynamic shared memory and
    `tmem_columns` allocated columns of tensor memory.

    Where several limits agree, the first of blocks, warps, registers, smem, tmem is named. Raises ValueError for a
    block of no threads or negative sizes.
    """
    if threads < 1 or registers < 0 or smem_bytes < 0:
        raise ValueError(
            f"Found {threads} threads, {registers} registers, {smem_bytes} B; expected a thread and no negative size."
        )
    warps = -(-threads // arch.warp_threads)
    fits = {
        Limit.BLOCKS: arch.max_blocks_per_sm,
        Limit.WARPS: arch.max_warps_per_sm // warps if threads <= arch.max_threads_per_block else 0,
        Limit.REGISTERS: _blocks_by_registers(arch, threads, registers),
        Limit.SMEM: _blocks_by_smem(arch, smem_bytes),
    }
    if tmem_columns:
        fits[Limit.TMEM] = TMEM_COLUMNS // tmem_columns
    limited_by = min(fits, key=lambda limit: fits[limit])
    return Occupancy(fits[limited_by], limited_by, fits[limited_by] * warps)


def registers_per_warp(arch: Arch, registers: int) -> int:
    """Registers a warp takes: allocated in units of 256, which rounds each thread's count up to a multiple of 8."""
    return _rounded_up(registers * arch.warp_threads, arch.register_unit_per_warp)


def registers_of_block(arch: Arch, threads: int, registers: int) -> int:
    """Registers that must be free for a block: its warps, spread evenly over the sub-partitions, in whole units."""
    warps = -(-threads // arch.warp_threads)
    return registers_per_warp(arch, registers) * _rounded_up(warps, arch.subpartitions_per_sm)


def blocks_with_room(threads: int, max_registers: int | None) -> int:
    """Blocks that a cap on the registers of a thread promises room for: launch bounds say it so to the compiler."""
    return 1 if max_registers is None else max(1, REGISTERS_PER_SM // (threads * max_registers))


def register_limit(arch: Arch, threads: int, blocks: int) -> int:
    """Registers of a thread with which so many blocks find room, in units of 8: what launch bounds leave to ptxas, if a
    thread can have as many. Arrays are taken as well."""
    warps = blocks * _rounded_up(-(-threads // arch.warp_threads), arch.subpartitions_per_sm)
    return arch.registers_per_sm // warps // arch.warp_threads // REGISTER_UNIT * REGISTER_UNIT


def smem_per_block_bytes(arch: Arch, smem_bytes: int) -> int:
    """Shared memory a block takes of its SM: its own plus the system's reserve, in units of 128 B."""
    return _rounded_up(smem_bytes + arch.smem_reserved_per_block_bytes, arch.smem_unit_bytes)


def _blocks_by_registers(arch: Arch, threads: int, registers: int) -> int:
    if registers > arch.max_registers_per_thread:
        return 0
    if registers == 0:
        return arch.max_blocks_per_sm
    if registers_of_block(arch, threads, registers) > arch.registers_per_block:
        return 0
    warps = -(-threads // arch.warp_threads)
    warps_per_subpartition = arch.registers_per_sm // arch.subpartitions_per_sm // registers_per_warp(arch, registers)
    return warps_per_subpartition * arch.subpartitions_per_sm // warps


def _blocks_by_smem(arch: Arch, smem_bytes: int) -> int:
    if smem_bytes > arch.smem_per_block_optin_bytes:
        return 0
    return arch.smem_per_sm_bytes // smem_per_block_bytes(arch, smem_bytes)


def _rounded_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
