"""The column scheduler: what it takes, how it sees it, and what each pass over the rows reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind
from compiler.lower.kernel_ir import GlobalLoad, GlobalStore
from compiler.lower.traversal import walk
from compiler.schedule.start import start
from search.space.schedulers.column import Column
from search.space.schedulers.column_form import ColumnForm, column_form
from tests.search.schedulers.column_fusions import COLUMNS, batch_norm, column_sum, reduce, softmax
from tests.search.schedulers.fusions import add
from tests.search.schedulers.points import SM_COUNT, generated, point_of, scheduler_named

HOPPER, AMPERE = arch_named("sm_90a"), arch_named("sm_80")


def form_of(fusion: Fusion) -> ColumnForm:
    found = column_form(start(fusion))
    assert isinstance(found, ColumnForm), found
    return found


@pytest.mark.parametrize(
    ("fusion", "folded", "columns", "batch"),
    [
        pytest.param(COLUMNS["column_sum"], (0,), (1,), (), id="first-dimension"),
        pytest.param(COLUMNS["column_major"], (1,), (0,), (), id="last-dimension-of-a-column-major-input"),
        pytest.param(COLUMNS["middle_maximum"], (1,), (2,), (0,), id="middle"),
        pytest.param(
            reduce("sum", (4, 5, 6, 7), (1,), "f32"), (1,), (2, 3), (0,), id="two-kept-dimensions-are-columns"
        ),
        pytest.param(COLUMNS["first_two"], (0, 1), (2,), (), id="two-folded-dimensions"),
        pytest.param(COLUMNS["first_and_third"], (0, 2), (3,), (1,), id="folded-ones-apart"),
        pytest.param(COLUMNS["channels_last_norm"], (0, 1, 2), (3,), (), id="statistics-of-channels"),
    ],
)
def test_kept_dimensions_along_the_memory_are_columns(
    fusion: Fusion, folded: Sequence[int], columns: Sequence[int], batch: Sequence[int]
) -> None:
    form = form_of(fusion)
    assert (form.folded, form.columns("inner"), form.batch("inner")) == (folded, columns, batch)
    assert sorted(form.columns("all")) == sorted((*columns, *batch))
    assert form.columns("all")[-1] == form.inner


@pytest.mark.parametrize(
    ("fusion", "named"),
    [
        pytest.param(reduce("sum", (64, 48), (1,), "f32"), "row", id="contiguous-dimension-is-folded"),
        pytest.param(reduce("sum", (64, 48), (0,), "f32", strides=[1, 64]), "row", id="of-a-column-major-input-too"),
        pytest.param(batch_norm((4, 32, 5, 6), (0, 2, 3), "f32", "f32"), "row", id="channels-first"),
        pytest.param(add((64, 48), "f32"), "flat", id="no-reduction"),
    ],
)
def test_what_another_scheduler_takes_is_refused_in_its_favour(fusion: Fusion, named: str) -> None:
    refusal = Column(SM_COUNT).refusal(fusion, HOPPER)
    assert named in (refusal or "")


@pytest.mark.parametrize(
    ("fusion", "vector", "word"),
    [
        pytest.param(column_sum((96, 64), "bf16"), 8, 8, id="16-bytes"),
        pytest.param(reduce("sum", (96, 64), (0,), "f32"), 8, 4, id="two-words-of-f32"),
        pytest.param(column_sum((96, 65), "bf16"), 8, 1, id="odd-pitch"),
        pytest.param(column_sum((96, 65), "bf16", strides=[72, 1]), 8, 8, id="odd-columns-at-an-even-pitch"),
        pytest.param(column_sum((96, 64), "bf16", strides=[68, 1]), 8, 4, id="pitch-of-8-bytes"),
        pytest.param(column_sum((96, 64), "bf16", align=4), 8, 2, id="address-of-4-bytes"),
        pytest.param(reduce("amax", (6, 33, 40), (1,), "f16"), 8, 8, id="batches-of-whole-words"),
        pytest.param(reduce("amax", (6, 33, 42), (1,), "f16"), 8, 2, id="rows-of-broken-words"),
        pytest.param(reduce("sum", (64, 48), (1,), "f32", strides=[2, 128]), 4, 1, id="every-second-element"),
    ],
)
def test_words_are_as_wide_as_layout_and_address_allow(fusion: Fusion, vector: int, word: int) -> None:
    form = form_of(fusion)
    (read,) = form.loads
    assert form.width(read, "inner", vector) == word


def test_columns_of_batches_are_words_where_they_lie_side_by_side() -> None:
    """[10, 50, 4]: the columns of one batch are 4 neighbours, and the next batch begins 200 further."""
    form = form_of(reduce("sum", (10, 50, 4), (1,), "f32"))
    (read,) = form.loads
    assert form.width(read, "all", 4) == 4
    narrow = form_of(reduce("sum", (10, 50, 3), (1,), "f32"))
    assert narrow.width(narrow.loads[0], "all", 4) == 1, "a word would cross from one batch to the next"


@pytest.mark.parametrize(("reuse", "reads", "exponentials"), [("read_again", 3, 2), ("inputs", 1, 2), ("values", 1, 1)])
def test_a_softmax_reads_or_keeps_its_rows(reuse: str, reads: int, exponentials: int) -> None:
    """A maximum, a sum of exponentials and the quotients: three passes over the rows."""
    fusion = COLUMNS["softmax_of_columns"]
    made = generated("column", fusion, reuse=reuse, threads_x=16, threads_y=16, rows=4)
    copies = [op for op in made.scheduled.ops if op.inputs == ("i0",)]
    assert len(copies) == reads
    assert sum(op.kind is OpKind.EXP for op in made.scheduled.ops) == exponentials
    assert len({s.target.name for s in walk(made.kernel.body) if isinstance(s, GlobalLoad)}) == reads


@pytest.mark.parametrize(("reuse", "reads"), [("read_again", 2), ("inputs", 1)])
def test_a_softmax_that_is_folded_online_reads_its_rows_once_less(reuse: str, reads: int) -> None:
    fusion = COLUMNS["softmax_of_columns"]
    made = generated("column", fusion, reuse=reuse, threads_x=16, threads_y=16, rows=4, fold="online")
    assert sum(op.inputs == ("i0",) for op in made.scheduled.ops) == reads
    assert len({s.target.name for s in walk(made.kernel.body) if isinstance(s, GlobalLoad)}) == reads


def test_only_the_last_of_several_readings_is_streamed() -> None:
    fusion = COLUMNS["softmax_of_columns"]
    made = generated("column", fusion, threads_x=16, threads_y=16, cache_load="streaming")
    hints = {op.output: str(op.cache) for op in made.scheduled.ops if op.inputs == ("i0",)}
    assert sorted(hints.values()) == ["default", "default", "streaming"]
    assert hints["i0_r_2"] == "streaming"


def test_reduced_outputs_are_stored_once_and_full_ones_by_all_rows() -> None:
    made = generated("column", COLUMNS["weight_gradients"], threads_x=16, threads_y=8, cluster=2)
    reduced = {"v5", "v6"} & set(made.scheduled.outputs)
    for s in walk(made.kernel.body):
        if isinstance(s, GlobalStore):
            assert ("ty" in str(s.offset)) is (s.tensor not in reduced)
    assert made.kernel.grid[0] % 2 == 0


def test_a_few_columns_are_taken_by_as_many_threads() -> None:
    """[rows, 3]: threads of a warp lie along rows and columns, which are neighbours in memory."""
    fusion = reduce("sum", (4000, 3), (0,), "f32")
    space = Column(SM_COUNT).space(fusion, HOPPER)
    widths = {p["threads_x"] for p in space.sample(200, 0)}
    assert 3 in widths
    assert max(int(w) for w in widths) < 6


def test_architectures_without_clusters_get_none() -> None:
    scheduler = scheduler_named("column", COLUMNS["column_sum"], "sm_80")
    clusters = next(k.values for k in scheduler.space(COLUMNS["column_sum"], AMPERE).knobs if k.name == "cluster")
    assert clusters == (1,)


def test_more_blocks_than_fill_the_card_are_not_split() -> None:
    wide, narrow = column_sum((4096, 1 << 20), "bf16"), column_sum((4096, 8192), "bf16")
    chosen: dict[str, Any] = {"vector": 8, "threads_x": 8, "threads_y": 32, "rows": 4, "cluster": 8}
    for fusion, is_split in ((narrow, True), (wide, False)):
        scheduler = scheduler_named("column", fusion)
        point = point_of(scheduler, fusion, **{**chosen, "cluster": 1}) | chosen
        rules = {v.rule for v in scheduler.space(fusion, HOPPER).violations(point)}
        assert rules == (set() if is_split else {"cluster_is_needed"})


@pytest.mark.parametrize(
    ("reuse", "threads_y", "cluster", "is_spread"),
    [("inputs", 4, 8, True), ("inputs", 2, 16, False), ("read_again", 4, 8, False)],
    ids=["kept", "kept-by-blocks-that-are-too-small", "read-again"],
)
def test_rows_that_stay_are_spread_over_small_blocks_though_columns_fill_the_card(
    reuse: str, threads_y: int, cluster: int, is_spread: bool
) -> None:
    fusion = softmax((64, 1000, 1023), 1, "bf16")
    scheduler = scheduler_named("column", fusion)
    chosen: dict[str, Any] = {"vector": 1, "threads_x": 64, "threads_y": threads_y, "rows": 32, "reuse": reuse}
    point = point_of(scheduler, fusion, vector=1, threads_x=64, cluster=1) | chosen | {"cluster": cluster}
    rules = {v.rule for v in scheduler.space(fusion, HOPPER).violations(point)}
    assert rules == (set() if is_spread else {"cluster_is_needed"})


def test_sums_of_halves_are_accumulated_in_f32() -> None:
    sf = start(reduce("sum", (64, 64), (0,), "bf16"))
    assert [sf.tensor(op.output).dtype for op in sf.ops if op.kind is OpKind.SUM] == [DType.F32]


def test_a_softmax_over_more_rows_than_a_cluster_holds_is_read_again() -> None:
    space = Column(SM_COUNT).space(softmax((1 << 19, 64), 0, "bf16"), HOPPER)
    assert {p["reuse"] for p in space.sample(300, 0)} == {"read_again"}
