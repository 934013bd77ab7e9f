"""What a tensor-map copy does, from the schedule of its consumer alone."""

from __future__ import annotations

import math
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
from tests.compiler.analysis.tma_copies import Dims, copy_of, dims_of, refusal
from tests.compiler.schedules import SHARED, P, parallel, unary
from tests.compiler.scheduling import load, scheduled, store

TMA = CopyVia.TMA
S, B = P.SERIAL, P.BULK


# Loads ---------------------------------------------------------------------------------------------------------------

LOADS = [
    # Box by partitioning
    pytest.param(
        (100, 200),
        [Split("s", 1, 64), Split("s", 0, 32), Reorder("s", ((2, 1),)), *parallel("s", S, S, B, B)],
        [(200, 1, 64), (100, 200, 32)],
        0,
        id="partitioning",
    ),
    pytest.param((1000,), [Split("s", 0, 256), *parallel("s", S, B)], [(1000, 1, 256)], 0, id="one-dimension"),
    pytest.param(
        (1000,), [Split("s", 0, 4, inner=False), *parallel("s", S, B)], [(1000, 1, 250)], 0, id="by-the-outer-factor"
    ),
    pytest.param((100,), [Split("s", 0, 128), *parallel("s", S, B)], [(100, 1, 128)], 0, id="box-past-the-size"),
    pytest.param(
        (10, 30, 256),
        [Merge("s", 0), Merge("s", 0), Split("s", 0, 256), *parallel("s", S, B)],
        [(76800, 1, 256)],
        0,
        id="merged-to-one-dimension",
    ),
    pytest.param(
        (6, 10, 64),
        [Merge("s", 0), Split("s", 0, 8), *parallel("s", S, B, B)],
        [(64, 1, 64), (60, 64, 8)],
        0,
        id="merged-rows",
    ),
    # Implicit boxes
    pytest.param((8, 64), [*parallel("s", B, B)], [(64, 1, 64), (8, 64, 8)], 0, id="implicit-whole"),
    pytest.param((8, 64), [*parallel("s", S, B)], [(64, 1, 64), (8, 64, 1)], 0, id="implicit-size-one"),
    pytest.param(
        (3, 5, 64), [*parallel("s", S, S, B)], [(64, 1, 64), (5, 64, 1), (3, 320, 1)], 0, id="two-implicit-size-ones"
    ),
    pytest.param(
        (3, 5, 64), [*parallel("s", S, B, B)], [(64, 1, 64), (5, 64, 5), (3, 320, 1)], 0, id="size-one-outside-a-box"
    ),
    pytest.param((1, 64), [*parallel("s", S, B)], [(64, 1, 64)], 0, id="a-dimension-of-one-is-none"),
    pytest.param((1, 64), [*parallel("s", B, B)], [(64, 1, 64), (1, 64, 1)], 0, id="unless-it-is-bulk"),
    # Box by rotation
    pytest.param(
        (1000,),
        [Split("s", 0, 64), Split("s", 1, 16), *parallel("s", S, S, B)],
        [(1000, 1, 16)],
        0,
        id="rotation-of-an-outer-split-that-does-not-divide",
    ),
    pytest.param(
        (1000,),
        [Split("s", 0, 128), Split("s", 1, 64), Split("s", 2, 16), *parallel("s", S, S, S, B)],
        [(1000, 1, 16)],
        0,
        id="rotation-twice",
    ),
    pytest.param(
        (1000,),
        [Split("s", 0, 16), Split("s", 0, 4), *parallel("s", S, S, B)],
        [(1000, 1, 16)],
        0,
        id="coordinates-may-be-cut-anyhow",
    ),
    pytest.param(
        (1024,),
        [Split("s", 0, 64), Split("s", 1, 48), *parallel("s", S, S, B)],
        [(64, 1, 48), (16, 64, 1)],
        0,
        id="no-rotation-through-an-inner-split-that-does-not-divide",
    ),
    # Views
    pytest.param(
        (8, 64),
        [Split("s", 1, 16), *parallel("s", B, B, B)],
        [(16, 1, 16), (4, 16, 4), (8, 64, 8)],
        0,
        id="divisible-view",
    ),
    pytest.param(
        (4096,),
        [Split("s", 0, 256), Split("s", 0, 8), *parallel("s", S, B, B)],
        [(256, 1, 256), (16, 256, 8)],
        0,
        id="one-dimension-as-rows-of-a-box",
    ),
    pytest.param(
        (64, 48),
        [Split("s", 0, 16), *parallel("s", B, S, B)],
        [(48, 1, 48), (4, 768, 4), (16, 48, 1)],
        None,
        id="every-sixteenth-row",
    ),
    # Order and layout of the shared tile
    pytest.param(
        (64, 32),
        [SetAllocationDomain("s", (1, 0)), *parallel("s", B, B)],
        [(64, 32, 64), (32, 1, 32)],
        0,
        id="order-of-the-shared-allocation",
    ),
    pytest.param(
        (64, 32),
        [Reorder("s", ((1, 0),)), SetAllocationDomain("s", (1, 0)), *parallel("s", B, B)],
        [(32, 1, 32), (64, 32, 64)],
        0,
        id="not-the-order-of-the-loops",
    ),
    pytest.param(
        (16, 32),
        [SetAllocationDomain("s", (0, 1), (), (36, 1)), *parallel("s", B, B)],
        [(32, 1, 32), (16, 32, 16)],
        None,
        id="a-padded-tile-has-no-mode",
    ),
    pytest.param(
        (64, 128),
        [Split("s", 1, 32), Split("s", 0, 16), *parallel("s", S, B, S, B)],
        [(128, 1, 32), (64, 128, 16)],
        None,
        id="an-allocated-axis-inside-the-tile",
    ),
    pytest.param(
        (64, 128),
        [Split("s", 1, 32), Split("s", 0, 16), *parallel("s", S, B, P.BIDX, B)],
        [(128, 1, 32), (64, 128, 16)],
        0,
        id="a-block-axis-inside-the-tile-is-not-allocated",
    ),
    pytest.param(
        (64, 128),
        [Split("s", 1, 32), Split("s", 0, 16), *parallel("s", S, B, P.TIDX, B)],
        [(128, 1, 32), (64, 128, 16)],
        None,
        id="a-thread-axis-inside-the-tile-is",
    ),
    pytest.param(
        (64, 128),
        [
            Split("s", 1, 32),
            Split("s", 0, 16),
            Reorder("s", ((1, 2), (2, 1))),
            SetAllocationDomain("s", (0, 1, 2, 3), (Split("s", 3, 4), Split("s", 2, 8), Swizzle("s", 3, 4))),
            *parallel("s", S, S, B, B),
        ],
        [(128, 1, 32), (64, 128, 16)],
        128,
        id="swizzled",
    ),
]


