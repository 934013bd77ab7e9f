"""A tuning where the GPU is not: rank, compile the most promising, prove the best of them in the emulator, and say in
plain words what was not done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from math import inf

from compiler.arch import Card
from compiler.nvrtc import CompilePool
from search.cost.predicting import refiner
from search.cost.unpriced import left_out
from search.proof.emulated.apart import PROVING_SHARE, Prover
from search.tuning.attached import Detached
from search.tuning.build import Build, Builder
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.drafting import DraftPool
from search.tuning.candidates.spread import spread
from search.tuning.ending import duplicate, not_run, unbuilt
from search.tuning.failing import Failure
from search.tuning.hands import compilers as default_compilers
from search.tuning.hands import drafters
from search.tuning.identity import kernel_id
from search.tuning.journal import TrialLog
from search.tuning.progress import Progress, Snapshot
from search.tuning.timeline import SearchStage
from search.tuning.trial import Trial, TrialState
from service.jobs.executor import WorkerStopping
from service.jobs.job import Job
from service.jobs.proving import Built, Proving
from service.jobs.reproving import in_emulator, prove_again
from service.jobs.settle import settle_proven_again, settle_without_gpu

KERNELS = 24
"""Kernels that are compiled: enough to see what the card would be offered, few enough for a laptop."""

_PER_KERNEL = 3
"""Points ranked for each kernel that is wanted."""

_RANKING_S = 60.0
_RANKING_SHARE = 0.4


def prepare(
    job: Job,
    target: Detached,
    stopping: threading.Event,
    compilers: int | None,
    drafting: DraftPool | None = None,
    compiling: CompilePool | None = None,
    prover: Prover | None = None,
) -> str:
    """Compile until there are enough kernels, then prove the best predicted of them, as long as the budget lasts.

    A kernel of an older verifier is proven again first, and nothing is searched if it is right. Children that are not
    there yet are made for this tuning.

    Returns the state that the tuning ended in. Goes on from the stored trials. Raises WorkerStopping once `stopping` is
    set, TuningLost, Unsupported if there is nothing legal.
    """
    processes = compilers or default_compilers()
    trials = job.trials()
    with job.progress() as progress, ExitStack() as stack:
        pool = compiling
        if pool is None:
            pool = stack.enter_context(CompilePool(processes))
            stack.callback(pool.abandon)  # what it compiles at the end nobody waits for
            pool.start()
        job, again = prove_again(job, partial(in_emulator, job, pool), progress)
        if again is not None:
            state = settle_proven_again(job, again.known, again.artifact, progress.spent_s, None)
            if state is not None:
                return state
        if prover is None:
            prover = stack.enter_context(Prover())
        prover.start()
        if drafting is None:
            drafting = stack.enter_context(DraftPool(drafters(processes)))
            drafting.start()
        drafts = drafting.of(job.plan.subject(target.card), job.timeline)

        def is_stopped() -> bool:
            return progress.is_cancelled or stopping.is_set()

        seconds = min(_RANKING_S, _RANKING_SHARE * job.budget.left_s)
        with job.timeline.span(SearchStage.RANKING):
            ranking = job.plan.ranking(drafts.foresee, _PER_KERNEL * KERNELS, job.seed, seconds, is_stopped=is_stopped)
        ordered = spread(ranking)
        builder = Builder(drafts, pool, job.plan.arch.name, refiner(target.card), job.timeline)
        loop = _Compiling(builder, target.card, job, trials, progress, is_stopped, queue_depth=2 * processes)
        loop.run(ordered)
        proving = Proving(builder, job.budget, trials, progress, is_stopped, loop.built, prover)
        with job.timeline.span(SearchStage.PROVING):
            winner = proving.run() if loop.is_complete else None
    if stopping.is_set() and not progress.is_cancelled and not (loop.is_complete and proving.is_complete):
        raise WorkerStopping
    return settle_without_gpu(job, winner, note_on(trials.trials, target), progress.spent_s)


def note_on(trials: tuple[Trial, ...], target: Detached) -> str:
    """What was done and what was not, and why; a prediction is called one."""
    compiled = [trial for trial in trials if trial.code_hash and trial.state is not TrialState.DUPLICATE]
    proven = [trial for trial in compiled if trial.state is TrialState.VERIFIED]
    wrong = sum(trial.state is TrialState.WRONG_RESULT for trial in compiled)
    counted = f"{_kernels(len(compiled))} compiled for the {target.card.name}"
    if proven:
        note = f"Nothing was timed: {target.why}. {counted}, {len(proven)} of them verified in the emulator"
    else:
        note = f"Nothing was verified or timed: {target.why}. {counted}"
    note += f"; {wrong} gave a wrong result there." if wrong else "."
    timed = [(t.predicted_us, t) for t in proven or compiled if t.predicted_us is not None]
    if timed:
        which = "the verified ones" if proven else "them"
        predicted, best = min(timed, key=lambda one: one[0])
        note += f" The best of {which} is predicted to take {predicted:.2f} us; that was not measured."
        unpriced = left_out([best.candidate.knobs])
        note += unpriced and f" {unpriced}"
    return note if proven else f"{note} No kernel is served on a prediction alone."


def _kernels(count: int) -> str:
    return f"{count} kernel{'' if count == 1 else 's'}"


class _Compiling:
    """Compiles candidates in order; each is a trial in the log when its end is known."""

    def __init__(
        self,
        builder: Builder,
        card: Card,
        job: Job,
        trials: TrialLog,
        progress: Progress,
        is_stopped: Callable[[], bool],
        queue_depth: int,
    ) -> None:
        self._builder = builder
        self._reason = f"compiled for {card.name}; not run, there is no GPU here"
        self._budget = job.budget
        self._trials = trials
        self._progress = progress
        self._is_stopped = is_stopped
        self._queue_depth = queue_depth
        self._kept_s = PROVING_SHARE * job.budget.left_s if job.budget.left_s < inf else 0.0
        self._done = {trial.candidate for trial in trials.trials if not _is_set_aside(trial)}
        self._first = {
            (trial.code_hash, trial.launch_hash): trial.number
            for trial in trials.trials
            if trial.code_hash is not None and trial.state is not TrialState.DUPLICATE
        }
        self.built: dict[int, Built] = {}
        """What was compiled here, by the number of its trial."""
        self.is_complete = False

    def run(self, candidates: list[Candidate]) -> None:
        """Until there are KERNELS distinct ones or the time is up, also of a compile under way.

        Sets `is_complete` unless it was stopped.
        """
        remaining = (candidate for candidate in candidates if candidate not in self._done)
        number = max((trial.number for trial in self._trials.trials), default=-1) + 1
        queue: deque[Build] = deque()
        while not self._is_stopped():
            while self._may_start(len(queue)) and (candidate := next(remaining, None)) is not None:
                queue.append(self._builder.start(number, candidate))
                number += 1
            if not queue or not queue[0].wait(self._left_s):
                self.is_complete = True
                break
            self._end(queue.popleft())
            self._progress.show(Snapshot(phase="compiling"))
        for build in queue:
            build.cancel()

    @property
    def _left_s(self) -> float:
        """Seconds left to compile: proofs get the rest."""
        return self._budget.left_s - self._kept_s

    def _may_start(self, under_way: int) -> bool:
        known = sum(not _is_set_aside(trial) for trial in self._trials.trials) + under_way
        return (
            under_way < min(self._queue_depth, KERNELS - len(self._first))
            and self._budget.allows(known, self._kept_s)
            and not self._is_stopped()
        )

    def _end(self, build: Build) -> None:
        artifact = self._builder.finish(build)
        if isinstance(artifact, Failure):
            self._trials.record(unbuilt(build, artifact))
            return
        kernel = kernel_id(artifact)
        if kernel in self._first:
            self._trials.record(duplicate(build, artifact, self._first[kernel]))
            return
        self._trials.record(not_run(build, artifact, self._reason))
        self._first[kernel] = build.number
        self.built[build.number] = Built(build, artifact)


def _is_set_aside(trial: Trial) -> bool:
    """Of another generator."""
    return trial.state is TrialState.CANCELLED
