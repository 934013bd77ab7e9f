"""What it costs that accesses are short runs of bytes: time per byte of device memory over that of long runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

Table = tuple[tuple[int, float], ...]

READ_RUN_COST: Table = ((16, 1.35), (32, 1.13), (64, 1.02), (128, 1.02), (256, 1.0025), (512, 1.0))
WRITE_RUN_COST: Table = (
    (2, 21.0),
    (4, 12.0),
    (8, 7.3),
    (16, 3.05),
    (32, 1.08),
    (64, 1.04),
    (128, 1.02),
    (256, 1.01),
    (512, 1.0),
)
"""Time per byte by the bytes that one warp instruction touches in a row. Reads: a quarter of what scattered warps paid
on an H100, since other warps of a block ask for the rest of a line; fits to nine tenths of 75 fusions on an H200
(13,089 kernels) lie between 0.13 and 0.37. Writes: tiles of transposes on an H200, 5000 kernels, whose blocks fill
whole lines: the parts of a line meet in L2.
Of 8 and 16 bytes: a fit to 4,701 kernels of 25 fusions on an H200, with any fusion left out 6.8 to 7.5 and 3.0 to 3.1.
NCHW to NHWC of 103 MB each way took 185 to 250 us with 8 bytes in a row, 92 to 122 with 16. What is shorter goes on so,
no such kernel was measured."""


def run_cost(table: Table, run_bytes: float) -> float:
    """The table's cost at `run_bytes`: straight lines over log2, flat beyond both ends."""
    if run_bytes <= table[0][0]:
        return table[0][1]
    for (low, low_cost), (high, high_cost) in pairwise(table):
        if run_bytes <= high:
            share = math.log2(run_bytes / low) / math.log2(high / low)
            return low_cost + share * (high_cost - low_cost)
    return table[-1][1]


def mean_cost(table: Table, accesses: Iterable[tuple[float, float]]) -> float:
    """The mean cost of accesses, each by its bytes and the length of its runs; 1 of none."""
    costs = [(nbytes, run_cost(table, run)) for nbytes, run in accesses]
    total = sum(nbytes for nbytes, _ in costs)
    return sum(nbytes * cost for nbytes, cost in costs) / total if total else 1.0