@pytest.mark.parametrize(("shape", "taken", "dims", "swizzle"), LOADS)
def test_loads(shape: Sequence[int], taken: list[Step], dims: Dims, swizzle: int | None) -> None:
    copy = copy_of(load(shape, *taken), "s")
    assert dims_of(copy) == dims
    assert copy.swizzle == swizzle
    assert (copy.global_tensor.name, copy.shared_tensor.name) == ("i0", "s")
    assert copy.tile_bytes == 4 * math.prod(box for _, _, box in dims)
    bulk = set(copy.shared_tensor.bulk_axes)
    assert {d.tile for d in copy.dims if d.tile is not None} == bulk
    assert all(d.tile is None or d.tile.extent == d.box for d in copy.dims)


@pytest.mark.parametrize(
    ("strides", "dims"),
    [
        pytest.param((80, 1), [(64, 1, 32), (8, 80, 4)], id="padded-rows"),
        pytest.param((1, 8), [(64, 8, 32), (8, 1, 4)], id="columns-contiguous"),
        pytest.param((64, 1), [(64, 1, 32), (8, 64, 4)], id="dense"),
    ],
)
def test_strides_are_those_of_the_global_tensor(strides: tuple[int, int], dims: Dims) -> None:
    steps = [Split("s", 1, 32), Split("s", 0, 4), Reorder("s", ((2, 1),)), *parallel("s", S, S, B, B)]
    assert dims_of(copy_of(load((8, 64), *steps, strides=strides), "s")) == dims


