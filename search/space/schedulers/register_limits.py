"""How many registers a thread can be launched with: what does not fit them is spilled to memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.arch import REGISTER_UNIT, Arch


def launchable_registers(arch: Arch, threads: Any) -> Any:
    """Registers of a thread with which a block of `threads` can be launched: the block's share of the register file,
    at most 255 (CUDA guide, technical specifications per compute capability; launch bounds make ptxas keep to it)."""
    share = arch.registers_per_block // np.maximum(threads, 1) // REGISTER_UNIT * REGISTER_UNIT
    return np.minimum(share, arch.max_registers_per_thread)
