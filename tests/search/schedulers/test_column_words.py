"""Columns of rows that begin at any element: words that straddle two aligned ones, and what keeps them in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emit.cuda import emit
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.legality.rules import BEYOND, Schedule, check_model
from compiler.lower.cut_vectors import cut_access
from compiler.lower.kernel_ir import GlobalLoad, If, Loop
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from compiler.schedule.start import start
from compiler.schedule.trace import launches_of
from search.proof.emulated.running import ORDERS, run_set
from search.space.builder import TraceBuilder
from search.space.groups import WORDS
from search.space.schedulers.column import Column
from search.space.schedulers.column_form import ColumnForm, column_form, with_accesses_of
from search.space.schedulers.column_passes import cache_registers
from search.space.schedulers.column_words import straddling
from tests.compiler.schedules import from_wire
from tests.search.schedulers.column_fusions import softmax
from tests.search.schedulers.points import SM_COUNT, generated
from tests.search.schedulers.row_fusions import fold, tensor

HOPPER = arch_named("sm_90a")


def sliced(rows: int, columns: int, first: int) -> Fusion:
    ops: list[Mapping[str, Any]] = [
        {"op": "slice", "in": ["x"], "out": "s", "dim": 1, "start": first, "stop": columns},
        {"op": "sum", "in": ["s"], "out": "out", "dims": [0], "keepdim": False},
    ]
    return from_wire([tensor("x", [rows, columns], "bf16")], ops, "out")


def of_products(rows: int, columns: int) -> Fusion:
    """Sums of x * y, the rows of x a multiple of a vector apart."""
    shape = [rows, columns]
    ops: list[Mapping[str, Any]] = [
        {"op": "mul", "in": ["x", "y"], "out": "p"},
        {"op": "sum", "in": ["p"], "out": "out", "dims": [0], "keepdim": False},
    ]
    inputs = [tensor("x", shape, "bf16", strides=[-(-columns // 8) * 8, 1]), tensor("y", shape, "bf16")]
    return from_wire(inputs, ops, "out")


def words_of(fusion: Fusion, vector: int) -> tuple[str, ...]:
    b = TraceBuilder(fusion)
    form = column_form(start(fusion))
    assert isinstance(form, ColumnForm)
    cache_registers(b)
    return straddling(with_accesses_of(form, b.sf), b.sf, "inner", vector)


@pytest.mark.parametrize(
    ("fusion", "vector", "words"),
    [
        pytest.param(fold("sum", (9, 135), (0,), "bf16"), 8, ("i0_r",), id="odd-rows"),
        pytest.param(fold("sum", (9, 136), (0,), "bf16"), 8, (), id="rows-of-vectors-are-aligned"),
        pytest.param(fold("sum", (9, 135), (0,), "bf16"), 2, (), id="two-loads-for-two-elements"),
        pytest.param(fold("sum", (9, 135), (0,), "f32"), 4, ("i0_r",), id="f32"),
        pytest.param(fold("sum", (9, 135), (0,), "f32"), 8, (), id="no-words-of-32-bytes"),
        pytest.param(fold("sum", (9, 5, 27), (0,), "bf16", strides=[200, 30, 1]), 8, (), id="columns-are-no-run"),
        pytest.param(of_products(9, 135), 8, ("i1_r",), id="only-what-is-not-aligned"),
        pytest.param(sliced(9, 139, 3), 8, ("w0",), id="slices"),
        pytest.param(softmax([9, 135], 0, "bf16"), 8, (), id="rows-are-stored-as-they-begin"),
    ],
)
def test_what_comes_in_words(fusion: Fusion, vector: int, words: tuple[str, ...]) -> None:
    assert words_of(fusion, vector) == words


def test_aligned_columns_have_no_words() -> None:
    def loads(fusion: Fusion) -> tuple[object, ...]:
        return {k.name: k.values for k in Column(SM_COUNT).space(fusion, HOPPER).knobs}["load"]

    assert WORDS in loads(fold("sum", (90, 135), (0,), "bf16"))
    assert WORDS not in loads(fold("sum", (90, 136), (0,), "bf16"))


# Kernels -------------------------------------------------------------------------------------------------------------


def made(fusion: Fusion, **knobs: Any) -> Generated:
    return generated("column", fusion, load=WORDS, **knobs)


def test_slabs_at_a_row_s_end_load_whole_words() -> None:
    """Elements of the next row that come with them are added up by columns that nobody stores."""
    g = made(fold("sum", (256, 8100), (0,), "bf16"), vector=8, threads_x=32, threads_y=8, rows=2)
    (loop,) = (s for s in g.kernel.body if isinstance(s, Loop) and not s.unroll)
    (full,) = loop.body
    assert isinstance(full, If)
    assert [str(c) for c in full.conditions] == ["(k0 * 129600 + bx * 256 + 121762) < 2073600"]
    assert [(s.width, s.guards) for s in walk(full.then) if isinstance(s, GlobalLoad)] == [(8, ())]


def test_how_far_words_are_moved_is_one_number_a_thread() -> None:
    g = made(fold("sum", (256, 8191), (0,), "bf16"), vector=8, threads_x=32, threads_y=8, rows=2)
    skipped = {str(s.skipped) for s in walk(g.kernel.body) if isinstance(s, GlobalLoad) and s.straddles}
    assert skipped == {"(ty * 8191 % 8)"}


RUNS: dict[str, tuple[Fusion, dict[str, Any]]] = {
    "steps": (fold("sum", (67, 135), (0,), "bf16"), {"vector": 8, "threads_x": 8, "threads_y": 8, "rows": 2}),
    "cluster": (fold("amax", (61, 77), (0,), "f16"), {"vector": 4, "threads_x": 4, "threads_y": 4, "cluster": 4}),
    "bytes": (fold("amax", (19, 205), (0,), "i8"), {"vector": 16, "threads_x": 16, "threads_y": 4, "rows": 2}),
    "middle": (fold("sum", (3, 29, 77), (1,), "f16"), {"vector": 8, "threads_x": 16, "threads_y": 8}),
    "pitch": (fold("sum", (21, 50), (0,), "f32", strides=[51, 1]), {"vector": 4, "threads_x": 16, "threads_y": 4}),
    "any_address": (fold("sum", (21, 51), (0,), "bf16", align=2), {"vector": 4, "threads_x": 16, "threads_y": 4}),
    "slice": (sliced(23, 99, 3), {"vector": 8, "threads_x": 4, "threads_y": 16}),
    "beside_aligned": (of_products(31, 121), {"vector": 8, "threads_x": 16, "threads_y": 4, "rows": 2}),
}


def fault_of(fusion: Fusion, g: Generated, source: str, pool: CompilePool) -> str:
    stored = artifact(g, pool.submit(source, "sm_90a").result())
    return run_set(fusion, stored, parse(stored.ptx), "random", ORDERS[:1]).fault


@pytest.mark.parametrize("name", RUNS)
def test_kernels_compute_their_fusion(name: str, pool: CompilePool) -> None:
    fusion, knobs = RUNS[name]
    g = made(fusion, **knobs)
    assert fault_of(fusion, g, g.source, pool) == ""


def test_a_word_past_the_tensor_s_end_is_found(pool: CompilePool) -> None:
    """Without the condition that words lie in its memory, the last row's reach beyond it."""
    fusion = fold("sum", (67, 135), (0,), "bf16")
    g = made(fusion, vector=8, threads_x=8, threads_y=8, rows=2)

    def spoiled(node: Any) -> Any:
        match node:
            case If() if cut_access(node) is not None:
                return replace(node, conditions=tuple(c for c in node.conditions if c.right.const < 67 * 135))
            case If():
                then, orelse = (tuple(map(spoiled, body)) for body in (node.then, node.orelse))
                return replace(node, then=then, orelse=orelse)
            case Loop():
                return replace(node, body=tuple(map(spoiled, node.body)))
            case _:
                return node

    source = emit(replace(g.kernel, body=tuple(map(spoiled, g.kernel.body))))
    assert source != g.source
    assert fault_of(fusion, g, source, pool) != ""


def test_words_at_any_address_ask_for_no_alignment() -> None:
    """Of a tensor that is aligned they do: its words are told from offsets alone."""
    for align, asked in ((2, set[str]()), (16, {"words_start_at_aligned_addresses"})):
        g = made(fold("sum", (21, 51), (0,), "bf16", align=align), vector=8, threads_x=8, threads_y=8)
        (launch,) = launches_of(g.trace)
        violations, guards = check_model(Schedule(launch.trace.replay(), HOPPER))
        reads = {k.rule for k in guards if "i0" in str(k)}
        assert ({v.rule for v in violations} <= BEYOND.keys(), reads) == (True, asked)
        assert g.alignments[0] == align
