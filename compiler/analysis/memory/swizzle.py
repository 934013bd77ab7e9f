"""The hardware's shared-memory swizzle: its addresses, its index map, and recognising it in a layout.

The xor patterns are those of the PTX ISA's tensor-copy swizzle modes (5.5.7): for a span of s bytes, bits of the
16-byte chunk number are xored with the address bits from 128 bytes up. As a map of axes that is the domain
[-1, s, 8/s, s, 16 bytes] with the second axis xored into the fourth, s spans counted in chunks (nvFuser, TMA: "Data
swizzle").
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from compiler.arch import SMEM_LINE_BYTES, SWIZZLE_CHUNK_BYTES, SWIZZLE_SPANS
from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, every_part, var

CHUNKS_OF_A_LINE = SMEM_LINE_BYTES // SWIZZLE_CHUNK_BYTES
MAX_TILE_ELEMS = 1 << 20
"""More than any tile that fits in shared memory has (227 KiB, CUDA C++ programming guide, "Compute Capabilities")."""

_LIMIT = 1 << 58
"""An offset in elements below it is one in bytes, or in bits, of 64 bits."""

Offsets = npt.NDArray[np.int64]


def swizzled_address(address: Offsets, span: int) -> Offsets:
    """Where byte `address` of a dense tile goes in shared memory; the tile starts on a repeat of the pattern."""
    out: Offsets = address ^ ((address // CHUNKS_OF_A_LINE) & chunk_mask(span) * SWIZZLE_CHUNK_BYTES)
    return out


def chunk_mask(span: int) -> int:
    """Bits of a chunk's number that a swizzle of so many bytes changes, by the same bits of the number of its line
    (PTX ISA 5.5, swizzle modes); none for span 0."""
    return max(0, span // SWIZZLE_CHUNK_BYTES - 1)


def repeat_bytes(span: int) -> int:
    """Bytes after which the pattern of a span starts again: the alignment that a tile needs in shared memory.

    128 without swizzle (CUDA guide, tensor copies); a pattern repeats after 8 spans (PTX ISA 5.5, swizzle modes).
    """
    return max(128, 8 * span)


def swizzled_index(dense: Expr, span: int, nbytes: int) -> Expr:
    """Where element `dense` of a tile goes, elements of `nbytes` bytes; the tile starts on a repeat of the pattern."""
    if span == 0:
        return dense
    unit, row = SWIZZLE_CHUNK_BYTES // nbytes, span // nbytes
    y, column = dense // row, dense % row
    phase = y // (SMEM_LINE_BYTES // span) % (span // SWIZZLE_CHUNK_BYTES)
    return y * row + ((column // unit) ^ phase) * unit + column % unit


def dense_index(tile: Sequence[Var]) -> Expr:
    """The place of a tile's element as the copy engine walks it; `tile`: its indices, innermost first."""
    index, step = Expr(), 1
    for v in tile:
        index, step = index + var(v) * step, step * v.extent
    return index


def offsets_of(offset: Expr, tile: Sequence[Var]) -> Offsets:
    """The offset of every element of a tile, in the order of the dense run. `offset` must be one to enumerate."""
    dense = np.arange(prod(v.extent for v in tile), dtype=np.int64)
    values: dict[str, Offsets] = {}
    step = 1
    for v in tile:
        values[v.name] = dense // step % v.extent
        step *= v.extent
    return np.broadcast_to(np.asarray(offset.evaluate(values), dtype=np.int64), dense.shape)


def can_enumerate(e: Expr) -> bool:
    """True where no part of it leaves 64 bits, as flat indices of absurdly large tensors do."""
    return every_part(e, lambda part: part.lo > -_LIMIT and part.hi < _LIMIT)


def swizzle_mode(offset: Expr, tile: Sequence[Var], row: int, dtype: DType, likely: int = 0) -> int | None:
    """The span (0, 32, 64, 128) of the mode that puts each element of a tile at `offset` elements from its start.

    `tile`: indices, innermost first; `row`: elements of the innermost dimension, which is one span under a swizzle
    (nvFuser, TMA: "Data swizzle"). Several modes agree on a tile of few rows: `likely` goes first, then the smallest.
    None if no mode does, or none is proved for a tile that fits in no shared memory.
    """
    spans = _candidates(row, dtype, likely)
    dense = dense_index(tile)
    for span in spans:
        if offset == swizzled_index(dense, span, dtype.nbytes):
            return span
    if prod(v.extent for v in tile) > MAX_TILE_ELEMS or not can_enumerate(offset):
        return None
    found = mode_of_tiles(offsets_of(offset, tile)[np.newaxis], row, dtype, likely)
    return None if found is None else found[0]


def mode_of_tiles(offsets: Offsets, row: int, dtype: DType, likely: int = 0) -> tuple[int, int] | None:
    """The span of the mode that makes these layouts of tiles, and a step in elements at whose multiples they start.

    `offsets`: [tiles, elements] in the order of the dense run, from an address on a repeat of the pattern: a mode xors
    address bits, so a tile that starts between two repeats is shuffled by those of its own address.
    """
    dense = np.arange(offsets.shape[1], dtype=np.int64) * dtype.nbytes
    for span in _candidates(row, dtype, likely):
        unshuffled = swizzled_address(offsets * dtype.nbytes, span)
        starts = unshuffled[:, :1]
        if (unshuffled - starts == dense).all():
            return span, int(np.gcd.reduce(starts, axis=None)) // dtype.nbytes
    return None


def _candidates(row: int, dtype: DType, likely: int) -> tuple[int, ...]:
    fitting = tuple(s for s in (0, *SWIZZLE_SPANS) if s in (0, row * dtype.nbytes))
    return (likely, *(s for s in fitting if s != likely)) if likely in fitting else fitting
