"""Row and column reductions in one pass: which fusions it takes, its kernels, and that they compute the fusion."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emulate.launch import Completion
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.ir.tensor import End
from compiler.lower.kernel_ir import Accumulate, Compute, GlobalLoad, GlobalStore, Loop
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from compiler.schedule.start import start
from search.proof.emulated.running import run_set
from search.proof.verify.inputs import RANDOM
from search.space.schedulers import refusals, schedulers_for
from search.space.schedulers.inner_outer import InnerOuter
from search.space.schedulers.launches import Launches
from tests.cards import card_of
from tests.compiler.schedules import from_wire
from tests.search.schedulers.inner_outer_fusions import (
    batches,
    cast,
    fold,
    heads,
    layer_norm_backward,
    masked_sums,
    op,
    rms_norm_backward,
    row_and_column_sums,
    shares_of_rows,
)
from tests.search.schedulers.points import generated
from tests.search.schedulers.row_fusions import softmax, tensor
from tests.shares import shared

HOPPER = arch_named("sm_90a")
SMS = 132


def grouped(groups: int, rows: int, columns: int) -> Fusion:
    """Row and column sums of rows that are in groups already."""
    return row_and_column_sums((groups, rows, columns), (2,), (1,))


def sums_beside_an_operand() -> Fusion:
    """Column sums of groups, to which a tensor of their shape is added."""
    ops = [cast("x", "t"), fold("sum", "t", "c", 1), op("add", "y", "c", "b"), fold("sum", "t", "r", 2)]
    return from_wire([tensor("x", (132, 8, 64), "bf16"), tensor("b", (132, 64), "f32")], ops, "y", "r")


# What it takes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fusion", "reason"),
    [
        pytest.param(grouped(66, 4, 64), None, id="groups-enough"),
        pytest.param(grouped(65, 4, 64), "its rows are in 65 groups, too few", id="groups-too-few"),
        pytest.param(grouped(132, 4, 1 << 18), None, id="rows-of-a-cluster"),
        pytest.param(grouped(132, 4, 1 << 20), "do not fit registers", id="rows-too-long"),
        pytest.param(grouped(132, 4, 8191), None, id="odd-rows"),
        pytest.param(row_and_column_sums((8192, 64), (1,), (0,)), "output v", id="one-group"),
        pytest.param(softmax((64, 64), (1,), "f32"), "does not fold both rows and columns", id="rows-alone"),
        pytest.param(sums_beside_an_operand(), "it reads i1 beside what columns are folded into", id="an-operand"),
    ],
)
def test_it_takes_rows_and_columns_in_groups_that_fill_the_card(fusion: Fusion, reason: str | None) -> None:
    found = InnerOuter(SMS).refusal(fusion, HOPPER)
    assert found is None if reason is None else found is not None and reason in found


def test_no_other_scheduler_takes_them() -> None:
    reasons = refusals(grouped(132, 8, 64), card_of(HOPPER))
    assert {"flat", "tile2d", "row", "column"} <= reasons.keys()
    assert "inner_outer" not in reasons


@pytest.mark.parametrize("columns", [2, 7, 32, 129, 1000, 4096, 8191, 20000, 32768, 1 << 17])
@pytest.mark.parametrize("rows", [2, 3, 64])
def test_every_length_has_a_point(rows: int, columns: int) -> None:
    fusion = grouped(132, rows, columns)
    assert InnerOuter(SMS).refusal(fusion, HOPPER) is None
    assert InnerOuter(SMS).space(fusion, HOPPER).has_legal


def exponentials(rows: int, columns: int) -> Fusion:
    """The greatest and the least exponential of each column, beside the sums of rows: of rows that are not there, what
    is computed is no such thing."""
    ops = [
        op("exp", "e", "x"),
        fold("amax", "e", "m", 0),
        fold("amin", "e", "n", 0),
        fold("sum", "e", "r", 1),
    ]
    return from_wire([tensor("x", (rows, columns), "f32")], ops, "m", "n", "r")


def launches(fusion: Fusion, sm_count: int = SMS) -> list[Launches]:
    """The ways of several launches whose rows are in groups."""
    every = schedulers_for(fusion, card_of(HOPPER, sm_count))
    return [s for s in every if isinstance(s, Launches) and s.how.startswith("groups")]


def test_launches_in_groups_stand_beside_those_of_other_cuts() -> None:
    fusion = shares_of_rows(8192, 1024)
    names = [s.name for s in schedulers_for(fusion, card_of(HOPPER, SMS))]
    assert {f"launches-groups{n}-inner_outer+column" for n in (128, 256, 512)} | {"launches-row+column"} <= set(names)
    for found, groups in zip(launches(fusion), (128, 256, 512), strict=True):
        first, second = (part.fusion for part in found.cut.parts)
        assert {first.value(name).shape for name in first.outputs} == {(8192, 1024), (groups, 1024)}
        assert [second.value(name).shape for name in (*second.inputs, *second.outputs)] == [(groups, 1024), (1024,)]


@pytest.mark.parametrize(("rows", "groups"), [(1024, 128), (1000, 128)])
def test_no_group_has_rows_of_two_batches(rows: int, groups: int) -> None:
    """What is folded batch by batch, and what is folded over all, in one pass over the data."""
    (found, *_) = launches(batches(32, rows, 256))
    first, *later = (part.fusion for part in found.cut.parts)
    sums = {first.value(name).shape for name in first.outputs} - {(32, rows, 256)}
    assert sums == {(32, groups // 32, 256)}
    assert all(part.value(name).shape in sums for part in later for name in part.inputs)


def test_groups_that_do_not_divide_the_rows_have_a_rest() -> None:
    """8191 rows in 128 groups of 64, of which the last has 63; what comes of groups is read once more, and no more."""
    first, second = (part.fusion for part in launches(shares_of_rows(8191, 1024))[0].cut.parts)
    assert [first.value(name).shape for name in first.inputs] == [(8191, 1024)]
    assert {first.value(name).shape for name in first.outputs} == {(8191, 1024), (128, 1024)}
    assert [second.value(name).shape for name in (*second.inputs, *second.outputs)] == [(128, 1024), (1024,)]
    for t in start(first).tensors:
        rows = [a.extent for a in t.logical[:2]] == [128, 64]
        assert t.end == (End(0, 1, 8191) if rows else None), t.name


def test_groups_that_nothing_is_read_once_for_are_left_out() -> None:
    """Rows that need the mean of their columns read the tensor again in any case."""
    shape = (1024, 64)
    ops = [
        fold("mean", "x", "m", 0),
        op("broadcast_to", "b", "m", shape=list(shape), dims=[1]),
        op("sub", "d", "x", "b"),
        op("square", "s", "d"),
        fold("sum", "s", "r", 1),
    ]
    assert not launches(from_wire([tensor("x", shape, "f32")], ops, "r"))


# Kernels -------------------------------------------------------------------------------------------------------------


def test_a_row_is_loaded_once_and_columns_are_stored_once_a_group() -> None:
    """Both streams are loaded in the loop over rows, where columns are folded as well; their parts are stored after."""
    fusion, sm_count, knobs = KERNELS["registers"]
    kernel = _at(fusion, sm_count, knobs).launches[0].kernel
    (rows,) = (s for s in kernel.body if isinstance(s, Loop) and not s.unroll)
    assert kernel.grid == (3, 1, 1)
    assert rows.trip.const == 24 // 3 // 2
    loads = [s.tensor for s in walk(rows.body) if isinstance(s, GlobalLoad)]
    assert (loads.count("i0"), loads.count("i1")) == (1, 1)
    folds = (s.target.name for s in walk(rows.body) if isinstance(s, Accumulate | Compute))
    folded = [name for name in folds if name.endswith("_sum")]
    columns = {s.tensor for s in walk(kernel.body) if isinstance(s, GlobalStore)}
    columns -= {s.tensor for s in walk(rows.body) if isinstance(s, GlobalStore)}
    assert len(columns) == 2
    assert len(set(folded)) == 4, "two sums of a row, two of columns"


KERNELS: dict[str, tuple[Fusion, int, dict[str, Any]]] = {
    "registers": (layer_norm_backward(24, 64), 3, {"vector": 8, "threads": 8, "rows": 2}),
    "values-kept": (rms_norm_backward(24, 64), 3, {"vector": 4, "threads": 16, "rows": 2, "keep_values": "all"}),
    "odd-rows": (rms_norm_backward(33, 71), 3, {"vector": 1, "threads": 32, "rows": 2}),
    "odd-sums": (row_and_column_sums((21, 37), (1,), (0,)), 3, {"vector": 1, "threads": 32, "rows": 4}),
    "padded-rows": (row_and_column_sums((24, 36), (1,), (0,), strides=[40, 1]), 3, {"vector": 4, "threads": 16}),
    "ring": (
        row_and_column_sums((48, 520), (1,), (0,)),  # the last step of a row has one vector
        3,
        {"keep": "shared", "vector": 8, "threads": 64, "rows": 4, "stages": 3},
    ),
    "ring-of-a-warp": (
        layer_norm_backward(15, 512),
        3,
        {"keep": "shared", "vector": 4, "threads": 128, "stages": 2, "fill": "warp"},
    ),
    "ring-of-copies": (
        layer_norm_backward(33, 70),
        3,
        {"keep": "shared", "load": "cp_async", "vector": 2, "threads": 32, "rows": 2, "stages": 2},
    ),
    "cluster": (row_and_column_sums((12, 8192), (1,), (0,)), 3, {"vector": 8, "threads": 128, "cluster": 2}),
    "masks": (masked_sums(36, 96), 4, {"vector": 8, "threads": 4, "rows": 4}),
    "heads": (heads(48, 3, 32), 4, {"vector": 8, "threads": 4, "rows": 4}),
    "batches": (batches(2, 16, 64), 4, {"vector": 8, "threads": 8, "rows": 2}),
    "batches-in-a-ring": (
        batches(2, 16, 512),
        4,
        {"keep": "shared", "vector": 4, "threads": 128, "rows": 2, "stages": 2},
    ),
    "rest": (layer_norm_backward(37, 64), 4, {"vector": 8, "threads": 8, "rows": 2}),
    "rest-in-a-ring": (
        layer_norm_backward(37, 512),
        8,
        {"keep": "shared", "vector": 4, "threads": 128, "rows": 2, "stages": 3},
    ),
    "rest-of-copies": (
        rms_norm_backward(37, 70),
        4,
        {"keep": "shared", "load": "cp_async", "vector": 2, "threads": 32, "rows": 4, "stages": 2},
    ),
    "rest-of-two-dimensions": (
        row_and_column_sums((3, 37, 64), (2,), (0, 1)),
        8,
        {"keep": "shared", "vector": 4, "threads": 16, "rows": 4, "stages": 2},
    ),
    "rest-of-maxima": (exponentials(37, 48), 4, {"vector": 4, "threads": 4, "rows": 4}),
}


def _at(fusion: Fusion, sm_count: int, knobs: dict[str, Any]) -> Generated:
    """The kernels of the fewest groups."""
    return generated(
        launches(fusion, sm_count)[0].name, fusion, "sm_90a", sm_count, **{f"0.{k}": v for k, v in knobs.items()}
    )


@pytest.mark.parametrize("name", shared(KERNELS, 4))
def test_kernels_compute_the_fusion(machine_pool: CompilePool, name: str) -> None:
    """In the emulator, with a search for races; registers hold all partial results."""
    made = _at(*KERNELS[name])
    compiled = machine_pool.submit(made.source, "sm_90a").result()
    assert compiled.resources.stack_bytes == 0
    built = artifact(made, compiled)
    fusion = made.trace.fusion
    assert run_set(fusion, built, parse(built.ptx), RANDOM, [Completion.RANDOM], races=True).fault == ""


@pytest.mark.parametrize("name", ["registers", "ring", "odd-rows"])
def test_legal_points_compile(name: str) -> None:
    fusion, sm_count, _ = KERNELS[name]
    for found in launches(fusion, sm_count):
        part = found.cut.parts[0].fusion
        scheduler = found.each[0]
        for point in scheduler.space(part, HOPPER).sample(3, seed=1):
            generate(scheduler.trace(part, point), HOPPER)
