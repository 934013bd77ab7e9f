"""The hardware's shared-memory swizzle, and recognising it in an allocation domain.

The xor patterns are those of the PTX ISA's tensor-copy swizzle modes (5.5.7): for a span of s bytes, bits of the
16-byte chunk number are xored with the address bits from 128 bytes up.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from compiler.analysis.allocation import offset_from_base
from compiler.ir.expr import Var, var
from compiler.ir.iter_domain import IterDomain
from compiler.ir.tensor import TensorView

SPANS = (32, 64, 128)
_MASKS = {0: 0x00, 32: 0x10, 64: 0x30, 128: 0x70}
CHUNK_BYTES = 16
MAX_TILE_ELEMS = 1 << 20
"""More than any tile that fits in shared memory has (227 KiB, CUDA C++ programming guide, "Compute Capabilities")."""


def swizzled_address(address: npt.NDArray[np.int64], span: int) -> npt.NDArray[np.int64]:
    """Where byte `address` of a dense tile goes in shared memory; the tile starts on a repeat of the pattern."""
    out: npt.NDArray[np.int64] = address ^ ((address >> 3) & _MASKS[span])
    return out


def repeat_bytes(span: int) -> int:
    """Bytes after which the pattern of a span starts again: the alignment that a tile needs in shared memory.

    128 without swizzle (CUDA guide, tensor copies); a pattern repeats after 8 spans (PTX ISA 5.5, swizzle modes).
    """
    return max(128, 8 * span)


@lru_cache(maxsize=4096)
def hardware_swizzle(t: TensorView, tile: tuple[IterDomain, ...]) -> int | None:
    """The span (0, 32, 64, 128) of the mode that puts every element of the tile where the allocation of `t` says.

    `tile`: base axes of `t`, innermost first, as the copy engine walks them. None if no mode does, and for
    a tile that fits in no shared memory.
    """
    if prod(a.extent for a in tile) > MAX_TILE_ELEMS:
        return None
    index = {axis: var(Var(f"t{i}", axis.extent)) for i, axis in enumerate(tile)}
    grids = np.meshgrid(*(np.arange(a.extent, dtype=np.int64) for a in reversed(tile)), indexing="ij")
    values = {f"t{i}": g for i, g in enumerate(reversed(grids))}
    wanted = offset_from_base(t, index).evaluate(values) * t.dtype.nbytes
    dense = np.zeros_like(grids[0])
    step = t.dtype.nbytes
    for i, axis in enumerate(tile):
        dense = dense + values[f"t{i}"] * step
        step *= axis.extent
    inner = tile[0].extent * t.dtype.nbytes
    for span in (0, *SPANS):
        if span and inner != span:
            continue
        if np.array_equal(wanted, swizzled_address(dense, span)):
            return span
    return None
