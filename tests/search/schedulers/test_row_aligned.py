"""Rows of an odd pitch: shifted so that vectors are aligned in memory, whose ends are cut, and that still add up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emit.cuda import emit
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import Accumulate, GlobalLoad, GlobalStore, Loop
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from compiler.schedule.start import start
from search.proof.emulated.running import ORDERS, run_set
from search.space.groups import ALIGNED, AS_THEY_ARE
from search.space.schedulers.row import Row
from search.space.schedulers.row_shape import Phase, RowShape, row_shape
from tests.compiler.schedules import from_wire
from tests.search.schedulers.row_fusions import (
    clipped_and_summed,
    fold,
    layer_norm,
    masked_softmax,
    rms_norm_of_sum,
    softmax,
    tensor,
)
from tests.shares import shared

HOPPER = arch_named("sm_90a")
ROW = Row(132)


def made(fusion: Fusion, **knobs: Any) -> Generated:
    points = ROW.space(fusion, HOPPER).sample(6000, 0)
    able = (p for p in points if p["rows_begin"] == ALIGNED and all(p[k] == v for k, v in knobs.items()))
    return generate(ROW.trace(fusion, next(able)), HOPPER)


def slice_sum(rows: int, columns: int, first: int) -> Fusion:
    ops: list[dict[str, Any]] = [
        {"op": "slice", "in": ["x"], "out": "s", "dim": 1, "start": first, "stop": columns - 1},
        {"op": "sum", "in": ["s"], "out": "out", "dims": [1], "keepdim": False},
    ]
    return from_wire([tensor("x", [rows, columns], "f32")], ops, "out")


def pieces_and_sum(rows: int) -> Fusion:
    """out = x|y + z, and its rows' sums: the pieces of f64, at pitches of their own, y in every second element."""
    inputs = [
        tensor("x", [rows, 9], "f64", strides=[10, 1]),
        tensor("y", [rows, 8], "f64", strides=[16, 2]),
        tensor("z", [rows, 17], "bf16"),
    ]
    ops: list[dict[str, Any]] = [
        {"op": "cat", "in": ["x", "y"], "out": "c", "dim": 1},
        {"op": "cast", "in": ["z"], "out": "zw", "dtype": "f64"},
        {"op": "add", "in": ["c", "zw"], "out": "out"},
        {"op": "sum", "in": ["out"], "out": "s", "dims": [1], "keepdim": False},
    ]
    return from_wire(inputs, ops, "s", "out")


def pieces_of_groups(outer: int) -> Fusion:
    """out = x|y * z, joined along the last of two dimensions that are folded together, and stored as f16."""
    inputs = [tensor("x", [outer, 5, 8], "f64"), tensor("y", [outer, 5, 2], "f64"), tensor("z", [outer, 5, 10], "f64")]
    ops: list[dict[str, Any]] = [
        {"op": "cat", "in": ["x", "y"], "out": "c", "dim": 2},
        {"op": "mul", "in": ["c", "z"], "out": "p"},
        {"op": "sum", "in": ["p"], "out": "s", "dims": [1, 2], "keepdim": False},
        {"op": "cast", "in": ["p"], "out": "out", "dtype": "f16"},
    ]
    return from_wire(inputs, ops, "s", "out")


@pytest.mark.parametrize(
    ("fusion", "elems", "phase"),
    [
        pytest.param(fold("sum", (6, 100), (1,), "f32"), 4, None, id="rows-of-vectors-are-aligned"),
        pytest.param(fold("sum", (6, 99), (1,), "f32"), 4, Phase(4, 0, ((0, 99),)), id="odd-rows-are-not"),
        pytest.param(
            fold("sum", (6, 99), (1,), "f32", align=8), 2, Phase(2, 0, ((0, 99),)), id="as-far-as-the-address"
        ),
        pytest.param(fold("sum", (6, 99), (1,), "f32", align=8), 4, None, id="is-known"),
        pytest.param(fold("sum", (6, 100), (1,), "f32", strides=[102, 1]), 4, Phase(4, 0, ((0, 102),)), id="pitch"),
        pytest.param(
            softmax((3, 5, 99), (2,), "f32", strides=[1000, 101, 1]), 4, Phase(4, 0, ((0, 495), (1, 99))), id="output"
        ),
        pytest.param(slice_sum(6, 100, 3), 4, Phase(4, 3, ()), id="slices-start-inside-a-vector"),
        pytest.param(slice_sum(6, 100, 4), 4, None, id="or-at-one"),
    ],
)
def test_rows_are_shifted_by_the_phase_of_the_stream_that_costs_most(
    fusion: Fusion, elems: int, phase: Phase | None
) -> None:
    rows = row_shape(start(fusion))
    assert isinstance(rows, RowShape)
    found = rows.aligned(elems)
    assert (found.phase if found is not None else None) == phase


