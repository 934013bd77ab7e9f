"""The examples of the TMA document: the tutorial's kernels, and figures 13 and 14, with the document's numbers."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CopyVia
from compiler.schedule.steps import (
    CacheInput,
    CacheOutput,
    Merge,
    Parallelize,
    Reorder,
    SetAllocationDomain,
    Split,
    Step,
    Swizzle,
)
from tests.compiler.analysis.tma_copies import Dims, dims_of, mode_of, refusal
from tests.compiler.schedules import SHARED, P, from_wire, parallel, unary
from tests.compiler.scheduling import load, scheduled, store

TMA = CopyVia.TMA
S, B = P.SERIAL, P.BULK

# The tutorial's kernels ---------------------------------------------------------------------------------------------


def flat(tv: str, tiles: int) -> list[Step]:
    cut: list[Step] = [Split(tv, 0, tiles)] if tiles else []
    return [Merge(tv, 0), Merge(tv, 0), Split(tv, 0, 256), *cut]


def boxes_of_32(tv: str, *, reorder: bool) -> list[Step]:
    moves: list[Step] = [Reorder(tv, ((2, 3), (3, 5)))] if reorder else []
    return [Split(tv, 2, 32), Split(tv, 1, 32), Split(tv, 3, 2), Split(tv, 1, 2), *moves]


IN_3D = [(300, 1, 32), (300, 300, 32), (300, 90000, 1)]


@pytest.mark.parametrize(
    ("sf", "output", "dims"),
    [
        pytest.param(
            load((300, 300, 300), *flat("s", 0), *parallel("s", P.BIDX, B)), "s", [(27000000, 1, 256)], id="example-1"
        ),
        pytest.param(
            load((300, 300, 300), *flat("s", 4), *parallel("s", P.BIDX, S, B)),
            "s",
            [(27000000, 1, 256)],
            id="example-2",
        ),
        pytest.param(
            load((300, 300, 300), *flat("s", 4), *parallel("s", P.BIDX, P.TIDX, B)),
            "s",
            [(27000000, 1, 256)],
            id="example-3",
        ),
        pytest.param(
            store(
                (300, 300, 300),
                *flat("v0", 4),
                *parallel("v0", P.BIDX, P.TIDX, B),
                *flat("s", 4),
                *parallel("s", P.BIDX, S, P.TIDX),
            ),
            "v0",
            [(27000000, 1, 256)],
            id="example-4",
        ),
        pytest.param(
            load(
                (300, 300, 300),
                *boxes_of_32("s", reorder=True),
                SetAllocationDomain("s", tuple(range(7))),
                *parallel("s", P.BIDX, P.BIDY, P.BIDZ, P.TIDX, S, B, B),
            ),
            "s",
            IN_3D,
            id="example-5",
        ),
        pytest.param(
            store(
                (300, 300, 300),
                *boxes_of_32("s", reorder=True),
                SetAllocationDomain("s", tuple(range(7))),
                *boxes_of_32("v0", reorder=False),
                *parallel("v0", P.BIDX, P.BIDY, P.TIDX, B, P.BIDZ, S, B),
                Merge("s", 5),
                *parallel("s", P.BIDX, P.BIDY, P.BIDZ, S, S, P.TIDX),
            ),
            "v0",
            IN_3D,
            id="example-6",
        ),
    ],
)
def test_basic_examples_of_the_tutorial(sf: ScheduledFusion, output: str, dims: Dims) -> None:
    assert dims_of(sf, output) == dims
    assert mode_of(sf, output) == 0


def test_the_tutorials_loads_for_a_vectorized_store() -> None:
    """Two loads of 4 x 256 boxes by 132 blocks; here the box is not cut again by the store's vector width."""
    inputs = [{"name": n, "shape": [16384, 16384], "dtype": "f32"} for n in ("a", "b")]
    fusion = from_wire(inputs, [{"op": "add", "in": ["a", "b"], "out": "y"}], "y")
    taken: list[Step] = []
    for name in ("i0", "i1"):
        s = f"{name}_s"
        taken += [CacheInput(name, s, SHARED, TMA), Split(s, 1, 256), Split(s, 0, 4), Split(s, 0, 132)]
        taken += [Reorder(s, ((3, 2),)), *parallel(s, S, P.BIDX, S, B, B)]
    sf = scheduled(fusion, *taken)
    for s in ("i0_s", "i1_s"):
        assert dims_of(sf, s) == [(16384, 1, 256), (16384, 16384, 4)]
        assert mode_of(sf, s) == 0


