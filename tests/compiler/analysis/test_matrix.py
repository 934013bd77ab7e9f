"""Fragments of ldmatrix and stmatrix found in index maps: lanes hold what the map says, and none is missed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from numpy.typing import NDArray

from compiler.analysis.memory.matrix import MatrixFragment, fragment_of, halves_of, matrices_in, named_rows
from compiler.ir.expr import Expr, Var, const, var

THREADS = 64
THREAD_BITS = 6
CHUNK_ELEMS = {1: 16, 2: 8, 4: 4}
"""Of 16 bytes, by the bytes of an element."""


def bits(of: Expr, count: int) -> list[Expr]:
    return [of // (1 << i) % 2 for i in range(count)]


def mapped(strides: Sequence[int], width: int, phase: int, nbytes: int) -> Expr:
    """The offset to which each bit of the thread, then of the vector's element, adds its stride; the number of the
    16-byte chunk in its row of eight is xored with the bits of the offset from `phase` on, if there is one."""
    count = width.bit_length() - 1
    sources = [*bits(var(Var("tx", THREADS)), THREAD_BITS), *bits(var(Var("lane", width)), count)]
    parts = sorted(zip(strides, sources, strict=False), key=lambda part: part[0])
    offset = sum((bit * stride for stride, bit in parts), Expr())
    if not phase:
        return offset
    chunk, line = CHUNK_ELEMS[nbytes], 8 * CHUNK_ELEMS[nbytes]
    return offset // line * line + (offset // chunk % 8 ^ offset // (line * phase) % 8) * chunk + offset % chunk


def held(offset: Expr, width: int) -> NDArray[np.int64]:
    """[element, thread]."""
    values = {"tx": np.arange(THREADS)[None, :], "lane": np.arange(width)[:, None]}
    return np.broadcast_to(np.asarray(offset.evaluate(values), np.int64), (width, THREADS))


def spread(found: MatrixFragment, width: int, nbytes: int) -> NDArray[np.int64]:
    """The offsets of what lanes hold, by the rows that lanes name (PTX ISA, ldmatrix: fragments)."""
    t, element = np.arange(THREADS)[None, :], np.arange(width)[:, None]
    if nbytes == 4:  # a word of each matrix
        return np.asarray(found.row.evaluate({"tx": t // 32 * 32 + 8 * element + t % 32 // 4}), np.int64) + t % 4
    unit = 2 // nbytes
    matrix, half, byte = element // (2 * unit), element // unit % 2, element % unit
    pair = 2 * (t % 4) + half
    row, column = (pair, t % 32 // 4) if found.is_transposed else (t % 32 // 4, pair)
    named = np.asarray(found.row.evaluate({"tx": t // 32 * 32 + 8 * matrix + row}), np.int64)
    return named + column * unit + byte


def is_fragment(places: NDArray[np.int64], nbytes: int) -> bool:
    """By looking at every element: rows of 16 bytes, aligned, along the lines or along the pairs."""
    if nbytes == 4:
        words = places.reshape(-1, THREADS // 32, 8, 4)
        return bool((words == words[..., :1] + np.arange(4)).all() and (words[..., 0] % CHUNK_ELEMS[4] == 0).all())
    unit, warps = 2 // nbytes, places.reshape(-1, 2, 2 // nbytes, THREADS // 32, 8, 4)
    line, pair = np.arange(8)[:, None], np.arange(4)
    half, byte = np.arange(2)[:, None, None, None, None], np.arange(unit)[:, None, None, None]
    for first, along in (
        (warps[:, :, :1, :, :1], line * unit + byte),
        (warps[:, :1, :1, :, :, :1], (2 * pair + half) * unit + byte),
    ):
        if (warps == first + along).all() and (first % CHUNK_ELEMS[nbytes] == 0).all():
            return True
    return False


@settings(derandomize=True, deadline=None)
@given(
    nbytes=some.sampled_from([1, 2, 4]),
    count=some.sampled_from([1, 2, 4]),
    phase=some.sampled_from([0, 1, 2, 8]),
    swapped=some.lists(some.tuples(some.integers(0, 9), some.integers(0, 9)), max_size=2),
    is_plain=some.booleans(),
)
def test_fragments_are_those_of_the_instruction(
    nbytes: int, count: int, phase: int, swapped: list[tuple[int, int]], is_plain: bool
) -> None:
    width = 4 * count // nbytes
    # Bits: of the pair (2), of the line (3), of the warp; of the byte (of bytes alone), of the half, of the matrix.
    inside = {1: ["b", "h"], 2: ["h"], 4: []}[nbytes]
    places = ["p0", "p1", "l0", "l1", "l2", "w", *[*inside, "m0", "m1"][: width.bit_length() - 1]]
    row = [*inside[:-1], *(["h", "p0", "p1"] if is_plain else ["l0", "l1", "l2"])]
    order = [n for n in row if n in places] + sorted(n for n in places if n not in row)
    strides = [1 << order.index(name) for name in places]
    for one, other in swapped:
        i, j = one % len(strides), other % len(strides)
        strides[i], strides[j] = strides[j], strides[i]
    offset = mapped(strides, width, phase, nbytes)
    found, there = fragment_of(offset, width, nbytes, THREADS), held(offset, width)
    assert (found is not None) == is_fragment(there, nbytes)
    if found is not None:
        np.testing.assert_array_equal(spread(found, width, nbytes), there)
        rows, is_transposed = named_rows(halves_of(there[:, :32] * nbytes, nbytes))
        lanes = np.asarray(found.row.evaluate({"tx": np.arange(len(rows))})) * nbytes
        assert is_transposed == found.is_transposed
        np.testing.assert_array_equal(rows, lanes)
        assert len(rows) == 8 * matrices_in(width, nbytes)


@pytest.mark.parametrize(("width", "nbytes", "threads"), [(8, 2, 48), (1, 2, 64), (4, 4, 64), (2, 8, 64), (2, 1, 64)])
def test_there_is_none_of_parts(width: int, nbytes: int, threads: int) -> None:
    """Of parts of a warp, of half a pair, of words that do not lie side by side, of wider elements."""
    assert fragment_of(const(0), width, nbytes, threads) is None
