"""Reads where indices say: kernels of the schedulers that take them, and what they do with an index out of range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from compiler.arch import card_or_default
from compiler.emulate.ptx.parser import parse
from compiler.emulate.report import FaultKind
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import input_tensor, launch_of, output_tensor
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import GlobalLoad, Loop
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from fusetune.fusion import FusionBuilder, Tensor
from search.proof.emulated.running import ARRAYS, ORDERS, options, run_set
from search.proof.verify.inputs import RANDOM, input_sets, make_inputs
from search.space.schedulers import refusals
from search.tuning.candidates.plan import Plan
from tests.search.schedulers.choice_fusions import (
    CHOICES,
    bound,
    cross_entropy,
    embedding_norm,
    of_sums,
    scaled_rows,
    take,
)
from tests.search.schedulers.points import generated
from tests.shares import shared

CARD = replace(card_or_default("H200"), sm_count=4)
"""Few multiprocessors, so that persistent blocks go round."""


def kernels(fusion: Fusion, count: int, seed: int) -> list[Generated]:
    plan = Plan.of(fusion, CARD)
    return [
        generate(plan.schedulers[one.scheduler].trace(plan.fusion, one.knobs), plan.arch)
        for one in plan.sample(count, seed)
    ]


def right_in(made: Generated, sets: Sequence[str], pool: CompilePool) -> None:
    built = artifact(made, pool.submit(made.source, made.arch.name).result())
    module = parse(built.ptx)
    for name in sets:
        assert run_set(made.trace.fusion, built, module, name, ORDERS[-1:], races=True).fault == ""


@pytest.mark.parametrize("name", shared(CHOICES, 4, 1))
def test_kernels_are_right_in_the_emulator(name: str, pool: CompilePool) -> None:
    fusion = CHOICES[name]()
    for made in kernels(fusion, 2, len(name)):
        right_in(made, (RANDOM,), pool)


@pytest.mark.long
@pytest.mark.parametrize("name", CHOICES)
def test_kernels_are_right_on_every_input_set(name: str, pool: CompilePool) -> None:
    fusion = CHOICES[name]()
    for made in kernels(fusion, 12, 1):
        right_in(made, input_sets(fusion), pool)


@pytest.mark.parametrize("shape", [(3, 1), (3, 1, 5)])
def test_what_is_turned_around_is_read_where_each_index_says(shape: tuple[int, ...], pool: CompilePool) -> None:
    """The dimension that is chosen along has one place, so that backwards and from index to index nearly cancel."""

    def write(f: FusionBuilder) -> Tensor:
        chosen = f.gather(f.input("x", shape, "f16"), 1, f.input("i", shape, "i32"))
        return f.flip(chosen, (0 if len(shape) == 2 else 2,))

    for made in kernels(bound(write), 8, 1)[:3]:
        right_in(made, (RANDOM,), pool)


# Schedulers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fusion", "taken"),
    [
        pytest.param(scaled_rows(50, 96, 13), "flat", id="rows"),
        pytest.param(embedding_norm(37, 2, 5, 96), "row", id="rows-that-are-folded"),
        pytest.param(cross_entropy(5, 1000, "f32"), "row", id="an-element-of-a-row-that-is-folded"),
        pytest.param(of_sums(10, 6, 32, 7), "launches", id="rows-of-sums"),
    ],
)
def test_a_scheduler_takes_it_and_the_others_say_why_not(fusion: Fusion, taken: str) -> None:
    plan, why = Plan.of(fusion, CARD), refusals(fusion, CARD)
    assert {name.partition("-")[0] for name in plan.schedulers} == {taken}
    assert set(why) == {
        *("flat", "tile2d", "row", "column", "inner_outer", "chunks", "scan"),
        *("product", "tensor_product", "warp_product", "thread_product", "launches"),
    } - {taken}
    assert all(why.values())


def loads(made: Generated, tensor: str) -> list[GlobalLoad]:
    return [s for s in walk(made.kernel.body) if isinstance(s, GlobalLoad) and s.tensor == tensor]


@pytest.mark.parametrize(
    ("columns", "dtype", "lanes"),
    [
        pytest.param(96, "f32", 4, id="rows-of-whole-words"),
        pytest.param(98, "f32", 2, id="rows-of-halves-of-words"),
        pytest.param(97, "f32", 1, id="odd-rows"),
        pytest.param(96, "bf16", 8, id="of-two-bytes"),
        pytest.param(100, "bf16", 4, id="of-two-bytes-by-eight"),
    ],
)
def test_words_are_as_wide_as_rows_allow(columns: int, dtype: str, lanes: int) -> None:
    made = kernels(scaled_rows(50, columns, 12, dtype), 24, 3)  # type: ignore[arg-type]  # a name of the table
    assert max(load.width for one in made for load in loads(one, "i0")) == lanes


def test_indices_are_there_before_any_row_is_asked_for() -> None:
    """Read ahead: a thread's rows do not wait for one another's indices."""
    made = generated("flat", scaled_rows(5000, 512, 300), view="2d", vector=4, rows=4, threads_x=32, threads_y=4)
    order = [s.tensor for s in walk(made.kernel.body) if isinstance(s, GlobalLoad)]
    cut = order.index("i1", order.index("i0"))
    for part in (order[:cut], order[cut:]):  # full tiles, and cut ones
        assert part == ["i1"] * (len(part) - 1) + ["i0"]
    ahead = [
        s for s in walk(made.kernel.body) if isinstance(s, Loop) and s.unroll and isinstance(s.body[0], GlobalLoad)
    ]
    assert all(len(s.body) == 1 for s in ahead), "an unrolled loop of loads and nothing else"


def test_a_row_has_one_index_however_many_threads_read_it() -> None:
    made = generated("row", embedding_norm(500, 4, 8, 1024), threads=128, vector=8, rows=1)
    (load,) = (s for s in loads(made, "i0") if not s.guards)
    assert load.width == 1
    assert all(v.name == "bx" for v in load.offset.variables), "the same for all threads of the block"


# Traps ---------------------------------------------------------------------------------------------------------------


def faults(made: Generated, pool: CompilePool, index: Sequence[int]) -> list[tuple[FaultKind, str]]:
    """What the emulator finds where the index, the one input of integers, holds these numbers."""
    fusion = made.trace.fusion
    built = artifact(made, pool.submit(made.source, made.arch.name).result())
    storages = make_inputs(fusion, RANDOM, ARRAYS)
    (at,) = (i for i, name in enumerate(fusion.inputs) if not fusion.value(name).dtype.is_float)
    storages[at][:] = np.resize(np.array(index, storages[at].dtype), storages[at].shape)
    inputs = [
        input_tensor(fusion.value(name), ARRAYS.bytes_of(storage).copy())
        for name, storage in zip(fusion.inputs, storages, strict=True)
    ]
    launch = launch_of(built, [*inputs, *(output_tensor(fusion.value(name)) for name in fusion.outputs)])
    outcome = emulate(parse(built.ptx), launch, options(ORDERS[0], races=False))
    return [(fault.kind, fault.instruction) for fault in outcome.faults]


IN_RANGE = (0, 49, 3, 3, 48)


@pytest.mark.parametrize(
    ("fusion", "index", "traps"),
    [
        pytest.param(scaled_rows(50, 96, 13), IN_RANGE, False, id="first-and-last"),
        pytest.param(scaled_rows(50, 96, 13), (*IN_RANGE, -1), True, id="negative"),
        pytest.param(scaled_rows(50, 96, 13), (*IN_RANGE, 50), True, id="one-too-large"),
        pytest.param(scaled_rows(50, 96, 13), (*IN_RANGE, 1 << 32), True, id="as-32-bits-it-were-0"),
        pytest.param(scaled_rows(50, 33, 13, "bf16", "i32"), (*IN_RANGE, -50), True, id="odd-rows"),
        pytest.param(scaled_rows(50, 33, 13, "bf16", "i32"), IN_RANGE, False, id="odd-rows-in-range"),
        pytest.param(take((1, 24), (5,), "f32"), (0,), False, id="of-one-row"),
        pytest.param(take((1, 24), (5,), "f32"), (0, 0, 1), True, id="of-one-row-another"),
        pytest.param(embedding_norm(50, 2, 5, 96), IN_RANGE, False, id="rows-that-are-folded-in-range"),
        pytest.param(embedding_norm(50, 2, 5, 96), (*IN_RANGE, 50), True, id="rows-that-are-folded"),
        pytest.param(cross_entropy(5, 1000, "f32"), (0, 999, 5), False, id="labels-in-range"),
        pytest.param(cross_entropy(5, 1000, "f32"), (0, 999, 5, -100), True, id="a-label-to-be-ignored"),
    ],
)
def test_an_index_out_of_range_is_a_trap(fusion: Fusion, index: Sequence[int], traps: bool, pool: CompilePool) -> None:
    for made in kernels(fusion, 3, 5):
        found = faults(made, pool, index)
        assert found == ([] if not traps else found[:1])
        assert all(kind is FaultKind.TRAP and "trap" in text for kind, text in found)
        assert bool(found) is traps


def test_what_lies_beyond_the_end_is_no_index(pool: CompilePool) -> None:
    """Threads of a last, cut tile look at no index: what they would make of none is out of range."""
    moved = bound(lambda f: f.take(f.input("t", (40, 8), "f32"), f.input("i", (13,), "i64") - 100) * 2.0)
    for made in kernels(moved, 6, 2):
        right_in(made, (RANDOM,), pool)
