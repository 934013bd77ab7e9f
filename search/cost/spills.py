"""Registers of a thread before the compiler has said: blocks that are resident, and what finds no register."""

from __future__ import annotations

import math
from dataclasses import dataclass

from compiler.analysis.memory.resources import blocks_per_sm
from compiler.arch import REGISTER_BYTES, REGISTER_UNIT, Arch
from compiler.lower import kernel_ir as k
from fusetune.wire.artifact import Resources
from search.cost.pressure import pressure
from search.cost.sites import StatementSite

_BASE_REGISTERS = 24
"""Registers of addresses, loop counters and temporaries beside the arrays that the kernel declares."""


_LEAST_REGISTERS = 6
"""Registers that a kernel cannot do without, beside its arrays where threads wait and half of what others take between
waits: of 1500 kernels with less than 128 registers to a thread, compiled for sm_90a, 4 in 100 spill where ten or more
are left, 25 where five are, 75 where fewer."""


_MOST_SPILLED = 20
"""Registers that such kernels spill on average: where many lack, ptxas orders statements so that fewer live at once."""


@dataclass(frozen=True, slots=True)
class RegisterUse:
    """What follows from the registers of a thread: blocks of one SM at a time, at least 1, and the bytes that a thread
    stores and reads back because they fit no register."""

    resident_blocks: int
    spilled_bytes: int


def registers_of(
    kernel: k.Kernel, arch: Arch, sites: list[StatementSite], resources: Resources | None = None
) -> RegisterUse:
    """Those of the compiled kernel, or from an estimate by its statements."""
    room = _room(kernel, arch)
    if resources is not None:
        registers, spilled = resources.registers, resources.spill_store_bytes + resources.spill_load_bytes
    else:
        arrays = pressure(kernel.body)
        registers = min(_BASE_REGISTERS + arrays.most + _second_words(sites), room)
        lacking = max(0, math.ceil((arrays.most + arrays.waiting) / 2 + _LEAST_REGISTERS) - room)
        spilled = 2 * REGISTER_BYTES * min(_MOST_SPILLED, 2 * lacking)
    blocks = blocks_per_sm(arch, kernel.threads, registers, kernel.smem_bytes, kernel.tmem_columns).blocks
    return RegisterUse(max(1, blocks), spilled)


def _second_words(sites: list[StatementSite]) -> int:
    """Registers of the second of two words that one is put together of, until they have arrived."""
    loads = ((s.statement, s.per_tile) for s in sites)
    nbytes = (n * s.width * s.target.dtype.nbytes for s, n in loads if isinstance(s, k.GlobalLoad) and s.straddles)
    return sum(nbytes) // REGISTER_BYTES


def _room(kernel: k.Kernel, arch: Arch) -> int:
    """Registers that a thread may have: the kernel's cap, and what lets one block be resident."""
    block = arch.registers_per_sm // kernel.threads // REGISTER_UNIT * REGISTER_UNIT
    return min(kernel.max_registers or arch.max_registers_per_thread, arch.max_registers_per_thread, block)
