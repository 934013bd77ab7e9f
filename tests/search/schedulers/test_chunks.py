"""Chunks: which fusions permute inside runs of memory alone, and that whatever is a point of theirs compiles."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.arch import Arch, arch_named
from compiler.ir.fusion import Fusion
from compiler.pipeline import generate
from compiler.schedule.start import start
from search.cost.instructions import issues_of
from search.cost.sites import sites_of
from search.space.schedulers.chunks import Chunks
from search.space.schedulers.chunks_facts import ChunkSpace, chunk_space
from tests.compiler.schedules import from_wire
from tests.search.schedulers.fusions import tensor
from tests.search.schedulers.permute_fusions import added_across, permuted
from tests.search.schedulers.points import generated

HOPPER, AMPERE = arch_named("sm_90a"), arch_named("sm_80")
CHUNKS = Chunks()


def permuted_twice() -> Fusion:
    """A sum of two permutes of one input, of different orders."""
    ops: list[dict[str, Any]] = [
        {"op": "permute", "in": ["x"], "out": "a", "dims": [0, 2, 1]},
        {"op": "permute", "in": ["y"], "out": "b", "dims": [1, 2, 0]},
        {"op": "add", "in": ["a", "b"], "out": "out"},
    ]
    return from_wire([tensor("x", (90, 20, 24), "f32"), tensor("y", (20, 90, 24), "f32")], ops, "out")


@pytest.mark.parametrize(
    ("fusion", "reason"),
    [
        pytest.param(permuted((900, 17, 31), (0, 2, 1)), None, id="odd-matrices"),
        pytest.param(permuted((900, 17, 31), (2, 1, 0)), "moves the outermost", id="outermost-is-moved"),
        pytest.param(permuted((900, 17, 31), (0, 1, 2)), "no input in another order", id="nothing-is-moved"),
        pytest.param(permuted((9, 10, 16, 8, 7), (0, 1, 4, 3, 2), "bf16"), None, id="two-of-a-batch"),
        pytest.param(permuted((90, 12, 20, 15), (0, 2, 1, 3)), None, id="common-runs-of-60-bytes"),
        pytest.param(permuted((90, 12, 20, 16), (0, 2, 1, 3)), "runs of 16 elements", id="common-runs-of-64-bytes"),
        pytest.param(permuted((90, 128, 144), (0, 2, 1)), None, id="three-fit-a-multiprocessor"),
        pytest.param(permuted((90, 128, 160), (0, 2, 1)), "three do not fit", id="three-do-not-fit"),
        pytest.param(permuted((90, 509, 37), (0, 2, 1)), None, id="threads-of-a-prime"),
        pytest.param(permuted((90, 523, 37), (0, 2, 1)), "no number of threads", id="a-prime-beyond-all-threads"),
        pytest.param(added_across((900, 20, 24), (0, 2, 1)), None, id="memory-in-another-order"),
        pytest.param(added_across((900, 20, 24), (0, 2, 1), pad=1), "not as one run", id="memory-with-gaps"),
        pytest.param(permuted_twice(), "moves the outermost", id="one-of-two-moves-the-outermost"),
    ],
)
def test_it_takes_permutes_inside_runs_that_threads_can_share(fusion: Fusion, reason: str | None) -> None:
    found = CHUNKS.refusal(fusion, HOPPER)
    assert found is None if reason is None else found is not None and reason in found


def test_the_copy_engine_brings_what_lies_in_the_order_of_its_dimensions() -> None:
    """A permute of columns that lie one behind the other is another one of memory."""
    ops = [{"op": "permute", "in": ["x"], "out": "out", "dims": [0, 3, 1, 2]}]
    by_columns = from_wire([tensor("x", (64, 6, 10, 8), "f32", strides=[480, 1, 6, 60])], ops, "out")
    for fusion, loads in ((permuted((64, 10, 8), (0, 2, 1)), ("cp_async", "bulk")), (by_columns, ("cp_async",))):
        space = CHUNKS.space(fusion, HOPPER)
        assert space.knobs[0].values == loads
        for point in space.sample(3, seed=0):
            generate(CHUNKS.trace(fusion, point), HOPPER)


@pytest.mark.parametrize(
    ("shape", "dims", "batch", "order"),
    [
        pytest.param((90, 17, 31), (0, 2, 1), 1, (0, 1, 2), id="matrices"),
        pytest.param((1, 90, 1, 17, 31, 1), (0, 1, 4, 3, 2, 5), 2, (0, 1, 3, 2, 5, 4), id="dimensions-of-one"),
        pytest.param((9, 10, 16, 8, 7), (0, 1, 4, 3, 2), 2, (0, 1, 2, 3, 4), id="two-of-a-batch"),
    ],
)
def test_a_source_is_copied_in_the_order_of_its_memory(
    shape: tuple[int, ...], dims: tuple[int, ...], batch: int, order: tuple[int, ...]
) -> None:
    found = chunk_space(start(permuted(shape, dims)))
    assert isinstance(found, ChunkSpace)
    assert (found.batch, found.sources[0].order) == (batch, order)
    assert found.chunks * found.elems == prod(shape)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    st.integers(1, 70),
    st.lists(st.integers(2, 40), min_size=2, max_size=3),
    st.randoms(use_true_random=False),
    st.sampled_from(["i8", "f16", "f32", "f64"]),
    st.sampled_from([HOPPER, AMPERE]),
)
def test_points_compile(batch: int, sizes: list[int], random: Random, dtype: str, arch: Arch) -> None:
    moved = list(range(1, len(sizes) + 1))
    random.shuffle(moved)
    fusion = permuted((batch, *sizes), (0, *moved), dtype)
    assume(CHUNKS.refusal(fusion, arch) is None)
    for point in CHUNKS.space(fusion, arch).sample(2, seed=0):
        generate(CHUNKS.trace(fusion, point), arch)


def instructions_of_an_element(chunks: int, steps: int) -> float:
    """Predicted, of a thread, to read an element from its place in a tile."""
    fusion = permuted((4096, 17, 31), (0, 2, 1), "i8")
    made = generated("chunks", fusion, load="bulk", chunks=chunks, steps=steps, vector=4, threads=124)
    reads = [s for s in sites_of(made.kernel.body, 1, 1) if type(s.statement).__name__ == "SharedLoad"]
    total = sum(issues_of(s.statement) * s.per_tile for s in reads)
    return total / sum(s.per_tile for s in reads)


def test_a_place_that_is_worked_out_once_serves_all_steps() -> None:
    """PTX of the same kernels: 30 instructions an element with one step, 20 with two, 9 to 12 with four to eight."""
    one, two, four = (instructions_of_an_element(32, n) for n in (1, 2, 4))
    moves = 3.0  # the load, its address, and a byte put into a register
    assert one > two > four > moves
    assert one - moves == pytest.approx(4 * (four - moves))
