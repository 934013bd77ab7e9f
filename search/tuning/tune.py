"""One tuning on an attached GPU, whoever asks for it: rank, search, settle. Trials go where the caller keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Event

from compiler.nvrtc import CompilePool
from search.cost.predicting import refiner
from search.cost.roofline import floor_us
from search.measure.device import MeasuringDevice
from search.tuning.attached import Attached
from search.tuning.budget import Budget
from search.tuning.build import Builder
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.drafting import DraftPool
from search.tuning.candidates.plan import Plan
from search.tuning.candidates.spread import Ranked, spread
from search.tuning.elsewhere import Elsewhere, NoWhere, SharedBuilds
from search.tuning.first import FirstKernel
from search.tuning.hands import compilers, drafters
from search.tuning.history import History, begun_from, starts
from search.tuning.journal import TrialLog
from search.tuning.lanes import Gpu
from search.tuning.progress import Progress
from search.tuning.samplers.ahead import ProposalsAhead
from search.tuning.samplers.guided import WARM_START, GuidedSampler
from search.tuning.stopping import Stopping, StopRules
from search.tuning.timeline import SearchStage, Timeline
from search.tuning.tuner import Awaited, SearchOutcome, SearchSettings, Tuner

RANKED_POINTS = 400
"""Legal points of each scheduler that are ranked by prediction, time allowing."""

RANKING_SHARE = 0.1
"""Share of a budget that ranking may take."""

_RANKING_S, _RANKING_MOST = 3.0, 0.25
"""Seconds that it may take of short budgets as well, up to this share: inputs and references are made meanwhile."""

_LOOKED_AT, _LOOK_S = 24, 0.5
"""Structures of each scheduler that are ranked, and how long, before a search begins of which somebody wants the first
kernel, or that may try as many as its time allows: all the others are ranked while the first ones are made. Of six
public cases the best of these was predicted 0 to 6 % slower than the best of all, in a quarter of the time or less."""

_AHEAD = 4
"""Kernels beyond those that are being compiled that wait for the GPU."""


def _ranking_s(budget: Budget) -> float:
    return max(RANKING_SHARE * budget.left_s, min(_RANKING_S, _RANKING_MOST * budget.left_s))


@contextmanager
def _beside(
    make: Callable[[Callable[[], bool]], Sequence[Candidate]], is_stopped: Callable[[], bool]
) -> Iterator[Future[Sequence[Candidate]]]:
    """What is made in a thread meanwhile; told to stop at the end, or as soon as `is_stopped`."""
    is_over = Event()
    with ThreadPoolExecutor(1, thread_name_prefix="rank") as thread:
        try:
            yield thread.submit(make, lambda: is_over.is_set() or is_stopped())
        finally:
            is_over.set()


def tune_on(
    gpu: Attached,
    plan: Plan,
    log: TrialLog,
    budget: Budget,
    seed: int,
    progress: Progress | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    compile_processes: int | None = None,
    drafting: DraftPool | None = None,
    compiling: CompilePool | None = None,
    baseline: Callable[[MeasuringDevice], None] = lambda device: None,
    first: Sequence[Candidate] = (),
    timeline: Timeline | None = None,
    early: FirstKernel | None = None,
    enough: Callable[[], StopRules] = StopRules,
    history: History | None = None,
    others: Sequence[MeasuringDevice] = (),
    elsewhere: Elsewhere | None = None,
) -> SearchOutcome:
    """Search `plan` on `gpu` and settle the winner, going on from the trials in `log`.

    `drafting`, `compiling`: children that are up already, left open. `baseline` gets the device with the fusion open,
    once a kernel was measured: nobody shall wait for it who wants a kernel. `first`: candidates that are tried before
    what the ranking has, those that were proven in the emulator when there was no such GPU. `timeline`: where all of it
    is told. `early`: who may want the first kernel that can be served. `enough`: when the search ends early.
    `history`: what it begins with, behind `first`. `others`: more GPUs of this host of the same kind; `elsewhere`: what
    other hosts have. They measure and build too; leaders are settled on one GPU, `gpu` unless it is lost.
    Raises Unsupported if the plan has no legal point, DeviceLost if the GPU itself does not work.
    """
    timeline = timeline or Timeline()
    gpu.device.tell(timeline)
    gpus = 1 + len(others)
    processes = compile_processes or compilers(gpus)
    with ExitStack() as stack:
        opener = stack.enter_context(ThreadPoolExecutor(gpus))  # inputs and reference are made while all else is
        opened = opener.submit(gpu.device.open, plan.fusion)
        coming = [Gpu(device, opener.submit(device.open, plan.fusion)) for device in others]
        with timeline.span(SearchStage.SPACES):
            spaces = plan.searchable
        if drafting is None:
            drafting = stack.enter_context(DraftPool(drafters(processes, gpus)))
            drafting.start()
        drafts = drafting.of(plan.subject(gpu.card), timeline)
        pool = compiling or stack.enter_context(CompilePool(processes))
        pool.start()
        warm = [] if history is None else starts(history.alike(plan.fusion, gpu.card), spaces)
        if warm:
            timeline.begun_from = begun_from(warm)
        if progress is not None and history is not None:
            progress.note(timeline.begun_from or "Begun from the ranking: no earlier tuning is of kin.")
        hosts = elsewhere or NoWhere()

        def rank(points: int, seconds: float, is_stopped: Callable[[], bool]) -> list[Ranked]:
            with timeline.span(SearchStage.RANKING):
                ranking = plan.ranking(drafts.foresee, points, seed, seconds, is_stopped=is_stopped)
            predicted_us.update((one.candidate, one.predicted_us) for one in ranking)
            if early is not None and ranking:
                early.best_predicted_us = ranking[0].predicted_us
            return ranking

        known: list[Ranked] = []
        predicted_us: dict[Candidate, float] = {}
        begun = [*first, *(one for _, one in warm)]
        better: Future[Sequence[Candidate]] | None = None
        awaited: Awaited | None = None
        is_hasty = budget.trials is None or (early is not None and early.is_open)
        if is_hasty:
            ranking = rank(_LOOKED_AT, _LOOK_S, is_stopped)

            def rank_all(is_over: Callable[[], bool]) -> list[Candidate]:
                known.extend(rank(RANKED_POINTS, _ranking_s(budget), is_over))
                return [*begun, *spread(known)]

            better = stack.enter_context(_beside(rank_all, is_stopped))
            awaited = Awaited(better, min(WARM_START, len({*begun, *(one.candidate for one in ranking)})))
        else:
            ranking = known = rank(RANKED_POINTS, _ranking_s(budget), is_stopped)
        floor = floor_us(plan.fusion, gpu.card)
        builder = Builder(drafts, pool, plan.arch.name, refiner(gpu.card), timeline)

        def joining() -> list[Gpu]:
            came, coming[:] = [*coming, *map(Gpu, hosts.joined())], []
            return came

        proposals: ProposalsAhead | None = None
        if others:
            proposals = stack.enter_context(ProposalsAhead({name: one.knobs for name, one in spaces.items()}, seed))
        tuner = Tuner(
            builds=builder if elsewhere is None else SharedBuilds(builder, hosts, processes + _AHEAD),
            device=gpu.device,
            sampler=GuidedSampler(spaces, seed, [*begun, *spread(ranking)], better, proposals, predicted_us, first),
            journal=log,
            budget=budget,
            settings=SearchSettings(queue_depth=processes + _AHEAD, floor_us=floor),
            progress=progress,
            is_stopped=is_stopped,
            timeline=timeline,
            first=early,
            stopping=Stopping(enough, floor, known),
            beside=baseline,
            opened=opened,
            joining=joining,
            awaited=awaited,
        )
        outcome = tuner.run()
        if compiling is None:
            pool.abandon()  # what it compiles now nobody waits for
        return outcome
