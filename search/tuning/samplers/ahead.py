"""TPE in a process of its own, a few proposals ahead of who asks.

A proposal takes TPE 5 ms of a processor at first, 15 after some hundreds of trials: more than all else that a search
does for a candidate. Where several GPUs wait for one search, that is what they would wait for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from compiler.child import Child, ChildError
from search.space.knobs import Knob
from search.tuning.candidates.candidate import Candidate
from search.tuning.samplers.optuna import TpeStudy
from search.tuning.trial import TrialState

AHEAD = 4
"""Proposals that are made of one state of the trials."""

_PROPOSE_S = 30.0
"""Seconds after which the process is given up: hundreds of times what it takes."""

Told = tuple[Candidate, float | None, TrialState]


def propose_handler(init: tuple[Mapping[str, Sequence[Knob]], int]) -> Callable[[list[Told]], list[Candidate]]:
    """Runs in the child: takes in trials, answers with proposals."""
    study = TpeStudy(*init)

    def answer(told: list[Told]) -> list[Candidate]:
        for one in told:
            study.tell(*one)
        return [study.propose() for _ in range(AHEAD)]

    return answer


class ProposalsAhead:
    """`Proposals` by a child; where it dies, a study here goes on from all trials. Close it, or use it in a `with`."""

    def __init__(self, knobs: Mapping[str, Sequence[Knob]], seed: int) -> None:
        self._init = knobs, seed
        self._child = Child("search.tuning.samplers.ahead:propose_handler", self._init, name="tpe")
        self._child.begin()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tpe")
        self._ready: deque[Candidate] = deque()
        self._coming: Future[list[Candidate]] | None = None
        self._told: list[Told] = []
        self._sent = 0
        self._here: TpeStudy | None = None

    def tell(self, candidate: Candidate, value: float | None, state: TrialState) -> None:
        self._told.append((candidate, value, state))
        if self._here is not None:
            self._here.tell(candidate, value, state)

    def propose(self, *, waits: bool) -> Candidate | None:
        self._collect(waits=waits and not self._ready)
        if self._here is not None:
            return self._here.propose()
        found = self._ready.popleft() if self._ready else None
        if not self._ready and self._coming is None:
            self._begin()
        return found if found is not None or not waits else self.propose(waits=True)

    def close(self) -> None:
        """Ends the process, whatever it works on."""
        self._child.kill()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._child.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self) -> None:
        new, self._sent = self._told[self._sent :], len(self._told)
        self._coming = self._thread.submit(self._asked, new)

    def _asked(self, new: list[Told]) -> list[Candidate]:
        answer: Any = self._child.request(new, _PROPOSE_S, life=1)
        found: list[Candidate] = answer
        return found

    def _collect(self, *, waits: bool) -> None:
        """Takes over what has come; what is on its way too, where it is waited for."""
        if self._coming is None or not (waits or self._coming.done()):
            return
        coming, self._coming = self._coming, None
        try:
            self._ready.extend(coming.result())
        except (ChildError, OSError):  # it cannot be started again, either
            self._child.kill()
            self._here = TpeStudy(*self._init)
            for one in self._told:
                self._here.tell(*one)