def test_the_tutorials_broadcast_of_a_discontiguous_operand() -> None:
    """[2, 4, 256] beside [32, 2, 4, 256], whose last two dimensions are one run and whose first two are another:
    three copies of two dimensions with boxes of 256 by 1."""
    inputs = [
        {"name": "a", "shape": [2, 4, 256], "dtype": "f32"},
        {"name": "b", "shape": [32, 2, 4, 256], "dtype": "f32", "strides": [4096, 2048, 256, 1]},
    ]
    ops: list[dict[str, Any]] = [
        {"op": "broadcast_to", "in": ["a"], "out": "x", "shape": [32, 2, 4, 256], "dims": [1, 2, 3]},
        {"op": "add", "in": ["x", "b"], "out": "y"},
    ]

    def tiles(tv: str) -> list[Step]:
        return [Merge(tv, 2), Split(tv, 2, 256), Merge(tv, 0), Split(tv, 1, 4), Merge(tv, 0)]

    sf = scheduled(
        from_wire(inputs, ops, "y"),
        CacheInput("i0", "i0_s", SHARED, TMA),
        CacheInput("i1", "i1_s", SHARED, TMA),
        CacheOutput("v1", "v1_s", SHARED, TMA),
        *(Merge("i0_s", 1), Split("i0_s", 1, 256), Split("i0_s", 1, 4), Merge("i0_s", 0)),
        *parallel("i0_s", P.BIDX, P.TIDX, B),
        *(*tiles("i1_s"), *parallel("i1_s", P.BIDX, P.TIDX, B)),
        *(*tiles("v1_s"), *parallel("v1_s", P.BIDX, P.UNROLL, P.TIDX)),
        *(*tiles("v1"), *parallel("v1", P.BIDX, P.TIDX, B)),
    )
    assert dims_of(sf, "i0_s") == [(1024, 1, 256), (2, 1024, 1)]
    assert dims_of(sf, "i1_s") == [(1024, 1, 256), (64, 2048, 1)]
    assert dims_of(sf, "v1") == [(1024, 1, 256), (64, 1024, 1)]
    assert [mode_of(sf, tv) for tv in ("i0_s", "i1_s", "v1")] == [0, 0, 0]


def test_the_tutorials_bank_conflict_free_transpose() -> None:
    """10000 x 10000 f32 in tiles of 32 x 32: a load with the 128-byte swizzle, a store without."""
    fusion = unary((10000, 10000), OpKind.PERMUTE, dims=(1, 0), result=(10000, 10000))

    def tiles(tv: str) -> list[Step]:
        return [Split(tv, 1, 32), Split(tv, 0, 32), Reorder(tv, ((2, 0),)), Merge(tv, 0), Parallelize(tv, 0, P.BIDX)]

    chunks = (Split("in_smem", 2, 4), Split("in_smem", 1, 8), Swizzle("in_smem", 2, 3))
    sf = scheduled(
        fusion,
        CacheInput("i0", "in_smem", SHARED, TMA),
        CacheOutput("v0", "out_smem", SHARED, TMA),
        *(*tiles("v0"), Parallelize("v0", 1, B), Parallelize("v0", 2, B)),
        *(*tiles("out_smem"), SetAllocationDomain("out_smem", (0, 1, 2))),
        *(Split("out_smem", 1, 4), Merge("out_smem", 1, 3), Parallelize("out_smem", 1, P.TIDX)),
        *(Split("in_smem", 1, 32), Split("in_smem", 0, 32), Reorder("in_smem", ((2, 1),)), Merge("in_smem", 0)),
        SetAllocationDomain("in_smem", (0, 1, 2), chunks),
        *parallel("in_smem", P.BIDX, B, B),
    )
    for tv in ("in_smem", "v0"):
        assert dims_of(sf, tv) == [(10000, 1, 32), (10000, 10000, 32)]
    assert (mode_of(sf, "in_smem"), mode_of(sf, "v0")) == (128, 0)


# Figures 13 and 14 of the TMA document: tiles must be contiguous in shared memory -------------------------------------


def figure(tv: str, height: int, width: int) -> list[Step]:
    return [Split(tv, 1, width), Split(tv, 0, height)]


@pytest.mark.parametrize(
    ("sf", "output", "box", "contiguous"),
    [
        pytest.param(
            load((16, 10), *figure("s", 4, 6), *parallel("s", P.BIDX, B, S, B)), "s", [6, 4], False, id="figure-13b"
        ),
        pytest.param(
            load((16, 10), *figure("s", 4, 10), *parallel("s", P.BIDX, B, S, B)), "s", [10, 4], True, id="figure-14b"
        ),
        pytest.param(
            load((16, 200), *figure("s", 4, 128), *parallel("s", S, B, P.TIDX, B)),
            "s",
            [128, 4],
            False,
            id="figure-13c",
        ),
        pytest.param(
            load((16, 200), *figure("s", 1, 128), *parallel("s", S, B, P.TIDX, B)),
            "s",
            [128, 1],
            True,
            id="figure-14c",
        ),
        pytest.param(
            store(
                (16, 10),
                *figure("s", 4, 6),
                SetAllocationDomain("s", (0, 1, 2, 3)),
                *figure("v0", 4, 6),
                *parallel("v0", S, B, S, B),
                *parallel("s", P.TIDX, S, P.TIDY),
            ),
            "v0",
            [6, 4],
            False,
            id="figure-13e",
        ),
        pytest.param(
            store(
                (16, 10),
                *figure("s", 4, 16),
                SetAllocationDomain("s", (0, 1, 2, 3)),
                *figure("v0", 4, 16),
                *parallel("v0", S, B, S, B),
                *parallel("s", P.TIDX, S, P.TIDY),
            ),
            "v0",
            [16, 4],
            True,
            id="figure-14e",
        ),
    ],
)
def test_figures_13_and_14(sf: ScheduledFusion, output: str, box: list[int], contiguous: bool) -> None:
    assert [n for _, _, n in dims_of(sf, output)] == box
    assert mode_of(sf, output) == (0 if contiguous else None)


def test_figure_13d_a_stored_tile_that_cuts_the_rows_of_the_shared_tensor() -> None:
    taken = [Parallelize("s", 0, P.TIDX), *figure("v0", 4, 8), *parallel("v0", S, B, S, B)]
    assert refusal(store((16, 12), *taken, dtype=DType.F64), "v0") == "tile_is_contiguous_in_shared_memory"
