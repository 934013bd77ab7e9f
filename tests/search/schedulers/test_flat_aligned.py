"""Pointwise rows of an odd pitch: shifted so that vectors are aligned, a thread's rows so far apart that they begin
alike, and what they share loaded once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emit.cuda import emit
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import GlobalLoad, GlobalStore, If, Loop
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from compiler.schedule.start import start
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from search.space.groups import ALIGNED, AS_THEY_ARE, IN_WORDS
from search.space.schedulers.aligned_rows import even_threads, lanes_along, phase_of, rows_apart, straddles
from search.space.schedulers.flat import Flat
from search.space.schedulers.iteration_space import IterationSpace, iteration_space
from search.space.schedulers.row_shape import Phase
from tests.compiler.schedules import from_wire
from tests.search.schedulers.fusions import add, tensor
from tests.search.schedulers.points import SM_COUNT, generated
from tests.search.schedulers.view_fusions import broadcast
from tests.shares import shared

HOPPER = arch_named("sm_90a")


def outer(rows: int, columns: int, dtype: str) -> Fusion:
    shape = [rows, columns]
    ops = [
        broadcast("a", "u", shape, 0),
        broadcast("b", "v", shape, 1),
        {"op": "mul", "in": ["u", "v"], "out": "out"},
    ]
    return from_wire([tensor("a", shape[:1], dtype), tensor("b", shape[1:], dtype)], ops, "out")


def bias(shape: list[int], dims: list[int], dtype: str, **layout: Any) -> Fusion:
    ops = [broadcast("b", "v", shape, *dims), {"op": "add", "in": ["x", "v"], "out": "out"}]
    inputs = [tensor("x", shape, dtype, **layout), tensor("b", [shape[d] for d in dims], dtype)]
    return from_wire(inputs, ops, "out")


def two_pitches(rows: int, columns: int) -> Fusion:
    shape = [rows, columns]
    inputs = [tensor(n, shape, "bf16", strides=[columns + i, 1]) for i, n in enumerate(("x", "y", "z"))]
    ops = [{"op": "add", "in": ["x", "y"], "out": "s"}, {"op": "add", "in": ["s", "z"], "out": "out"}]
    return from_wire(inputs, ops, "out")


def sliced(rows: int, columns: int, first: int, dtype: str) -> Fusion:
    shape = [rows, columns - first]
    ops: list[Mapping[str, Any]] = [
        {"op": "slice", "in": ["x"], "out": "s", "dim": 1, "start": first, "stop": columns},
        {"op": "neg", "in": ["s"], "out": "out"},
    ]
    assert shape[1] > 0
    return from_wire([tensor("x", [rows, columns], dtype)], ops, "out")


def joined(rows: int, *columns: int) -> Fusion:
    inputs = [tensor(f"x{i}", [rows, n], "bf16") for i, n in enumerate(columns)]
    shape = [rows, sum(columns)]
    ops: list[Mapping[str, Any]] = [
        {"op": "cat", "in": [x["name"] for x in inputs], "out": "c", "dim": 1},
        broadcast("b", "v", shape, 1),
        {"op": "add", "in": ["c", "v"], "out": "out"},
    ]
    return from_wire([*inputs, tensor("b", shape[1:], "bf16")], ops, "out")


def widened(rows: int, columns: int) -> Fusion:
    ops: list[Mapping[str, Any]] = [
        {"op": "cast", "in": ["x"], "out": "wide", "dtype": "f32"},
        broadcast("b", "v", [rows, columns], 1),
        {"op": "mul", "in": ["wide", "v"], "out": "product"},
        {"op": "cast", "in": ["product"], "out": "narrow", "dtype": "bf16"},
    ]
    inputs = [tensor("x", [rows, columns], "bf16"), tensor("b", [columns], "f32")]
    return from_wire(inputs, ops, "product", "narrow")


def space_of(fusion: Fusion) -> IterationSpace:
    found = iteration_space(start(fusion))
    assert isinstance(found, IterationSpace)
    return found


@pytest.mark.parametrize(
    ("fusion", "elems", "phase"),
    [
        pytest.param(outer(6, 99, "f32"), 4, Phase(4, 0, ((0, 99),)), id="odd-rows"),
        pytest.param(outer(6, 100, "f32"), 4, None, id="rows-of-vectors"),
        pytest.param(outer(6, 100, "bf16"), 8, Phase(8, 0, ((0, 100),)), id="half-a-vector"),
        pytest.param(add((40, 99), "f32"), 4, None, id="one-run-of-memory-has-no-rows"),
        pytest.param(bias([3, 5, 99], [1], "f32"), 4, Phase(4, 0, ((0, 495), (1, 99))), id="every-outer-group"),
        pytest.param(sliced(6, 103, 2, "f32"), 4, Phase(4, 0, ((0, 101),)), id="outputs-come-before-inputs"),
        pytest.param(widened(6, 99), 8, Phase(8, 0, ((0, 99),)), id="vectors-of-two-words"),
    ],
)
def test_rows_are_shifted_by_the_phase_of_what_is_stored(fusion: Fusion, elems: int, phase: Phase | None) -> None:
    assert phase_of(space_of(fusion), elems) == phase


@pytest.mark.parametrize(
    ("fusion", "elems", "lanes"),
    [
        pytest.param(outer(6, 99, "f32"), 4, {"i0": 1, "i1": 1, "v2": 4}, id="what-rows-share-begins-at-other-phases"),
        pytest.param(two_pitches(6, 98), 8, {"i0": 8, "i1": 1, "i2": 2, "v1": 8}, id="pitches-alike-up-to-two"),
        pytest.param(sliced(6, 103, 2, "f32"), 4, {"i0": 2, "v1": 4}, id="a-slice-of-longer-rows"),
        pytest.param(joined(6, 33, 40), 8, {"i0": 1, "i1": 1, "i2": 1, "v2": 8}, id="bounds-cut-vectors"),
        pytest.param(widened(6, 99), 8, {"i0": 8, "i1": 1, "v2": 4, "v3": 8}, id="words-of-16-bytes"),
        pytest.param(bias([6, 99], [1], "bf16", align=4), 8, {"i0": 2, "i1": 1, "v1": 8}, id="addresses"),
    ],
)
def test_each_operand_moves_as_wide_as_its_rows_begin_alike(fusion: Fusion, elems: int, lanes: dict[str, int]) -> None:
    space = space_of(fusion)
    phase = phase_of(space, elems)
    assert phase is not None
    assert {o.name: lanes_along(space, o, phase, elems) for o in space.operands} == lanes


@pytest.mark.parametrize(
    ("columns", "elems", "apart"),
    [(99, 4, 4), (98, 4, 2), (100, 8, 2), (97, 8, 8)],
    ids=["odd", "even", "half", "bytes"],
)
def test_rows_so_far_apart_begin_alike(columns: int, elems: int, apart: int) -> None:
    space = space_of(outer(64, columns, "bf16"))
    phase = phase_of(space, elems)
    assert phase is not None
    assert rows_apart(phase, 0) == apart


@pytest.mark.parametrize(
    ("fusion", "elems", "words"),
    [
        pytest.param(two_pitches(6, 98), 8, {"i1", "i2"}, id="other-phases"),
        pytest.param(outer(6, 99, "f32"), 4, {"i1"}, id="what-rows-share"),
        pytest.param(outer(6, 99, "f32"), 2, set(), id="two-loads-for-two-elements"),
        pytest.param(widened(6, 99), 8, set(), id="no-words-of-32-bytes"),
        pytest.param(joined(6, 33, 40), 8, {"i2"}, id="bounds-cut-words"),
    ],
)
def test_what_is_not_aligned_may_come_in_words(fusion: Fusion, elems: int, words: set[str]) -> None:
    space = space_of(fusion)
    phase = phase_of(space, elems)
    assert phase is not None
    assert {o.name for o in space.operands if straddles(space, o, phase)} == words


def test_threads_are_fitted_to_rows_that_end_a_vector_later() -> None:
    found = even_threads(space_of(outer(64, 8191, "bf16")), 8)
    assert found == (96, 352)  # 1025 vectors: 11 and 3 tiles, of which powers of two fill 8/9 at most


def test_rows_that_are_aligned_have_no_shifted_points() -> None:
    def begins(fusion: Fusion) -> tuple[object, ...]:
        return {k.name: k.values for k in Flat(SM_COUNT).space(fusion, HOPPER).knobs}["rows_begin"]

    assert begins(outer(64, 4096, "bf16")) == (AS_THEY_ARE,)
    assert begins(outer(64, 4095, "bf16")) == (AS_THEY_ARE, ALIGNED, IN_WORDS)
    assert begins(bias([64, 4095], [0], "f32")) == (AS_THEY_ARE, ALIGNED), "nothing begins at another phase"


# Kernels -------------------------------------------------------------------------------------------------------------


def made(fusion: Fusion, **knobs: Any) -> Generated:
    return generated("flat", fusion, **{"view": "2d", "rows_begin": ALIGNED, "threads_x": 32, **knobs})


@pytest.mark.parametrize("begin", [ALIGNED, IN_WORDS])
def test_points_of_shifted_rows_compile(begin: str) -> None:
    flat = Flat(SM_COUNT)
    for fusion in (outer(81, 1023, "bf16"), bias([9, 17, 255], [0, 1], "f32"), two_pitches(33, 514)):
        points = [p for p in flat.space(fusion, HOPPER).sample(2000, 1) if p["rows_begin"] == begin]
        assert points or begin == IN_WORDS
        for point in points[:6]:
            generate(flat.trace(fusion, point), HOPPER)


def test_ends_of_rows_ask_for_all_words_at_once() -> None:
    """Between rows that are whole and those at the ends of the tensor: no branch stands around a word."""
    body = made(two_pitches(64, 1026), rows_begin=IN_WORDS, vector=8, threads_y=2, rows=2).kernel.body
    (split,) = (s for s in body if isinstance(s, If))
    (ends,) = (s for s in split.orelse if isinstance(s, If))
    for part in (split.then, ends.then):
        assert [s.width for s in walk(part) if isinstance(s, GlobalLoad)] == [8, 8, 8]
    assert not [s for s in split.then if isinstance(s, If)]
    assert all(s.head and s.tail for s in walk(ends.then) if isinstance(s, GlobalStore)), "stores keep to their rows"
    assert [s for s in walk(ends.orelse) if isinstance(s, GlobalLoad) and s.width == 1]


def test_whole_tiles_store_vectors_unasked_and_load_once_what_rows_share() -> None:
    body = made(outer(64, 1023, "bf16"), vector=8, threads_y=2, rows=4).kernel.body
    (split,) = (s for s in body if isinstance(s, If))
    stores = [s for s in walk(split.then) if isinstance(s, GlobalStore)]
    assert [(s.width, s.guards, s.head, s.tail) for s in stores] == [(8, (), None, None)]
    shared = [s for s in split.then if isinstance(s, Loop) for x in walk(s.body) if _loads(x, "i1")]
    assert [s.trip.const for s in shared] == [8], "the elements of one vector, for all rows"
    rows = [s for s in split.then if isinstance(s, Loop) and any(isinstance(x, GlobalStore) for x in walk(s.body))]
    assert [s.trip.const for s in rows] == [4]


def _loads(s: object, name: str) -> bool:
    return isinstance(s, GlobalLoad) and s.tensor == name


RUNS: dict[str, tuple[Fusion, dict[str, Any]]] = {
    "outer": (outer(67, 131, "bf16"), {"vector": 8, "threads_y": 4, "rows": 2}),
    "rest_of_rows": (outer(21, 261, "f16"), {"vector": 8, "rows": 2, "threads_y": 2, "column_steps": 2}),
    "bias": (bias([35, 101], [1], "f32"), {"vector": 4, "rows": 4, "threads_y": 2}),
    "channels": (bias([3, 17, 77], [0, 1], "bf16"), {"vector": 8, "rows": 2, "threads_y": 8}),
    "plane": (bias([18, 5, 13], [1, 2], "f32"), {"vector": 4, "rows": 4, "tile_order": "columns_inner"}),
    "pitches": (two_pitches(19, 130), {"vector": 8, "rows": 1, "threads_y": 4}),
    "slice": (sliced(13, 70, 3, "f32"), {"vector": 4, "rows": 2}),
    "cat": (joined(9, 33, 40), {"vector": 4, "rows": 2}),
    "two_outputs": (widened(17, 91), {"vector": 8, "rows": 2, "threads_y": 2}),
    "bytes": (bias([33, 205], [1], "i8"), {"vector": 16, "rows": 2, "threads_y": 8}),
    "words": (two_pitches(19, 261), {"vector": 8, "rows": 2, "rows_begin": IN_WORDS}),
    "words_of_bias": (bias([35, 101], [1], "f32"), {"vector": 4, "rows": 4, "rows_begin": IN_WORDS}),
    "words_of_slices": (sliced(13, 70, 3, "bf16"), {"vector": 8, "rows": 1, "rows_begin": IN_WORDS}),
    "words_at_any_address": (bias([17, 131], [1], "bf16", align=2), {"vector": 4, "rows_begin": IN_WORDS}),
}


def fault_of(fusion: Fusion, g: Generated, source: str, pool: CompilePool, orders: int = 1) -> str:
    stored = artifact(g, pool.submit(source, "sm_90a").result())
    return run_set(fusion, stored, parse(stored.ptx), "random", ORDERS[:orders]).fault


@pytest.mark.parametrize("name", shared(RUNS, 2))
def test_kernels_compute_their_fusion(name: str, pool: CompilePool) -> None:
    fusion, knobs = RUNS[name]
    g = made(fusion, **knobs)
    assert fault_of(fusion, g, g.source, pool) == ""


@pytest.mark.parametrize("side", ["head", "tail"])
def test_a_vector_that_is_stored_past_the_end_of_its_row_is_found(side: str, pool: CompilePool) -> None:
    fusion = outer(67, 131, "bf16")
    g = made(fusion, vector=8, threads_y=4, rows=2)

    def spoiled(node: Any) -> Any:
        match node:
            case GlobalStore():
                return replace(node, head=None) if side == "head" else replace(node, tail=None)
            case Loop():
                return replace(node, body=tuple(map(spoiled, node.body)))
            case _:
                return node

    source = emit(replace(g.kernel, body=tuple(map(spoiled, g.kernel.body))))
    assert source != g.source
    assert fault_of(fusion, g, source, pool, len(ORDERS)) != ""


def test_words_that_hold_nothing_of_a_row_are_not_loaded(pool: CompilePool) -> None:
    """Of four elements that a shift moves along, the first two may lie before the row: of rows turned over, before the
    tensor."""
    inputs = [tensor("x", [7, 33], "f16", strides=[39, 1], align=8)]
    fusion = from_wire(inputs, [{"op": "flip", "in": ["x"], "out": "out", "dims": [0]}], "out")
    made = generated("flat", fusion, view="2d", rows_begin=ALIGNED, vector=4)
    built = artifact(made, pool.submit(made.source, HOPPER.name).result())
    assert run_set(fusion, built, parse(built.ptx), RANDOM, ORDERS[:1]).fault == ""