def test_streams_of_another_phase_and_weights_go_by_what_is_aligned() -> None:
    rows = row_shape(start(rms_norm_of_sum((3, 5, 193), "f16", strides=[1000, 201, 1])))
    assert isinstance(rows, RowShape)
    found = rows.aligned(8)
    assert found is not None
    assert {o.name: found.width(o, 8) for o in found.streams} == {"i0": 1, "i1": 8, "v10": 8, "v11": 8}


def test_aligned_rows_have_no_shifted_points() -> None:
    begins = {k.name: k.values for k in ROW.space(fold("sum", (6, 128), (1,), "f32"), HOPPER).knobs}["rows_begin"]
    assert begins == (AS_THEY_ARE,)


# Kernels -------------------------------------------------------------------------------------------------------------


def test_steps_in_the_middle_of_a_row_ask_nothing() -> None:
    body = list(walk(made(fold("sum", (8, 1023), (1,), "f32"), vector=4, threads=32, keep="registers").kernel.body))
    loads = [s for s in body if isinstance(s, GlobalLoad)]
    assert {s.width for s in loads} == {4}
    assert any(not s.guards and s.tail is None for s in loads)
    steps = [s for s in body if isinstance(s, Loop) and any(isinstance(x, Accumulate) for x in walk(s.body))]
    asked = [sum(len(x.guards) for x in walk(s.body) if isinstance(x, Accumulate)) for s in steps]
    assert 0 in asked, "steps without a guard"
    assert 1 in asked, "steps at the ends"


def test_of_a_tensor_of_whole_vectors_all_are_loaded_whole() -> None:
    whole, cut = (made(softmax((n, 203), (1,), "bf16"), vector=8, threads=8, keep="registers") for n in (8, 7))
    loads, last = ([s for s in walk(g.kernel.body) if isinstance(s, GlobalLoad)] for g in (whole, cut))
    assert all(s.head is None and s.tail is None for s in loads)
    assert any(s.tail is not None for s in last)
    assert any(s.head is not None for s in walk(whole.kernel.body) if isinstance(s, GlobalStore))


RUNS: dict[str, tuple[Fusion, dict[str, Any]]] = {
    "sum": (fold("sum", (8, 259), (1,), "f32"), {"vector": 4, "threads": 32}),
    "last_row_is_cut": (fold("amax", (7, 259), (1,), "bf16"), {"vector": 8, "threads": 8}),
    "one_step": (softmax((5, 3, 77), (2,), "f16"), {"vector": 8, "threads": 16}),
    "reload": (fold("sum", (7, 1031), (1,), "f16"), {"vector": 8, "keep": "reload"}),
    "cluster": (softmax((2, 5003), (1,), "bf16"), {"vector": 8, "cluster": 2}),
    "weights": (layer_norm((6, 263), (1,), "bf16"), {"vector": 4, "rows": 4, "operands": "late"}),
    "weights_first": (layer_norm((6, 263), (1,), "f32"), {"vector": 4, "rows": 2, "operands": "early"}),
    "pitches_that_differ": (rms_norm_of_sum((3, 5, 193), "f16", strides=[1000, 201, 1]), {"vector": 8}),
    "mask": (masked_softmax(2, 25), {"vector": 4}),
    "slice": (slice_sum(7, 150, 3), {"vector": 4}),
    "pieces": (pieces_and_sum(5), {"vector": 2, "threads": 4, "keep": "registers"}),
    "pieces_are_not_cut": (pieces_of_groups(2), {"vector": 4, "keep": "registers"}),
    "chain": (clipped_and_summed((12, 255)), {"vector": 4, "keep": "registers"}),
}


def fault_of(fusion: Fusion, g: Generated, source: str, pool: CompilePool) -> str:
    stored = artifact(g, pool.submit(source, "sm_90a").result())
    return run_set(fusion, stored, parse(stored.ptx), "random", ORDERS[:1]).fault


@pytest.mark.parametrize("name", shared(RUNS, 2))
def test_kernels_compute_their_fusion(name: str, pool: CompilePool) -> None:
    fusion, knobs = RUNS[name]
    g = made(fusion, **knobs)
    assert fault_of(fusion, g, g.source, pool) == ""


@pytest.mark.parametrize("side", ["head", "tail"])
def test_a_neighbour_s_element_that_is_folded_is_found(side: str, pool: CompilePool) -> None:
    """What the guards of folds keep out is there: elements of the rows before and behind."""
    fusion = fold("sum", (8, 259), (1,), "f32")
    g = made(fusion, vector=4, threads=32, keep="registers")

    def spoiled(node: Any) -> Any:
        match node:
            case Accumulate():
                return replace(node, guards=tuple(c for c in node.guards if c.left.is_const != (side == "head")))
            case Loop():
                return replace(node, body=tuple(map(spoiled, node.body)))
            case _:
                return node

    source = emit(replace(g.kernel, body=tuple(map(spoiled, g.kernel.body))))
    assert source != g.source
    assert fault_of(fusion, g, source, pool) != ""
