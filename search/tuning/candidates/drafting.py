"""Candidates generated and predicted in child processes.

Python takes tens of milliseconds to schedule, check, lower and predict one candidate, and a GPU judges thirty in a
second: one process can neither rank enough of a space in a short budget nor keep the GPU busy.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from types import TracebackType
from typing import Any, TypeVar

from compiler.child import Child, ChildDied, ChildError, ChildGone, ChildTimedOut
from compiler.nvrtc import Compiled
from search.cost.predicting import predictor, refiner
from search.measure import early
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.collecting import collect_rarely
from search.tuning.candidates.draft import Draft, Drafting, DraftSubject
from search.tuning.candidates.finishing import BuiltElsewhere
from search.tuning.failing import Failure
from search.tuning.timeline import SearchStage, Span, Timeline
from search.tuning.trial import TrialState

_R = TypeVar("_R")

DRAFT_S = 60.0
"""Seconds after which a child that generates one candidate is killed: hundreds of times what one usually takes."""

AHEAD = 2
"""Candidates under way for each child while a ranking is predicted: one that it works on, one that waits for it."""

WHOLE = 12
"""Drafts that come with their kernels, the first ones: somebody may wait for what comes of them, and each child works
on a ranking meanwhile."""

_KNOWN_SUBJECTS = 4
"""Subjects that a child keeps unpickled."""


@dataclass(frozen=True, slots=True)
class _Answered:
    """What a child answers, and the seconds that took it: on the clock, and of its processor."""

    value: Draft | BuiltElsewhere | Failure | list[float] | None
    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a child is asked of a pickled subject: the times of a candidate, a draft, or what comes of one that was
    compiled."""

    subject: bytes
    candidate: Candidate
    stage: SearchStage
    compiled: Compiled | None = None
    is_whole: bool = False


def draft_handler(init: None) -> Callable[[_Asked], _Answered]:
    """Runs in a child: the function that answers its requests."""

    @lru_cache(_KNOWN_SUBJECTS)
    def known(subject: bytes) -> Drafting:
        found: DraftSubject = pickle.loads(subject)
        return Drafting(found, predictor(found.card), refiner(found.card))

    def answer(asked: _Asked) -> _Answered:
        begun, cpu = time.monotonic(), time.process_time()
        drafting = known(asked.subject)
        value: Draft | BuiltElsewhere | Failure | list[float] | None
        if asked.compiled is not None:
            value = drafting.finished(asked.candidate, asked.compiled)
        elif asked.stage is SearchStage.DRAFTING:
            value = (drafting.draft if asked.is_whole else drafting.left_behind)(asked.candidate)
        else:
            value = drafting.times(asked.candidate)
        return _Answered(value, time.monotonic() - begun, time.process_time() - cpu)

    collect_rarely()
    return answer


