"""The tuning loop: ask, build, measure, tell; every trial is in the journal when its end is known.

Three things go on at once. Compilers work ahead of the GPUs, each GPU measures one kernel at a time from a thread of
this process (`lanes`; the work itself is in a child), and this thread asks the sampler and generates code in between.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from fusetune.wire.artifact import KernelArtifact
from search.measure.device import DeviceLost, MeasuringDevice
from search.tuning.budget import Budget
from search.tuning.build import Build
from search.tuning.candidates.candidate import Candidate
from search.tuning.ending import WITHOUT_VERDICT, cancelled, duplicate, judged, unbuilt, with_figures
from search.tuning.failing import Failure
from search.tuning.first import FirstKernel
from search.tuning.identity import KernelId, kernel_id
from search.tuning.journal import TrialLog
from search.tuning.lanes import Gpu, Lane, Lanes, WaitingKernel, lost_with
from search.tuning.leaders import Finals, Winner
from search.tuning.progress import Progress, Silent, Snapshot, failure_counts
from search.tuning.samplers.protocol import Sampler
from search.tuning.stopping import EnoughReason, Stopping
from search.tuning.timeline import SearchStage, Timeline
from search.tuning.trial import Trial, TrialState

_TICK_S = 0.25
"""How often the progress is redrawn while nothing ends."""

Ending = Literal["budget", "exhausted", "interrupted", "stopped", EnoughReason]

WHY_ENDED: Mapping[Ending, str] = {
    "budget": "the budget was spent",
    "exhausted": "every legal point was tried",
    "interrupted": "it was interrupted",
    "stopped": "it was stopped",
    "floor": "the best is as near to what the card allows as was asked for",
    "improvement": "what was left was expected to save less than was asked for",
}
"""Why a search ended, in words."""


class Builds(Protocol):
    """Where artifacts come from: `search.tuning.build.Builder`, or a folder of prepared ones."""

    def start(self, number: int, candidate: Candidate) -> Build:
        """Begin to build; must not wait for a compiler."""
        ...

    def finish(self, build: Build) -> KernelArtifact | Failure:
        """The artifact, or why there is none."""
        ...

    @property
    def elsewhere(self) -> int:
        """How many other hosts can have in hand at a time, beside what this one makes."""
        ...


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How a tuning goes about its work. `queue_depth`: kernels kept compiling or compiled ahead of the GPU.

    `finals_share` of the seconds is kept for timing `leaders` kernels again, in up to `rounds` rounds. `floor_us` is
    the least time that the card allows, for the progress alone.
    """

    queue_depth: int = 8
    leaders: int = 5
    rounds: int = 6
    finals_share: float = 0.2
    floor_us: float | None = None


@dataclass(frozen=True, slots=True)
class Awaited:
    """What the sampler waits for, a better ranking say: until that is there it is asked for `at_hand` candidates."""

    there: Future[Any]
    at_hand: int


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """What a tuning found. `winner` is None if no kernel was both right and timed; `ended` says why it stopped."""

    winner: Winner | None
    trials: tuple[Trial, ...]
    ended: Ending


