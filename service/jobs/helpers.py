"""The workers that help with a tuning, as its search sees them: an `Elsewhere`.

The worker that has a tuning in hand asks others that are idle, each by a durable job in that worker's own queue. Who
comes stands in our tables (`service.db.errands`), and so does what it is asked for: kernels to measure, candidates to
build.
A helper that dies costs the kernel that it was measuring; what it had not begun is measured by others, and what it was
building is built again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self

from sqlalchemy.exc import SQLAlchemyError

from compiler.ir.fusion import Fusion
from fusetune.wire.artifact import KernelArtifact
from search.measure.device import (
    EAGER,
    Baseline,
    CardFacts,
    DeviceLost,
    Effort,
    MeasureResult,
    MeasuringDevice,
    NeverBegun,
)
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.finishing import BuiltElsewhere
from search.tuning.elsewhere import HostLost
from search.tuning.failing import Failure
from search.tuning.timeline import Timeline
from service.db import cards, errands
from service.db.engine import Database
from service.db.models import HelperRow
from service.jobs.errand_forms import build_errand, measure_errand, read_build_answer, read_measure_answer
from service.jobs.news import News
from service.jobs.queue import QueueUnavailable

log = logging.getLogger(__name__)

ASK_AFTER_S = 1.0
"""A tuning that is over by then needs nobody."""

ASK_AGAIN_S = 30.0
"""A worker that has not come, or has left for a tuning of its own, is asked again after so long."""

LOOK_S = 0.25
"""How often answers are looked for that nobody has told of."""

ASK_EVERY_S = 2.0

LEAST_SILENT_S = 5.0
"""However often a worker says that it lives, it may be silent for so long."""

AHEAD = 2
"""Kernels that a helper's GPU is given at a time: the next is there when it has measured one."""


class HelpQueue(Protocol):
    """Hands the wish for help to a worker. `service.jobs.dbos_queue.DbosQueue` is the real one."""

    def ask(self, tuning_id: str, worker: str, turn: int) -> None:
        """Raises QueueUnavailable."""
        ...


@dataclass
class Party:
    """How the workers of a service reach one another. `ring` wakes them all for errands; `news` is rung when one of
    them has done so. `silent_s`: after so long without a heartbeat a helper is lost."""

    jobs: HelpQueue
    ring: Callable[[], None]
    news: News
    silent_s: float = 20.0


@dataclass(slots=True)
class _Asked:
    """An errand that is waited for; `worker`: of a measurement."""

    worker: str | None
    future: Future[Any]


@dataclass(slots=True)
class _Helper:
    """One that has come. `beat`: its last heartbeat, and when it was first seen on our own clock."""

    worker: str
    hands: int
    joined_at: datetime
    beat: tuple[datetime | None, float]
    attached: bool = False
    gone: str = ""


