"""ldmatrix and stmatrix on arrays: which element of whose row a lane holds (PTX ISA, ldmatrix: matrix fragments)."""

from __future__ import annotations

import numpy as np

from compiler.lower.kernel_ir import MatrixLoad, MatrixStore
from tests.compiler.lower.interpreted_values import Array, KernelFault

ROW_BYTES = 16
_WARP, _ROWS = 32, 8


def naming(width: int, nbytes: int, threads: Array) -> Array:
    """Which threads, of whole warps, give the address of a row. Raises KernelFault where lanes of a warp lack."""
    if len(threads) % _WARP or (threads.reshape(-1, _WARP) != threads[::_WARP, None] + np.arange(_WARP)).any():
        raise KernelFault("matrices_are_moved_by_whole_warps", f"threads {threads}")
    named: Array = threads % _WARP < _ROWS * (width * nbytes // 4)
    return named


def spread(s: MatrixLoad, rows: Array) -> Array:
    """The rows that lanes name, bytes [named, 16], as what lanes hold: bits [lane of the vector, thread]."""
    nbytes = s.target.dtype.nbytes
    matrices = rows.view(np.uint16).reshape(-1, s.width * nbytes // 4, _ROWS, _ROWS)
    warps, count = matrices.shape[:2]
    lines = matrices.swapaxes(2, 3) if s.is_transposed else matrices
    held = lines.reshape(warps, count, _WARP, 2).transpose(0, 2, 1, 3).reshape(warps * _WARP, 2 * count)
    return np.ascontiguousarray(np.ascontiguousarray(held).view(np.uint8 if nbytes == 1 else np.uint16).T)


def gathered(s: MatrixStore, held: Array) -> Array:
    """The rows that lanes name, bytes [named, 16], of what they hold: bits [lane of the vector, thread]."""
    words = np.ascontiguousarray(held.T).view(np.uint16)
    warps, count = len(words) // _WARP, words.shape[1] // 2
    lines = words.reshape(warps, _WARP, count, 2).transpose(0, 2, 1, 3).reshape(warps, count, _ROWS, _ROWS)
    matrices = lines.swapaxes(2, 3) if s.is_transposed else lines
    return np.ascontiguousarray(matrices).reshape(-1, _ROWS).view(np.uint8)
