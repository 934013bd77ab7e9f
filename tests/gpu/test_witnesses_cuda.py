"""One value has one set of bits on a card too: outputs of random fusions that say so by themselves, and winners of rows
at the sizes at which rows were left without one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

import pytest

from fusetune.errors import FusetuneError
from fusetune.wire.artifact import KernelArtifact
from search.proof.verify.arrays import TorchArrays
from tests.search.random_fusions.building import Built, in_processes
from tests.search.random_fusions.witnesses.building import build_winner, build_witnessed
from tests.search.random_fusions.witnesses.on_card import OnCard
from tests.search.random_fusions.witnesses.running import Asked, told
from tests.search.random_fusions.witnesses.winners import NAMES, winner, without_winner
from tests.search.random_fusions.witnesses.witness import Array, violations

pytestmark = pytest.mark.gpu

LIMITS = {"small": 700, "large": 300}
POINTS = 4
"""Of each random fusion: other schedules, other passes, other launches."""

CANDIDATES, DRAWN, PARTS = 200, 260, 32
"""Candidates of each fusion that chooses a winner; so many are drawn, for the whole model refuses some."""

PROCESSES = min(16, os.cpu_count() or 1)


@pytest.fixture(scope="module")
def arrays() -> TorchArrays:
    import torch

    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the kernels are compiled for sm_90a")
    return TorchArrays("cuda:0")


def asked(built: Built, on: OnCard, broken: Callable[[Sequence[Array]], list[str]]) -> Asked:
    """Runs a kernel and says what is broken; a context that a kernel breaks stays so, for all after."""
    outcome = built.outcome
    if outcome.fault or outcome.unsupported:
        return Asked(outcome.kernel, fault=outcome.fault, unsupported=outcome.unsupported)
    try:
        outputs = on.outputs_of(KernelArtifact.model_validate_json(built.artifact))
    except (FusetuneError, RuntimeError) as error:
        return Asked(outcome.kernel, fault=f"{type(error).__name__}: {error}")
    return Asked(outcome.kernel, tuple(broken(outputs)))


def test_witnesses_hold_on_the_card(arrays: TorchArrays) -> None:
    jobs = [(seed, limits, POINTS) for limits, count in LIMITS.items() for seed in range(50_000, 50_000 + count)]
    found: list[Asked] = []
    fusions = 0
    for one, every in in_processes(PROCESSES, build_witnessed, jobs):
        on = OnCard(one.case.bound(), arrays)
        found += [asked(built, on, partial(violations, one.witnesses)) for built in every]
        fusions += 1
    assert fusions == sum(LIMITS.values())
    assert not told(found), told(found)


@pytest.mark.parametrize("name", NAMES)
def test_every_row_has_its_winner_on_the_card(name: str, arrays: TorchArrays) -> None:
    case = winner(name)
    on = OnCard(case.bound(), arrays)

    def broken(outputs: Sequence[Array]) -> list[str]:
        lost = without_winner(case, outputs)
        return [f"{lost} of {outputs[1].size} rows have no winner"] if lost else []

    parts = in_processes(PROCESSES, build_winner, [(name, DRAWN, first, PARTS) for first in range(PARTS)])
    found = [asked(built, on, broken) for built in chain.from_iterable(every for _, every in parts)]
    assert len(found) >= CANDIDATES
    assert not told(found), told(found)
