"""Faults on two fake GPUs, real child processes: each costs its candidate and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fusetune.wire.artifact import KernelArtifact
from search.measure.child_device import Deadlines
from search.measure.device import DeviceLost, Effort, MeasureResult
from search.measure.fake import FakeDevice
from search.tuning.budget import Budget
from search.tuning.build import Builder
from search.tuning.journal import Journal
from search.tuning.lanes import Gpu
from search.tuning.samplers.uniform import RandomSampler
from search.tuning.trial import TrialState
from search.tuning.tuner import SearchSettings, Tuner
from tests.search.measure.kernels import add_fusion, artifact_of
from tests.search.tuning.test_tuner import KEY, Compiler, Drafter, Scripted

pytestmark = pytest.mark.usefixtures("forked")

FAULTS = {
    "fake:hang": (TrialState.TIMED_OUT, "gave no answer"),
    "fake:crash": (TrialState.CRASHED, "SIGSEGV"),
    "fake:oom": (TrialState.UNSUPPORTED, "memory does not suffice"),
    "compile_timeout": (TrialState.COMPILE_TIMED_OUT, "late"),
}
MARKED = {"fake:noisy=9": ["noisy"], "fake:foreign=9": ["other processes"]}
"""Right, and still marked after all repeats."""


def tagged(generated: Any, compiled: Any) -> KernelArtifact:
    """What the fake device makes of a script."""
    script, _, us = compiled.source.rpartition(" ")
    tag = f"us={us}" if not script else script.removeprefix("fake:")
    return artifact_of(f"// fake: {tag}\n// {us}", code_hash=compiled.source)


@dataclass
class Mortal:
    """A fake GPU that is lost with the kernel after so many."""

    device: FakeDevice
    lives: int

    def measure(self, artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
        if self.lives == 0:
            raise DeviceLost("fake GPU 1", "it fell off the bus")
        self.lives -= 1
        return self.device.measure(artifact, effort)


@pytest.mark.parametrize("lives", [2, 0], ids=["dies-in-the-middle", "dies-at-once"])
def test_each_fault_costs_its_candidate(tmp_path: Path, lives: int) -> None:
    scripts = [*(f"{fault} {us}" for us, fault in enumerate([*FAULTS, *MARKED])), *(f" {us}" for us in range(20, 30))]
    scheduler = Scripted(scripts)
    limits = Deadlines(measure_s=1.0)
    with FakeDevice(limits) as first, FakeDevice(limits) as second:
        for device in (first, second):
            device.open(add_fusion())
        others: list[Any] = [Gpu(Mortal(second, lives))]  # type: ignore[arg-type]  # what of it is used

        def joining() -> list[Gpu]:
            came, others[:] = list(others), []
            return came

        with Journal.open(tmp_path / "journal.jsonl", KEY) as journal:
            builder = Builder(Drafter(scheduler), Compiler(), "sm_90a", artifact=tagged)
            sampler = RandomSampler(scheduler.spaces, seed=0)
            settings = SearchSettings(queue_depth=6)
            outcome = Tuner(builder, first, sampler, journal, Budget(), settings, joining=joining).run()
    ends = {scripts[trial.candidate.knobs["n"]].rpartition(" ")[0]: trial for trial in outcome.trials}  # type: ignore[index]  # a knob of numbers
    lost = [trial for trial in outcome.trials if "was lost" in trial.reason]
    assert len(lost) <= 1
    for fault, (state, reason) in FAULTS.items():
        if ends[fault] not in lost:
            assert ends[fault].state is state
            assert reason in ends[fault].reason
    for fault, marks in MARKED.items():
        if ends[fault] not in lost:
            assert (ends[fault].state, ends[fault].conditions["marks"]) == (TrialState.MEASURED, marks)
    assert sum(trial.state is TrialState.MEASURED for trial in outcome.trials) >= len(scripts) - len(FAULTS) - len(lost)
    assert outcome.winner is not None
