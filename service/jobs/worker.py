"""The worker process: one GPU, or none; one tuning at a time, of its card or of those that nobody has."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Any, Self

from sqlalchemy.exc import SQLAlchemyError

from compiler.nvrtc import CompilePool
from fusetune.signer import Signer
from search.proof.emulated.apart import Prover
from search.tuning.attached import Attached, Detached
from search.tuning.candidates.drafting import DraftPool
from search.tuning.hands import compilers, drafters
from service.db import cards
from service.db.engine import Database
from service.db.migrate import ensure_there
from service.jobs.adopt import Adoption
from service.jobs.dbos_queue import UNHEARD_POLL_S, DbosQueue
from service.jobs.executor import Executor
from service.jobs.helpers import LEAST_SILENT_S, Party
from service.jobs.learning import CardLearning
from service.jobs.news import News
from service.jobs.past import fill_kin
from service.jobs.presence import Heartbeat, WorkerLock
from service.jobs.promote import promote
from service.jobs.queue import OTHER_CARDS, QueueUnavailable, help_queue, queue_name
from service.jobs.reconcile import reconcile
from service.jobs.target import find_target
from service.jobs.tuning import TuningJobs
from service.settings import Settings

log = logging.getLogger(__name__)

RECONCILE_S = 15.0
"""How often tunings and jobs are compared, and an idle GPU is given back."""

_TICK_S = 0.25
"""How often the main thread wakes. A signal may land in any thread; Python handles it when this one wakes."""

_FILLED = 500
"""Kernels at a time: a second of work."""

GRACE_S = 6.0
"""How long a stopping worker lets its tuning wind down: containers are killed 10 s after they were told to stop."""

LOST_GPU = 1
"""Exit code of a worker whose GPU is gone; whoever supervises it starts it again."""


def run_worker(settings: Settings) -> int:
    """Work until SIGTERM or SIGINT, then leave the running tuning to the next start; returns the exit code.

    Called in the main thread of its process. Raises WorkerRefused, UnusableKey, DatabaseFault, QueueUnavailable,
    UnknownCard, Unsupported and OSError for what keeps it from starting.
    """
    with ExitStack() as stack:
        stack.enter_context(WorkerLock(settings.data_dir, settings.worker_id))
        signer = None if settings.signing_key is None else Signer.load(settings.signing_key)
        db = stack.enter_context(Database(settings.db_url))
        ensure_there(db)
        target = find_target(settings)
        if isinstance(target, Attached):
            stack.callback(target.device.close)
        processes = settings.compilers or compilers()
        drafting = stack.enter_context(DraftPool(drafters(processes)))
        drafting.start()
        compiling = CompilePool(processes)
        stack.callback(compiling.abandon)  # what it compiles at the end nobody waits for
        compiling.start()
        prover = stack.enter_context(Prover())
        return _serve(settings, db, target, drafting, compiling, prover, signer)


def _serve(
    settings: Settings,
    db: Database,
    target: Attached | Detached,
    drafting: DraftPool,
    compiling: CompilePool,
    prover: Prover,
    signer: Signer | None,
) -> int:
    stopping = threading.Event()
    is_attached = isinstance(target, Attached)
    presence = _announced(settings, db, target)
    queue = queue_name(presence.card_id, attached=is_attached)
    queues = [queue] if target.card.name == cards.FAKE_CARD else [queue, OTHER_CARDS]
    jobs = DbosQueue(settings.dbos_url)
    news = News()
    party = Party(jobs, jobs.errand_bell.ring, news, max(LEAST_SILENT_S, 4 * settings.heartbeat_s))
    learning = CardLearning(db, target.card, settings.data_dir) if is_attached and settings.learn else None
    work = TuningJobs(
        db, target, settings.worker_id, stopping, settings.compilers, drafting, compiling, signer=signer, party=party,
        learning=learning, prover=prover,
    )  # fmt: skip
    adoptions = [Adoption(db, jobs, one, settings.worker_id) for one in queues]
    own = help_queue(settings.worker_id)
    executor = Executor(settings.dbos_url, settings.worker_id, [*queues, own], work.run, work.help_with)
    with (
        _Signals() as signals,
        Heartbeat(db, presence, settings.heartbeat_s, lambda: work.current),
        ExitStack() as stack,
    ):
        if is_attached:
            promote(db, presence.card_id, queue, settings.worker_id)
        jobs.register(own, UNHEARD_POLL_S)
        for one in queues:
            jobs.register(one, UNHEARD_POLL_S)
            reconcile(db, jobs, one)
        executor.start()
        with contextlib.suppress(OSError):  # no bell: it looks by itself
            stack.enter_context(jobs.bell.listen(executor.wake))
            stack.enter_context(jobs.errand_bell.listen(news.ring))
            for one in (*queues, own) if executor.can_be_woken else ():
                jobs.register(one)
        log.info("worker %s serves queues %s", settings.worker_id, ", ".join(queues))
        due = time.monotonic() + RECONCILE_S
        while not (signals.came or stopping.is_set()):
            time.sleep(_TICK_S)
            if time.monotonic() >= due:
                for one, adoption in zip(queues, adoptions, strict=True):
                    reconcile(db, jobs, one)
                    adoption.run()
                _learn_kin(db)
                work.recheck_if_idle()
                work.learn_if_idle()
                work.rest_if_idle()
                executor.wake()  # DBOS asks ever more seldom where it met a lock, and a ring may be lost
                due = time.monotonic() + RECONCILE_S
        stopping.set()
        log.info("worker %s stops", settings.worker_id)
        is_idle = work.wait_idle(GRACE_S)
        work.let_go()
        executor.stop()
        _hand_back(jobs, settings.worker_id, queues)
    if not is_idle:
        # A compile or a measurement does not end in time. Nothing of it is needed: what was finished is stored, and
        # children end when they lose us. Waiting for threads would only delay that.
        log.info("worker %s leaves its running tuning in the middle", settings.worker_id)
        logging.shutdown()
        os._exit(LOST_GPU if work.gpu_lost else 0)
    return LOST_GPU if work.gpu_lost else 0


def _learn_kin(db: Database) -> None:
    """Searches begin with kernels of kin, which those of an earlier version, and of packs, are not known to be yet."""
    try:
        fill_kin(db, _FILLED)
    except SQLAlchemyError as error:
        log.warning("what kernels are of kin with cannot be written: %s", error)


def _announced(settings: Settings, db: Database, target: Attached | Detached) -> cards.Presence:
    """The card is in the database; the worker as it will announce itself."""
    driver: str | None = None
    clock_limit_mhz: int | None = None
    match target:
        case Attached():
            driver, why = target.facts.driver, ""
            clock_limit_mhz = target.facts.clock_limit_mhz or None
            for note in target.notes:
                log.info("%s", note)
        case Detached():
            why = target.why
            log.warning(
                "no GPU: %s. This worker compiles for the %s, and for cards that nobody has.", why, target.card.name
            )
    with db.write() as session:
        card = cards.put(session, target.card, driver, clock_limit_mhz, attached=isinstance(target, Attached))
    return cards.Presence(
        id=settings.worker_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        card_id=card.id,
        attached=isinstance(target, Attached),
        why=why,
    )


def _hand_back(jobs: DbosQueue, worker: str, queues: Sequence[str]) -> None:
    """The jobs that this worker had begun go back into their queues, for whoever serves the card next."""
    try:
        for queue in queues:
            begun = [tuning_id for tuning_id, executor in jobs.begun(queue).items() if executor == worker]
            for tuning_id in begun:
                log.info("tuning %s goes back into the queue", tuning_id)
            jobs.hand_back(begun, queue)
    except QueueUnavailable as error:
        log.warning("the running tuning waits for a worker of this id: %s", error)
    finally:
        jobs.close()


class _Signals:
    """Notes SIGTERM and SIGINT instead of dying of them. Before it is entered they end the process, as they should.

    The handler only sets a flag: it may run while this thread holds any lock, that of an Event included.
    """

    def __init__(self) -> None:
        self.came = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
