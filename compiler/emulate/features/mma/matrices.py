"""Operands of products in shared memory: descriptors, and where the elements of a matrix lie (PTX ISA, "Matrix
Descriptor Format", "Strides", "Canonical Layouts"; the same of `tcgen05`, "Shared memory descriptor").

With r a row of the operand (of A along M, of B along N), kb the byte of an element along k, mb its byte along the other
axis, and W the span of the swizzle, an element lies at

K-major, no swizzle     start + (r/8)*stride + (kb/16)*leading + (r%8)*16 + kb%16
K-major, W              X(start + (r/8)*stride + (r%8)*W + kb)
MN-major, no swizzle    start + (mb/16)*stride + (k/8)*leading + (k%8)*16 + mb%16
MN-major, W             X(start + (mb/W)*leading + (k/8)*stride + (k%8)*W + mb%W)

X is the xor of the swizzle, on the bits of the address itself, or with a base offset on those of the address less 128
times that (measured on an H100). These were computed against all worked examples of the manual and against images of
tensor copies. Chunks of 16 bytes stay together, so addresses are of chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from compiler.emulate.binder import UnknownForm
from compiler.emulate.features.tma.swizzle import SWIZZLES, Swizzle

Integers = npt.NDArray[np.int64]

CHUNK = 16
"""Bytes that lie together whatever the layout."""

DEPTH = 32
"""Bytes along k of an instruction, whatever the type."""

_FIELD = 0x3FFF
_BASE = 128
"""Bytes that base offsets count in."""

_LINES = 8
"""Rows of a core matrix, and lines of a swizzle's pattern."""


@dataclass(frozen=True, slots=True)
class SharedMatrix:
    """What a descriptor says, in bytes: `start` is the shared address, `leading` and `stride` are steps, `base` is how
    far the swizzle's pattern begins behind an address where its xor changes nothing."""

    start: int
    leading: int
    stride: int
    swizzle: Swizzle
    base: int = 0

    def placed(self, dense: Integers) -> Integers:
        """Where chunks go whose addresses in a dense matrix are these."""
        shifted = dense - self.base
        return dense ^ (shifted ^ self.swizzle.address(shifted))


def warpgroup_matrix(bits: int) -> SharedMatrix:
    """Decodes a descriptor of `wgmma` (PTX ISA, "Matrix Descriptor Format" of the warpgroup instructions).

    Raises ValueError, with what is wrong, for what none may hold.
    """
    layout = ("NONE", "128B", "64B", "32B")[bits >> 62]
    _expect_zeros(bits, ((14, 15), (30, 31), (46, 48), (52, 61)))
    return _decoded(bits, SWIZZLES[layout])


_LAYOUTS = {0: "NONE", 1: "128B_ATOM_32B", 2: "128B", 4: "64B", 6: "32B"}


def tensor_matrix(bits: int) -> SharedMatrix:
    """Decodes a descriptor of `tcgen05` (PTX ISA, "Shared memory descriptor").

    Raises as `warpgroup_matrix`, and UnknownForm for a base offset: no card was asked.
    """
    layout = _LAYOUTS.get(bits >> 61)
    if bits >> 46 & 7 != 1:
        raise ValueError(f"bits 48:46 are {bits >> 46 & 7:03b}, they must be 001")
    if layout is None:
        raise ValueError(f"the swizzle mode in bits 63:61 is {bits >> 61}, known are 0, 1, 2, 4 and 6")
    _expect_zeros(bits, ((14, 15), (30, 31), (53, 60)))
    if bits >> 49 & 7:
        raise UnknownForm("a matrix descriptor with a base offset (bits 51:49)")
    if bits >> 52 & 1:
        raise UnknownForm("a matrix descriptor with an absolute leading offset (bit 52)")
    return _decoded(bits, SWIZZLES[layout])


def _expect_zeros(bits: int, fields: tuple[tuple[int, int], ...]) -> None:
    for low, high in fields:
        if bits >> low & ((1 << (high - low + 1)) - 1):
            raise ValueError(
                f"bits {high}:{low} are not zero. Addresses and steps go in without their lowest four bits, shifted "
                "right, and masked to 14 bits"
            )


def _decoded(bits: int, swizzle: Swizzle) -> SharedMatrix:
    start, leading, stride = (CHUNK * (bits >> shift & _FIELD) for shift in (0, 16, 32))
    base = _BASE * (bits >> 49 & 7)
    span = swizzle.span
    if span and (start // span * span - base) % (_LINES * span):
        raise ValueError(
            f"it starts at {start:#x}, in line {start // span % _LINES} of a pattern of {_LINES} lines of {span} bytes "
            f"with a base offset (bits 51:49) of {bits >> 49 & 7}. With a base offset of zero a matrix begins in the "
            f"first line: align its memory to {_LINES * span} bytes"
        )
    return SharedMatrix(start, leading, stride, swizzle, base)


@lru_cache(8192)
def chunks_along_k(matrix: SharedMatrix, rows: int, chunks: int = DEPTH // CHUNK) -> Integers:
    """Addresses of the chunks of a K-major operand of so many rows, (rows, chunks). Raises ValueError where a row would
    leave the swizzle's lines."""
    span, nbytes = matrix.swizzle.span, CHUNK * chunks
    if span and matrix.start % span + nbytes > span:
        raise ValueError(
            f"the {nbytes} bytes along k from {matrix.start:#x} leave the line of {span} bytes. Steps along k go to "
            f"multiples of {nbytes} bytes in a line, then to the next box"
        )
    row, chunk = np.arange(rows)[:, None], np.arange(chunks)[None, :]
    pitch, step = (span, CHUNK) if span else (CHUNK, matrix.leading)
    dense = matrix.start + (row // _LINES) * matrix.stride + row % _LINES * pitch + chunk * step
    return matrix.placed(dense)


@lru_cache(8192)
def chunks_along_rows(matrix: SharedMatrix, rows: int, depth: int, nbytes: int) -> Integers:
    """Addresses of the chunks of an MN-major operand, (depth, chunks along the rows), of elements of `nbytes` bytes.
    Raises ValueError where it begins inside a line of the swizzle and goes past its end."""
    k, byte = np.arange(depth)[:, None], np.arange(0, rows * nbytes, CHUNK)[None, :]
    span = matrix.swizzle.span
    if span and matrix.start % span and matrix.start % span + rows * nbytes > span:
        raise ValueError(
            f"it begins at byte {matrix.start % span} of a line of {span} bytes and goes past its end. Begin at a line"
        )
    if span:
        across = byte // span * matrix.leading + byte % span
        dense = matrix.start + across + k // _LINES * matrix.stride + k % _LINES * span
    else:
        dense = matrix.start + byte // CHUNK * matrix.stride + k // _LINES * matrix.leading + k % _LINES * CHUNK
    return matrix.placed(dense)
