"""Candidates generated and predicted in child processes.

Python takes tens of milliseconds to schedule, check, lower and predict one candidate, and a GPU judges thirty in a
second: one process can neither rank enough of a space in a short budget nor keep the GPU busy.
"""

from __future__ import annotations

import pickle
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Any, TypeVar

from compiler.child import Child, ChildError, ChildTimedOut
from search.cost.predicting import predictor
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.draft import Draft, DraftSubject, Predict, draft, launch_times
from search.tuning.failing import Failure
from search.tuning.trial import TrialState

_R = TypeVar("_R")

DRAFT_S = 60.0
"""Seconds after which a child that generates one candidate is killed: hundreds of times what one usually takes."""

AHEAD = 2
"""Candidates under way for each child while a ranking is predicted: one that it works on, one that waits for it."""

MOST_DRAFTERS = 6
"""Children: at 18 ms of a core a candidate (a gated product; 35 ms a norm of rows) several times what a GPU judges."""

_KNOWN_SUBJECTS = 4
"""Subjects that a child keeps unpickled."""


def drafters(compilers: int) -> int:
    """Children that draft beside so many that compile; a machine of two cores is kept busy by one process of ours."""
    return min(MOST_DRAFTERS, compilers // 2)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a child is asked of a pickled subject: a whole draft, or its times alone, which are smaller to send."""

    subject: bytes
    candidate: Candidate
    is_whole: bool


def draft_handler(init: None) -> Callable[[_Asked], Draft | Failure | list[float] | None]:
    """Runs in a child: the function that answers its requests."""

    @lru_cache(_KNOWN_SUBJECTS)
    def known(subject: bytes) -> tuple[DraftSubject, Predict]:
        found: DraftSubject = pickle.loads(subject)
        return found, predictor(found.card)

    def answer(asked: _Asked) -> Draft | Failure | list[float] | None:
        subject, predict = known(asked.subject)
        if asked.is_whole:
            return draft(subject, asked.candidate, predict)
        return launch_times(subject, asked.candidate, predict)

    return answer


class DraftPool:
    """`workers` child processes that draft candidates, of any subject. Close it, or use it in a `with`."""

    def __init__(self, workers: int) -> None:
        self.children = [
            Child("search.tuning.candidates.drafting:draft_handler", name=f"draft-{number}")
            for number in range(workers)
        ]
        self._idle: queue.SimpleQueue[Child] = queue.SimpleQueue()
        self._is_up = threading.Event()
        self._threads = ThreadPoolExecutor(max(1, workers), thread_name_prefix="draft")

    @property
    def is_up(self) -> bool:
        """Whether a child has started: until one has, whoever asks is faster by itself."""
        return self._is_up.is_set()

    def start(self) -> None:
        """Starts every process, without waiting for any."""
        for child in self.children:
            self._threads.submit(self._start, child)

    def of(self, subject: DraftSubject) -> Drafts:
        """Drafts of one subject by these children."""
        return Drafts(self, subject)

    def submit(self, work: Callable[[Candidate], _R], candidate: Candidate) -> Future[_R]:
        """Queues work that asks a child: as much is under way at a time as there are children."""
        return self._threads.submit(work, candidate)

    def ask(self, asked: _Asked) -> Any:
        """What the next child that is idle answers, of those that have started. Raises what the handler raised, or
        ChildError."""
        child = self._idle.get()
        try:
            return child.request(asked, DRAFT_S)
        finally:
            self._idle.put(child)

    def abandon(self) -> None:
        """Drops what is queued and kills the processes, whatever they draft: nobody waits for it any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in self.children:
            child.kill()

    def close(self) -> None:
        """Drops what is queued, waits for what is under way (at most `DRAFT_S`), ends the processes."""
        self._threads.shutdown(wait=True, cancel_futures=True)
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

    def __init__(self, pool: DraftPool, subject: DraftSubject) -> None:
        self._pool = pool
        self._subject = subject
        self._pickled = pickle.dumps(subject)
        self._predict = predictor(subject.card)

    def foresee(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, list[float] | None]]:
        """`draft.Foresee`: candidates are taken from the iterable a few ahead of what is answered."""
        window: deque[tuple[Candidate, Future[list[float] | None]]] = deque()
        for candidate in candidates:
            if not self._pool.is_up:
                yield candidate, launch_times(self._subject, candidate, self._predict)
                continue
            window.append((candidate, self._pool.submit(self._launch_times, candidate)))
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
        ended.set_result(draft(self._subject, candidate, self._predict))
        return ended

    def _launch_times(self, candidate: Candidate) -> list[float] | None:
        """By a child: runs in a thread of the pool."""
        try:
            times: list[float] | None = self._pool.ask(_Asked(self._pickled, candidate, is_whole=False))
        except ChildTimedOut:
            return None
        except ChildError:
            return launch_times(self._subject, candidate, self._predict)
        return times

    def _draft(self, candidate: Candidate) -> Draft | Failure:
        """By a child: runs in a thread of the pool."""
        try:
            drafted: Draft | Failure = self._pool.ask(_Asked(self._pickled, candidate, is_whole=True))
        except ChildTimedOut as late:
            why = f"Generating it takes more than {late.timeout_s:g} s. Unroll less."
            return Failure(TrialState.UNSUPPORTED, why)
        except ChildError:
            return draft(self._subject, candidate, self._predict)
        return drafted