# Refusals, each beside the nearest schedule that is inferred ---------------------------------------------------------

ROWS = (8, 64)
FLAT = [Merge("s", 0), Split("s", 0, 32), *parallel("s", S, B)]

REFUSED = [
    pytest.param(ROWS, (64, 1), (80, 1), FLAT, FLAT, "tma_merges_contiguous_axes", id="merge-across-padding"),
    pytest.param((1, 64), (80, 1), None, FLAT, None, "", id="merge-with-one-row-is-contiguous"),
    pytest.param(
        (1024,),
        None,
        None,
        [Split("s", 0, 16), Split("s", 0, 4), *parallel("s", S, B, B)],
        [Split("s", 0, 24), Split("s", 0, 4), *parallel("s", S, B, B)],
        "tma_view_splits_divide",
        id="view-split-that-does-not-divide",
    ),
    pytest.param(
        (1000,),
        None,
        None,
        [Split("s", 0, 64), Split("s", 1, 16), *parallel("s", S, S, B)],
        [Split("s", 0, 64), Split("s", 1, 48), *parallel("s", S, S, B)],
        "tma_view_splits_divide",
        id="neither-rotation-nor-view",
    ),
    pytest.param(
        (64, 64), None, None, [*parallel("s", S, B)], [*parallel("s", S, S)], "tma_box_is_inferred", id="no-bulk-axis"
    ),
    pytest.param(
        (64, 64),
        None,
        None,
        [*parallel("s", B, B)],
        [Swizzle("s", 0, 1), *parallel("s", B, B)],
        "tma_box_is_inferred",
        id="swizzled-box",
    ),
]


@pytest.mark.parametrize(("shape", "fits", "breaks", "legal", "illegal", "rule"), REFUSED)
def test_refusals(
    shape: Sequence[int],
    fits: Sequence[int] | None,
    breaks: Sequence[int] | None,
    legal: list[Step],
    illegal: list[Step] | None,
    rule: str,
) -> None:
    copy_of(load(shape, *legal, strides=fits), "s")
    if illegal is not None:
        found = refusal(load(shape, *illegal, strides=breaks), "s")
        assert found.rule == rule
        assert found.where.startswith("s")
        assert found.fix


def test_coordinates_may_merge_what_is_not_contiguous() -> None:
    """The merge is of axes without a Bulk part: coordinates come of it, the tensor map keeps its dimensions."""
    taken = [Merge("s", 0), *parallel("s", S, B)]
    assert dims_of(copy_of(load((2, 4, 64), *taken, strides=(400, 80, 1)), "s")) == [
        (64, 1, 64),
        (4, 80, 1),
        (2, 400, 1),
    ]


# Loads that are views ------------------------------------------------------------------------------------------------


def test_a_permute_may_be_the_load() -> None:
    """The consumer's axes are the permuted ones; sizes and strides are those of the input's axes they stand for."""
    fusion = unary((64, 96), OpKind.PERMUTE, dims=(1, 0), result=(96, 64))
    taken = [Split("w0", 1, 16), Split("w0", 0, 32), Reorder("w0", ((2, 1),)), *parallel("w0", S, S, B, B)]
    sf = scheduled(fusion, SetMemory("w0", SHARED, TMA), *taken)
    assert dims_of(copy_of(sf, "w0")) == [(64, 96, 16), (96, 1, 32)]
    sf = scheduled(fusion, SetMemory("w0", SHARED, TMA), *taken, SetAllocationDomain("w0", (0, 1, 3, 2)))
    assert dims_of(copy_of(sf, "w0")) == [(96, 1, 32), (64, 96, 16)]


