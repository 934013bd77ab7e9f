"""Who holds what of the matrices of a product: registers of a warp to matrices, and back (PTX ISA, "Matrix Fragments
for mma.m16n8k16", "Register Fragments for wgmma").

Lane l has g = l / 4 and t = l % 4. All element types lie alike once rows are taken as 32-bit words along k, word w of a
row being the elements w*E to w*E + E - 1 of E a word:

A       register r: row g + 8*(r % 2), word t + 4*(r / 2)
B       register r: word t + 4*r of column g
C, D    element i: row g + 8*((i / 2) % 2), column 2*t + i % 2 + 8*(i / 4); 16-bit elements two a register

A warp has 16 rows of A and D, a warpgroup 64: those of its first warp first. D of `mma.sync` is 8 columns wide, of
`wgmma` any multiple of 8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.threads import WARP

Words = npt.NDArray[np.uint32]
Array = npt.NDArray[Any]

ROWS = 16
"""Rows of A and D that a warp holds."""

_G, _T = 8, 4


def rows_of_a(registers: Words) -> Words:
    """(warps * 32, registers) to (warps * 16, words): the rows of A."""
    count = registers.shape[1]
    parts = registers.reshape(-1, _G, _T, count // 2, 2)
    return parts.transpose(0, 4, 1, 3, 2).reshape(-1, 2 * count)


def columns_of_b(registers: Words) -> Words:
    """(warps * 32, registers) to (warps, 8, words): the columns of B."""
    count = registers.shape[1]
    parts = registers.reshape(-1, _G, _T, count)
    return parts.transpose(0, 1, 3, 2).reshape(-1, _G, _T * count)


def rows_of_d(registers: Words, dtype: np.dtype[Any]) -> Array:
    """(warps * 32, registers) to (warps * 16, columns): the rows of C or D, of a type of 4 or 2 bytes."""
    elements = np.ascontiguousarray(registers).view(dtype)
    parts = elements.reshape(-1, _G, _T, elements.shape[1] // 4, 2, 2)
    return parts.transpose(0, 4, 1, 3, 2, 5).reshape(-1, 2 * elements.shape[1])


def registers_of_d(rows: Array) -> Words:
    """(warps * 16, columns) to (warps * 32, registers): the inverse of `rows_of_d`."""
    columns = rows.shape[1]
    parts = rows.reshape(-1, 2, _G, columns // 8, _T, 2).transpose(0, 2, 4, 3, 1, 5)
    return np.ascontiguousarray(parts).reshape(-1, columns // 2).view(np.uint32)


def register_count(columns: int, dtype: np.dtype[Any]) -> int:
    """32-bit registers a lane of a D that is `columns` wide."""
    return ROWS * columns * dtype.itemsize // (4 * WARP)
