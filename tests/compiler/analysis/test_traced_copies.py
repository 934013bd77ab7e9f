"""Tensor maps and tiles of the schedules that traces make: sizes and strides bound, no axis of unknown extent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compiler.ir.ops import OpKind
from compiler.ir.tensor import CopyVia
from compiler.schedule.steps import (
    InlineAt,
    Merge,
    Reorder,
    SetAllocationDomain,
    SetMemory,
    Split,
    Step,
    Swizzle,
)
from tests.compiler.analysis.tma_copies import Dims, dims_of, mode_of, refusal
from tests.compiler.schedules import SHARED, P, parallel, unary
from tests.compiler.scheduling import load, scheduled, store

TMA = CopyVia.TMA
S, B = P.SERIAL, P.BULK

# Axes of extent one --------------------------------------------------------------------------------------------------

ONES = [
    pytest.param((1, 64), [*parallel("s", S, B)], [(64, 1, 64)], id="outside-the-tile"),
    pytest.param((1, 64), [*parallel("s", B, B)], [(64, 1, 64)], id="inside-the-tile"),
    pytest.param((64, 1), [Merge("s", 0), Split("s", 0, 16), *parallel("s", S, B)], [(64, 1, 16)], id="innermost"),
    pytest.param(
        (96, 200),
        [
            *(Split("s", 0, 16), Split("s", 2, 256), Reorder("s", ((0, 0), (2, 1), (1, 2), (3, 3)))),
            *(Merge("s", 0), *parallel("s", S, B, B)),
        ],
        [(200, 1, 256), (96, 200, 16)],
        id="the-only-tile-of-a-row",
    ),
    pytest.param((1, 1), [Merge("s", 0), Split("s", 0, 32), *parallel("s", S, B)], [(1, 1, 32)], id="of-one-element"),
]


@pytest.mark.parametrize(("shape", "taken", "dims"), ONES)
def test_axes_of_extent_one_are_no_dimensions(shape: Sequence[int], taken: list[Step], dims: Dims) -> None:
    """Nor do they hide what is merged with them."""
    assert dims_of(load(shape, *taken), "s") == dims


# Strides of the binding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strides", "dims"),
    [
        pytest.param((80, 1), [(64, 1, 32), (8, 80, 4)], id="padded-rows"),
        pytest.param((64, 1), [(64, 1, 32), (8, 64, 4)], id="dense"),
    ],
)
def test_strides_are_those_of_the_global_tensor(strides: tuple[int, int], dims: Dims) -> None:
    steps = [Split("s", 1, 32), Split("s", 0, 4), Reorder("s", ((2, 1),)), *parallel("s", S, S, B, B)]
    assert dims_of(load((8, 64), *steps, strides=strides), "s") == dims


FLAT = [Merge("s", 0), Split("s", 0, 32), *parallel("s", S, B)]


@pytest.mark.parametrize(
    ("shape", "strides", "dims"),
    [
        pytest.param((8, 64), (64, 1), [(512, 1, 32)], id="dense"),
        pytest.param((1, 64), (80, 1), [(64, 1, 32)], id="one-row"),
        pytest.param((8, 64), (80, 1), None, id="padded"),
    ],
)
def test_boxes_lie_in_a_merge_of_contiguous_axes(
    shape: Sequence[int], strides: Sequence[int], dims: Dims | None
) -> None:
    sf = load(shape, *FLAT, strides=strides)
    if dims is None:
        assert refusal(sf, "s") == "tma_merges_contiguous_axes"
    else:
        assert dims_of(sf, "s") == dims


def test_coordinates_may_merge_what_is_not_contiguous() -> None:
    """The merge is of axes without a Bulk part: coordinates come of it, the tensor map keeps its dimensions."""
    taken = [Merge("s", 0), *parallel("s", S, B)]
    assert dims_of(load((2, 4, 64), *taken, strides=(400, 80, 1)), "s") == [(64, 1, 64), (4, 80, 1), (2, 400, 1)]


# Boxes that would be too large ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "dims"),
    [
        pytest.param(4096, [(256, 1, 256), (16, 256, 8)], id="rows-of-a-box"),
        # No such view of it; the box is refused at launch.
        pytest.param(4000, [(4000, 1, 2048)], id="rows-that-do-not-divide"),
    ],
)
def test_a_line_is_viewed_as_rows_where_a_box_is_larger_than_any(size: int, dims: Dims) -> None:
    taken = [Split("s", 0, 256), Split("s", 0, 8), *parallel("s", S, B, B)]
    assert dims_of(load((size,), *taken), "s") == dims


def test_a_box_that_fits_is_one() -> None:
    taken = [Split("s", 0, 32), Split("s", 0, 8), *parallel("s", S, B, B)]
    assert dims_of(load((4096,), *taken), "s") == [(4096, 1, 256)]


# Loads that are views ------------------------------------------------------------------------------------------------


def test_a_permute_may_be_the_load() -> None:
    """The consumer's axes are the permuted ones; the tile lies in the order of the input."""
    fusion = unary((64, 96), OpKind.PERMUTE, dims=(1, 0), result=(96, 64))
    taken = [Split("w0", 1, 16), Split("w0", 0, 32), Reorder("w0", ((2, 1),)), *parallel("w0", S, S, B, B)]
    sf = scheduled(fusion, SetMemory("w0", SHARED, TMA), *taken)
    assert dims_of(sf, "w0") == [(96, 1, 32), (64, 96, 16)]
    assert mode_of(sf, "w0") is None
    sf = scheduled(fusion, SetMemory("w0", SHARED, TMA), *taken, SetAllocationDomain("w0", (0, 1, 3, 2)))
    assert dims_of(sf, "w0") == [(96, 1, 32), (64, 96, 16)]
    assert mode_of(sf, "w0") == 0


