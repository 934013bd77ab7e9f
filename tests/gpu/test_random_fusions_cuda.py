"""Random fusions of up to a few million elements are right on the card, each at a random point of its schedulers'
spaces, against a reference that torch works out on the card."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import Any

import pytest

from fusetune.errors import FusetuneError
from fusetune.launch import Launcher
from fusetune.wire.artifact import KernelArtifact
from search.measure.cuda_check import CheckBench
from search.proof.verify.arrays import TorchArrays
from tests.search.random_fusions.building import Built, built_by, with_fault

pytestmark = pytest.mark.gpu

LARGE, SMALL, LISTS, PRODUCTS, IN_TF32 = 400, 200, 60, 500, 100
"""Fusions whose tensors fill the card's memory system, such as have few blocks, such over lists, and matrix products
with what surrounds them, a tenth of them in tf32, and such alone."""

SECONDS = 240
"""Of each: a slow machine runs fewer of them, and the test says how many."""


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        ("large", LARGE),
        ("small", SMALL),
        ("long_lists", LISTS),
        ("large_products", PRODUCTS),
        ("large_products_in_tf32", IN_TF32),
    ],
)
def test_random_fusions_are_right_on_the_card(limits: str, count: int) -> None:
    import torch

    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("random fusions are compiled for sm_90a")
    arrays = TorchArrays("cuda:0")
    wrong: list[str] = []
    begun, ran = time.monotonic(), 0
    with closing(built_by(min(16, os.cpu_count() or 1), range(20_000, 20_000 + count), limits)) as every:
        for built in every:
            outcome = built.outcome
            if not (outcome.fault or outcome.unsupported):
                outcome = with_fault(built, _fault(built, arrays, torch))
            if outcome.fault or outcome.unsupported:
                wrong.append(str(outcome))
            ran += 1
            if time.monotonic() - begun > SECONDS:
                break
    print(f"{ran} of {count} random fusions run, {time.monotonic() - begun:.0f} s")
    assert not wrong, f"{len(wrong)} of {ran}\n\n" + "\n\n".join(wrong[:3])
    assert ran >= count // 2, f"{ran} of {count} in {SECONDS} s"


def _fault(built: Built, arrays: TorchArrays, torch: Any) -> str:
    """What two poisoned runs between guard zones show, in words; a context that is broken stays so, for all after."""
    bench = CheckBench(built.case.bound(), arrays)
    launcher = Launcher(KernelArtifact.model_validate_json(built.artifact))
    try:
        return next(filter(None, (bench.check(launcher, name).fault for name in built.case.sets)), "")
    except (FusetuneError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        launcher.close()
        del bench
