"""Candidates generated and predicted in child processes.

Python takes 20 to 90 ms to schedule, check, lower and predict one candidate, and a GPU judges thirty in a second: one
process can neither rank enough of a space in a short budget nor keep the GPU busy.
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
from typing import Any

from compiler.child import Child, ChildError, ChildTimedOut
from search.candidate import Candidate
from search.draft import Draft, Predict, Subject, draft, launch_times
from search.failing import Failure
from search.predicting import predictor
from search.trial import TrialState

DRAFT_S = 60.0
"""Seconds after which a child that generates one candidate is killed: hundreds of times what one usually takes."""

AHEAD = 2
"""Candidates under way for each child while a ranking is predicted: one that it works on, one that waits for it."""

MOST = 6
"""Children: at 22 ms a candidate (pointwise, one core of an idle machine) several times what a GPU judges."""

_KNOWN_SUBJECTS = 4
"""Subjects that a child keeps unpickled."""


def drafters(compilers: int) -> int:
    """Children that draft beside so many that compile; a machine of two cores is kept busy by one process of ours."""
    return min(MOST, compilers // 2)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a child is asked of a pickled subject: a whole draft, or its times alone, which are smaller to send."""

    subject: bytes
    candidate: Candidate
    is_whole: bool


def draft_handler(init: None) -> Callable[[_Asked], Draft | Failure | list[float] | None]:
    """Runs in a child: the function that answers its requests."""

    @lru_cache(_KNOWN_SUBJECTS)
    def known(subject: bytes) -> tuple[Subject, Predict]:
        found: Subject = pickle.loads(subject)
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
        self.children = [Child("search.drafting:draft_handler", name=f"draft-{number}") for number in range(workers)]
        self._idle: queue.SimpleQueue[Child] = queue.SimpleQueue()
        for child in self.children:
            self._idle.put(child)
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

    def of(self, subject: Subject) -> Drafts:
        """Drafts of one subject by these children."""
        return Drafts(self, subject)

    def submit(self, asked: _Asked) -> Future[Any]:
        """Queues a request. The future raises what the handler raised, or ChildError."""
        return self._threads.submit(self._ask, asked)

    def close(self) -> None:
        """Drops what is queued, waits for what is under way, ends the processes."""
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
        child.start()
        self._is_up.set()

    def _ask(self, asked: _Asked) -> Any:
        child = self._idle.get()
        try:
            return child.request(asked, DRAFT_S)
        finally:
            self._idle.put(child)


class Drafts:
    """Drafts of one subject, by the children of a pool; in this process until one of them is up, and what a child that
    died was asked: drafting needs nothing of the child."""

    def __init__(self, pool: DraftPool, subject: Subject) -> None:
        self._pool = pool
        self._subject = subject
        self._pickled = pickle.dumps(subject)
        self._predict = predictor(subject.card)

    def foresee(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, list[float] | None]]:
        """`search.draft.Foresee`: candidates are taken from the iterable a few ahead of what is answered."""
        window: deque[tuple[Candidate, Future[Any]]] = deque()
        for candidate in candidates:
            if not self._pool.is_up:
                yield candidate, launch_times(self._subject, candidate, self._predict)
                continue
            window.append((candidate, self._pool.submit(_Asked(self._pickled, candidate, is_whole=False))))
            if len(window) >= AHEAD * len(self._pool.children):
                yield self._foreseen(*window.popleft())
        for one in window:
            yield self._foreseen(*one)

    def submit(self, candidate: Candidate) -> Future[Draft | Failure]:
        """Queues a candidate; drafts it at once where no child is up. The future raises only what is ours to mend."""
        ended: Future[Draft | Failure] = Future()
        if self._pool.is_up:
            asked = self._pool.submit(_Asked(self._pickled, candidate, is_whole=True))
            asked.add_done_callback(lambda answered: self._end(ended, candidate, answered))
        else:
            ended.set_result(draft(self._subject, candidate, self._predict))
        return ended

    def _foreseen(self, candidate: Candidate, asked: Future[Any]) -> tuple[Candidate, list[float] | None]:
        try:
            return candidate, asked.result()
        except ChildTimedOut:
            return candidate, None
        except ChildError:
            return candidate, launch_times(self._subject, candidate, self._predict)

    def _end(self, ended: Future[Draft | Failure], candidate: Candidate, answered: Future[Any]) -> None:
        try:
            try:
                ended.set_result(answered.result())
            except ChildTimedOut as late:
                why = f"Generating it takes more than {late.timeout_s:g} s. Unroll less."
                ended.set_result(Failure(TrialState.UNSUPPORTED, why))
            except ChildError:
                ended.set_result(draft(self._subject, candidate, self._predict))
        except BaseException as error:  # noqa: BLE001 (whoever asks for the draft gets it)
            ended.set_exception(error)
