"""The end of a tuning: which of the fastest kernels really is the fastest, and is it right on every input set.

Single measurements minutes apart differ by clocks and neighbours. The leaders are therefore timed again in turns, round
after round, until the intervals of their medians part or the rounds are used up; what still overlaps then is a tie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from fusetune.wire.artifact import Evidence, KernelArtifact, Timing
from search.measure.device import Effort, MeasureResult, MeasuringDevice
from search.measure.halving import median_interval
from search.tuning.ending import with_figures
from search.tuning.trial import Trial, TrialState

AS_FAST = 0.01
"""Share of a time within which kernels that time cannot tell apart are taken for equally fast: which one
is served must not depend on which one a search meets, or on which is a little faster that day."""


MOST_LATE = 2
"""Kernels whose proofs on all input sets the device may give up, each after a minute and a new start: a fusion whose
proof takes longer than that has it longer for every kernel, and none of them would be served."""


@dataclass(frozen=True, slots=True)
class Winner:
    """The kernel that is served: of the fastest right ones that time cannot tell apart the one that comes first by a
    fixed rule (`served_first`). `tied`: the trials of the others."""

    trial: Trial
    artifact: KernelArtifact
    tied: tuple[int, ...] = ()


@dataclass(slots=True)
class Leader:
    """A measured trial in the last rounds. `turns` holds the timings of these rounds only."""

    trial: Trial
    artifact: KernelArtifact
    turns: list[Timing] = field(default_factory=list)

    @property
    def samples_us(self) -> tuple[float, ...]:
        """Samples of the last rounds; before the first, those that the trial came with."""
        return tuple(s for turn in self.turns for s in turn.samples_us) or self.trial.samples_us

    @property
    def median_us(self) -> float:
        return float(np.median(self.samples_us)) if self.samples_us else math.inf

    @property
    def timing(self) -> Timing | None:
        """All turns as one timing, under the conditions of the last."""
        if not self.turns:
            return None
        p10, median, p90 = (float(q) for q in np.percentile(self.samples_us, (10, 50, 90)))
        figures = {"median_us": median, "p10_us": p10, "p90_us": p90, "samples_us": self.samples_us}
        return self.turns[-1].model_copy(update=figures)


def tied(leaders: Sequence[Leader]) -> list[Leader]:
    """The leader with the least median, then all whose interval meets its interval."""
    if not leaders:
        return []
    best = min(leaders, key=lambda leader: leader.median_us)
    reach = median_interval(best.samples_us)[1]
    others = [leader for leader in leaders if leader is not best]
    return [best, *(leader for leader in others if median_interval(leader.samples_us)[0] <= reach)]


def served_first(leaders: Sequence[Leader]) -> list[Leader]:
    """Leaders in the order in which they are served.

    First come those that are tied with the fastest and as fast: by what the model predicts of the compiled kernel,
    which every search on every host predicts alike, then by name. The others follow by time.
    """
    same = [one for one in tied(leaders) if one.median_us <= (1 + AS_FAST) * min(x.median_us for x in leaders)]
    by_rule = sorted(same, key=lambda one: (one.trial.predicted_us or math.inf, one.trial.candidate.key))
    others = [one for one in leaders if not any(one is other for other in same)]
    return [*by_rule, *sorted(others, key=lambda one: one.median_us)]


@dataclass(frozen=True)
class Finals:
    """Finds the winner among measured trials. `record` keeps a trial whose figures or state have changed.

    `artifact_of` gives the artifact of a trial, None if it can no longer be built. `asked`: the trials that the device
    was asked for, in order: if it is lost, the last of them was in its hand.
    """

    device: MeasuringDevice
    artifact_of: Callable[[Trial], KernelArtifact | None]
    record: Callable[[Trial], None]
    asked: list[Trial] = field(default_factory=list)

    def run(self, ranking: Sequence[Trial], leaders: int, rounds: int, goes_on: Callable[[], bool]) -> Winner | None:
        """The winner of `ranking` (fastest first), or None if none of it is right on all input sets.

        The first `leaders` are timed again in up to `rounds` rounds, as long as `goes_on` says so. Then they are
        verified in the order of `served_first`, and after them the rest of the ranking, until one passes or `MOST_LATE`
        were given up.
        """
        field_of = [leader for leader in map(self._leader, ranking[:leaders]) if leader is not None]
        running = self._retime(field_of, rounds, goes_on)
        in_order = served_first([x for x in field_of if x.trial.state is TrialState.MEASURED])
        rest = (leader for leader in map(self._leader, ranking[leaders:]) if leader is not None)
        late = 0
        for leader in chain(in_order, rest):
            if (artifact := self._verified(leader)) is not None:
                same = tuple(x.trial.number for x in tied(running) if x is not leader) if leader in running else ()
                return Winner(leader.trial, artifact, same)
            late += leader.trial.state is TrialState.TIMED_OUT
            if late == MOST_LATE:
                break
        return None

    def settled(self, trial: Trial) -> Winner | None:
        """A measured trial by itself, if it is right on all input sets."""
        leader = self._leader(trial)
        artifact = None if leader is None else self._verified(leader)
        return None if leader is None or artifact is None else Winner(leader.trial, artifact)

    def _leader(self, trial: Trial) -> Leader | None:
        artifact = self.artifact_of(trial)
        return None if artifact is None else Leader(trial, artifact)

    def _retime(self, leaders: Sequence[Leader], rounds: int, goes_on: Callable[[], bool]) -> list[Leader]:
        """Time in turns; returns those that are still tied, the fastest first."""
        running = list(leaders)
        for _ in range(rounds):
            if len(running) <= 1 or not goes_on():
                break
            for leader in running:
                result = self._measured(leader, Effort.LEADER)
                if result.state is TrialState.MEASURED and result.timing is not None:
                    leader.turns.append(result.timing)
                else:
                    self._change(leader, with_figures(leader.trial, result))
            running = tied([leader for leader in running if leader.trial.state is TrialState.MEASURED])
        for leader in leaders:
            if leader.timing is not None and leader.trial.state is TrialState.MEASURED:
                self._change(leader, _with_timing(leader.trial, leader.timing))
        return running

    def _verified(self, leader: Leader) -> KernelArtifact | None:
        """The artifact with its evidence, if it is right on all input sets; otherwise the trial says why not."""
        result = self._measured(leader, Effort.ALL_SETS)
        timing = leader.timing or result.timing
        if result.verification is None or timing is None or result.state is not TrialState.MEASURED:
            self._change(leader, with_figures(leader.trial, result))
            return None
        if leader.timing is None:
            self._change(leader, _with_timing(leader.trial, timing))
        evidence = Evidence(correct="verified_on_gpu", time="measured")
        return leader.artifact.model_copy(
            update={"evidence": evidence, "verification": result.verification, "timing": timing}
        )

    def _measured(self, leader: Leader, effort: Effort) -> MeasureResult:
        self.asked.append(leader.trial)
        return self.device.measure(leader.artifact, effort)

    def _change(self, leader: Leader, trial: Trial) -> None:
        leader.trial = trial
        self.record(trial)


def _with_timing(trial: Trial, timing: Timing) -> Trial:
    return replace(
        trial,
        median_us=timing.median_us,
        p10_us=timing.p10_us,
        p90_us=timing.p90_us,
        samples_us=timing.samples_us,
        conditions=timing.conditions,
    )
