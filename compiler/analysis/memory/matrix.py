"""Matrices that the lanes of a warp move together between shared memory and their registers.

ldmatrix and stmatrix take 8 rows of 16 bytes a matrix, of which each lane names one and holds parts of others. Of an
8 x 8 matrix of 16-bit elements lane t holds in one register, elements 0 and 1 of it b, (PTX ISA, ldmatrix, stmatrix)

    row t / 4, column 2 * (t % 4) + b        or, transposed,        row 2 * (t % 4) + b, column t / 4

and lane 8 * i + r gives the address of row r of matrix i. A schedule says which element of the shared tensor a thread
has in which place of its vector. That is a fragment of matrices if the columns of a row lie side by side, from a
multiple of 16 bytes on. The rows may lie anywhere: transposed, a lane's 8 elements may be 8 neighbours of a column. Of
bytes, the instruction takes two neighbours of a row for one element. Of words it takes one for two, so that they stay
whole: lane t has word t % 4 of row t / 4, and nothing transposes them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.id.indexing import lane_variable
from compiler.arch import MATRIX_ELEMENT_BYTES, MATRIX_ROW_BYTES, MATRIX_ROWS, REGISTER_BYTES, WARP_THREADS
from compiler.ir.expr import Expr, Var, const, unmarked, var

_PAIR = 2
"""Elements of a matrix in one register."""


@dataclass(frozen=True, slots=True)
class MatrixFragment:
    """The matrices that a warp moves in one instruction: `row`, in elements of the shared tensor, is where the row lies
    whose address the thread gives."""

    is_transposed: bool
    row: Expr


def matrices_in(width: int, nbytes: int) -> int:
    """Matrices of which a lane holds `width` elements of `nbytes` bytes."""
    return width * nbytes // (_PAIR * MATRIX_ELEMENT_BYTES)


def fragment_of(offset: Expr, width: int, nbytes: int, threads: int) -> MatrixFragment | None:
    """The fragment that a shared tensor is accessed as, whose element in place `lane` of the vector of thread `tx` lies
    at `offset`; None where it is none. `width`: elements of the vector, of `nbytes` bytes each; `threads`: of the
    block, along x.
    """
    if threads % WARP_THREADS or nbytes > REGISTER_BYTES or width * nbytes % REGISTER_BYTES:
        return None
    if nbytes == REGISTER_BYTES:
        return _words(offset, width, threads)
    unit, count = MATRIX_ELEMENT_BYTES // nbytes, matrices_in(width, nbytes)
    thread, lane = Var("tx", threads), lane_variable(width)
    warp, line, pair = (
        Var("fragment_warp", threads // WARP_THREADS),
        Var("fragment_line", MATRIX_ROWS),
        Var("fragment_pair", 4),
    )
    matrix, half, byte = Var("fragment_matrix", count), Var("fragment_half", _PAIR), Var("fragment_byte", unit)
    here = unmarked(offset).substitute(
        {
            thread: var(warp) * WARP_THREADS + var(line) * (WARP_THREADS // MATRIX_ROWS) + var(pair),
            lane: (var(matrix) * _PAIR + var(half)) * unit + var(byte),
        }
    )
    named, whose = var(thread) % MATRIX_ROWS, (var(thread) // MATRIX_ROWS) % count
    at = {warp: var(thread) // WARP_THREADS, matrix: whose, byte: const(0)}
    row = MATRIX_ROW_BYTES // nbytes
    if _moves_by(here, {line: const(0), byte: const(0)}, var(line) * unit + var(byte), row):
        rows = {**at, line: const(0), pair: named // _PAIR, half: named % _PAIR}
        return MatrixFragment(True, here.substitute(rows))
    along = (var(pair) * _PAIR + var(half)) * unit + var(byte)
    if _moves_by(here, {pair: const(0), half: const(0), byte: const(0)}, along, row):
        return MatrixFragment(False, here.substitute({**at, line: named, pair: const(0), half: const(0)}))
    return None


def _words(offset: Expr, width: int, threads: int) -> MatrixFragment | None:
    """The fragment of words, one of each matrix in a lane."""
    thread, matrix, pair = Var("tx", threads), lane_variable(width), Var("fragment_pair", 4)
    warp, line = Var("fragment_warp", threads // WARP_THREADS), Var("fragment_line", MATRIX_ROWS)
    lane = var(line) * (WARP_THREADS // MATRIX_ROWS) + var(pair)
    here = unmarked(offset).substitute({thread: var(warp) * WARP_THREADS + lane})
    if not _moves_by(here, {pair: const(0)}, var(pair), MATRIX_ROW_BYTES // REGISTER_BYTES):
        return None
    named, whose = var(thread) % MATRIX_ROWS, (var(thread) // MATRIX_ROWS) % width
    row = {warp: var(thread) // WARP_THREADS, matrix: whose, line: named, pair: const(0)}
    return MatrixFragment(False, here.substitute(row))


def halves_of(places: NDArray[np.int64], nbytes: int) -> NDArray[np.int64]:
    """Byte addresses of a warp's elements, [element, lane], as those of what the instruction takes for elements."""
    if nbytes == REGISTER_BYTES:
        return np.stack([places, places + MATRIX_ELEMENT_BYTES], 1).reshape(-1, places.shape[1])
    return places[:: MATRIX_ELEMENT_BYTES // nbytes]


def named_rows(places: NDArray[np.int64]) -> tuple[NDArray[np.int64], bool]:
    """Where the rows lie whose addresses the first lanes give, and whether lanes hold the matrices transposed, of what
    a warp holds: byte addresses [element of 16 bits, lane], two elements of each matrix."""
    named = np.arange(MATRIX_ROWS * (len(places) // _PAIR))
    matrix, row = named // MATRIX_ROWS, named % MATRIX_ROWS
    is_transposed = bool((places[:, WARP_THREADS // MATRIX_ROWS] - places[:, 0] == MATRIX_ELEMENT_BYTES).all())
    if is_transposed:
        return places[_PAIR * matrix + row % _PAIR, row // _PAIR], True
    return places[_PAIR * matrix, row * (WARP_THREADS // MATRIX_ROWS)], False


def _moves_by(offset: Expr, origin: dict[Var, Expr], column: Expr, row: int) -> bool:
    """Whether the elements of a row lie side by side, from a multiple of its `row` elements on."""
    first = offset.substitute(origin)
    return offset - first == column and first.divisible_by(row)