def test_a_broadcast_may_be_the_load_but_its_new_axis_is_no_box() -> None:
    fusion = unary((64,), OpKind.BROADCAST_TO, dims=(1,), result=(8, 64))
    sf = scheduled(fusion, SetMemory("w0", SHARED, TMA), *parallel("w0", S, B))
    assert dims_of(sf, "w0") == [(64, 1, 64)]


# The tile in shared memory -------------------------------------------------------------------------------------------

TILES = [
    pytest.param([*parallel("s", S, S, B, B)], 0, id="tile-axes-innermost"),
    pytest.param([Reorder("s", ((1, 2), (2, 1))), *parallel("s", S, B, S, B)], None, id="an-axis-inside-the-tile"),
    pytest.param([Reorder("s", ((1, 2), (2, 1))), *parallel("s", S, B, P.BIDX, B)], 0, id="a-block-axis-inside-it"),
    pytest.param([Reorder("s", ((1, 2), (2, 1))), *parallel("s", S, B, P.TIDX, B)], None, id="a-thread-axis-inside-it"),
    pytest.param([SetAllocationDomain("s", (0, 1, 3, 2)), *parallel("s", S, S, B, B)], None, id="columns-first"),
    pytest.param(
        [Reorder("s", ((2, 3),)), SetAllocationDomain("s", (0, 1, 3, 2)), *parallel("s", S, S, B, B)],
        0,
        id="not-the-order-of-the-loops",
    ),
    pytest.param(
        [SetAllocationDomain("s", (0, 1, 2, 3), (), (None, None, 36, 1)), *parallel("s", S, S, B, B)],
        None,
        id="padded-rows",
    ),
    pytest.param(
        [
            SetAllocationDomain("s", (0, 1, 2, 3), (Split("s", 3, 4), Split("s", 2, 8), Swizzle("s", 3, 4))),
            *parallel("s", S, S, B, B),
        ],
        128,
        id="swizzled",
    ),
]


def boxed(tv: str) -> list[Step]:
    """[64, 128] -> [4, 4, 16, 32]"""
    return [Split(tv, 1, 32), Split(tv, 0, 16), Reorder(tv, ((2, 1),))]


@pytest.mark.parametrize(("taken", "mode"), TILES)
def test_loads_fill_tiles_as_they_are_allocated(taken: list[Step], mode: int | None) -> None:
    sf = load((64, 128), *boxed("s"), *taken)
    assert dims_of(sf, "s") == [(128, 1, 32), (64, 128, 16)]
    assert mode_of(sf, "s") == mode


@pytest.mark.parametrize(
    ("shared", "mode"),
    [
        pytest.param([*boxed("s"), InlineAt("s", 2)], 0, id="scheduled-alike"),
        pytest.param(boxed("s"), 0, id="all-boxes-allocated"),
        pytest.param([*boxed("s"), SetAllocationDomain("s", (0, 1, 3, 2))], None, id="columns-first"),
        pytest.param(
            [Split("s", 0, 16), Split("s", 2, 32), SetAllocationDomain("s", (0, 2, 1, 3)), Split("s", 3, 4)],
            0,
            id="equal-splits-in-another-order-then-cut-for-threads",
        ),
        pytest.param([*boxed("s"), Split("s", 3, 4)], 0, id="cut-further-before-the-allocation"),
        pytest.param(
            [
                *boxed("s"),
                SetAllocationDomain("s", (0, 1, 2, 3), (Split("s", 3, 4), Split("s", 2, 8), Swizzle("s", 3, 4))),
            ],
            128,
            id="swizzled",
        ),
        pytest.param([*boxed("s"), SetAllocationDomain("s", (0, 1, 2, 3), (), (None, None, 36, 1))], None, id="padded"),
        pytest.param([Split("s", 1, 32), Split("s", 0, 16)], None, id="boxes-between-the-rows"),
        pytest.param([], None, id="not-split"),
        pytest.param([Split("s", 1, 16), Split("s", 0, 16)], None, id="split-by-another-factor"),
        pytest.param([Split("s", 1, 32)], None, id="split-in-one-dimension"),
    ],
)
def test_stores_find_the_tile_in_the_producer(shared: list[Step], mode: int | None) -> None:
    sf = store((64, 128), *boxed("v0"), *shared, *parallel("v0", S, S, B, B))
    assert dims_of(sf, "v0") == [(128, 1, 32), (64, 128, 16)]
    assert mode_of(sf, "v0") == mode


def test_loops_that_shuffle_the_tile_are_no_layout_of_the_engine() -> None:
    sf = load((64, 64), Swizzle("s", 0, 1), *parallel("s", B, B))
    assert refusal(sf, "s") == "swizzle_moves_chunks_of_16_bytes"
