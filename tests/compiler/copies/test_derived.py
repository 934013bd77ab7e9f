"""Tiles derived from schedules move what the schedules say, and look as the documents draw them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path as File
from typing import Any

import pytest

from compiler.analysis.memory.bank_access import bank_conflicts_of
from compiler.arch import arch_named
from compiler.copies.derived import ScheduledCopy, derive_copy, layout_of
from compiler.copies.errors import TileError
from compiler.copies.instruction import Path, thread_access
from compiler.copies.layout import MatrixLayout, TiledMatrixLayout, column_major, compose, row_major
from compiler.copies.swizzle import Swizzle, hardware
from compiler.copies.tile import GlobalTile, SharedTile, TmemTile
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.ops import MOVES, OpKind
from compiler.ir.tensor import Allocation, CopyVia, TensorOp
from compiler.schedule import steps
from compiler.schedule.explicit import read_case
from compiler.schedule.trace import ScheduleTrace
from compiler.verdict import replay
from search.space.schedulers import schedulers_for
from tests.cards import card_of
from tests.compiler.copies.moved import moves_of_plan, moves_of_schedule
from tests.compiler.emit.golden_schedules import GOLDEN
from tests.compiler.schedules import (
    LOCAL,
    SHARED,
    Steps,
    by_threads,
    load_by_copies,
    load_by_tma,
    store_by_tma,
    through_shared,
    unary,
)
from tests.search.schedulers.fusions import SMALL
from tests.search.schedulers.points import SM_COUNT
from tests.shares import shared

HOPPER = arch_named("sm_90a")
P = ParallelType
MOST_MOVES = 1 << 10
"""Larger tiles are not counted out."""


def after(shape: tuple[int, ...], taken: Steps, **facts: Any) -> ScheduledFusion:
    return ScheduleTrace(unary(shape, **facts), tuple(taken)).replay()


@cache
def documents() -> dict[str, ScheduledFusion]:
    cases = json.loads((File(__file__).parents[2] / "data" / "document_cases.json").read_text(encoding="utf-8"))
    return {c["name"]: replay(read_case(c))[0] for c in cases}


def copies(sf: ScheduledFusion) -> Iterator[TensorOp]:
    return (op for op in sf.ops if op.kind in MOVES)


def check(sf: ScheduledFusion, op: TensorOp) -> ScheduledCopy:
    """The derived copy, whose moves are those of the schedule, by the instruction that kernels are lowered to."""
    copy = derive_copy(sf, op)
    plan, lowered = copy.plan(), thread_access(sf, op)
    if lowered is not None:
        assert (plan.path, plan.access_bytes) == (lowered.path, lowered.access_bytes)
    layout = plan.layout
    if layout.shape[0] * layout.shape[1] <= MOST_MOVES:
        planned, scheduled = moves_of_plan(copy), moves_of_schedule(sf, op, copy)
        assert planned >= scheduled if copy.has_edges else planned == scheduled
    return copy


SCHEDULES = {
    "by threads": after((64,), by_threads()),
    "by threads, two dimensions": after((6, 16), by_threads(rank=2)),
    "rows with a pitch": after((8, 16), [*by_threads(rank=2)], strides=(20, 1)),
    "a tma load": after((32, 48), load_by_tma(8, 16)),
    "a tma load of a box in three dimensions": after((4, 8, 32), load_by_tma(2, 4, 8)),
    "a tma store": after((32, 48), store_by_tma(8, 16)),
    "a bulk load": after((256,), load_by_tma(64, via=CopyVia.BULK1D)),
    "copies by threads": after((256,), load_by_copies(64, 4)),
    "through shared memory": after((512,), through_shared(128, 16, 4)),
    "holes": after((500,), through_shared(128, 16, 4)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_derived_plan_moves_what_the_schedule_says(name: str) -> None:
    sf = SCHEDULES[name]
    for op in copies(sf):
        assert check(sf, op).has_edges == (name == "holes")


@pytest.mark.parametrize("name", shared(documents(), 4))
def test_copies_of_the_documents_move_what_they_say(name: str) -> None:
    sf = documents()[name]
    for op in copies(sf):
        if "TooMany" in name and CopyVia.PLAIN is not op.via:
            with pytest.raises(TileError, match="at most 128 and 512"):
                derive_copy(sf, op)
            continue
        check(sf, op)


@pytest.mark.parametrize("name", shared((n for n in SMALL if n != "one_element"), 8))
def test_copies_of_searched_schedules_move_what_they_say(name: str) -> None:
    derived = 0
    for scheduler in schedulers_for(SMALL[name], card_of(HOPPER, SM_COUNT)):
        for point in scheduler.space(SMALL[name], HOPPER).sample(1, 7):
            trace = scheduler.trace(SMALL[name], point)
            if not isinstance(trace, ScheduleTrace):
                continue
            sf = trace.replay()
            for op in copies(sf):
                with suppress(TileError):
                    check(sf, op)
                    derived += 1
    assert derived


def test_the_transpose_of_the_tutorial_has_no_conflicts() -> None:
    sf = documents()["Tutorial.TMABankConflictFreeTranspose"]
    load, read, write, store = (derive_copy(sf, op) for op in sf.ops)
    assert isinstance(load.source, GlobalTile)
    assert load.source == GlobalTile(DType.F32, row_major(32, 32, 10000), align=load.source.align)
    swizzled = load.target
    assert isinstance(swizzled, SharedTile)
    assert (swizzled.layout, swizzled.span) == (row_major(32, 32), 128)
    assert read.source == swizzled
    plan = read.plan()
    assert (plan.path, plan.access_bytes, plan.thread_count) == (Path.VECTOR, 16, 256)
    assert isinstance(write.target, SharedTile)
    assert write.target.swizzle is None
    for copy, tile in ((read, swizzled), (write, write.target)):
        figure = copy.plan().bank_conflicts(tile)
        assert figure is not None
        assert figure.ways == 1
    assert store.plan().path is Path.TMA
    assert store.inferred(HOPPER).path is Path.TMA


@pytest.mark.parametrize(
    ("name", "output", "path", "is_transposed", "ways"),
    [
        ("tile2d_matrices", "i0_r", Path.LDMATRIX, True, 1),
        ("tile2d_matrices_of_bytes", "i0_r", Path.LDMATRIX, True, 1),
        ("tile2d_pairs_of_matrices_tma_both_ways", "v0_s", Path.STMATRIX, False, 1),
        ("tile2d_matrices_stored_from_memory", "v0_s", Path.STMATRIX, True, 4),
    ],
)
def test_matrices_as_scheduled(name: str, output: str, path: Path, is_transposed: bool, ways: int) -> None:
    sf = GOLDEN[name].generate().launches[0].scheduled
    op = sf.producer(output)
    assert op is not None
    plan = derive_copy(sf, op).plan()
    (shared,) = plan.memory_tiles
    assert isinstance(shared, SharedTile)
    figure = plan.bank_conflicts(shared)
    assert figure is not None
    assert (plan.path, plan.is_transposed, plan.access_bytes, figure.ways) == (path, is_transposed, 16, ways)


def test_boxes_of_the_tutorial_are_tiles() -> None:
    sf = documents()["Tutorial.BasicTMA/example_5"]
    copy = derive_copy(sf, sf.ops[0])
    assert isinstance(copy.source, GlobalTile)
    assert isinstance(copy.target, SharedTile)
    assert copy.source.layout == row_major(64, 64, 300)
    assert copy.target.layout == compose(row_major(2, 2), row_major(32, 32))
    plan = copy.plan()
    assert (plan.access_bytes, plan.round_count) == (4096, 2)
    issuing = [t for t in range(plan.thread_count) if plan.moves(t, 0)]
    assert len(issuing) == 2


def test_tensor_memory_tiles_count_lanes_and_columns() -> None:
    sf = documents()["TMemTutorialR.Complicated1"]
    store = next(derive_copy(sf, op) for op in sf.ops if op.via is CopyVia.ST_TMEM)
    tile = store.target
    assert isinstance(tile, TmemTile)
    assert (tile.lane_count, tile.column_count) == (128, 64)
    assert store.plan().path is Path.ST_TMEM
    assert store.inferred(arch_named("sm_100a")).access_bytes == 64 * 4


@pytest.mark.parametrize(
    ("name", "has_pattern"),
    [
        ("TMemTutorialR.WarpXYZ", True),
        ("TMemTutorialR.WarpGroupXColYZ", True),
        ("TMemTutorialR.Complicated2", True),
        ("TMemTutorialC.NotContiguous", False),
        ("TMemTutorialC.OneLane", False),
        ("TMemTutorialC.WrongSubpartition", False),
        ("TMemTutorialC.WrongSubpartition2", False),
    ],
)
def test_a_loader_of_tensor_memory_finds_a_pattern_or_refuses(name: str, has_pattern: bool) -> None:
    sf = documents()[name]
    copy = next(derive_copy(sf, op) for op in sf.ops if op.via is CopyVia.LD_TMEM)
    if has_pattern:
        assert copy.inferred(arch_named("sm_100a")).path is Path.LD_TMEM
    else:
        with pytest.raises(TileError, match="access pattern"):
            copy.inferred(arch_named("sm_100a"))


def test_figures_count_the_issuing_threads_alone() -> None:
    sf = documents()["Tutorial.BasicTMA/example_6"]
    plan = derive_copy(sf, sf.ops[1]).plan()
    assert plan.thread_count == 1024
    assert plan.coalescing is not None
    assert plan.coalescing.requests == 4


def test_a_box_of_three_dimensions_is_a_matrix_of_matrices() -> None:
    sf = SCHEDULES["a tma load of a box in three dimensions"]
    expected = TiledMatrixLayout(MatrixLayout((2, 1), (256, 0)), MatrixLayout((4, 8), (32, 1)))
    assert layout_of(sf, sf.ops[0], "i0") == expected
    assert layout_of(sf, sf.ops[0], "s") == row_major(8, 8)
    assert layout_of(sf, sf.ops[1], "r") is None, "registers go the other way"
    with pytest.raises(TileError, match="neither side"):
        layout_of(sf, sf.ops[0], "v0")


def test_warps_lie_over_the_tile_as_threads_do() -> None:
    flat = derive_copy(SCHEDULES["through shared memory"], SCHEDULES["through shared memory"].ops[0])
    assert flat.warps == MatrixLayout((1, 1), (0, 0))
    rows: Steps = [
        steps.CacheInput("i0", "r", LOCAL),
        *[s for tv in ("r", "v0") for s in (steps.Split(tv, 0, 4), steps.Parallelize(tv, 1, P.TIDY))],
        *[steps.Parallelize(tv, 2, P.TIDX) for tv in ("r", "v0")],
    ]
    sf = after((8, 64), rows, strides=(80, 1))
    assert derive_copy(sf, sf.ops[0]).warps == row_major(4, 2)
    odd = after((8, 48), rows)
    copy = derive_copy(odd, odd.ops[0])
    assert copy.warps is None
    assert copy.inferred(HOPPER).access_bytes == 4, "registers say by themselves who holds what"
    between = replace(copy, target=SharedTile(DType.F32, row_major(8, 48)))
    with pytest.raises(TileError, match="no whole warps"):
        between.inferred(HOPPER)


def swizzled(rows: int, span: int, phase: int = 1) -> ScheduledFusion:
    """A tile of 16-byte chunks, each moved by the number of its row (over `phase`) within the span."""
    own: Steps = [steps.CacheInput("i0", "g", LOCAL), steps.CacheInput("g", "s", SHARED)]
    layout = (
        steps.Split("s", 1, 4),
        steps.Split("s", 0, phase),
        steps.Split("s", 0, span // 16),
        steps.Swizzle("s", 1, 3),
    )
    own += [steps.SetAllocationDomain("s", (0, 1), layout)]
    for tv in ("g", "s"):
        own += [steps.Split(tv, 1, 4), steps.Merge(tv, 0), steps.Parallelize(tv, 0, P.TIDX)]
        own += [steps.Parallelize(tv, 1, P.VECTORIZE)]
    own += [steps.Merge("v0", 0), steps.Split("v0", 0, 32), steps.Parallelize("v0", 1, P.TIDX)]
    return after((rows, span // 4), own)


@pytest.mark.parametrize(
    ("sf", "expected"),
    [
        pytest.param(swizzled(16, 128), hardware(128), id="128 bytes"),
        pytest.param(swizzled(16, 64, 2), hardware(64), id="64 bytes"),
        pytest.param(swizzled(16, 32, 4), hardware(32), id="32 bytes"),
        pytest.param(swizzled(32, 128, 4), Swizzle(3, 4, 5), id="a phase of four rows"),
        pytest.param(swizzled(16, 64, 1), Swizzle(2, 4, 2), id="a phase of one 64-byte row"),
    ],
)
def test_the_swizzle_of_an_allocation_is_recognised(sf: ScheduledFusion, expected: Swizzle) -> None:
    op = next(op for op in sf.ops if op.output == "s")
    copy = check(sf, op)
    assert isinstance(copy.target, SharedTile)
    assert copy.target.swizzle == expected
    figure, access = copy.plan().bank_conflicts(copy.target), bank_conflicts_of(sf, op, "s")
    assert figure is not None
    assert access is not None
    assert figure.ways == access.degree == 1


def test_strides_at_run_time_are_the_layout() -> None:
    sf = documents()["TMemTutorialR.X1WarpGroupYColZ"]
    strided = sf.with_tensor(replace(sf.tensor("tv0"), runtime_strides=(4096, 32, 4)))
    assert layout_of(strided, sf.ops[0], "tv0") == MatrixLayout((128, 2), (32, 4))


REFUSED: dict[str, tuple[ScheduledFusion, str]] = {
    "a box with five strides": (
        after((4, 4, 4, 4, 4), load_by_tma(2, 2, 2, 2, 4), strides=(5000, 900, 120, 16, 1)),
        "composed once",
    ),
    "a broadcast of registers": (
        after((4,), [steps.CacheInput("i0", "r", LOCAL)], kind=OpKind.BROADCAST_TO, dims=(1,), result=(8, 4)),
        "one register for several places",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_layout_is_refused(name: str) -> None:
    sf, why = REFUSED[name]
    with pytest.raises(TileError, match=why):
        _ = [derive_copy(sf, op) for op in copies(sf)]


def test_two_axes_on_one_thread_dimension_are_refused() -> None:
    sf = after((4, 8), [steps.CacheInput("i0", "r", LOCAL)])
    twice = sf.with_tensor(replace(sf.tensor("r"), types=(P.TIDX, P.TIDX)))
    with pytest.raises(TileError, match="2 axes on TIDx"):
        derive_copy(twice, twice.ops[0])


def test_an_allocation_of_other_elements_is_refused() -> None:
    sf = after((4, 8), [steps.CacheInput("i0", "r", LOCAL)])
    other = Allocation((IterDomain("other", 32),), (1,), is_source=True)
    apart = sf.with_tensor(replace(sf.tensor("i0"), allocation=other))
    with pytest.raises(TileError, match="do not lead to"):
        derive_copy(apart, apart.ops[0])


def test_a_plan_converts_nothing() -> None:
    copy = derive_copy(SCHEDULES["by threads"], SCHEDULES["by threads"].ops[0])
    assert isinstance(copy.source, GlobalTile)
    with pytest.raises(TileError, match="then convert"):
        replace(copy, source=replace(copy.source, dtype=DType.F16)).plan()


def test_what_is_no_copy_is_refused() -> None:
    sf = after((64,), [], kind=OpKind.NEG)
    with pytest.raises(TileError, match="a copy, permute or broadcast"):
        derive_copy(sf, sf.ops[0])


def test_a_tile_across_rows_of_another_length_is_refused() -> None:
    sf = after((9, 7), [steps.CacheInput("i0", "r", LOCAL), *by_threads(rank=2)[1:]], strides=(8, 1))
    with pytest.raises(TileError, match="sum of loop indices"):
        derive_copy(sf, sf.ops[0])


def test_loops_that_one_composition_does_not_describe_stay_outside() -> None:
    sf = after((2, 3, 2, 4), [steps.CacheInput("i0", "r", LOCAL)], strides=(1000, 100, 10, 1))
    copy = check(sf, sf.ops[0])
    assert copy.loops == (0, 1, 2, 3)
    deep = after((2, 3, 2, 2, 4), [steps.CacheInput("i0", "r", LOCAL)], strides=(5000, 1000, 100, 20, 3))
    assert check(deep, deep.ops[0]).loops == (1, 2, 3, 4)


def test_a_transposed_tile_is_column_major_on_one_side() -> None:
    tensors = {
        name: {"shape": shape, "dtype": "float32", "memory": memory}
        for name, shape, memory in (("a", [32, 16], "global"), ("s", [32, 16], "shared"), ("b", [16, 32], "global"))
    }
    tensors["a"]["contiguity"] = [True, True]
    ops = [{"op": "set", "in": ["a"], "out": "s"}, {"op": "permute", "in": ["s"], "out": "b", "dims": [1, 0]}]
    case = {"name": "t", "tensors": tensors, "ops": ops, "inputs": ["a"], "outputs": ["b"], "schedule": []}
    sf, _ = replay(read_case(case))
    copy = check(sf, sf.ops[1])
    assert isinstance(copy.source, SharedTile)
    assert isinstance(copy.target, GlobalTile)
    assert (copy.source.layout, copy.target.layout) == (column_major(16, 32), row_major(16, 32))
