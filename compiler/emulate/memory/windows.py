"""Where the address spaces lie in the generic one. The numbers are ours: PTX leaves them open ("Generic Addressing").

A window's low 32 bits are the address in its space. Global memory is generic as it is, far above the windows.
"""

from __future__ import annotations

import numpy as np

SHARED_WINDOW = np.uint64(1 << 40)
LOCAL_WINDOW = np.uint64(2 << 40)
PARAM_WINDOW = np.uint64(3 << 40)
CONST_WINDOW = np.uint64(4 << 40)
WINDOW_BITS = np.uint64(40)
LOW_32_BITS = np.uint64(0xFFFFFFFF)

GLOBAL_BASE = 0x7F00_0000_0000
"""The first tensor; below it nothing is global."""

GLOBAL_GAP = 1 << 20
"""Bytes between two tensors, in which no address is valid: the guard zone."""

SHARED_BASE = 1024
"""The first address of a block's own shared memory: the system keeps 1 KiB (CUDA guide, compute capability 8 and up).
Measured on an H200: the first shared variable lies at 0x400."""

CLUSTER_RANK_SHIFT = np.uint64(24)
"""A shared address of another block of the cluster has that block's rank + 1 from this bit up."""

IN_BLOCK = (np.uint64(1) << CLUSTER_RANK_SHIFT) - np.uint64(1)
"""The bits of a shared address below the rank: where it lies in its block."""
