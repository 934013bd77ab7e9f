"""Swizzled boxes: the domain that is built is the one that is recognised, and both are the hardware's address bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.memory.bank_conflicts import wavefronts
from compiler.analysis.memory.swizzle import (
    dense_index,
    offsets_of,
    repeat_bytes,
    swizzle_mode,
    swizzled_address,
    swizzled_index,
)
from compiler.arch import SWIZZLE_SPANS
from compiler.dtypes import DType
from compiler.ir.algebra import forward
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Var, const
from compiler.ir.iter_domain import ParallelType
from compiler.schedule import steps as st
from compiler.schedule.steps import Step, Transform
from tests.compiler.analysis.swizzle_steps import swizzle_steps
from tests.compiler.analysis.tile_maps import placement, rules
from tests.compiler.scheduling import load, store
from tests.shares import inside

DTYPES = (
    DType.F64,
    DType.F32,
    DType.BF16,
    DType.F16,
    DType.I8,
    DType.I64,
    DType.I32,
    DType.F8E4M3,
    DType.C64,
    DType.C128,
)
MODES = (0, *SWIZZLE_SPANS)


def boxed(box: Sequence[int], dtype: DType, span: int, tiles: int = 1) -> ScheduledFusion:
    """A load of whole boxes (extents innermost first), `tiles` of them outside, laid out by the built domain."""
    shape = (tiles, *reversed(box))
    built = swizzle_steps("s", dtype, box, span, at=1)
    bulk = [st.Parallelize("s", i + 1, ParallelType.BULK) for i in range(len(box))]
    return load(shape, *bulk, st.SetAllocationDomain("s", tuple(range(len(shape))), built), dtype=dtype)


def offsets(sf: ScheduledFusion) -> list[int]:
    """Bytes from the start of the allocation, element for element of the tensor, one at a time."""
    t = sf.tensor("s")
    assert t.allocation is not None
    layout = layout_of(t)
    found = []
    for index in np.ndindex(*(a.extent for a in t.logical)):
        known = {a: const(i) for a, i in zip(t.logical, index, strict=True)}
        at = layout.offset(forward(known, t.allocation.exprs))
        assert at.is_const
        found.append(at.const * t.dtype.nbytes)
    return found


@inside("dtype", DTYPES)
@inside("span", MODES)
@pytest.mark.parametrize("outer", [(8,), (3,), (20,), (2, 5), (3, 1, 4), ()], ids=str)
def test_what_is_built_is_recognised(dtype: DType, span: int, outer: tuple[int, ...]) -> None:
    box = ((span or 64) // dtype.nbytes, *outer)
    sf = boxed(box, dtype, span)
    tile = tuple(reversed(sf.tensor("s").loop[1:]))
    found = placement(sf, tile, span)
    assert rules(found) == []
    assert found.swizzle == span
    assert found.align == repeat_bytes(span)


@pytest.mark.parametrize("dtype", [DType.F64, DType.BF16, DType.I8])
@pytest.mark.parametrize("span", MODES)
@pytest.mark.parametrize("outer", [(9,), (2, 5)], ids=str)
def test_what_is_built_is_the_address_bits(dtype: DType, span: int, outer: tuple[int, ...]) -> None:
    """Element i of the dense run goes where the table of PTX ISA 5.5.7 puts byte i * size."""
    box = ((span or 64) // dtype.nbytes, *outer)
    sf = boxed(box, dtype, span)
    dense = np.arange(int(np.prod(box))) * dtype.nbytes
    np.testing.assert_array_equal(offsets(sf), swizzled_address(dense, span))


@pytest.mark.parametrize("span", MODES)
def test_the_index_map_is_the_address_bits(span: int) -> None:
    for dtype in DTYPES:
        tile = (Var("x", 128 // dtype.nbytes), Var("y", 64))
        found = offsets_of(swizzled_index(dense_index(tile), span, dtype.nbytes), tile) * dtype.nbytes
        np.testing.assert_array_equal(found, swizzled_address(np.arange(128 * 64 // dtype.nbytes) * dtype.nbytes, span))


@pytest.mark.parametrize("span", SWIZZLE_SPANS)
def test_the_domain_is_the_document_s(span: int) -> None:
    """[-1, s, 8/s, s, 16 bytes], s chunks to a span (nvFuser, TMA: "Data swizzle")."""
    t = boxed((span // 2, 24), DType.BF16, span).tensor("s")
    assert t.allocation is not None
    s = span // 16
    assert [a.extent for a in t.allocation.axes] == [1, 3, s, 8 // s, s, 8]


def test_no_steps_without_a_swizzle() -> None:
    assert swizzle_steps("s", DType.F32, (5, 7), 0) == ()


@pytest.mark.parametrize(
    ("dtype", "box", "span", "says"),
    [
        (DType.F32, (32, 8), 96, "span: found 96"),
        (DType.F4E2M1, (256, 8), 128, "dtype: found f4e2m1"),
        (DType.F32, (16, 8), 128, r"box\[0\]: found 64 bytes, expected the span, 128"),
        (DType.F32, (64, 8), 128, r"box\[0\]: found 256 bytes"),
        (DType.F32, (), 128, r"box\[0\]: found 0 bytes"),
    ],
)
def test_what_cannot_be_built_is_refused(dtype: DType, box: tuple[int, ...], span: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        swizzle_steps("s", dtype, box, span)


# Near misses ---------------------------------------------------------------------------------------------------------

F32 = DType.F32
MODE, CHUNK, PATTERN, CONTIGUOUS = (
    "swizzled_layout_is_a_hardware_mode",
    "swizzle_moves_chunks_of_16_bytes",
    "swizzled_tile_starts_on_the_pattern",
    "tile_is_contiguous_in_shared_memory",
)


def rows(shape: tuple[int, int], *transforms: Transform) -> ScheduledFusion:
    """A load of one box [rows, columns] whose allocation is viewed so."""
    bulk = [st.Parallelize("s", i, ParallelType.BULK) for i in range(2)]
    return load(shape, *bulk, st.SetAllocationDomain("s", (0, 1), transforms))


def cut(phase: int, chunks: int, unit: int) -> list[Transform]:
    return [st.Split("s", 1, unit), st.Split("s", 0, phase), st.Split("s", 0, chunks), st.Swizzle("s", 1, 3)]


NEAR = [
    pytest.param((16, 32), cut(1, 8, 4), 128, [], id="128B"),
    pytest.param((16, 16), cut(2, 4, 4), 64, [], id="64B"),
    pytest.param((16, 8), cut(4, 2, 4), 32, [], id="32B"),
    pytest.param((16, 16), cut(1, 4, 4), 64, [MODE], id="64B with the phase of every row"),
    pytest.param((16, 8), cut(2, 2, 4), 32, [MODE], id="32B with the phase of every second row"),
    pytest.param((16, 32), cut(1, 4, 8), 128, [CHUNK], id="chunks of 32 bytes"),
    pytest.param((16, 16), cut(1, 8, 2), 64, [CHUNK], id="chunks of 8 bytes"),
    pytest.param((16, 32), [*cut(1, 8, 4), st.Reorder("s", ((1, 3),))], 128, [MODE], id="128B and moved on"),
    pytest.param(
        (16, 64),
        [st.Split("s", 1, 32), *cut(1, 8, 4)[1:3], st.Split("s", 4, 4), st.Swizzle("s", 1, 4)],
        128,
        [],
        id="rows of 256 bytes are the tensor map's breach",
    ),
    pytest.param((16, 32), [*cut(1, 8, 4), st.Swizzle("s", 1, 3)], 128, [MODE], id="swizzled twice is not swizzled"),
    pytest.param(
        (16, 32), [*cut(1, 8, 4), st.Merge("s", 3), st.Merge("s", 1)], 128, [], id="128B viewed as rows again"
    ),
    pytest.param((16, 32), [*cut(1, 8, 4), st.Split("s", 4, 3)], 128, [CONTIGUOUS], id="128B with holes in each chunk"),
    pytest.param((1, 32), [], 128, [], id="one row is the same in every mode"),
    pytest.param((2, 32), [], 128, [MODE], id="two rows are not"),
]


@pytest.mark.parametrize(("shape", "transforms", "declared", "breaks"), NEAR)
def test_near_misses(shape: tuple[int, int], transforms: list[Transform], declared: int, breaks: list[str]) -> None:
    sf = rows(shape, *transforms)
    columns, lines = reversed(sf.tensor("s").loop[-2:])
    assert rules(placement(sf, (columns, lines), declared)) == breaks


@pytest.mark.parametrize(
    ("rows_of_a_tile", "together", "breaks"),
    [(8, True, []), (4, True, [PATTERN]), (12, True, [PATTERN]), (4, False, []), (12, False, [])],
    ids=["8 rows", "4 rows", "12 rows", "4 rows rounded up to 8", "12 rows rounded up to 16"],
)
def test_tiles_start_on_the_pattern(rows_of_a_tile: int, together: bool, breaks: list[str]) -> None:
    """Tiles of a 128 byte swizzle whose rows follow one another, or are rounded up tile by tile."""
    flat: list[Transform] = [st.Merge("s", 0), *cut(1, 8, 4)] if together else [shift(s) for s in cut(1, 8, 4)]
    split: list[Step] = [] if together else [st.Split("s", 0, rows_of_a_tile)]
    tiles: list[Step] = [st.Split("v0", 0, rows_of_a_tile)]
    allocation = st.SetAllocationDomain("s", tuple(range(3 - together)), tuple(flat[together:]))
    sf = store((48, 32), *split, allocation, *tiles)
    _, lines, columns = sf.tensor("v0").loop
    assert rules(placement(sf, (columns, lines), 128)) == breaks


def shift(s: Transform) -> Transform:
    match s:
        case st.Split(tv, axis, factor):
            return st.Split(tv, axis + 1, factor)
        case st.Swizzle(tv, x, y):
            return st.Swizzle(tv, x + 1, y + 1)
        case _:
            raise AssertionError(s)


@given(some.sampled_from(SWIZZLE_SPANS), some.sampled_from(DTYPES), some.integers(1, 20), some.data())
def test_any_view_of_a_mode_is_that_mode(span: int, dtype: DType, lines: int, data: some.DataObject) -> None:
    """Merging what was cut, or cutting it evenly again, moves nothing (nvFuser, TMA: "arbitrary view")."""
    box = (span // dtype.nbytes, lines)
    built: list[Transform] = list(swizzle_steps("s", dtype, box, span))
    extents = [-(-lines // 8), span // 16, 128 // span, span // 16, 16 // dtype.nbytes]
    for _ in range(data.draw(some.integers(0, 4))):
        i = data.draw(some.integers(0, len(extents) - 1))
        if data.draw(some.booleans()) and i + 1 < len(extents):
            built.append(st.Merge("s", i))
            extents[i : i + 2] = [extents[i] * extents[i + 1]]
        else:
            factor = data.draw(some.sampled_from([f for f in range(1, extents[i] + 1) if extents[i] % f == 0]))
            built.append(st.Split("s", i, factor))
            extents[i : i + 1] = [extents[i] // factor, factor]
    sf = rows_of(dtype, (lines, box[0]), built)
    found = placement(sf, tuple(reversed(sf.tensor("s").loop)), span)
    assert rules(found) == []
    assert found.swizzle == span


def rows_of(dtype: DType, shape: tuple[int, int], transforms: list[Transform]) -> ScheduledFusion:
    bulk = [st.Parallelize("s", i, ParallelType.BULK) for i in range(2)]
    return load(shape, *bulk, st.SetAllocationDomain("s", (0, 1), tuple(transforms)), dtype=dtype)


@given(some.permutations(range(5)), some.sampled_from(SWIZZLE_SPANS))
def test_a_mode_is_recognised_by_its_addresses_alone(order: list[int], span: int) -> None:
    """Chunks in any order of their axes: the mode is found if and only if every address is the mode's."""
    base = cut(128 // span, span // 16, 4)
    sf = rows((16, span // 4), *base, st.Reorder("s", tuple(enumerate(order))))
    dense = np.arange(16 * span // 4) * 4
    is_mode = np.array_equal(offsets(sf), swizzled_address(dense, span))
    assert (placement(sf, tuple(reversed(sf.tensor("s").loop)), span).swizzle == span) is is_mode


def test_several_modes_agree_on_few_rows_and_the_likely_one_goes_first() -> None:
    tile = (Var("x", 32), Var("y", 1))
    assert swizzle_mode(dense_index(tile), tile, 32, F32) == 0
    assert swizzle_mode(dense_index(tile), tile, 32, F32, likely=128) == 128
    assert swizzle_mode(dense_index(tile), tile, 32, F32, likely=64) == 0


# The documents' claim: neither rows nor columns have bank conflicts ---------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("span", "dense_column"), [(32, 8), (64, 16), (128, 32)])
def test_rows_and_columns_of_chunks_have_no_conflicts(dtype: DType, span: int, dense_column: int) -> None:
    """A warp on 32 chunks along the rows, or on one chunk of each of 32 rows, takes the 4 wavefronts that 512 bytes
    must; without the swizzle the column takes 8, 16 or 32."""
    for mode, column_takes in ((span, 4), (0, dense_column)):
        at = np.array(offsets(boxed((span // dtype.nbytes, 64), dtype, mode))).reshape(64, -1)
        chunks = at[:, :: 16 // dtype.nbytes]
        assert {wavefronts(lanes.tolist(), 16) for lanes in chunks.reshape(-1, 32)} == {4}
        columns = [lanes for c in chunks.T for lanes in c.reshape(-1, 32)]
        assert {wavefronts(lanes.tolist(), 16) for lanes in columns} == {column_takes}
