"""Registers of a thread before the compiler has said: blocks that are resident, and what finds no register."""

from __future__ import annotations

import math

from compiler.analysis.memory.resources import blocks_per_sm
from compiler.arch import REGISTER_BYTES, REGISTER_UNIT, Arch
from compiler.lower import kernel_ir as k
from fusetune.wire.artifact import Resources
from search.cost.pressure import array_registers, waiting_registers
from search.cost.sites import sites_of

_BASE_REGISTERS = 24
"""Registers of addresses, loop counters and temporaries beside the arrays that the kernel declares."""


_LEAST_REGISTERS = 6
"""Registers that a kernel cannot do without, beside its arrays where threads wait and half of what others take between
waits: of 1500 kernels with less than 128 registers to a thread, compiled for sm_90a, 4 in 100 spill where ten or more
are left, 25 where five are, 75 where fewer."""


_MOST_SPILLED = 20
"""Registers that such kernels spill on average: where many lack, ptxas orders statements so that fewer live at once."""


def resident_blocks(kernel: k.Kernel, arch: Arch, resources: Resources | None = None) -> int:
    """Blocks of one SM at a time, of the compiled kernel or from an estimate of registers; at least 1."""
    wanted = _BASE_REGISTERS + array_registers(kernel.body) + _second_words(kernel)
    registers = min(wanted, _room(kernel, arch)) if resources is None else resources.registers
    return max(1, blocks_per_sm(arch, kernel.threads, registers, kernel.smem_bytes, kernel.tmem_columns).blocks)


def _second_words(kernel: k.Kernel) -> int:
    """Registers of the second of two words that one is put together of, until they have arrived."""
    loads = ((s.statement, s.per_tile) for s in sites_of(kernel.body, 1, 1))
    nbytes = (n * s.width * s.target.dtype.nbytes for s, n in loads if isinstance(s, k.GlobalLoad) and s.straddles)
    return sum(nbytes) // REGISTER_BYTES


def _room(kernel: k.Kernel, arch: Arch) -> int:
    """Registers that a thread may have: the kernel's cap, and what lets one block be resident."""
    block = arch.registers_per_sm // kernel.threads // REGISTER_UNIT * REGISTER_UNIT
    return min(kernel.max_registers or arch.max_registers_per_thread, arch.max_registers_per_thread, block)


def spilled_bytes(kernel: k.Kernel, arch: Arch, resources: Resources | None) -> int:
    """Bytes that a thread stores and reads back because they fit no register."""
    if resources is not None:
        return resources.spill_store_bytes + resources.spill_load_bytes
    needed = (array_registers(kernel.body) + waiting_registers(kernel.body)) / 2 + _LEAST_REGISTERS
    lacking = max(0, math.ceil(needed) - _room(kernel, arch))
    return 2 * REGISTER_BYTES * min(_MOST_SPILLED, 2 * lacking)
