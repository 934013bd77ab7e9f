"""What a worker does with one tuning after another, and what each way to fail costs.

the fusion cannot be searched     the tuning fails, with the reason
the GPU is lost                   the tuning fails; if the GPU does not come back, the worker ends
the database does not answer      the tuning waits, as long as it takes, and goes on from its trials
anything unforeseen               the tuning fails, with a reference into the log
the worker is told to stop        the tuning stays as it is, for the next run
another worker took the tuning    nothing: what this one finds from then on is not kept
a helper dies, or leaves          the kernel that it was measuring; the tuning goes on
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from compiler.errors import InvalidFusion, Unsupported
from compiler.nvrtc import CompilePool
from fusetune.signer import Signer
from fusetune.wire.problems import InvalidDocument
from search.cost.predicting import refiner
from search.measure.device import DeviceLost
from search.proof.emulated.apart import Prover
from search.tuning.attached import Attached, Detached
from search.tuning.build import Builder
from search.tuning.candidates.drafting import DraftPool
from search.tuning.candidates.plan import Plan
from service.db import cards, tunings
from service.db.engine import Database
from service.jobs.executor import TuningLost, WorkerStopping
from service.jobs.helpers import Helpers, Party
from service.jobs.helping import Tools, help_with
from service.jobs.job import Job
from service.jobs.learning import CardLearning
from service.jobs.preparing import prepare
from service.jobs.rechecking import RecheckBench, recheck_next
from service.jobs.searching import search
from service.stands_on import StandsOn

log = logging.getLogger(__name__)

_DATABASE_PAUSE_S = 5.0
"""How often a database that does not answer is asked again."""

_IDLE_S = 60.0
"""After so long without a tuning the GPU is given back: its memory holds the last one's tensors."""


