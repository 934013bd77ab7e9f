"""Proving compiled kernels in the emulator, the best predicted first, until enough are verified."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fusetune.wire.artifact import KernelArtifact, Verification
from search.proof.emulated.apart import Prover
from search.proof.emulated.check import proven
from search.tuning.budget import Budget
from search.tuning.build import Build, Builder
from search.tuning.ending import emulated
from search.tuning.failing import Failure
from search.tuning.journal import TrialLog
from search.tuning.leaders import Winner
from search.tuning.progress import Progress, Snapshot
from search.tuning.trial import Trial, TrialState

VERIFIED = 3
"""Kernels that are verified: the best predicted one is served, the others show that it is no accident."""


@dataclass(frozen=True, slots=True)
class Built:
    """A candidate that compiled."""

    build: Build
    artifact: KernelArtifact


class Proving:
    """Works through the compiled trials of a tuning; `built` are those that this run compiled, by number.

    Trials of an earlier run are compiled again: what was verified then counts only with its artifact.
    """

    def __init__(
        self,
        builder: Builder,
        budget: Budget,
        trials: TrialLog,
        progress: Progress,
        is_stopped: Callable[[], bool],
        built: Mapping[int, Built],
        prover: Prover,
    ) -> None:
        self._builder = builder
        self._prover = prover
        self._budget = budget
        self._trials = trials
        self._progress = progress
        self._is_stopped = is_stopped
        self._built = built
        self.is_complete = False

    def run(self) -> Winner | None:
        """The best predicted kernel that is right, None if none was found so. Sets `is_complete` unless stopped.

        Ends with the budget: a proof that is under way then is given up.
        """
        winner: Winner | None = None
        right = 0
        for trial in self._waiting():
            if right == VERIFIED or self._budget.left_s <= 0.0:
                break
            if self._is_stopped():
                return winner
            self._progress.show(Snapshot(phase="verifying in the emulator"))
            found = self._prove(trial)
            if found is not None:
                right += 1
                winner = winner or found
        self.is_complete = True
        return winner

    def _waiting(self) -> list[Trial]:
        """Compiled trials, the best predicted first."""
        states = (TrialState.COMPILED, TrialState.VERIFIED)
        waiting = [trial for trial in self._trials.trials if trial.state in states and trial.code_hash is not None]
        return sorted(waiting, key=lambda t: math.inf if t.predicted_us is None else t.predicted_us)

    def _prove(self, trial: Trial) -> Winner | None:
        """The kernel with its evidence if it is right; its trial is recorded, whatever came of it."""
        one = self._built.get(trial.number) or self._rebuilt(trial)
        if one is None:
            return None
        begun = time.perf_counter()
        found = self._prover.prove(one.artifact, self._budget.left_s)
        seconds = time.perf_counter() - begun
        if found.verification is None:
            wrong = (TrialState.WRONG_RESULT, found.fault)
            state, reason = wrong if found.fault else (TrialState.COMPILED, f"{_first(trial.reason)}; {found.undone}")
            self._trials.record(emulated(trial, state, reason, seconds))
            return None
        done = emulated(trial, TrialState.VERIFIED, proof_in_words(found.verification), seconds)
        self._trials.record(done)
        return Winner(done, proven(one.artifact, found.verification, trial.predicted_us))

    def _rebuilt(self, trial: Trial) -> Built | None:
        build = self._builder.start(trial.number, trial.candidate)
        if not build.wait(self._budget.left_s):
            build.cancel()
            return None
        artifact = self._builder.finish(build)
        return None if isinstance(artifact, Failure) else Built(build, artifact)


def proof_in_words(verification: Verification) -> str:
    """What was run of a kernel that is right: its class whole, on all input sets, or some of its blocks on some."""
    ran = verification.emulated
    if ran is None or ran.shapes:
        return "right on every input set in the emulator; not timed"
    sets = ", ".join(verification.input_sets)
    blocks = f"{len(ran.served_blocks):,} of its {ran.served_blocks_of:,} blocks"
    return f"right in the emulator on {sets} inputs, in {blocks}; not timed"


def _first(reason: str) -> str:
    """What was said before a kernel was tried in the emulator."""
    return reason.partition(";")[0]
