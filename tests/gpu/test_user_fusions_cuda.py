"""Two hundred fusions as users post them, on a card: a few candidates of each are verified and timed there, and the
fastest gives what torch gives on the same card."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from fusetune.errors import FusetuneError
from fusetune.kernel import Kernel
from fusetune.wire.artifact import KernelArtifact
from search.measure.cuda import CudaDevice
from search.measure.device import Effort
from search.tuning.trial import TrialState
from tests.search.random_fusions.building import in_processes
from tests.search.user_fusions.posted import LARGE, Posted, differences
from tests.search.user_fusions.table import POSTED
from tests.search.user_fusions.tuned import Candidates, candidates

pytestmark = pytest.mark.gpu

EACH = 2
"""Candidates of a fusion that are measured."""

SEED = 3

LIST = ((257, 33), (1,), (70_001,), (0, 5), (12, 3, 9))
"""Shapes of the tensors of each list."""


def lists(one: Posted) -> list[Any]:
    """What is passed for each input: a list of tensors, or a single one."""
    found: list[Any] = []
    for n, given in enumerate(one.inputs):
        if not given.is_list:
            found.append(given.tensor({}, n, "cuda"))
            continue
        flat = [given.tensor({"N": torch.Size(shape).numel()}, 10 * n + k, "cuda") for k, shape in enumerate(LIST)]
        found.append([x.reshape(shape) for x, shape in zip(flat, LIST, strict=True)])
    return found


def wrong_over_lists(one: Posted, kernel: Kernel) -> str:
    given = lists(one)
    rows = [[x[k] if isinstance(x, list) else x for x in given] for k in range(len(LIST))]
    wanted = [one.wanted(row) for row in rows]
    found: Any = kernel(*given, *one.scalars)
    outputs: Sequence[Any] = found if isinstance(found, tuple) else (found,)
    said = (differences(one, [x[k] for x in outputs], wanted[k]) for k in range(len(LIST)) if rows[k][0].numel())
    return "; ".join(filter(None, said))


def wrong_beside_torch(one: Posted, kernel: Kernel) -> str:
    if one.is_of_lists:
        return wrong_over_lists(one, kernel)
    tensors = one.tensors(LARGE, "cuda")
    wanted = one.wanted(tensors)
    found: Any = kernel(*tensors, *one.scalars)
    return differences(one, found if isinstance(found, tuple) else (found,), wanted)


def fault(made: Candidates, device: CudaDevice) -> str:
    """What is wrong with the kernels of a fusion, in words; empty if all are right and the fastest is torch."""
    if made.why:
        return made.why
    one = POSTED[made.name]
    device.open(one.bound(LARGE))
    timed: list[tuple[float, int]] = []
    artifacts = [KernelArtifact.model_validate_json(text) for text in made.artifacts]
    for n, artifact in enumerate(artifacts):
        result = device.measure(artifact, Effort.SCREEN)
        if result.state is not TrialState.MEASURED or result.timing is None:
            return f"{result.state}: {result.reason}"
        timed.append((result.timing.median_us, n))
    try:
        return wrong_beside_torch(one, Kernel(artifacts[min(timed)[1]]))
    except (FusetuneError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


def test_users_fusions_are_tuned_verified_and_what_torch_gives() -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("kernels are compiled for sm_90a")
    begun = time.monotonic()
    wrong: list[str] = []
    arguments = [(name, EACH, SEED) for name in POSTED]
    with CudaDevice() as device:
        for made in in_processes(min(16, os.cpu_count() or 1), candidates, arguments):
            if said := fault(made, device):
                wrong.append(f"{made.name}: {said}")
    print(f"{len(POSTED) - len(wrong)} of {len(POSTED)} fusions right, {time.monotonic() - begun:.0f} s")
    assert not wrong, f"{len(wrong)} of {len(POSTED)}\n\n" + "\n\n".join(wrong)
