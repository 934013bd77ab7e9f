"""The row scheduler: which fusions it takes, how it passes over a row, and that its kernels compute the fusion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emulate.ptx.parser import parse
from compiler.errors import CompilerError
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import OpKind
from compiler.legality.rules import Schedule, check
from compiler.lower.kernel_ir import (
    Accumulate,
    AccumulateRun,
    CopyAsync,
    Declare,
    GlobalLoad,
    GlobalStore,
    Loop,
    Shuffle,
)
from compiler.lower.sync_ir import Sync, WaitCopies
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from compiler.schedule.start import start
from search.proof.emulated.running import ORDERS, run_set
from search.space.builder import TraceBuilder
from search.space.knobs import KnobValue
from search.space.schedulers.row import Row
from search.space.schedulers.row_passes import (
    FOLDS,
    KEPT,
    PARTS,
    bytes_between_passes,
    compute_again,
    costly_values,
    passes_of,
    repeated_values,
)
from search.space.schedulers.row_shape import RowShape, row_shape
from search.space.space import Space
from tests.compiler.schedules import from_wire
from tests.search.schedulers.row_fusions import (
    ROWS,
    fold,
    group_norm,
    layer_norm,
    log_sum_exp,
    rms_norm_of_sum,
    softmax,
    tensor,
)
from tests.shares import shared

HOPPER = arch_named("sm_90a")
ROW = Row(132)
Point = dict[str, KnobValue]


def shape_of(fusion: Fusion) -> RowShape:
    found = row_shape(start(fusion))
    assert isinstance(found, RowShape), found
    return found


def point_with(space: Space, **knobs: KnobValue) -> Point:
    """A legal point with these knobs; the others stand at the first value that is legal beside them."""
    for point in space.sample(4000, 0):
        if all(point[name] == value for name, value in knobs.items()):
            return point
    raise AssertionError(f"no legal point with {knobs}")


# Rows ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fusion", "kept", "folded"),
    [
        (fold("sum", (6, 8), (1,), "f32"), (0,), (1,)),
        (fold("sum", (6, 5, 8), (0, 2), "f32"), (1,), (0, 2)),
        (fold("sum", (6, 8), (0, 1), "f32"), (0,), (1, 2)),
        (fold("sum", (6, 8), (0,), "f32", strides=[1, 6]), (1,), (0,)),
        (fold("sum", (6, 5, 8), (1, 2), "f32", strides=[40, 1, 5]), (0,), (2, 1)),
    ],
)
def test_rows_run_along_what_is_contiguous(fusion: Fusion, kept: tuple[int, ...], folded: tuple[int, ...]) -> None:
    found = shape_of(fusion)
    assert (found.kept, found.folded) == (kept, folded)


@pytest.mark.parametrize(
    ("fusion", "says"),
    [
        (fold("sum", (64, 48), (0,), "f32"), "neighbours in memory"),
        (from_wire([tensor("x", (8, 8), "f32")], [{"op": "abs", "in": ["x"], "out": "y"}], "y"), "no reduction"),
    ],
)
def test_columns_and_pointwise_fusions_are_refused(fusion: Fusion, says: str) -> None:
    assert says in (ROW.refusal(fusion, HOPPER) or "")


@pytest.mark.parametrize(
    ("fusion", "widths"),
    [
        (fold("sum", (24, 256), (1,), "bf16"), {"i0": 8, "v1": 1}),
        (fold("sum", (24, 100), (1,), "f32", strides=[104, 1]), {"i0": 4, "v0": 1}),
        (fold("sum", (24, 100), (1,), "f32", strides=[102, 1]), {"i0": 2, "v0": 1}),
        (fold("sum", (24, 100), (1,), "f32", strides=[101, 1]), {"i0": 1, "v0": 1}),
        (fold("sum", (24, 100), (1,), "f32", align=8), {"i0": 2, "v0": 1}),
        (layer_norm((3, 4, 384), (2,), "f16", weights="f32"), {"i0": 8, "i1": 4, "i2": 4}),
        (group_norm(2, 3, 4, 32), {"i0": 4, "i1": 1}),
    ],
)
def test_every_operand_is_moved_by_its_own_width(fusion: Fusion, widths: dict[str, int]) -> None:
    rows = shape_of(fusion)
    found = {o.name: rows.width(o, 8) for o in rows.operands}
    assert {name: found[name] for name in widths} == widths


def test_bulk_copies_take_whole_rows_of_16_bytes() -> None:
    def staged(fusion: Fusion) -> bool:
        rows = shape_of(fusion)
        return any(rows.is_staged(o) for o in rows.loaded)

    assert staged(fold("sum", (24, 100), (1,), "f32", strides=[104, 1]))
    assert not staged(fold("sum", (24, 101), (1,), "f32", strides=[104, 1]))
    assert not staged(fold("sum", (24, 100), (1,), "f32", strides=[102, 1]))
    assert not staged(fold("sum", (24, 100), (1,), "f32", align=8))


# Passes --------------------------------------------------------------------------------------------------------------


def passes(fusion: Fusion) -> dict[str, frozenset[int]]:
    b = TraceBuilder(fusion)
    rows = shape_of(fusion)
    return passes_of(b, rows.folded, len(rows.shape)).used


def test_a_softmax_passes_over_its_row_three_times() -> None:
    used = passes(softmax((4, 64), (1,), "f32"))
    by_kind = {op.kind: set(used.get(op.output, ())) for op in start(softmax((4, 64), (1,), "f32")).ops}
    assert by_kind[OpKind.SUB] == by_kind[OpKind.EXP] == {PARTS * 1, PARTS * 2}


def test_what_a_reduction_folds_is_not_what_a_kept_value_is_made_of() -> None:
    """The maximum of e^x, and e^x where it is masked, which is divided by that maximum: one copy of e^x for each."""
    inputs = [{"name": "x", "shape": [4, 64], "dtype": "f32"}]
    ops: list[dict[str, Any]] = [
        {"op": "exp", "in": ["x"], "out": "e"},
        {"op": "amax", "in": ["e"], "out": "m", "dims": [1], "keepdim": True},
        {"op": "maximum", "in": ["e", 0.5], "out": "k"},
        {"op": "broadcast_to", "in": ["m"], "out": "b", "shape": [4, 64], "dims": [0, 1]},
        {"op": "div", "in": ["k", "b"], "out": "y"},
    ]
    b = TraceBuilder(from_wire(inputs, ops, "k", "y"))
    kept = [op.output for op in b.sf.ops if op.kind is OpKind.MAXIMUM]
    of = compute_again(b, (1,), 2, kept)
    made = {op.output: op.kind for op in b.sf.ops}
    assert sorted(of[name] for name, kind in made.items() if kind is OpKind.EXP) == [FOLDS, KEPT]


def test_two_reductions_of_one_load_are_one_pass() -> None:
    b = TraceBuilder(ROWS["sum_and_largest"])
    starts = passes_of(b, (1,), 2).starts
    assert [starts[op.output] for op in b.sf.ops if op.kind in (OpKind.SUM, OpKind.AMAX)] == [1, 1]


def test_every_pass_has_its_own_copies_and_no_value_is_in_two() -> None:
    for fusion in (softmax((4, 64), (1,), "bf16"), layer_norm((4, 64), (1,), "bf16"), rms_norm_of_sum((4, 64), "f16")):
        b = TraceBuilder(fusion)
        rows = shape_of(fusion)
        of = compute_again(b, rows.folded, len(rows.shape), ())
        after = passes_of(b, rows.folded, len(rows.shape)).used
        assert all(len(p) == 1 for name, p in after.items())
        assert {name: min(p) for name, p in after.items()} == {name: of[name] for name in after}


def test_all_values_are_kept_that_a_later_pass_reads() -> None:
    fusion = layer_norm((4, 64), (1,), "bf16")
    b = TraceBuilder(fusion)
    kept = repeated_values(b, (1,), 2)
    assert sorted(b.sf.producer(n).kind for n in kept) == [OpKind.CAST, OpKind.SUB]  # type: ignore[union-attr] # all are made
    used = passes_of(b, (1,), 2, kept).used
    assert all(len(used[name]) < 2 for name in used if name not in kept)


def test_bytes_that_wait_for_a_later_pass() -> None:
    """x of a layer norm waits in 2 bytes, or in 4 where it is kept as f32; an exponential in place of x, not beside."""
    for fusion, values, nbytes in (
        (layer_norm((4, 64), (1,), "bf16"), (), 2),
        (layer_norm((4, 64), (1,), "bf16"), repeated_values, 4),
        (softmax((4, 64), (1,), "bf16"), costly_values, 4),
    ):
        b = TraceBuilder(fusion)
        kept = values(b, (1,), 2) if callable(values) else values
        assert bytes_between_passes(b, (1,), 2, kept, ["i0"]) == nbytes


def test_the_last_costly_value_of_a_chain_is_kept() -> None:
    b = TraceBuilder(softmax((4, 64), (1,), "f32"))
    kept = costly_values(b, (1,), 2)
    assert [b.sf.producer(name).kind for name in kept if b.sf.producer(name)] == [OpKind.EXP]  # type: ignore[union-attr] # asked before
    assert costly_values(TraceBuilder(layer_norm((4, 64), (1,), "f32")), (1,), 2) == []


# Schedules -----------------------------------------------------------------------------------------------------------


def replayed(fusion: Fusion, **knobs: KnobValue) -> Schedule:
    point = point_with(ROW.space(fusion, HOPPER), **knobs)
    return Schedule(ROW.trace(fusion, point).replay(), HOPPER)


def test_a_row_in_registers_is_loaded_once_and_stays_packed() -> None:
    sf = replayed(softmax((20, 512), (1,), "bf16"), keep="registers", keep_values="no").sf
    loads = [op.output for op in sf.ops if any(x in sf.inputs for x in op.tensor_inputs)]
    assert len(loads) == 1
    assert sf.tensor(loads[0]).dtype.nbytes == 2
    wide = [t for t in sf.tensors if t.memory is MemoryType.LOCAL and t.dtype.nbytes == 4 and not t.compute_at]
    assert wide == []


@pytest.mark.parametrize(
    ("fusion", "fold", "loads"),
    [
        pytest.param(softmax((20, 20000), (1,), "bf16"), "apart", 3, id="softmax"),
        pytest.param(softmax((20, 20000), (1,), "bf16"), "online", 2, id="softmax-online"),
        pytest.param(log_sum_exp((20, 20000), "bf16"), "apart", 2, id="log-sum-exp"),
        pytest.param(log_sum_exp((20, 20000), "bf16"), "online", 1, id="log-sum-exp-online"),
        pytest.param(log_sum_exp((20, 200), "bf16"), "online", 1, id="log-sum-exp-of-short-rows"),
        pytest.param(ROWS["spread"], "online", 1, id="one-sum-of-two"),
    ],
)
def test_a_row_that_is_loaded_again_is_loaded_in_every_pass(fusion: Fusion, fold: str, loads: int) -> None:
    keep = "registers" if fusion == ROWS["spread"] else "reload"
    sf = replayed(fusion, keep=keep, fold=fold).sf
    assert len([op for op in sf.ops if any(x in sf.inputs for x in op.tensor_inputs)]) == loads


@pytest.mark.parametrize(("fold", "exchanges"), [("apart", 2), ("online", 1)])
def test_a_maximum_and_a_sum_are_exchanged_at_once_where_they_are_folded_together(fold: str, exchanges: int) -> None:
    fusion = log_sum_exp((16, 4096), "bf16")
    made = generate(
        ROW.trace(
            fusion, point_with(ROW.space(fusion, HOPPER), keep="registers", threads=128, rows=1, cluster=1, fold=fold)
        ),
        HOPPER,
    )
    assert sum(isinstance(s, Sync) for s in walk(made.kernel.body)) == exchanges


def test_only_sums_of_exponentials_can_be_folded_online() -> None:
    taken = {name: fusion for name, fusion in ROWS.items() if ROW.refusal(fusion, HOPPER) is None}
    able = {name for name, fusion in taken.items() if len(_knob(ROW.space(fusion, HOPPER), "fold")) > 1}
    assert able == {name for name in ROWS if "softmax" in name} | {"log_sum_exp", "spread"}


def _knob(space: Space, name: str) -> tuple[KnobValue, ...]:
    return next(knob.values for knob in space.knobs if knob.name == name)


def test_loads_stand_first_and_a_store_that_needs_no_sum_before_the_sum() -> None:
    fusion = rms_norm_of_sum((16, 512), "bf16")
    point = point_with(ROW.space(fusion, HOPPER), keep="registers", store="vector", threads=64, blocks_per_sm=0)
    body = list(walk(generate(ROW.trace(fusion, point), HOPPER).kernel.body))
    first_fold = next(i for i, s in enumerate(body) if isinstance(s, Accumulate | AccumulateRun))
    exchange = next(i for i, s in enumerate(body) if isinstance(s, Shuffle | Sync))
    assert max(i for i, s in enumerate(body) if isinstance(s, GlobalLoad)) < first_fold
    assert min(i for i, s in enumerate(body) if isinstance(s, GlobalStore)) < exchange


@pytest.mark.parametrize("columns", [67_108_865, 100_000_007, 1_000_000_007])
@pytest.mark.parametrize("rows", [1, 7])
def test_rows_of_any_length_have_a_point(rows: int, columns: int) -> None:
    """Also of more steps than the most threads take in `MAX_TURNS` turns of the longest loop body."""
    assert ROW.space(fold("sum", (rows, columns), (1,), "bf16"), HOPPER).has_legal


@pytest.mark.parametrize(
    ("rows", "columns", "most"),
    [
        pytest.param(4096, 4095, 1, id="short-and-many"),
        pytest.param(4096, 4096, 8, id="16-KiB"),
        pytest.param(4096, 131_071, 8, id="eight-blocks-hold-64-KiB-each"),
        pytest.param(4096, 131_072, 16, id="512-KiB"),
        pytest.param(17, 4096, 8, id="eight-blocks-a-row-fill-the-card"),
        pytest.param(16, 4096, 16, id="eight-blocks-a-row-do-not"),
    ],
)
def test_long_rows_and_few_are_spread_over_sixteen_blocks(rows: int, columns: int, most: int) -> None:
    space = ROW.space(softmax((rows, columns), (1,), "f32"), HOPPER)
    assert max(int(v) for v in next(k for k in space.knobs if k.name == "cluster").values) == most


def test_a_cluster_spreads_a_row_and_its_blocks_are_neighbours() -> None:
    fusion = softmax((3, 4096), (1,), "bf16")
    s = replayed(fusion, keep="registers", cluster=4)
    assert s.indexing.nest.cluster == 4
    assert s.indexing.nest.grid() == (12, 1, 1)
    reductions = [s.sf.tensor(op.output) for op in s.sf.ops if op.kind in (OpKind.SUM, OpKind.AMAX)]
    assert all(ParallelType.CLUSTER in t.types for t in reductions)


# Spaces --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROWS)
def test_legal_points_are_legal_and_lowered(name: str) -> None:
    fusion = ROWS[name]
    if ROW.refusal(fusion, HOPPER) is not None:
        assert name == "sum_of_one_column"
        return
    space = ROW.space(fusion, HOPPER)
    for point in space.sample(3, seed=11):
        try:
            generate(ROW.trace(fusion, point), HOPPER)
        except CompilerError as error:
            error.add_note(f"{name}: {point}")
            raise


def flips(space: Space, rule: str) -> Iterator[Point]:
    """Points one knob away from a legal one that only this rule refuses."""
    for point in space.sample(60, seed=3):
        for knob in space.knobs:
            for value in knob.values:
                flipped = {**point, knob.name: value}
                if {v.rule for v in space.violations(flipped)} == {rule}:
                    yield flipped


@pytest.mark.parametrize(
    ("rule", "fusion"),
    [
        ("staged_rows_are_cut_evenly", layer_norm((64, 10000), (1,), "bf16")),
        ("shared_memory_fits_the_block", softmax((4096, 32768), (1,), "f32")),
    ],
)
def test_points_refused_under_a_rule_s_name_are_refused_by_the_compiler(rule: str, fusion: Fusion) -> None:
    space = ROW.space(fusion, HOPPER)
    point = next(flips(space, rule))
    with pytest.raises(CompilerError):
        generate(ROW.trace(fusion, point), HOPPER)


def test_short_rows_are_read_once() -> None:
    def keeps(fusion: Fusion) -> tuple[KnobValue, ...]:
        return next(k for k in ROW.space(fusion, HOPPER).knobs if k.name == "keep").values

    assert "reload" not in keeps(layer_norm((64, 4096), (1,), "bf16"))
    assert "reload" in keeps(layer_norm((64, 16384), (1,), "bf16"))
    assert "reload" in keeps(fold("sum", (64, 4096), (1,), "bf16"))


def test_spaces_are_lean() -> None:
    """A few ten thousand points: what the predicted cost ranks in a second."""
    for fusion in (softmax((4096, 131072), (1,), "bf16"), layer_norm((16384, 4096), (1,), "bf16")):
        assert 100 < ROW.space(fusion, HOPPER).legal < 30_000


# Kernels -------------------------------------------------------------------------------------------------------------


PARKED: dict[str, Any] = {"keep": "registers", "parked": 2, "resident": 1024}
RUNS: dict[str, tuple[Fusion, dict[str, Any]]] = {
    "shuffles": (ROWS["softmax"], {"keep": "registers", "threads": 32, "rows": 4}),
    "block": (ROWS["softmax_f32"], {"keep": "registers", "threads": 128}),
    "values_computed_again": (ROWS["softmax_f32"], {"keep": "registers", "threads": 32, "keep_values": "no"}),
    "all_values_kept": (
        layer_norm((6, 1000), (1,), "bf16"),
        {"keep": "registers", "threads": 64, "keep_values": "all"},
    ),
    "values_kept": (ROWS["softmax_f32"], {"keep": "registers", "threads": 64, "keep_values": "yes"}),
    "one_thread_a_row": (ROWS["tiny_rows"], {"keep": "registers", "threads": 1}),
    "odd": (ROWS["softmax_odd"], {"keep": "registers", "threads": 16}),
    "odd_pitch": (ROWS["oddly_padded_rows"], {"keep": "reload"}),
    "whole_warps": (layer_norm((6, 1536), (1,), "bf16"), {"keep": "registers", "threads": 96, "operands": "late"}),
    "shared": (ROWS["log_sum_exp"], {"keep": "shared"}),
    "shared_of_any_length": (layer_norm((4, 1004), (1,), "f32"), {"keep": "shared", "load": "bulk", "threads": 64}),
    "ring_of_any_length": (
        layer_norm((600, 1004), (1,), "f32"),
        {"keep": "shared", "load": "bulk", "threads": 64, "stages": 2, "fill": "warp"},
    ),
    "shared_ring": (log_sum_exp((600, 256), "bf16"), {"keep": "shared", "stages": 2, "threads": 32}),
    "reload": (layer_norm((2, 8200), (1,), "f32"), {"keep": "reload", "threads": 256}),
    "cluster": (softmax((3, 4096), (1,), "bf16"), {"keep": "registers", "cluster": 2}),
    "cluster_shared": (softmax((3, 4096), (1,), "bf16"), {"keep": "shared", "cluster": 4}),
    "cluster_of_uneven_parts": (
        softmax((3, 3072), (1,), "f32"),
        {"keep": "shared", "load": "bulk", "threads": 128, "cluster": 4, "unroll": 1},
    ),
    "parked": (layer_norm((3, 16_388), (1,), "f32"), {**PARKED, "threads": 512, "operands": "late"}),
    "parked_of_two_inputs": (rms_norm_of_sum((3, 16_400), "bf16"), {**PARKED, "threads": 256, "cluster": 2}),
    "persistent": (layer_norm((600, 128), (1,), "f32"), {"keep": "shared", "blocks_per_sm": 1, "threads": 32}),
    "two_outputs": (ROWS["rms_norm_of_sum_3d"], {"keep": "registers"}),
    "column_major": (ROWS["softmax_column_major"], {"keep": "registers"}),
    "mask": (ROWS["masked_softmax"], {"keep": "registers"}),
    "rotated": (ROWS["rotated_norm"], {"keep": "registers", "vector": 4}),
    "groups": (ROWS["group_norm"], {"keep": "registers"}),
    "rows_left_over": (fold("sum", (37, 256), (1,), "bf16"), {"keep": "registers", "rows": 4}),
    "all": (ROWS["least_of_all"], {"keep": "registers"}),
    "one_pass": (ROWS["sum"], {"keep": "reload"}),
    "kept_value_read_twice": (ROWS["spread"], {"keep": "registers", "keep_values": "yes", "threads": 8}),
    "vectors_between_lane_loops": (ROWS["clipped_and_summed"], {"keep": "registers", "vector": 4}),
    "one_load": (ROWS["sum_and_largest"], {"keep": "registers"}),
}


@pytest.mark.parametrize("name", shared(RUNS, 4))
def test_kernels_compute_their_fusion(name: str, pool: CompilePool) -> None:
    fusion, knobs = RUNS[name]
    made = generate(ROW.trace(fusion, point_with(ROW.space(fusion, HOPPER), **knobs)), HOPPER)
    stored = artifact(made, pool.submit(made.source, "sm_90a").result())
    assert run_set(fusion, stored, parse(stored.ptx), "random", ORDERS[:1]).fault == ""


def test_a_fold_of_too_few_elements_is_found(pool: CompilePool) -> None:
    """What the kernels are held against tells a wrong one."""
    fusion, knobs = RUNS["block"]
    made = generate(ROW.trace(fusion, point_with(ROW.space(fusion, HOPPER), **knobs)), HOPPER)
    assert check(Schedule(made.scheduled, HOPPER)) == ()
    spoiled = made.source.replace("distance <= 16u", "distance <= 8u")
    assert spoiled != made.source
    stored = artifact(made, pool.submit(spoiled, "sm_90a").result())
    assert run_set(fusion, stored, parse(stored.ptx), "random", ORDERS[:1]).fault


def test_parked_steps_come_past_the_registers_and_are_waited_for(pool: CompilePool) -> None:
    """Half of a thread's ten vectors lie in shared memory, and are read from there in each of three passes."""
    fusion = layer_norm((2, 20_000), (1,), "f32")
    point = point_with(ROW.space(fusion, HOPPER), **PARKED, vector=4, threads=512, cluster=1, operands="late")
    made = generate(ROW.trace(fusion, point), HOPPER)
    body = made.kernel.body
    arrays = {s.name: s.elems for s in walk(body) if isinstance(s, Declare)}
    copies = [s for s in walk(body) if isinstance(s, Loop) and any(isinstance(x, CopyAsync) for x in s.body)]
    assert (arrays["i0_r"], [loop.trip.hi for loop in copies]) == (20, [5])
    assert sum(isinstance(s, WaitCopies) for s in walk(body)) == 1
    assert made.kernel.smem_bytes >= 5 * 16 * 512
    spoiled = made.source.replace("ft_copy_wait<0>();", "", 1)
    stored = artifact(made, pool.submit(spoiled, "sm_90a").result())
    assert run_set(fusion, stored, parse(stored.ptx), "random", ORDERS[1:2]).fault