class TuningJobs:
    """Works on tunings, one at a time. `stopping` is the worker's: set when it shall end, or by us when it must.

    `drafting`, `compiling`, `prover`: children that outlive a tuning; without them each has its own. `learning`: what
    is learnt of the worker's card, by which candidates are ordered.
    """

    def __init__(
        self,
        db: Database,
        target: Attached | Detached,
        worker: str,
        stopping: threading.Event,
        compilers: int | None = None,
        drafting: DraftPool | None = None,
        compiling: CompilePool | None = None,
        database_pause_s: float = _DATABASE_PAUSE_S,
        signer: Signer | None = None,
        party: Party | None = None,
        learning: CardLearning | None = None,
        prover: Prover | None = None,
    ) -> None:
        self._db = db
        self._target = target
        self._worker = worker
        self._run_id = uuid.uuid4().hex
        self._stopping = stopping
        self._compilers = compilers
        self._signer = signer
        self._drafting = drafting
        self._compiling = compiling
        self._prover = prover
        self._database_pause_s = database_pause_s
        self._party = party
        self._learning = learning
        self._wanted = 0
        self._tried: set[str] = set()
        self._rechecking: threading.Thread | None = None
        self._busy = threading.Lock()
        self._last_s = time.monotonic()
        self._is_resting = False
        self.current: str | None = None
        self.gpu_lost = ""
        """Why the GPU is gone for good, empty while it is there."""

    def run(self, tuning_id: str) -> str:
        """Work on a tuning to its end; returns the state that it ended in. Raises WorkerStopping and TuningLost.

        May be called again with the same id, in this process or the next: it goes on from the stored trials.
        """
        self._wanted += 1
        with self._busy:
            self._wanted -= 1
            self.current, self._is_resting = tuning_id, False
            try:
                return self._run(tuning_id)
            except WorkerStopping:
                self.let_go()
                raise
            finally:
                self.current = None
                self._last_s = time.monotonic()

    def help_with(self, tuning_id: str) -> str:
        """Work for the tuning of another worker, until it ends or a tuning of our own comes; returns why it left."""
        if self._party is None or self._wanted or not self._busy.acquire(blocking=False):
            return "it has a tuning of its own"
        try:
            self.current, self._is_resting = tuning_id, False
            tools = Tools(self._target, self._compilers, self._drafting, self._compiling)
            why = help_with(self._db, self._party, tuning_id, self._worker, tools, self._is_wanted)
        except DeviceLost as error:
            why = str(error)
            self._check_gpu()
        except SQLAlchemyError as error:
            why = f"our tables do not answer: {error}"
        except Exception:  # whatever it is, it must cost this help only
            log.exception("helping with tuning %s failed unexpectedly", tuning_id)
            why = "it met a fault of its own"
        finally:
            self.current = None
            self._last_s = time.monotonic()
            self._busy.release()
        log.info("helped with tuning %s until %s", tuning_id, why)
        return why

    def _is_wanted(self) -> bool:
        return self._wanted > 0 or self._stopping.is_set()

    def let_go(self) -> None:
        """The tuning that is worked on, if any, is the next run's: from here nothing is kept of it any more."""
        if (tuning_id := self.current) is None:
            return
        try:
            with self._db.write() as session:
                tunings.let_go(session, tuning_id, self._run_id)
        except SQLAlchemyError as error:
            log.warning("tuning %s: the next run will take us for dead: %s", tuning_id, error)

    def wait_idle(self, timeout_s: float) -> bool:
        """Whether no tuning is worked on any more within `timeout_s`."""
        if not self._busy.acquire(timeout=timeout_s):
            return False
        self._busy.release()
        return True

    def recheck_if_idle(self) -> None:
        """Time a kernel again that was timed under other conditions, if there is one and the GPU has nothing to do; the
        worker does not wait for it."""
        is_able = isinstance(self._target, Attached) and self._drafting is not None and self._compiling is not None
        if not is_able or self._wanted or self.current is not None or self._stopping.is_set():
            return
        if self._rechecking is None or not self._rechecking.is_alive():
            self._rechecking = threading.Thread(target=self._recheck, name="recheck", daemon=True)
            self._rechecking.start()

    def _recheck(self) -> None:
        assert isinstance(self._target, Attached)
        card = self._target.card
        drafting, compiling = self._drafting, self._compiling
        assert drafting is not None
        assert compiling is not None

        def builder_of(plan: Plan) -> Builder:
            return Builder(drafting.of(plan.subject(card)), compiling, plan.arch.name, refiner(card))

        bench = RecheckBench(self._db, self._target, cards.card_id(card), self._worker, builder_of, self._tried)
        while not self._is_wanted() and self._busy.acquire(blocking=False):
            try:
                self._is_resting = False
                if recheck_next(bench, self._is_wanted) is None:
                    return
                self._last_s = time.monotonic()
            except DeviceLost:
                self._check_gpu()
                return
            except SQLAlchemyError as error:
                log.warning("no kernel is timed again now: %s", error)
                return
            except Exception:
                log.exception("timing a kernel again failed unexpectedly")
                return
            finally:
                self._busy.release()

    def rest_if_idle(self) -> None:
        """Give the GPU and its memory back until the next tuning, and what proofs took, if none was worked on for a
        while. The process that measures is started anew, so that its imports are done then; it holds nothing of the
        GPU before it is used."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            if not self._is_resting and time.monotonic() - self._last_s > _IDLE_S:
                self._is_resting = True
                if self._prover is not None:
                    self._prover.rest()
                if isinstance(self._target, Attached):
                    self._target.device.close()
                    with contextlib.suppress(DeviceLost):  # whoever has the next tuning is told
                        self._target.device.facts()
        finally:
            self._busy.release()

    def _run(self, tuning_id: str) -> str:
        while not self._stopping.is_set():
            try:
                return self._attempt(tuning_id)
            except (OperationalError, InterfaceError) as error:
                log.warning("tuning %s waits for the database: %s", tuning_id, error.orig)
                self._stopping.wait(self._database_pause_s)
        raise WorkerStopping

    def _attempt(self, tuning_id: str) -> str:
        try:
            target = self._target_of(tuning_id)
            job = Job.begin(self._db, tuning_id, target.card, self._worker, self._run_id, self._signer)
            if job is None:
                log.info("tuning %s has ended without this worker", tuning_id)
                return "ended"
            with job.writing() as session:
                tunings.set_stands_on(session, tuning_id, _stands_on(target).to_json())
            state = self._work(self._ordered(job, target), target)
        except (Unsupported, InvalidFusion, InvalidDocument) as error:
            return self._fail(tuning_id, str(error))
        except DeviceLost as error:
            state = self._fail(tuning_id, str(error))
            self._check_gpu()
            return state
        except (OperationalError, InterfaceError):
            raise
        except TuningLost:
            log.warning("tuning %s is in other hands, or has ended: nothing more of it is kept here", tuning_id)
            raise
        except Exception:  # whatever it is, it must cost this tuning only; nothing of it is swallowed
            reference = uuid.uuid4().hex[:12]
            log.exception("tuning %s failed unexpectedly, reference %s", tuning_id, reference)
            return self._fail(
                tuning_id, f"The worker met a fault of its own. Its log says more under the reference {reference}."
            )
        log.info("tuning %s ended: %s", tuning_id, state)
        return state

    def _target_of(self, tuning_id: str) -> Attached | Detached:
        """What this worker works for, or the card of a tuning for one that nobody has. Raises Unsupported."""
        with self._db.read() as session:
            row = tunings.get(session, tuning_id)
            card = None if row is None else cards.get(session, row.card_id)
            if card is None or card.source != cards.TABLE or card.id == cards.card_id(self._target.card):
                return self._target
            return Detached(cards.card_of(card), f"no {card.name} is attached to a worker of this service")

    def _work(self, job: Job, target: Attached | Detached) -> str:
        match target:
            case Attached() as gpu:
                with self._helpers(job) as helpers:
                    state = search(job, gpu, self._stopping, self._compilers, self._drafting, self._compiling, helpers)
                if helpers is not None and helpers.came:
                    self._check_gpu()  # the search may have ended without it, on another worker's
                return state
            case Detached() as target:
                job.count()
                return prepare(
                    job, target, self._stopping, self._compilers, self._drafting, self._compiling, self._prover
                )

    def _ordered(self, job: Job, target: Attached | Detached) -> Job:
        """The job with its candidates ordered by what was learnt of the worker's card, if it is of that card."""
        learnt = None if self._learning is None or target is not self._target else self._learning.ranker
        return job if learnt is None else replace(job, plan=job.plan.ranked_by(learnt))

    def learn_if_idle(self) -> None:
        """Learn from what was measured, if there is more of it than before and no tuning is worked on."""
        if self._learning is not None and self.current is None and not self._stopping.is_set():
            self._learning.learn_if_due()

    def _helpers(self, job: Job) -> AbstractContextManager[Helpers | None]:
        if self._party is None:
            return nullcontext()
        return Helpers(self._db, self._party, job.id, job.key[2], self._worker)

    def _fail(self, tuning_id: str, error: str) -> str:
        log.warning("tuning %s failed: %s", tuning_id, error)
        with self._db.write() as session:
            if not tunings.is_held(session, tuning_id, self._run_id):
                raise TuningLost(tuning_id)
            return tunings.finish(session, tuning_id, "failed", error=error).state

    def _check_gpu(self) -> None:
        """A dead GPU would fail one tuning after another: the worker ends instead, before it takes the next."""
        assert isinstance(self._target, Attached)
        try:
            self._target.device.facts()
        except DeviceLost as error:
            log.error("the GPU does not answer any more, this worker ends: %s", error)
            self.gpu_lost = error.reason
            self._stopping.set()


def _stands_on(target: Attached | Detached) -> StandsOn:
    return StandsOn(True, target.facts.driver) if isinstance(target, Attached) else StandsOn(False)
