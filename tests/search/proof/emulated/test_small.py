"""Small bindings: what they keep of the served one, and what their kernels have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.emit.cuda import emit
from compiler.errors import Unsupported
from compiler.ir.expr import Expr, Var, var
from compiler.ir.fusion import Fusion
from compiler.ir.ops import REDUCTIONS, OpKind
from compiler.lower import kernel_ir as k
from compiler.lower.traversal import walk
from compiler.pipeline import Generated
from search.proof.small.binding import Small, small_binding
from search.proof.small.resize import Dims
from search.proof.small.structure import structure
from search.proof.small.tiling import tilings
from tests.search.proof.emulated.kernels import kernel_at, kernels_of
from tests.search.schedulers.fusions import add, silu_of_sum, suite_fusions
from tests.search.schedulers.permute_fusions import permuted
from tests.search.schedulers.points import generated
from tests.shares import shared

SUITE = {
    name: fusion
    for name, fusion in suite_fusions().items()
    if not any(op.kind in REDUCTIONS | {OpKind.MEAN, OpKind.CAT} for op in fusion.ops)
}
"""Fusions whose schedules say which elements each block writes; the others are sized as test_shrunk.py has it."""


def pairs(fusion: Fusion, count: int = 2) -> list[tuple[Generated, Small]]:
    """Kernels with their small bindings. Tiles over merged dimensions may have none below the limit of elements: of
    their kernels the served blocks alone are run, and there are never more of them than of the others."""
    found: list[tuple[Generated, Small]] = []
    without = 0
    for made in kernels_of(fusion, 11, 4 * count, most_trips=1000):
        try:
            found.append((made, small_binding(made)))
        except Unsupported:
            without += 1
        if len(found) == count:
            break
    assert len(found) >= max(2, without)
    return found


@pytest.mark.parametrize("name", shared(SUITE, 4))
def test_a_small_binding_keeps_the_class(name: str) -> None:
    for served, small in pairs(SUITE[name]):
        made = small.generated
        assert structure(made.kernel) == structure(served.kernel)
        assert made.kernel.index_bits == served.kernel.index_bits
        assert made.alignments == served.alignments
        was, now = tilings(served.only.trace), small.tilings
        assert now == tilings(made.only.trace)
        for output, tiling in now.items():
            for run in tiling.runs:
                large, little = was[output].extent(run), tiling.extent(run)
                assert little <= large
                assert little // run.tile >= min(2, large // run.tile)
                assert bool(little % run.tile) == bool(large % run.tile)
        for value in served.trace.fusion.values:
            of = small.fusion.value(value.name)
            assert (of.dtype, of.align, len(of.shape)) == (value.dtype, value.align, len(value.shape))
            assert [s == 0 for s in of.strides] == [s == 0 for s in value.strides]
        assert next(iter(now.values())).tiles <= 64


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_rings_go_round_more_than_once(stages: int) -> None:
    """Barriers come back to their first phase, and one round more."""
    served = kernel_at(SUITE["silu_mul_bf16_8192x14336"], "flat", 1000, load="bulk", stages=stages, blocks_per_sm=4)
    small = small_binding(served)
    tiling, rounds = next(iter(small.tilings.values())), next(iter(tilings(served.only.trace).values())).trips
    assert tiling.grid in (2, 3)
    assert tiling.trips >= min(rounds, 2 * stages + 1)


PHASES: dict[str, Any] = {
    "load": "cp_async",
    "layout": "phases",
    "shift_load": True,
    "shift_store": True,
    "tile_in": 128,
    "lanes_out": 32,
    "threads": 128,
    "load_vector": 8,
}


@pytest.mark.parametrize(
    "point",
    [
        pytest.param({"blocks_per_sm": 1, "stages": 3, "tile_out": 128, "row_span": "sector"}, id="at-the-same-column"),
        pytest.param(
            {"blocks_per_sm": 2, "stages": 2, "tile_out": 256, "vector_out": 2, "halo": True}, id="two-columns"
        ),
        pytest.param({"blocks_per_sm": 2, "stages": 3, "tile_out": 64, "vector_out": 2, "halo": True}, id="of-many"),
    ],
)
def test_blocks_of_rings_turn_over_columns_as_the_served_ones(point: dict[str, Any]) -> None:
    """Of 33 tiles of a row 132 blocks take the same in every round; of 17, or of 65, 264 blocks do not. Where rows lie
    in shared memory depends on the number of their tile."""
    served = generated("tile2d", permuted((4099, 8191), (1, 0), "bf16"), **PHASES, **point)
    small = small_binding(served)
    assert small.tilings
    assert structure(small.generated.kernel) == structure(served.kernel)


def test_wide_indices_stay_wide() -> None:
    """More than 2^31 elements: the small kernel computes in 64 bits though it need not."""
    served, small = pairs(add([1 << 17, 1 << 15], "bf16"))[0]
    assert served.kernel.index_bits == small.generated.kernel.index_bits == 64
    assert "typedef u64 Index" in small.generated.source
    assert small.generated.source == emit(small.generated.kernel)


def test_a_kernel_that_is_small_already_is_its_own() -> None:
    served, small = pairs(add([7, 33], "f32"))[0]
    assert small.fusion.value("i0").shape[-1] <= 7 * 33
    assert structure(small.generated.kernel) == structure(served.kernel)


# Sizes --------------------------------------------------------------------------------------------------------------


def resized(fusion: Fusion, sizes: tuple[int, ...]) -> Fusion:
    dims, output = Dims(fusion), fusion.outputs[0]
    return dims.resized({dims.of((output, d)): n for d, n in enumerate(sizes)})


def test_sizes_reach_every_value_that_has_them() -> None:
    small = resized(silu_of_sum([32, 64, 96, 512], [1, 3], "f32"), (2, 3, 4, 5))
    shapes = [small.value(name).shape for name in (*small.inputs, *small.outputs)]
    assert shapes == [(2, 3, 4, 5), (3, 5), (2, 3, 4, 5)]
    assert small.binding_hash != silu_of_sum([32, 64, 96, 512], [1, 3], "f32").binding_hash


@pytest.mark.parametrize(
    ("strides", "sizes", "expected"),
    [
        pytest.param([4096, 1], (3, 64), (64, 1), id="dense"),
        pytest.param([4100, 1], (3, 64), (132, 1), id="padded-by-4"),
        pytest.param([4096 + 128, 1], (3, 64), (128, 1), id="padded-by-a-line"),
        pytest.param([4096 + 128, 1], (3, 128), (256, 1), id="padded-by-a-line-and-as-wide"),
        pytest.param([1, 64], (3, 64), (1, 3), id="columns-first"),
        pytest.param([1, 72], (3, 64), (1, 72), id="columns-first-padded"),
        pytest.param([8192, 2], (3, 64), (128, 2), id="every-other"),
    ],
)
def test_the_way_inputs_lie_is_kept(strides: list[int], sizes: tuple[int, ...], expected: tuple[int, ...]) -> None:
    fusion = add([64, 4096], "f32", strides=strides)
    assert resized(fusion, sizes).value("i0").strides == expected


# Class --------------------------------------------------------------------------------------------------------------


def a_kernel() -> k.Kernel:
    return next(kernels_of(SUITE["axpy_f32_1000003"], 11)).kernel


def test_kernels_of_other_guards_widths_or_boxes_are_of_another_class() -> None:
    kernel = a_kernel()
    stores = [s for s in walk(kernel.body) if isinstance(s, k.GlobalStore)]
    for changed in (
        replace(kernel, smem_bytes=kernel.smem_bytes + 16),
        replace(kernel, block=(kernel.block[0] * 2, 1, 1)),
        replace(kernel, body=kernel.body[:-1]),
    ):
        assert structure(changed) != structure(kernel)
    for store in stores:
        for other in (replace(store, width=store.width * 2), replace(store, guards=()), replace(store, tail=None)):
            if other != store:
                assert structure(_with(kernel, store, other)) != structure(kernel)


BLOCK, LANE = var(Var("bx", 1000)), var(Var("tx", 32))


@pytest.mark.parametrize(
    ("moved", "is_of_the_class"),
    [
        pytest.param(BLOCK // 3 * 48 + LANE, True, id="rows-of-fewer-tiles"),
        pytest.param(BLOCK // 17 * 32 + LANE, False, id="another-step-from-row-to-row"),
        pytest.param(BLOCK * 48 + LANE, False, id="one-tile-a-row"),
        pytest.param(BLOCK // 17 * 48 + LANE + 4, False, id="another-place"),
        pytest.param(BLOCK // 17 * 48 + LANE * 2, False, id="another-step-from-lane-to-lane"),
    ],
)
def test_of_a_place_on_chip_only_the_tiles_of_a_row_may_differ(moved: Expr, is_of_the_class: bool) -> None:
    """Where rows lie at phases of their own, the place of an element depends on the row that a block's number is of."""
    kernel = generated("tile2d", permuted((64, 128), (1, 0), "f32"), tile_in=32, tile_out=32, lanes_out=32).kernel
    read = next(s for s in walk(kernel.body) if isinstance(s, k.SharedLoad))

    def at(offset: Expr) -> k.Kernel:
        return _with(kernel, read, replace(read, source=replace(read.source, byte_offset=offset % 1000)))

    assert (structure(at(moved)) == structure(at(BLOCK // 17 * 48 + LANE))) is is_of_the_class


def test_the_width_of_indices_is_no_matter_of_class() -> None:
    kernel = a_kernel()
    assert structure(replace(kernel, index_bits=64)) == structure(kernel)


def _with(kernel: k.Kernel, old: k.Stmt, new: k.Stmt) -> k.Kernel:
    def body(statements: tuple[k.Stmt, ...]) -> tuple[k.Stmt, ...]:
        return tuple(new if s is old else inside(s) for s in statements)

    def inside(s: k.Stmt) -> k.Stmt:
        match s:
            case k.Loop() | k.Elected():
                return replace(s, body=body(s.body))
            case k.If():
                return replace(s, then=body(s.then), orelse=body(s.orelse))
            case _:
                return s

    return replace(kernel, body=body(kernel.body))