class Tuner:
    """One tuning on one device, and on those that `joining` gives as they come. `run` is called once; another tuner on
    the same journal goes on where it stopped.

    `beside` is other work for the device, done once, as soon as a kernel has been measured and nobody waits for the
    first one; at the end of the search if that never happens. `opened`: the opening of the device, while which kernels
    are built. What either raises ends the search.
    """

    def __init__(
        self,
        builds: Builds,
        device: MeasuringDevice,
        sampler: Sampler,
        journal: TrialLog,
        budget: Budget,
        settings: SearchSettings | None = None,
        progress: Progress | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
        timeline: Timeline | None = None,
        first: FirstKernel | None = None,
        stopping: Stopping | None = None,
        beside: Callable[[MeasuringDevice], None] = lambda device: None,
        opened: Future[None] | None = None,
        joining: Callable[[], Sequence[Gpu]] = tuple,
        awaited: Awaited | None = None,
    ) -> None:
        self._builds = builds
        self._sampler = sampler
        self._journal = journal
        self._budget = budget
        self._settings = settings or SearchSettings()
        self._progress = progress or Silent()
        self._is_stopped = is_stopped
        self._timeline = timeline or Timeline()
        self._first = first
        self._stopping = stopping
        self._enough: EnoughReason | None = None
        self._beside: Callable[[MeasuringDevice], None] | None = beside
        self._done_beside: tuple[Lane, Future[None], Callable[[MeasuringDevice], None]] | None = None
        self._lanes = Lanes(Gpu(device, opened), joining, self._timeline, self._progress.note)
        self._awaited = awaited
        self._asked = 0
        self._first_s: float | None = None
        self._keep_s = self._settings.finals_share * (budget.seconds or 0.0)
        self._compiling: list[Build] = []
        self._ready: deque[WaitingKernel] = deque()
        self._twins: list[WaitingKernel] = []
        self._judged: dict[KernelId, Trial] = {}
        self._artifacts: dict[int, KernelArtifact] = {}
        self._is_exhausted = False
        self._next_number = 0

    def run(self) -> SearchOutcome:
        """Search until the budget or the space is spent, then settle the winner.

        Ctrl-C ends the search early: what is under way is cancelled, and the best kernel is still verified on all input
        sets, without timing the leaders again. A second Ctrl-C is not caught; the journal keeps every trial. Once
        `is_stopped` says so, the search ends without a winner: somebody wants the GPU back, not the kernel.
        """
        self._resume()
        rounds = self._settings.rounds
        with self._lanes:
            try:
                self._search()
                ended: Ending = self._enough or ("exhausted" if self._is_exhausted else "budget")
                if self._is_stopped():
                    ended = "stopped"
            except KeyboardInterrupt:
                ended, rounds = "interrupted", 0
                self._progress.note("Interrupted: the best kernel is verified now. Ctrl-C again leaves at once.")
            self._wind_down()
        if ended == "stopped":
            return SearchOutcome(None, self._journal.trials, ended)
        with self._timeline.span(SearchStage.FINALS):
            winner = self._settled(rounds)
        self._show("done")
        return SearchOutcome(winner, self._journal.trials, ended)

    def _has_time_for_finals(self) -> bool:
        return self._budget.left_s > 0 and not self._is_stopped()

    # The search -----------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        for trial in self._journal.trials:
            self._next_number = trial.number + 1
            if trial.state in WITHOUT_VERDICT:
                continue
            self._sampler.tell(trial.candidate, trial.median_us, trial.state)
            if trial.code_hash and trial.launch_hash and trial.state is not TrialState.DUPLICATE:
                self._judged[trial.code_hash, trial.launch_hash] = trial

    def _search(self) -> None:
        while self._budget.left_s > self._keep_s and not self._is_stopped() and not self._has_enough():
            self._collect_compiled()
            self._feed_devices()
            self._feed_compilers()
            self._show("searching")
            pending: list[Future[Any]] = [build.compiled for build in self._compiling if build.compiled is not None]
            pending += self._lanes.pending
            pending += [self._awaited.there] if self._awaited is not None and not self._awaited.there.done() else []
            if not pending and not self._compiling and not self._may_ask():
                return
            wait(pending, timeout=min(_TICK_S, self._budget.left_s), return_when=FIRST_COMPLETED)
            self._collect_measured()
            self._serve_first()

    def _has_enough(self) -> bool:
        """Whether the search may end early."""
        self._enough = None if self._stopping is None else self._stopping.reason(self._journal.trials)
        return self._enough is not None

    def _serve_first(self) -> None:
        """Verifies the fastest kernel so far on all input sets, where somebody wants the first that may be served."""
        lane = self._lanes.first
        if self._first is None or lane.under_way is not None or not self._first.is_open:
            return
        finals = self._finals_on(lane)
        with self._timeline.span(SearchStage.FIRST), lane.measuring():
            try:
                self._first.offer((trial for trial in self._ranking() if trial.number in self._artifacts), finals)
            except DeviceLost as error:
                self._lose(lane, error, finals)

    def _may_ask(self) -> bool:
        under_way = len(self._compiling) + len(self._ready) + len(self._twins) + len(self._lanes.under_way)
        done = sum(trial.state.is_tried for trial in self._journal.trials)
        return not self._is_exhausted and self._budget.allows(done + under_way, self._keep_s)

    def _feed_compilers(self) -> None:
        """Ask for candidates while the queue ahead of the GPUs has room; but a GPU that is idle, or soon is, comes
        before a full queue."""
        depth = self._settings.queue_depth + self._lanes.count - 1 + self._builds.elsewhere
        while len(self._compiling) + len(self._ready) < depth and self._may_ask():
            if self._awaited is not None and self._asked >= self._awaited.at_hand and not self._awaited.there.done():
                return
            self._asked += 1
            candidate = self._sampler.ask()
            if candidate is None:
                self._is_exhausted = True
                return
            self._compiling.append(self._builds.start(self._next_number, candidate))
            self._next_number += 1
            is_ready = bool(self._ready) or any(build.is_ready for build in self._compiling)
            if is_ready and (self._lanes.idle is not None or self._lanes.has_results):
                return

    def _collect_compiled(self) -> None:
        for build in [build for build in self._compiling if build.is_ready]:
            self._compiling.remove(build)
            artifact = self._builds.finish(build)
            if isinstance(artifact, Failure):
                self._end(unbuilt(build, artifact))
            else:
                self._admit(WaitingKernel(build, artifact, kernel_id(artifact)))

    def _admit(self, kernel: WaitingKernel) -> None:
        """Queue a kernel for the device, unless an equal one was judged or is about to be."""
        ahead = {other.id for other in (*self._ready, *self._lanes.under_way)}
        if kernel.id in self._judged:
            first = self._judged[kernel.id]
            self._end(duplicate(kernel.build, kernel.artifact, first.number, first.median_us))
        elif kernel.id in ahead:
            self._twins.append(kernel)
        else:
            self._ready.append(kernel)

    def _feed_devices(self) -> None:
        if self._beside is not None and self._artifacts and not (self._first is not None and self._first.is_open):
            self._do_beside()
        self._lanes.join()
        is_awaited = self._first is not None and self._first.is_open  # then a GPU shall be free for it
        while self._ready and (lane := self._lanes.free(ahead=not is_awaited)) is not None:
            lane.start(self._ready.popleft())

    def _do_beside(self) -> None:
        work, self._beside = self._beside, None
        if work is not None:
            lane = self._lanes.first
            self._done_beside = lane, lane.submit(lambda: work(lane.device)), work

    def _collect_measured(self) -> None:
        for measured in self._lanes.collect():
            kernel = measured.kernel
            if measured.result is None:
                self._ready.appendleft(kernel)
                continue
            trial = judged(kernel.build, kernel.artifact, measured.result)
            if trial.state is TrialState.MEASURED and self._first_s is None:
                self._first_s = self._budget.elapsed_s
                self._timeline.first_kernel()
            self._end(trial)
            if trial.state not in WITHOUT_VERDICT:
                self._judged[kernel.id] = trial
                self._keep_artifact(trial, kernel.artifact)
            twins = [twin for twin in self._twins if twin.id == kernel.id]
            self._twins = [twin for twin in self._twins if twin.id != kernel.id]
            for twin in twins:
                self._admit(twin)

    def _end(self, trial: Trial) -> None:
        self._record(trial)
        self._sampler.tell(trial.candidate, trial.median_us, trial.state)

    def _record(self, trial: Trial) -> None:
        self._journal.record(trial)
        self._show("settling the leaders" if self._budget.left_s <= self._keep_s else "searching")

    def _wind_down(self) -> None:
        """Let running measurements end (the device bounds them), cancel what has not reached a device."""
        if not self._is_stopped():
            self._beside_at_last()
        self._lanes.wind_down()
        self._collect_measured()
        left = (*self._ready, *self._twins, *self._lanes.given_up())
        for build in [*self._compiling, *(kernel.build for kernel in left)]:
            build.cancel()
            self._end(cancelled(build))
        self._compiling, self._twins = [], []
        self._ready.clear()
        while self._done_beside is not None:
            (lane, done, work), self._done_beside = self._done_beside, None
            try:
                done.result()
            except (CancelledError, DeviceLost) as error:  # cancelled where its GPU was lost before it began
                if isinstance(error, DeviceLost):
                    self._lanes.lose(lane, error)
                if not self._is_stopped():
                    self._beside = work
                    self._beside_at_last()

    def _beside_at_last(self) -> None:
        """What nothing was measured before, or what was lost with a GPU, on the first GPU that can be opened. What one
        that cannot had in hand has not begun."""
        while True:
            lane = self._lanes.first
            try:
                lane.wait_open()
            except DeviceLost as error:
                self._ready.extendleft(reversed(lane.drop()))
                self._lanes.lose(lane, error)
            else:
                self._do_beside()
                return

    # The leaders ----------------------------------------------------------------------------------------------------

    def _settled(self, rounds: int) -> Winner | None:
        """The winner, by one GPU; by the next one where that is lost."""
        while True:
            lane = self._lanes.first
            finals = self._finals_on(lane)
            try:
                with lane.measuring():
                    return finals.run(self._ranking(), self._settings.leaders, rounds, self._has_time_for_finals)
            except DeviceLost as error:
                self._lose(lane, error, finals)

    def _finals_on(self, lane: Lane) -> Finals:
        return Finals(lane.device, self._artifact_of, self._record)

    def _lose(self, lane: Lane, error: DeviceLost, finals: Finals) -> None:
        """What the GPU had in hand goes with it. Raises `error` if it was the last."""
        self._lanes.lose(lane, error)
        if finals.asked:
            self._record(with_figures(finals.asked[-1], lost_with(error)))

    def _ranking(self) -> list[Trial]:
        """Measured trials, the fastest first; duplicates are no kernels of their own."""
        measured = [t for t in self._journal.trials if t.state is TrialState.MEASURED and t.median_us is not None]
        return sorted(measured, key=lambda trial: (trial.median_us or 0.0, trial.number))

    def _keep_artifact(self, trial: Trial, artifact: KernelArtifact) -> None:
        """Artifacts of the fastest stay in memory; the others can be built again."""
        self._artifacts[trial.number] = artifact
        fastest = {t.number for t in self._ranking()[: 2 * self._settings.leaders]}
        self._artifacts = {number: kept for number, kept in self._artifacts.items() if number in fastest}

    def _artifact_of(self, trial: Trial) -> KernelArtifact | None:
        if trial.number in self._artifacts:
            return self._artifacts[trial.number]
        built = self._builds.finish(self._builds.start(trial.number, trial.candidate))
        return None if isinstance(built, Failure) else built

    # The progress ---------------------------------------------------------------------------------------------------

    def _show(self, phase: str) -> None:
        trials = self._journal.trials
        self._progress.show(
            Snapshot(
                phase=phase,
                states=Counter(trial.state for trial in trials),
                best=next(iter(self._ranking()), None),
                floor_us=self._settings.floor_us,
                elapsed_s=self._budget.elapsed_s,
                budget_s=self._budget.seconds,
                compiling=len(self._compiling),
                failures=failure_counts(trials),
                first_s=self._first_s,
            )
        )
