"""How many processes a search has on this machine. Imports nothing: some are begun before anything is imported."""

from __future__ import annotations

import os

_MAX_COMPILERS = 12
"""For each GPU: it measures 30 to 50 kernels a second, and one takes 0.12 s of a core to compile."""

MOST_DRAFTERS = 6
"""Children that draft for each GPU: at 18 ms of a core a candidate (a gated product; 35 ms a norm of rows) several
times what one judges."""


def compilers(gpus: int = 1) -> int:
    """Compiler processes on this machine for so many of its GPUs: its cores, less one for us and the launching child,
    within reason."""
    return max(1, min(gpus * _MAX_COMPILERS, len(os.sched_getaffinity(0)) - 1))


def drafters(compilers: int, gpus: int = 1) -> int:
    """Children that draft beside so many that compile for so many GPUs; a machine of two cores is kept busy by one
    process of ours."""
    return min(gpus * MOST_DRAFTERS, compilers // 2)
