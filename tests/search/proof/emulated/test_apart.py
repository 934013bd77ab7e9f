"""Proofs in a child: the same as here, and given up when their time is up."""

from __future__ import annotations

import time
from math import inf

import pytest

from compiler.arch import arch_named
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from compiler.schedule.trace import ScheduleTrace
from fusetune.wire.artifact import KernelArtifact
from search.proof.emulated.apart import Prover
from search.proof.emulated.check import generated_of, verify
from tests.compiler.schedules import by_threads, from_wire


@pytest.fixture(scope="module")
def copy(machine_pool: CompilePool) -> KernelArtifact:
    fusion = from_wire([{"name": "x", "shape": [7000], "dtype": "f32"}], [{"op": "copy", "in": ["x"], "out": "y"}], "y")
    made = generate(ScheduleTrace(fusion, tuple(by_threads())), arch_named("sm_90a"))
    return artifact(made, machine_pool.submit(made.source, "sm_90a").result())


def test_a_proof_in_a_child_is_the_same(copy: KernelArtifact, machine_pool: CompilePool) -> None:
    with Prover() as prover:
        found = prover.prove(copy, inf)
        assert found.verification is not None
        assert found == verify(generated_of(copy), copy, machine_pool)
        # The same child proves the next, and one that it cannot is not its end.
        assert prover.prove(copy.model_copy(update={"ptx": "no ptx"}), 60.0).undone
        assert prover.prove(copy, 60.0) == found


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_proof_is_given_up_when_its_time_is_up(copy: KernelArtifact, seconds: float) -> None:
    began = time.monotonic()
    with Prover() as prover:
        found = prover.prove(copy, seconds)
    assert (found.verification, found.fault) == (None, "")
    assert found.undone == f"Its proof takes more than the {seconds:.1f} s that were left of the budget"
    assert time.monotonic() - began < 10


def test_a_prover_that_has_rested_proves_again(copy: KernelArtifact) -> None:
    with Prover() as prover:
        prover.start()
        prover.rest()
        prover.rest()  # nor does it matter that nothing has started
        assert prover.prove(copy, inf).verification is not None


def test_a_prover_that_is_closed_while_it_starts_ends_at_once() -> None:
    began = time.monotonic()
    prover = Prover()
    prover.start()
    prover.close()
    assert time.monotonic() - began < 10
