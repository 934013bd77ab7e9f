"""A miss of the lock on a machine with a GPU: the search of `python -m search tune`, and the entry of its winner."""

from __future__ import annotations

from hashlib import sha256

from rich.console import Console

from fusetune.wire.lock import LockedCandidate
from search.cost.roofline import floor_us
from search.tuning.attached import Attached
from search.tuning.budget import Budget
from search.tuning.candidates.plan import Plan
from search.tuning.identity import kernel_id
from search.tuning.leaders import Winner
from search.tuning.progress import failure_counts, progress_on
from search.tuning.trial import Trial
from search.tuning.tune import tune_on
from service.ci.folder import LockSubject
from service.ci.lock import CiCard, CiEntry, CiEvidence


class TrialsInMemory:
    """A `TrialLog` that ends with the process: a CI job starts from nothing, and what it keeps is the lock."""

    def __init__(self) -> None:
        self._trials: dict[int, Trial] = {}

    @property
    def trials(self) -> tuple[Trial, ...]:
        return tuple(self._trials[number] for number in sorted(self._trials))

    def record(self, trial: Trial) -> None:
        self._trials[trial.number] = trial


def tune(subject: LockSubject, gpu: Attached, budget: Budget, seed: int, console: Console) -> CiEntry | str:
    """The entry of the fastest kernel that is right on all input sets; or in words why none was found.

    Raises Unsupported if no scheduler takes the fusion, DeviceLost, and KeyboardInterrupt, whatever was found by then.
    """
    plan = Plan.of(subject.fusion, gpu.card)
    with progress_on(console, f"{subject.name} on {gpu.card.name}") as progress:
        outcome = tune_on(gpu, plan, TrialsInMemory(), budget, seed, progress)
    if outcome.ended == "interrupted":
        raise KeyboardInterrupt
    if outcome.winner is None:
        failures = ", ".join(f"{count} {why}" for why, count in failure_counts(outcome.trials).items())
        return f"{len(outcome.trials)} trials, failures: {failures or 'none; give it more --budget-s'}"
    return _entry(subject, gpu, outcome.winner)


def _entry(subject: LockSubject, gpu: Attached, winner: Winner) -> CiEntry:
    kernel, trial = winner.artifact, winner.trial
    if kernel.timing is None or kernel.verification is None:
        raise AssertionError(f"{subject.name}: a winner without a timing or a proof")
    code_hash, launch_hash = kernel_id(kernel)
    return CiEntry(
        fingerprint=subject.fusion.fingerprint,
        binding_hash=subject.fusion.binding_hash,
        binding=subject.binding,
        card=CiCard.of(gpu.card),
        policy=kernel.timing.policy,
        generator=kernel.conditions.generator,
        nvrtc=kernel.conditions.nvrtc,
        driver=gpu.facts.driver,
        candidate=LockedCandidate(scheduler=trial.candidate.scheduler, point=trial.candidate.knobs),
        trace=kernel.trace,
        source_sha256=sha256(kernel.source.encode()).hexdigest(),
        code_hash=code_hash,
        launch_hash=launch_hash,
        evidence=CiEvidence(verifier=kernel.verification.verifier),
        median_us=kernel.timing.median_us,
        p10_us=kernel.timing.p10_us,
        p90_us=kernel.timing.p90_us,
        floor_us=floor_us(subject.fusion, gpu.card),
    )