class Helpers:
    """Use it in a `with`, while the tuning is searched; `worker` has it in hand."""

    def __init__(self, db: Database, party: Party, tuning_id: str, card_id: str, worker: str) -> None:
        self._db = db
        self._party = party
        self._tuning_id = tuning_id
        self._card_id = card_id
        self._worker = worker
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked] = {}
        self._helpers: dict[str, _Helper] = {}
        self._came: list[MeasuringDevice] = []
        self._turns: dict[str, tuple[int, float]] = {}
        self._ask_at = time.monotonic() + ASK_AFTER_S
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="helpers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._party.news.ring()
        self._thread.join()
        with self._lock:
            left, self._asked = list(self._asked.values()), {}
        for one in left:
            _fail(one.future, HostLost("the search is over"))
        try:
            with self._db.write() as session:
                errands.clear(session, self._tuning_id)
        except SQLAlchemyError as fault:
            log.warning("tuning %s: its errands are left behind: %s", self._tuning_id, fault)

    # What the search asks --------------------------------------------------------------------------------------------

    def joined(self) -> Sequence[MeasuringDevice]:
        """GPUs that have come since the last call."""
        with self._lock:
            came, self._came = self._came, []
        return came

    @property
    def came(self) -> bool:
        """Whether anybody has helped."""
        with self._lock:
            return bool(self._helpers)

    @property
    def hands(self) -> int:
        """Candidates that helpers can build at a time."""
        with self._lock:
            return sum(helper.hands for helper in self._helpers.values() if not helper.gone)

    @property
    def room(self) -> int:
        """Candidates that they would begin now."""
        with self._lock:
            building = sum(one.worker is None for one in self._asked.values())
        return self.hands - building

    def build(self, candidate: Candidate) -> Future[BuiltElsewhere | Failure]:
        """Asks whoever takes it."""
        return self._ask("build", build_errand(candidate), None)

    def measure(self, worker: str, artifact: KernelArtifact, effort: Effort) -> MeasureResult:
        """Asks a helper, and waits for its answer. Raises DeviceLost."""
        with self._lock:
            helper = self._helpers[worker]
        if helper.gone:
            raise NeverBegun(_gpu_of(worker), helper.gone)
        found: MeasureResult = self._ask("measure", measure_errand(artifact, effort), worker).result()
        return found

    def _ask(self, kind: errands.Kind, request: bytes, worker: str | None) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            with self._db.write() as session:
                id = errands.put(session, self._tuning_id, kind, request, worker)
                with self._lock:
                    self._asked[id] = _Asked(worker, future)
        except SQLAlchemyError as fault:
            lost = "our tables do not answer"
            log.warning("tuning %s: nobody is asked: %s", self._tuning_id, fault)
            future.set_exception(HostLost(lost) if worker is None else NeverBegun(_gpu_of(worker), lost))
            return future
        self._party.ring()
        return future

    # What comes of it ------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        while not self._is_over.is_set():
            try:
                self._look()
                if time.monotonic() >= self._ask_at:
                    self._ask_at = time.monotonic() + ASK_EVERY_S
                    self._ask_for_help()
            except SQLAlchemyError as error:
                log.warning("tuning %s: helpers cannot be seen now: %s", self._tuning_id, error)
            except Exception:
                log.exception("tuning %s: helpers are not followed any more", self._tuning_id)
                return
            self._party.news.wait(LOOK_S)

    def _look(self) -> None:
        with self._db.read() as session:
            rows = errands.helpers(session, [self._tuning_id])[self._tuning_id]
            is_answered = errands.has_answers(session, self._tuning_id)
            workers = {row.worker_id: cards.worker(session, row.worker_id) for row in rows}
        beats = {
            id: None if row is None or row.stopped_at is not None else row.heartbeat_at for id, row in workers.items()
        }
        for row in rows:
            self._see(row, beats[row.worker_id])
        if is_answered:
            self._collect()
        self._give_up()

    def _see(self, row: HelperRow, beat: datetime | None) -> None:
        now_s = time.monotonic()
        with self._lock:
            known = self._helpers.get(row.worker_id)
            if known is None or known.joined_at != row.joined_at:
                known = _Helper(row.worker_id, row.hands, row.joined_at, (beat, now_s))
                self._helpers[row.worker_id] = known
            if row.attached and not known.attached:
                known.attached = True
                self._came += [HelpersGpu(self, row.worker_id) for _ in range(AHEAD)]
                log.info("tuning %s: the GPU of worker %s helps", self._tuning_id, row.worker_id)
            if beat != known.beat[0]:
                known.beat = beat, now_s
            if row.left_at is not None:
                known.gone = row.why or "it has left"
            elif beat is None or now_s - known.beat[1] >= self._party.silent_s:
                known.gone = "it is not heard of any more"

    def _collect(self) -> None:
        with self._db.write() as session:
            answers = errands.collect(session, self._tuning_id)
        for id, content in answers.items():
            with self._lock:
                asked = self._asked.pop(id, None)
            if asked is None:
                continue
            read = read_build_answer if asked.worker is None else read_measure_answer
            try:
                found: Any = read(content)
            except ValueError as error:
                log.warning("tuning %s: an answer cannot be read: %s", self._tuning_id, error)
                _fail(asked.future, _lost(asked, "its answer cannot be read", begun=True))
            else:
                with suppress(Exception):  # cancelled: nobody waits for it
                    asked.future.set_result(found)

    def _give_up(self) -> None:
        """What is in the hands of those that are gone, or can be in nobody's."""
        with self._lock:
            gone = {helper.worker: helper.gone for helper in self._helpers.values() if helper.gone}
            is_alone = all(helper.gone or not helper.hands for helper in self._helpers.values())
            waits = dict(self._asked)
        if not waits or not (gone or is_alone):
            return
        with self._db.read() as session:
            taken = errands.taken(session, self._tuning_id)
        lost: dict[str, BaseException] = {}
        for id, asked in waits.items():
            by = taken.get(id)
            holder = asked.worker or by
            if holder in gone:
                lost[id] = _lost(asked, gone[holder], begun=by is not None)
            elif holder is None and is_alone:
                lost[id] = HostLost("nobody is left to build it")
        if not lost:
            return
        with self._db.write() as session:
            errands.drop(session, list(lost))
        for id, error in lost.items():
            with self._lock:
                found = self._asked.pop(id, None)
            if found is not None:
                _fail(found.future, error)

    def _ask_for_help(self) -> None:
        with self._db.read() as session:
            idle = errands.idle_workers(session, self._card_id, self._worker, self._party.silent_s)
        for worker in idle:
            turn, at = self._turns.get(worker, (0, -ASK_AGAIN_S))
            if time.monotonic() - at < ASK_AGAIN_S:
                continue
            self._turns[worker] = turn + 1, time.monotonic()
            try:
                self._party.jobs.ask(self._tuning_id, worker, turn)
            except QueueUnavailable as error:
                log.warning("tuning %s: worker %s is not asked: %s", self._tuning_id, worker, error)


class HelpersGpu:
    """The GPU of a helper: a MeasuringDevice on which the search's fusion is open as long as it helps."""

    def __init__(self, helpers: Helpers, worker: str) -> None:
        self._helpers = helpers
        self._worker = worker

    def open(self, fusion: Fusion) -> None:
        """It is open."""

    def measure(self, artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
        """Raises DeviceLost."""
        return self._helpers.measure(self._worker, artifact, effort)

    def baseline(self, name: str = EAGER) -> Baseline:
        """None: that is the business of the worker that has the tuning."""
        return Baseline(name, None, "the GPU of a helper times kernels only")

    def facts(self) -> CardFacts:
        """Never asked: its card's key is that of the tuning."""
        raise DeviceLost(_gpu_of(self._worker), "its facts are not asked from here")

    def tell(self, timeline: Timeline) -> None:
        """Its host's time is not this tuning's."""

    def close(self) -> None:
        """It is the helper's."""


def _gpu_of(worker: str) -> str:
    return f"the GPU of worker {worker}"


def _lost(asked: _Asked, why: str, *, begun: bool) -> Exception:
    if asked.worker is None:
        return HostLost(why)
    return (DeviceLost if begun else NeverBegun)(_gpu_of(asked.worker), why)


def _fail(future: Future[Any], error: BaseException) -> None:
    with suppress(Exception):  # cancelled: nobody waits for it
        future.set_exception(error)
