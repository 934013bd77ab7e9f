"""From what happened to a candidate to the trial that records it."""

from __future__ import annotations

from dataclasses import replace

from fusetune.wire.artifact import KernelArtifact
from search.measure.device import MeasureResult
from search.tuning.build import Build
from search.tuning.failing import Failure
from search.tuning.identity import kernel_id
from search.tuning.trial import Trial, TrialState

WITHOUT_VERDICT = frozenset({TrialState.CANCELLED, TrialState.COMPILED, TrialState.PRUNED})
"""Ends that say nothing about the kernel: another candidate with the same code is run."""


def unbuilt(build: Build, failure: Failure) -> Trial:
    """The trial of a candidate without an artifact."""
    return replace(_trial(build, failure.state), reason=failure.reason, violations=failure.violations)


def cancelled(build: Build) -> Trial:
    """The trial of a candidate that was under way when the search ended."""
    return replace(_trial(build, TrialState.CANCELLED), reason="the search ended first")


def judged(build: Build, artifact: KernelArtifact, result: MeasureResult) -> Trial:
    """The trial of a kernel that was run on the device, or that the device refused."""
    return with_figures(_built(build, artifact, result.state), result)


def not_run(build: Build, artifact: KernelArtifact, reason: str) -> Trial:
    """The trial of a kernel that was compiled where nothing can run it; `reason` says so."""
    return replace(_built(build, artifact, TrialState.COMPILED), reason=reason)


def emulated(trial: Trial, state: TrialState, reason: str, seconds: float) -> Trial:
    """The trial of a compiled kernel after it was tried in the emulator for so many seconds."""
    return replace(trial, state=state, reason=reason, seconds={**trial.seconds, "emulate": seconds})


def duplicate(build: Build, artifact: KernelArtifact, of: int, median_us: float | None = None) -> Trial:
    """The trial of a kernel equal to that of trial `of`: it has that one's time, or none if that one has none."""
    return replace(
        _built(build, artifact, TrialState.DUPLICATE),
        reason=f"same code and launch as trial {of}",
        duplicate_of=of,
        median_us=median_us,
    )


def spilling(build: Build, artifact: KernelArtifact, best_us: float) -> Trial:
    """The trial of a kernel that spills registers and is predicted to lose against one of `best_us` for it."""
    spilled = artifact.resources.spill_store_bytes
    reason = f"{spilled} bytes a thread are spilled: predicted {build.predicted_us:.1f} us, another {best_us:.1f} us"
    return replace(_built(build, artifact, TrialState.PRUNED), reason=reason)


def with_figures(trial: Trial, result: MeasureResult) -> Trial:
    """The trial with the state, reason and times of a measurement."""
    timing = result.timing
    return replace(
        trial,
        state=result.state,
        reason=result.reason,
        median_us=timing.median_us if timing else None,
        p10_us=timing.p10_us if timing else None,
        p90_us=timing.p90_us if timing else None,
        samples_us=timing.samples_us if timing else (),
        conditions=timing.conditions if timing else {},
        seconds={**trial.seconds, **result.seconds},
    )


def _trial(build: Build, state: TrialState) -> Trial:
    return Trial(
        build.number,
        build.candidate,
        state,
        predicted_us=build.predicted_us,
        predicted_terms=dict(build.predicted_terms),
        seconds=dict(build.seconds),
    )


def _built(build: Build, artifact: KernelArtifact, state: TrialState) -> Trial:
    code_hash, launch_hash = kernel_id(artifact)
    trial = _trial(build, state)
    return replace(trial, resources=artifact.resources, code_hash=code_hash, launch_hash=launch_hash)