def test_a_broadcast_may_be_the_load_but_its_new_axis_is_no_box() -> None:
    fusion = unary((64,), OpKind.BROADCAST_TO, dims=(1,), result=(8, 64))
    sf = scheduled(fusion, SetMemory("w0", SHARED, TMA), *parallel("w0", S, B))
    assert dims_of(copy_of(sf, "w0")) == [(64, 1, 64)]
    sf = scheduled(fusion, SetMemory("w0", SHARED, TMA), *parallel("w0", B, B))
    assert refusal(sf, "w0").rule == "tma_box_is_inferred"


# Stores --------------------------------------------------------------------------------------------------------------


def boxed(tv: str) -> list[Step]:
    """[64, 128] -> [4, 4, 16, 32]"""
    return [Split(tv, 1, 32), Split(tv, 0, 16), Reorder(tv, ((2, 1),))]


@pytest.mark.parametrize(
    ("shared", "dims", "swizzle"),
    [
        pytest.param([*boxed("s"), InlineAt("s", 2)], [(128, 1, 32), (64, 128, 16)], 0, id="scheduled-alike"),
        pytest.param(boxed("s"), [(128, 1, 32), (64, 128, 16)], 0, id="all-boxes-allocated"),
        pytest.param(
            [*boxed("s"), SetAllocationDomain("s", (0, 1, 3, 2))],
            [(64, 128, 16), (128, 1, 32)],
            0,
            id="order-of-the-shared-allocation",
        ),
        pytest.param(
            [Split("s", 0, 16), Split("s", 2, 32), SetAllocationDomain("s", (0, 2, 1, 3)), Split("s", 3, 4)],
            [(128, 1, 32), (64, 128, 16)],
            0,
            id="equal-splits-in-another-order-then-cut-for-threads",
        ),
        pytest.param(
            [
                *boxed("s"),
                SetAllocationDomain("s", (0, 1, 2, 3), (Split("s", 3, 4), Split("s", 2, 8), Swizzle("s", 3, 4))),
            ],
            [(128, 1, 32), (64, 128, 16)],
            128,
            id="swizzled",
        ),
        pytest.param(
            [*boxed("s"), SetAllocationDomain("s", (0, 1, 2, 3), (), (None, None, 36, 1))],
            [(128, 1, 32), (64, 128, 16)],
            None,
            id="padded",
        ),
        pytest.param(
            [Split("s", 1, 32), Split("s", 0, 16)], [(128, 1, 32), (64, 128, 16)], None, id="boxes-between-the-rows"
        ),
    ],
)
def test_stores_find_the_tile_in_the_producer(shared: list[Step], dims: Dims, swizzle: int | None) -> None:
    copy = copy_of(store((64, 128), *shared, *boxed("v0"), *parallel("v0", S, S, B, B)), "v0")
    assert dims_of(copy) == dims
    assert copy.swizzle == swizzle
    assert (copy.global_tensor.name, copy.shared_tensor.name) == ("v0", "s")
    assert {d.tile for d in copy.dims} == set(copy.global_tensor.bulk_axes), "tiles are axes of the consumer"


@pytest.mark.parametrize(
    "shared",
    [
        pytest.param([], id="not-split"),
        pytest.param([Split("s", 1, 16), Split("s", 0, 16)], id="split-by-another-factor"),
        pytest.param([Split("s", 1, 32)], id="split-in-one-dimension"),
        pytest.param([*boxed("s"), Split("s", 3, 4)], id="cut-further-before-the-allocation"),
    ],
)
def test_a_tile_that_is_no_axis_of_the_producer_is_refused(shared: list[Step]) -> None:
    found = refusal(store((64, 128), *shared, *boxed("v0"), *parallel("v0", S, S, B, B)), "v0")
    assert found.rule == "tile_axes_are_shared_allocation_axes"
    assert found.where == "v0 <- s"
