"""Wrong kernels on a card: mutants go the way of a candidate, compiled, run and verified, and none is measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice, zip_longest

import pytest

from compiler.nvrtc import CompilePool
from fusetune.wire.artifact import KernelArtifact
from search.measure.child_device import Deadlines
from search.measure.cuda import CudaDevice
from search.measure.device import Effort
from search.tuning.trial import TrialState
from tests.mutants.building import building
from tests.mutants.choosing import Judged, made, wrong_of
from tests.mutants.fusions import fusions
from tests.mutants.judging import subject
from tests.mutants.kinds.table import KINDS
from tests.mutants.survivors import reason

pytestmark = pytest.mark.gpu

COUNT = 200
LEAST_FOUND = 0.99
CAPABILITY = (9, 0)
HANG_LIMIT_S = 5.0
_KINDS = {kind.name: kind for kind in KINDS}


def mutants() -> list[Judged]:
    """Wrong ones of all kinds in turns, those of one fusion together."""
    names = tuple(fusions())
    # A card need not mind what is out of bounds of the shared memory that a block asked for, and then it is right.
    each_kind = -(-COUNT // len(KINDS)) + 1
    each = [
        [one for one in wrong_of(kind, names, each_kind) if "outside its bounds" not in one.verdict.why]
        for kind in KINDS
    ]
    turns = (one for turn in zip_longest(*each) for one in turn if one is not None)
    return sorted(islice(turns, COUNT), key=lambda one: one.mutant.fusion)


def artifacts() -> Iterator[tuple[Judged, KernelArtifact]]:
    """The mutants compiled; what does not compile is no kernel."""
    with CompilePool(min(16, os.cpu_count() or 1)) as pool:
        waiting = []
        for one in mutants():
            mutant = one.mutant
            point = subject(mutant.fusion).points[mutant.point]
            waiting.append((one, building(point, mutant.launch, made(mutant, _KINDS[mutant.kind]), pool)))
        for one, build in waiting:
            if (artifact := build.artifact()) is not None:
                yield one, artifact


def test_wrong_kernels_are_found_on_the_card() -> None:
    missed: list[str] = []
    count, opened = 0, ""
    with CudaDevice(limits=Deadlines(measure_s=HANG_LIMIT_S)) as device:
        for one, artifact in artifacts():
            if one.mutant.fusion != opened:
                opened = one.mutant.fusion
                device.open(fusions()[opened])
                if device.facts().capability != CAPABILITY:
                    pytest.skip("mutants are compiled for sm_90a")
            result = device.measure(artifact, Effort.ALL_SETS)
            count += 1
            if result.state is TrialState.MEASURED and not reason(one):
                missed.append(f"{one.mutant}: {one.verdict.why}")
    assert count >= COUNT * 9 // 10, "hardly any mutant compiles"
    assert len(missed) <= (1 - LEAST_FOUND) * count, f"{len(missed)} of {count}\n" + "\n".join(missed)