class _Idle:
    """The children that wait for work."""

    def __init__(self) -> None:
        self._waiting: list[Child] = []
        self._changed = threading.Condition()

    def put(self, child: Child) -> None:
        with self._changed:
            self._waiting.append(child)
            self._changed.notify()

    def get(self, preferred: Child | None) -> Child:
        """The preferred child if it is idle, else the one that has waited longest; waits for one."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting)
            child = preferred if preferred is not None and preferred in self._waiting else self._waiting[0]
            self._waiting.remove(child)
            return child


class DraftPool:
    """`workers` child processes that draft candidates, of any subject. Close it, or use it in a `with`."""

    def __init__(self, workers: int) -> None:
        self.children = [early.taken_drafter(number) or early.drafter(number) for number in range(workers)]
        self._idle = _Idle()
        self._is_up = threading.Event()
        self._threads = ThreadPoolExecutor(max(1, workers), thread_name_prefix="draft")
        self._finishing = ThreadPoolExecutor(max(1, workers), thread_name_prefix="finish")

    @property
    def is_up(self) -> bool:
        """Whether a child has started: until one has, whoever asks is faster by itself."""
        return self._is_up.is_set()

    def start(self) -> None:
        """Starts every process, without waiting for any. This one drafts too, until the first is up."""
        collect_rarely()
        for child in self.children:
            self._threads.submit(self._start, child)

    def of(self, subject: DraftSubject, timeline: Timeline | None = None) -> Drafts:
        """Drafts of one subject by these children, told in a timeline."""
        return Drafts(self, subject, timeline or Timeline())

    def submit(self, work: Callable[[Candidate], _R], candidate: Candidate) -> Future[_R]:
        """Queues work that asks a child: as much is under way at a time as there are children."""
        return self._threads.submit(work, candidate)

    def finish(self, work: Callable[[], _R]) -> Future[_R]:
        """Queues work that asks a child for what comes of a draft, ahead of all other work: a GPU may wait for it."""
        return self._finishing.submit(work)

    def ask(self, asked: _Asked, preferred: Child | None = None) -> tuple[_Answered, Child]:
        """The answer of an idle child, and the child: `preferred` if it is idle, else another that has started. Raises
        what the handler raised, or ChildError."""
        child = self._idle.get(preferred)
        try:
            return child.request(asked, DRAFT_S), child
        finally:
            self._idle.put(child)

    def abandon(self) -> None:
        """Drops what is queued and kills the processes, whatever they draft: nobody waits for it any more."""
        for threads in (self._threads, self._finishing):
            threads.shutdown(wait=False, cancel_futures=True)
        for child in self.children:
            child.kill()

    def close(self) -> None:
        """Drops what is queued, waits for what is under way (at most `DRAFT_S`), ends the processes."""
        for threads in (self._threads, self._finishing):
            threads.shutdown(wait=True, cancel_futures=True)
        for child in self.children:
            child.close()

    def __enter__(self) -> DraftPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, child: Child) -> None:
        try:
            child.start()
        finally:
            self._idle.put(child)  # one that did not start is started again by its first request
        self._is_up.set()


class Drafts:
    """Drafts of one subject, by the children of a pool; in this process until one of them is up, and what a child that
    died was asked: drafting needs nothing of the child."""

    def __init__(self, pool: DraftPool, subject: DraftSubject, timeline: Timeline) -> None:
        self._pool = pool
        self._timeline = timeline
        self._pickled = pickle.dumps(subject)
        self._here = Drafting(subject, predictor(subject.card), refiner(subject.card))
        self._ranked_by: dict[Candidate, Child] = {}
        """The child that may have kept the kernel of a candidate."""
        self._drafted_by: dict[Candidate, Child] = {}
        """The child in which a draft has left its kernel."""
        self._numbers = count()
        self._told: set[Child] = set()
        """Children whose start is in the timeline."""

    def foresee(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, list[float] | None]]:
        """`draft.Foresee`: candidates are taken from the iterable a few ahead of what is answered."""
        window: deque[tuple[Candidate, Future[list[float] | None]]] = deque()
        for candidate in candidates:
            if not self._pool.is_up:
                yield candidate, self._here.times(candidate)
                continue
            window.append((candidate, self._pool.submit(self._times, candidate)))
            if len(window) >= AHEAD * len(self._pool.children):
                first, times = window.popleft()
                yield first, times.result()
        for one, times in window:
            yield one, times.result()

    def submit(self, candidate: Candidate) -> Future[Draft | Failure]:
        """Queues a candidate; drafts it at once where no child is up. Raised is only what is ours to mend."""
        if self._pool.is_up:
            return self._pool.submit(self._draft, candidate)
        ended: Future[Draft | Failure] = Future()
        with self._timeline.span(SearchStage.DRAFTING):
            ended.set_result(self._here.draft(candidate))
        return ended

    def finish(self, candidate: Candidate, compiled: Compiled) -> Future[BuiltElsewhere | Failure]:
        """Queues what comes of a draft that has left its kernel in a child, once it is compiled."""
        return self._pool.finish(lambda: self._finished(candidate, compiled))

    def _finished(self, candidate: Candidate, compiled: Compiled) -> BuiltElsewhere | Failure:
        """By the child that drafted it, once that is done with what it works on; runs in a thread of the pool."""
        child = self._drafted_by.pop(candidate, None)
        if child is not None:
            asked = _Asked(self._pickled, candidate, SearchStage.DRAFTING, compiled)
            with suppress(ChildDied, ChildGone, ChildTimedOut):
                answered: _Answered = child.request(asked, DRAFT_S)
                self._timeline.add(Span.just_ended(SearchStage.DRAFTING, child.name, answered.wall_s, answered.cpu_s))
                found: Any = answered.value
                built: BuiltElsewhere | Failure = found
                return built
        return self._here.finished(candidate, compiled)

    def _times(self, candidate: Candidate) -> list[float] | None:
        """By a child: runs in a thread of the pool."""
        try:
            times: Any = self._asked(_Asked(self._pickled, candidate, SearchStage.RANKING))
        except ChildTimedOut:
            return None
        except ChildError:
            return self._here.times(candidate)
        found: list[float] | None = times
        return found

    def _draft(self, candidate: Candidate) -> Draft | Failure:
        """By a child: runs in a thread of the pool."""
        try:
            is_whole = next(self._numbers) < WHOLE
            drafted: Any = self._asked(_Asked(self._pickled, candidate, SearchStage.DRAFTING, is_whole=is_whole))
        except ChildTimedOut as late:
            why = f"Generating it takes more than {late.timeout_s:g} s. Unroll less."
            return Failure(TrialState.UNSUPPORTED, why)
        except ChildError:
            return self._here.draft(candidate)
        found: Draft | Failure = drafted
        return found

    def _asked(self, asked: _Asked) -> Any:
        """What a child answers: of a draft, the one that ranked the candidate, if it is idle. Raises ChildError, and
        what the handler raised."""
        answered, child = self._pool.ask(asked, self._ranked_by.pop(asked.candidate, None))
        made_by = self._ranked_by if asked.stage is SearchStage.RANKING else self._drafted_by
        made_by[asked.candidate] = child
        if child.start_up is not None and child not in self._told:
            self._told.add(child)
            self._timeline.add(Span.of_start(child.name, child.start_up))
        self._timeline.add(Span.just_ended(asked.stage, child.name, answered.wall_s, answered.cpu_s))
        return answered.value
