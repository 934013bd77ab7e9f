"""A service's databases in a folder, tunings posted to them as the API does it, and worker processes on them."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from compiler.arch import Card
from compiler.wire import bind
from fusetune.wire.parse import parse_binding, parse_fusion
from search.measure.device import TIMING_POLICY
from search.measure.fake import FACTS
from search.tuning.attached import card_of
from search.tuning.trial import Trial
from service.db import cards, fusions, trials, tunings
from service.db.engine import Database
from service.db.models import TuningRow, WorkerRow
from service.jobs.dbos_queue import DbosQueue
from service.jobs.queue import queue_name
from tests.nursery import Forked, Nursery, python_path
from tests.service.databases import new_file

ROOT = Path(__file__).parents[3]
FAKE_CARD = card_of(FACTS)[0]
DEADLINE_S = 120.0
"""How long a test waits for what must come: a loaded machine is slow, a hang is for ever."""

SERVICE = """
import search.tuning.tune as tune
import service.jobs.preparing as preparing
assert tune.RANKED_POINTS > 20 and preparing.KERNELS > 4
tune.RANKED_POINTS = 20  # seconds of each tuning would go into ranking otherwise
preparing.KERNELS = 4
from service.cli.app import app
app()
"""
BINDING = {"sizes": {"M": 64}}

R = TypeVar("R")


def fusion_of(op: str, dtype: str = "f32", width: int = 256) -> dict[str, Any]:
    """A fusion of one operator, small enough for a few kernels a second."""
    return {
        "format": "fusetune.fusion/1",
        "inputs": [{"name": "x", "shape": ["M", width], "dtype": dtype}],
        "ops": [{"op": op, "in": ["x"], "out": "y"}],
        "outputs": [{"name": "y"}],
    }


def until(found: Callable[[], R | None], what: str | Callable[[], str], deadline_s: float = DEADLINE_S) -> R:
    """The first truthy answer of `found`. `what`: that is waited for, or what says it when it has not come."""
    end = time.monotonic() + deadline_s
    while not (answer := found()):
        if time.monotonic() >= end:
            raise AssertionError(f"waited {deadline_s:g} s for {what if isinstance(what, str) else what()}")
        time.sleep(0.05)
    return answer


MARK = "FUSETUNE_TEST_MARK"


def processes_of(mark: str, nursery: Nursery) -> dict[int, list[str]]:
    """Every living process whose environment holds `mark` as MARK, by its pid, and its arguments: children inherit it,
    whoever their parent is by now. Of those that the nursery forked the system knows only what the nursery has."""
    found = nursery.living(MARK, mark)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                words = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if f"{MARK}={mark}".encode() in environment and state != "Z":
                found[int(entry.name)] = words
    return found


@dataclass
class Worker:
    """A worker process; what it logs is in `log`."""

    popen: Forked
    log: Path

    def stop(self, number: signal.Signals = signal.SIGTERM, within_s: float = 10.0) -> int:
        self.popen.send_signal(number)
        return self.popen.wait(within_s)

    @property
    def said(self) -> str:
        return self.log.read_text()


@dataclass
class Site:
    """One service: its folder, its databases, its worker processes."""

    folder: Path
    db: Database
    jobs: DbosQueue
    mark: str
    nursery: Nursery
    workers: list[Worker] = field(default_factory=list)

    @property
    def fake_log(self) -> Path:
        """What the fake device was asked for, a line each."""
        return self.folder / "fake.jsonl"

    def post(
        self,
        fusion: dict[str, Any] | None = None,
        *,
        trials_limit: int | None = 4,
        budget_s: float = 60.0,
        card: Card = FAKE_CARD,
        attached: bool = True,
        hand_over: bool = True,
    ) -> str:
        """A tuning, and its job unless the API process died in between; returns its id."""
        document = fusion or fusion_of("square")
        bound = bind(parse_fusion(document), parse_binding(BINDING))
        with self.db.write() as session:
            card_row = cards.put(session, card, attached=attached)
            fusions.put(session, bound.fingerprint, document, "y = f(x)", "small")
            fusions.put_binding(session, bound.fingerprint, bound.binding_hash, BINDING)
            row = TuningRow(
                id=uuid.uuid4().hex,
                fingerprint=bound.fingerprint,
                binding=bound.binding_hash,
                card_id=card_row.id,
                policy=TIMING_POLICY,
                queue=queue_name(card_row.id, attached=attached),
                accept={},
                budget_s=budget_s,
                trials_limit=trials_limit,
                request_sha256="0" * 64,
            )
            row, _ = tunings.open_or_join(session, row)
        if hand_over:
            self.jobs.enqueue(row.id, row.queue, row.priority)
        return row.id

    def environment(self) -> dict[str, str]:
        """That of every process of this site: its folder, the mark by which it is found, one compiler."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("FUSETUNE_")},
            "PYTHONPATH": python_path(),
            MARK: self.mark,
            "FUSETUNE_DATA_DIR": str(self.folder),
            "FUSETUNE_FAKE_LOG": str(self.fake_log),
            "FUSETUNE_HEARTBEAT_S": "0.2",
            "FUSETUNE_COMPILERS": "1",
        }

    def worker(self, worker_id: str = "w0", device: str = "fake", card: str | None = None, prelude: str = "") -> Worker:
        """A worker process, not waited for; `prelude` is Python that runs in it first."""
        log = self.folder / f"{worker_id}-{len(self.workers)}.log"
        arguments = ["worker", "--worker-id", worker_id, "--device", device, *(["--card", card] if card else [])]
        forked = self.nursery.fork(f"{prelude}\n{SERVICE}", arguments, self.environment(), self.folder, log)
        self.workers.append(Worker(forked, log))
        return self.workers[-1]

    def silence(self, worker: Worker) -> None:
        """Stops a process between its transactions: one that holds SQLite's write lock would silence all others."""
        with contextlib.ExitStack() as held:
            for file in sorted(self.folder.glob("*.db")):
                connection = held.enter_context(
                    contextlib.closing(sqlite3.connect(file, timeout=DEADLINE_S, isolation_level=None))
                )
                connection.execute("BEGIN IMMEDIATE")
            os.kill(worker.popen.pid, signal.SIGSTOP)

    def come_up(self, worker_id: str = "w0") -> WorkerRow:
        """The worker's row, once its process has announced itself. Before that another of its id is not refused."""

        def announced() -> WorkerRow | None:
            with self.db.read() as session:
                return session.get(WorkerRow, worker_id)

        return until(announced, f"worker {worker_id} to come up")

    def tuning(self, tuning_id: str) -> TuningRow:
        with self.db.read() as session:
            row = tunings.get(session, tuning_id)
        assert row is not None
        return row

    def trials(self, tuning_id: str) -> list[Trial]:
        with self.db.read() as session:
            return [Trial.from_json(row) for row in trials.every(session, tuning_id)]

    def at_least(self, count: int, tuning_id: str) -> list[Trial]:
        """The trials, once there are so many and while the tuning still runs."""

        def enough() -> list[Trial] | None:
            found = self.trials(tuning_id)
            return found if len(found) >= count else None

        found = until(enough, f"{count} trials")
        assert self.tuning(tuning_id).state == "running"
        return found

    def ended(self, tuning_id: str) -> TuningRow:
        """The tuning, once it has ended."""
        return until(
            lambda: row if (row := self.tuning(tuning_id)).state not in ("queued", "running") else None,
            lambda: f"the end of the tuning; workers said:\n{''.join(worker.said for worker in self.workers)}",
        )

    def processes(self) -> dict[int, list[str]]:
        return processes_of(self.mark, self.nursery)

    def child(self, word: str) -> int | None:
        """A process of this site's workers with `word` in its command line."""
        return next((pid for pid, command in self.processes().items() if word in command), None)


def make_site(folder: Path, nursery: Nursery) -> Iterator[Site]:
    folder.mkdir(parents=True, exist_ok=True)
    url = new_file(folder)
    jobs = DbosQueue(f"sqlite:///{folder / 'jobs.db'}")
    with Database(url) as db:
        site = Site(folder, db, jobs, uuid.uuid4().hex, nursery)
        try:
            yield site
        finally:
            for worker in site.workers:
                worker.popen.kill()
                worker.popen.wait()
            jobs.close()
        until(lambda: not site.processes(), "the end of every process that was started", 10.0)
