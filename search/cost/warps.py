"""Some warps of a kernel, drawn evenly: what lanes do that a count along one path does not tell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from compiler.arch import WARP_THREADS
from compiler.ir.expr import Expr
from compiler.lower import kernel_ir as k

WARPS = 256
"""Warps that are looked at, of any block in any turn of its loops: the mean of so many is within 5 % of that of all."""


def some_warps(kernel: k.Kernel, expressions: Iterable[Expr]) -> dict[str, Any]:
    """Values of all variables for the lanes of some warps, in blocks and turns of loops drawn evenly."""
    draw = np.random.default_rng(0)
    warps = draw.integers(0, max(1, kernel.threads // WARP_THREADS), (WARPS, 1))  # whole ones, if there are any
    thread = warps * WARP_THREADS + np.arange(min(WARP_THREADS, kernel.threads))
    x, y, _ = kernel.block
    values: dict[str, Any] = {"tx": thread % x, "ty": thread // x % y, "tz": thread // (x * y)}
    for name, blocks in zip(("bx", "by", "bz"), kernel.grid, strict=True):
        values[name] = draw.integers(0, blocks, (WARPS, 1))
    for variable in sorted({v for e in expressions for v in e.variables}, key=lambda v: v.name):
        if variable.name not in values:
            values[variable.name] = draw.integers(0, max(1, variable.extent), (WARPS, 1))
    return values
