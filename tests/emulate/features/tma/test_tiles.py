"""Tiles of tensor maps against an oracle that goes element by element, as the PTX ISA and the driver API have it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.emulate.features.tma.elements import DTYPES
from compiler.emulate.features.tma.placement import CopiedTile, filled, gathered_at, places, tile_at
from compiler.emulate.features.tma.tensor_map import DecodedMap, decode, encode, problems
from compiler.emulate.launch import EmulatedTensorMap

Bytes = npt.NDArray[np.uint8]

SPANS = {"NONE": 256, "32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128, "128B_ATOM_32B_FLIP_8B": 128}


@st.composite
def tiles(draw: st.DrawFn) -> tuple[DecodedMap, tuple[int, ...], int]:
    """A map of a tensor of at most 46 KiB at address 0, coordinates in and around it, a shared address."""
    rank = draw(st.integers(1, 5))
    dtype = draw(st.sampled_from(["u8", "bf16", "f32", "f64"]))
    size = DTYPES[dtype].nbytes
    swizzle = draw(st.sampled_from(sorted(SPANS)))
    row = draw(st.sampled_from([n for n in (16, 32, 64, 128) if n <= SPANS[swizzle]]))
    dims = [draw(st.integers(1, 160 // size)), *(draw(st.integers(1, 4)) for _ in range(rank - 1))]
    strides: list[int] = []
    for extent in ([dims[0] * size, *dims[1:]])[: rank - 1]:
        step = extent if not strides else strides[-1] * extent
        strides.append(-(-step // 16) * 16 + draw(st.sampled_from([0, 16])))
    box = [row // size, *(draw(st.integers(1, 4)) for _ in range(rank - 1))]
    steps = [1, *(draw(st.integers(1, 3)) for _ in range(rank - 1))]
    fill = draw(st.sampled_from(["zero", "nan"])) if dtype[0] in "bf" else "zero"
    m = EmulatedTensorMap("x", dtype, tuple(dims), tuple(strides), tuple(box), tuple(steps), swizzle, "NONE", fill)
    decoded = decode(encode(m, 0))
    assert decoded is not None
    assert problems(decoded, 100) == []
    column = draw(st.integers(-2, 12)) * (16 // size)
    coordinates = (column, *(draw(st.integers(-2, 5)) for _ in range(rank - 1)))
    return decoded, coordinates, draw(st.integers(0, 15)) * 128


def elements(m: DecodedMap, at: Sequence[int]) -> list[tuple[int, bool]]:
    """The elements of a tile in the order of shared memory: byte offset in the tensor, and whether it lies in it."""
    extents = [-(-m.box[i] // (m.element_strides[i] if i else 1)) for i in range(m.rank)]
    found = []
    for outer_first in product(*(range(n) for n in reversed(extents))):
        step = outer_first[::-1]
        place = [c + n * (m.element_strides[i] if i else 1) for i, (c, n) in enumerate(zip(at, step, strict=True))]
        inside = all(0 <= p < d for p, d in zip(place, m.dims, strict=False))
        strides = (m.type.nbytes, *m.strides)
        found.append((sum(p * s for p, s in zip(place, strides, strict=False)), inside))
    return found


def gather(tile: CopiedTile, memory: Bytes) -> Bytes:
    found = [memory[s : s + tile.run] for s in tile.starts.tolist()]
    return np.array(found, np.uint8).reshape(len(found), tile.run)


@given(tiles(), st.integers(0, 1 << 32))
def test_a_load_brings_what_the_oracle_says_where_it_says(
    given_tile: tuple[DecodedMap, tuple[int, ...], int], seed: int
) -> None:
    m, coordinates, address = given_tile
    memory = np.random.default_rng(seed).integers(0, 256, 1 << 16, np.uint8)
    tile = tile_at(m, coordinates, store=False)
    rows = filled(tile, gather(tile, memory), m.type, m.fill == 1)
    size = m.type.nbytes
    blank = np.frombuffer(m.type.nan, np.uint8) if m.fill else np.zeros(size, np.uint8)
    expected = [memory[o : o + size] if inside else blank for o, inside in elements(m, coordinates)]
    np.testing.assert_array_equal(rows.reshape(-1, size), np.array(expected))
    assert tile.nbytes == len(expected) * size

    at, unit = places(m, np.arange(tile.rows), tile.row_bytes, address)
    shared = np.zeros(1 << 16, np.uint8)
    for place, run in zip(at.tolist(), rows.reshape(-1, unit), strict=True):
        shared[place : place + unit] = run
    for number, value in enumerate(expected):
        row, column = divmod(number, m.box[0])
        dense = address + row * max(m.row_bytes, m.swizzle.span) + column * size
        place = int(m.swizzle.address(np.array([dense]))[0])
        np.testing.assert_array_equal(shared[place : place + size], value)


@given(tiles())
def test_a_store_writes_what_lies_inside_and_on_to_16_bytes(
    given_tile: tuple[DecodedMap, tuple[int, ...], int],
) -> None:
    m, coordinates, _ = given_tile
    coordinates = tuple(abs(c) for c in coordinates)
    tile = tile_at(m, coordinates, store=True)
    written = {b for s in tile.starts.tolist() for b in range(s, s + tile.run)}
    size = m.type.nbytes
    inside = {o + b for o, is_inside in elements(m, coordinates) if is_inside for b in range(size)}
    ends = {(-(-(m.dims[0] * size) // 16) * 16)} if m.rank == 1 else set()
    assert inside <= written
    past = written - inside
    assert all((b % 16) and b - 1 in written for b in past), "only the rest of 16 bytes that the row's end begins"
    if ends and written:
        assert max(written) < max(ends)
    assert tile.run % 16 == 0


@pytest.mark.parametrize(
    ("dims", "column", "run"),
    [((8, 2), 0, 32), ((5, 2), 0, 32), ((4, 2), 0, 16), ((6, 2), 4, 16), ((4, 2), 4, 0)],
    ids=str,
)
def test_a_row_of_a_store_ends_at_16_bytes(dims: tuple[int, int], column: int, run: int) -> None:
    m = decode(encode(EmulatedTensorMap("x", "f32", dims, (64,), (8, 2), (1, 1)), 0))
    assert m is not None
    assert tile_at(m, (column, 0), store=True).run == run
    assert tile_at(m, (column, 0), store=False).run == max(0, 4 * (min(dims[0], column + 8) - column))


def test_gather_takes_four_rows_of_one_column() -> None:
    m = decode(encode(EmulatedTensorMap("x", "f32", (16, 10), (64,), (8, 1), (1, 1)), 4096))
    assert m is not None
    tile = gathered_at(m, (4, 7, 0, 10, -1), store=False)
    assert (tile.rows, tile.row_bytes, tile.run) == (4, 32, 32)
    assert tile.inside.tolist() == [0, 1]
    assert tile.starts.tolist() == [7 * 64 + 16, 16]


def test_copies_keep_subnormal_numbers_whatever_the_type() -> None:
    """Measured on an H200: FLOAT32_FTZ changes no value of a load."""
    m = decode(encode(EmulatedTensorMap("x", "FLOAT32_FTZ", (4,), (), (4,), (1,)), 0))
    assert m is not None
    values = np.array([1e-40, -1e-40, 2.0, np.inf], np.float32)
    rows = filled(tile_at(m, (0,), store=False), values.view(np.uint8)[None], m.type, False)
    assert rows.view(np.float32).tolist() == [values.tolist()]
