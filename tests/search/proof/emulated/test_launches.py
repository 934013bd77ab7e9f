"""Fusions that take several launches: scheduled, compiled as one source, and run in order in the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from compiler.arch import arch_named
from compiler.emulate.launch import Completion
from compiler.emulate.ptx.parser import parse
from compiler.errors import IllegalSchedule, Unsupported
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from compiler.wire import KernelArtifact
from fusetune.wire.artifact import Scratch
from search.proof.emulated.check import verify
from search.proof.emulated.running import run_set
from search.proof.verify.inputs import RANDOM
from search.space.schedulers import schedulers_for
from search.space.schedulers.launches import Launches
from tests.cards import card_of
from tests.search.launches.made import (
    BF16,
    F32,
    S,
    Written,
    column_max_of_shares,
    fusion_of,
    row_and_column_sums,
    softmax,
    sum_of_squared_sums,
)
from tests.shares import shared

HOPPER = arch_named("sm_90a")


def transposed_softmax() -> Fusion:
    return softmax(S, ("permute", ["v6"], "v7", S[::-1], F32, (1, 0)), outputs=("v7",))


def sum_of_a_row() -> Fusion:
    """One row of 16-bit elements, which is split: partial sums are f32."""
    return sum_of_one_row(16384)


def sum_of_one_row(n: int) -> Fusion:
    return fusion_of([("i0", (1, n), BF16)], [("sum", ["i0"], "v0", (1,), BF16, (1,))], "v0")


def sums_and_shares() -> Fusion:
    """An output that a later launch reads: column sums, and x over the sum of its column and that of its row."""
    ops: list[Written] = [
        ("sum", ["i0"], "v0", (S[1],), F32, (0,)),
        ("sum", ["i0"], "v1", (S[0],), F32, (1,)),
        ("broadcast_to", ["v0"], "v2", S, F32, (1,)),
        ("broadcast_to", ["v1"], "v3", S, F32, (0,)),
        ("add", ["v2", "v3"], "v4", S, F32),
        ("div", ["i0", "v4"], "v5", S, F32),
    ]
    return fusion_of([("i0", S, F32)], ops, "v0", "v5")


CASES = {
    "two-outputs": (row_and_column_sums(), 2),
    "chain": (column_max_of_shares(), 2),
    "small-between": (sum_of_squared_sums(), 2),
    "transposed-softmax": (transposed_softmax(), 2),
    "output-read-again": (sums_and_shares(), 2),
    "one-row": (sum_of_a_row(), 2),
    "one-row-with-a-rest": (sum_of_one_row(16411), 2),
    "softmax-of-one-row": (softmax((1, 16384)), 3),
    "softmax-of-one-row-with-a-rest": (softmax((1, 16411)), 3),
}


def candidates(fusion: Fusion, count: int, seed: int) -> Iterator[Generated]:
    """Kernels of several launches: some points of each scheduler of launches, less those that the model refuses."""
    for scheduler in schedulers_for(fusion, card_of(HOPPER)):
        if isinstance(scheduler, Launches):
            for point in scheduler.space(fusion, HOPPER).sample(count, seed):
                try:
                    yield generate(scheduler.trace(fusion, point), HOPPER)
                except (IllegalSchedule, Unsupported):
                    continue


@dataclass(frozen=True)
class Built:
    made: Generated
    artifact: KernelArtifact

    def fault(self, **changes: object) -> str:
        """What is wrong with the kernel, or with a copy of it in which something is changed."""
        spoiled = self.artifact.model_copy(update=changes)
        module = parse(spoiled.ptx)
        return run_set(self.made.trace.fusion, spoiled, module, RANDOM, [Completion.RANDOM], races=True).fault


@pytest.fixture(scope="module")
def kernels(pool: CompilePool) -> dict[str, Built]:
    """Of each case the first kernel with small grids. Compiled at once."""
    chosen = {
        name: next(g for g in candidates(fusion, 12, seed=0) if all(one.kernel.grid[0] <= 96 for one in g.launches))
        for name, (fusion, _) in CASES.items()
    }
    compiled = {name: pool.submit(made.source, "sm_90a") for name, made in chosen.items()}
    return {name: Built(made, artifact(made, compiled[name].result())) for name, made in chosen.items()}


def test_a_rest_of_a_long_row_is_proven_by_what_is_read_of_it(pool: CompilePool) -> None:
    """The second launch has all of the row for an operand, and reads the end of it: no more is made or run."""
    made = next(candidates(sum_of_one_row(4_000_037), 4, seed=0))
    compiled = artifact(made, pool.submit(made.source, "sm_90a").result())
    found = verify(made, compiled, pool)
    assert (found.verdict, found.fault, found.undone) == ("right", "", "")
    assert found.verification is not None
    assert (ran := found.verification.emulated) is not None
    assert ran.served_blocks[-1] == made.launches[0].kernel.grid[0]


@pytest.mark.parametrize("name", shared(CASES, 2))
def test_launches_run_in_order_give_the_right_values(kernels: dict[str, Built], name: str) -> None:
    _, launches = CASES[name]
    kernel = kernels[name]
    assert len(kernel.artifact.launches) == launches
    assert [launch.entry for launch in kernel.artifact.launches] == [f"fusetune_kernel_{n}" for n in range(launches)]
    assert kernel.fault() == ""


def test_what_an_earlier_launch_has_not_written_must_not_be_read(kernels: dict[str, Built]) -> None:
    """Launches in the wrong order, and one left out: the emulator tells both."""
    kernel = kernels["chain"]
    first, second = kernel.artifact.launches
    assert "uninitialized" in kernel.fault(launches=(second, first))
    assert "uninitialized" in kernel.fault(launches=(second,))
    assert "never written" in kernel.fault(launches=(first,))


def test_scratch_is_bounded(kernels: dict[str, Built]) -> None:
    """A buffer that is an element short is written past its end."""
    kernel = kernels["chain"]
    (buffer,) = kernel.artifact.scratch
    assert buffer == Scratch(bytes=4 * S[0], align=256)
    assert "launch 0: " in kernel.fault(scratch=(buffer.model_copy(update={"bytes": buffer.bytes - 4}),))
