"""What a worker does for the tuning of another one: it builds candidates and, with a GPU of the card, measures kernels.

It gives way to a tuning of its own at once, and leaves when the tuning ends or changes hands. Where it runs another
version of fusetune than the worker that asked, it declines: its kernels would be others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from compiler.nvrtc import CompilePool
from search.cost.predicting import refiner
from search.measure.device import DeviceLost, MeasuringDevice
from search.tuning.attached import Attached, Detached
from search.tuning.build import Build, Builder
from search.tuning.candidates.drafting import DraftPool
from search.tuning.candidates.finishing import BuiltElsewhere
from search.tuning.candidates.plan import Plan
from search.tuning.failing import Failure
from search.tuning.hands import compilers as default_compilers
from search.tuning.hands import drafters
from service.db import cards, errands, fusions, tunings
from service.db.engine import Database
from service.jobs.errand_forms import build_answer, measure_answer, read_build_errand, read_measure_errand
from service.jobs.helpers import LOOK_S, Party
from service.jobs.job import generator_of, plan_of

log = logging.getLogger(__name__)

_AHEAD = 2
"""Candidates beyond its compiler processes that a helper takes in hand."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a worker helps with; children that are not there yet are made for the time of the help."""

    target: Attached | Detached
    compilers: int | None = None
    drafting: DraftPool | None = None
    compiling: CompilePool | None = None


def help_with(
    db: Database, party: Party, tuning_id: str, worker: str, tools: Tools, is_wanted: Callable[[], bool]
) -> str:
    """Helps until the tuning ends, changes hands, or `is_wanted` elsewhere; returns in words why it left.

    Raises DeviceLost if the worker's own GPU is gone, and what the database raises.
    """
    with db.read() as session:
        row = tunings.get(session, tuning_id)
        if row is None or row.state != "running" or row.run_id is None:
            return "the tuning is over"
        fusion = fusions.get(session, row.fingerprint)
        binding = fusions.get_binding(session, row.fingerprint, row.binding)
        card_row = cards.get(session, row.card_id)
    assert fusion is not None
    assert binding is not None
    assert card_row is not None
    card = cards.card_of(card_row)
    plan = plan_of(fusion, binding, card)
    if row.generator != generator_of(plan):
        return "it has another version of fusetune"
    own = tools.target
    gpu = own.device if isinstance(own, Attached) and cards.card_id(own.card) == row.card_id else None
    processes = tools.compilers or default_compilers()
    with ExitStack() as stack:
        drafting = tools.drafting
        if drafting is None:
            drafting = stack.enter_context(DraftPool(drafters(processes)))
            drafting.start()
        pool = tools.compiling
        if pool is None:
            pool = CompilePool(processes)
            stack.callback(pool.abandon)
            pool.start()
        builder = Builder(drafting.of(plan.subject(card)), pool, plan.arch.name, refiner(card))
        return _Help(db, party, tuning_id, row.run_id, worker, plan, builder, processes + _AHEAD, is_wanted).run(gpu)


class _Help:
    """Two threads: this one builds, another one measures."""

    def __init__(
        self,
        db: Database,
        party: Party,
        tuning_id: str,
        run: str,
        worker: str,
        plan: Plan,
        builder: Builder,
        hands: int,
        is_wanted: Callable[[], bool],
    ) -> None:
        self._db = db
        self._party = party
        self._tuning_id = tuning_id
        self._run = run
        self._worker = worker
        self._plan = plan
        self._builder = builder
        self._hands = hands
        self._is_wanted = is_wanted
        self._is_over = threading.Event()
        self._fault: BaseException | None = None
        self._building: dict[str, Build] = {}
        self._number = 0

    def run(self, gpu: MeasuringDevice | None) -> str:
        """Returns why it left."""
        with self._db.write() as session:
            errands.join(session, self._tuning_id, self._worker, self._hands)
        self._party.ring()
        measuring = None if gpu is None else threading.Thread(target=self._measure, args=(gpu,), name="help measure")
        if measuring is not None:
            measuring.start()
        why = "it was stopped in the middle"
        try:
            while not (why := self._why_over()):
                self._build()
                self._party.news.wait(LOOK_S)
        finally:
            self._is_over.set()
            self._party.news.ring()
            for build in self._building.values():
                build.cancel()
            if measuring is not None:
                measuring.join()
            if isinstance(self._fault, DeviceLost):
                why = self._fault.reason
            with self._db.write() as session:
                errands.put_back(session, list(self._building))
                errands.leave(session, self._tuning_id, self._worker, why)
            self._party.ring()
        if self._fault is not None:
            raise self._fault
        return why

    def _why_over(self) -> str:
        """Why it leaves; empty while it does not."""
        if self._fault is not None:
            return "it met a fault"
        if self._is_wanted():
            return "it has a tuning of its own, or stops"
        with self._db.read() as session:
            row = tunings.get(session, self._tuning_id)
            is_on = row is not None and row.state == "running" and row.run_id == self._run
        return "" if is_on else "the tuning is over"

    def _build(self) -> None:
        with self._db.write() as session:
            found = errands.take(session, self._tuning_id, self._worker, "build", self._hands - len(self._building))
        for errand in found:
            build = self._builder.start(self._number, read_build_errand(errand.request))
            self._number += 1
            self._building[errand.id] = build
            if build.compiled is not None:
                build.compiled.add_done_callback(lambda done: self._party.news.ring())
        ready = {id: build for id, build in self._building.items() if build.is_ready}
        if not ready:
            return
        answers = {id: build_answer(_built(self._builder, build)) for id, build in ready.items()}
        with self._db.write() as session:
            for id, content in answers.items():
                errands.answer(session, id, self._worker, content)
        for id in ready:
            del self._building[id]
        self._party.ring()

    def _measure(self, gpu: MeasuringDevice) -> None:
        """Runs in a thread of its own; what goes wrong is `_fault`."""
        try:
            gpu.open(self._plan.fusion)
            with self._db.write() as session:
                errands.attach(session, self._tuning_id, self._worker)
            self._party.ring()
            while not self._is_over.is_set():
                with self._db.write() as session:
                    found: Sequence[errands.Errand] = errands.take(session, self._tuning_id, self._worker, "measure", 1)
                if not found:
                    self._party.news.wait(LOOK_S)
                    continue
                asked = read_measure_errand(found[0].request)
                content = measure_answer(gpu.measure(asked.artifact, asked.effort))
                with self._db.write() as session:
                    errands.answer(session, found[0].id, self._worker, content)
                self._party.ring()
        except BaseException as error:  # noqa: BLE001 (the other thread raises it)
            self._fault = error
            self._party.news.ring()


def _built(builder: Builder, build: Build) -> BuiltElsewhere | Failure:
    found = builder.finish(build)
    if isinstance(found, Failure):
        return found
    return BuiltElsewhere(found, build.predicted_us, dict(build.predicted_terms), dict(build.seconds))
