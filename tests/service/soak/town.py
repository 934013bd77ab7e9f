"""A service that is killed all the time, API, workers and measuring children on the fake device; and its users."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from search.tuning.ending import WITHOUT_VERDICT
from search.tuning.trial import Trial
from service.db import trials, tunings
from service.db.engine import Database
from service.db.models import TuningRow
from tests.nursery import Forked, Nursery, python_path
from tests.service.jobs.sites import BINDING, MARK, SERVICE, fusion_of, processes_of, until

OPS = ("abs", "neg", "relu", "square", "sigmoid", "tanh", "exp", "silu", "sqrt", "reciprocal")
WORKERS = ("w0", "w1")
ENDED = ("done", "failed", "cancelled")
UNAVAILABLE = 503
UP_S = 90.0

Seen = dict[int, tuple[Any, ...]]
"""What stays of the trials of a tuning, by number."""


@dataclass
class Town:
    """One service in a folder; `mark` stands in the environment of each of its processes."""

    folder: Path
    url: str
    jobs_url: str
    nursery: Nursery
    answering: int = 1
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    running: dict[str, Forked] = field(default_factory=dict)
    kills: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scratch.mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]

    @property
    def scratch(self) -> Path:
        """Where its processes put temporary files."""
        return self.folder / "tmp"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, name: str) -> None:
        """The API, or a worker, as a new process."""
        serve = ["serve", "--port", str(self.port), "--workers", str(self.answering)]
        arguments = serve if name == "api" else ["worker", "--worker-id", name, "--device", "fake"]
        log = self.folder / f"{name}.log"
        if log.exists():
            with (self.folder / "logs").open("ab") as before, log.open("rb") as last:
                shutil.copyfileobj(last, before)
        self.running[name] = self.nursery.fork(SERVICE, arguments, self._environment(), self.folder, log)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FUSETUNE_")}
        return {
            **kept, "PYTHONPATH": python_path(), MARK: self.mark, "TMPDIR": str(self.scratch),
            "FUSETUNE_DATA_DIR": str(self.folder), "FUSETUNE_DATABASE_URL": self.url,
            "FUSETUNE_JOBS_URL": self.jobs_url,
            "FUSETUNE_HEARTBEAT_S": "1", "FUSETUNE_COMPILERS": "1", "OMP_NUM_THREADS": "1",
        }  # fmt: skip

    def kill(self, name: str) -> None:
        """kill -9 of a process, which is started again as a supervisor would do; "child" is one that measures."""
        victim = self.measuring() if name == "child" else self.named().get(name)
        if victim is None:
            return
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        self.kills[name] = self.kills.get(name, 0) + 1
        if name in self.running:
            self.running[name].wait(30)
            self.start(name)

    def measuring(self) -> int | None:
        """A process that measures for a worker."""
        return next((pid for pid, words in self.processes().items() if "fake device" in words), None)

    def named(self) -> dict[str, int]:
        """The processes by name: "api 0" and so on are those that answer, where there are several."""
        found = {name: process.pid for name, process in self.running.items()}
        for pid, words in self.processes().items():
            if "service.crew" in words and "-c" not in words:
                found[f"api {words[words.index('service.crew') + 1]}"] = pid
        return found

    def processes(self) -> dict[int, list[str]]:
        return processes_of(self.mark, self.nursery)

    def stop(self) -> None:
        """Everything is told to stop, then made to."""
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
        until(lambda: not self.processes(), "the end of every process", 20.0)

    @property
    def said(self) -> str:
        """The end of what its processes said last."""
        return "\n".join(f"{name}: {(self.folder / f'{name}.log').read_text()[-1500:]}" for name in self.running)


@contextmanager
def town(folder: Path, url: str, jobs_url: str, nursery: Nursery, answering: int = 1) -> Iterator[Town]:
    """A service that is up."""
    found = Town(folder, url, jobs_url, nursery, answering)
    try:
        for name in ("api", *WORKERS):
            found.start(name)
        yield found
    finally:
        found.stop()


@dataclass
class Users:
    """What asks the service for all sorts of things, one after the other, and notes what was promised."""

    town: Town
    draw: random.Random
    promised: dict[str, dict[str, Any]] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    answers: dict[int, int] = field(default_factory=dict)
    silent: int = 0
    kernels: list[str] = field(default_factory=list)

    def ask_until(self, stopping: threading.Event, pause_s: float) -> None:
        """One request after the other, with a pause after each."""
        with httpx2.Client(base_url=self.town.address, timeout=30) as client:
            while not stopping.is_set():
                self.draw.choices((self._post, self._read, self._cancel), (5, 12, 1))[0](client)
                stopping.wait(pause_s)

    def _asked(self, client: httpx2.Client, method: str, path: str, **more: Any) -> httpx2.Response | None:
        """None where the service is not there just now."""
        try:
            answer = client.request(method, path, **more)
        except httpx2.TransportError:
            self.silent += 1
            return None
        self.answers[answer.status_code] = self.answers.get(answer.status_code, 0) + 1
        if answer.status_code >= 500 and answer.status_code != UNAVAILABLE:
            self.faults.append(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer

    def _post(self, client: httpx2.Client) -> None:
        fusion = fusion_of(self.draw.choice(OPS), width=64 * self.draw.randint(1, 6))
        body = {
            "fusion": fusion, "binding": BINDING, "card": "fake", "budget_s": 20, "trials": self.draw.randint(2, 5),
            "refresh": self.draw.random() < 0.5,
        }  # fmt: skip
        headers = {"Idempotency-Key": uuid.UUID(int=self.draw.getrandbits(128)).hex}
        for _ in range(8):  # as the client does: the same key, so that one tuning comes of it
            answer = self._asked(client, "POST", "/v1/tunings", json=body, headers=headers)
            if answer is not None and answer.status_code != UNAVAILABLE:
                break
            time.sleep(0.5)
        else:
            return
        if answer.status_code == 202:
            # Who joins one that is about to end gets what it ends with: the first asker's wish is what must come true.
            self.promised.setdefault(answer.json()["id"], body)
        elif answer.status_code == 200:
            self.kernels.append(answer.json()["id"])
        elif answer.status_code not in (422, 429):  # 422: no worker has told of its card yet
            self.faults.append(f"POST /v1/tunings: {answer.status_code} {answer.text[:500]}")

    def _read(self, client: httpx2.Client) -> None:
        paths = [
            "/v1/tunings?limit=20",
            "/v1/kernels?limit=20",
            "/v1/fusions",
            "/v1/cards",
            "/",
            "/tunings",
            "/metrics",
        ]
        if self.promised:
            id = self.draw.choice(list(self.promised))
            paths += [f"/v1/tunings/{id}", f"/v1/tunings/{id}/trials?limit=50", f"/tunings/{id}", f"/tunings/{id}/live"]
        if self.kernels:
            id = self.draw.choice(self.kernels[-50:])
            paths += [f"/v1/kernels/{id}", f"/v1/kernels/{id}/info", f"/kernels/{id}"]
        path = self.draw.choice(paths)
        answer = self._asked(client, "GET", path)
        if answer is not None and answer.status_code not in (200, UNAVAILABLE):
            self.faults.append(f"GET {path}: {answer.status_code} {answer.text[:300]}")

    def _cancel(self, client: httpx2.Client) -> None:
        if self.promised:
            id = self.draw.choice(list(self.promised)[-3:])
            self.cancelled.add(id)
            self._asked(client, "DELETE", f"/v1/tunings/{id}")


@dataclass
class Ledger:
    """What the database was seen to hold of each tuning: none of it may go, or stand there twice."""

    db: Database
    seen: dict[str, Seen] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def look(self, ids: list[str]) -> dict[str, TuningRow | None]:
        """The tunings as they stand; their trials are held against what was seen before."""
        found = {}
        for id in ids:
            with self.db.read() as session:
                found[id] = tunings.get(session, id)
                rows = [Trial.from_json(row) for row in trials.every(session, id)]
            self._compare(id, rows)
        return found

    def _compare(self, id: str, rows: list[Trial]) -> None:
        judged = [trial for trial in rows if trial.state not in WITHOUT_VERDICT]
        now = {trial.number: (trial.candidate, trial.state, trial.code_hash, trial.launch_hash) for trial in judged}
        if any(now.get(number) != before for number, before in self.seen.get(id, {}).items()):
            self.faults.append(f"tuning {id}: trials were {self.seen[id]}, are {now}")
        if len({trial.candidate for trial in judged}) != len(judged):
            self.faults.append(f"tuning {id}: a candidate was tried twice: {now}")
        # Numbers may have gaps: of two on their way the second may end first, or alone, if the worker dies then.
        self.seen[id] = now


def wait_up(found: Town) -> None:
    """Until the API is ready and has heard of both workers."""

    def is_up() -> bool:
        with suppress(httpx2.TransportError):
            answer = httpx2.get(f"{found.address}/v1/cards", timeout=10)
            workers = [one for card in answer.json().get("items", ()) for one in card["workers"]]
            return len(workers) == len(WORKERS)
        return False

    until(is_up, lambda: f"the service to come up:\n{found.said}", UP_S)


def kill_until(found: Town, stopping: threading.Event, draw: random.Random, pause_s: tuple[float, float]) -> None:
    """kill -9, again and again, of whoever the lot falls on."""
    answering = [f"api {slot}" for slot in range(found.answering)] if found.answering > 1 else []
    names = ("api", *answering, *WORKERS, "child", "child")
    while not stopping.wait(draw.uniform(*pause_s)):
        found.kill(draw.choice(names))


@dataclass(frozen=True)
class Weight:
    """What the processes and the folder take: memory in MiB and open files by process, entries and bytes on disk."""

    memory_mib: dict[str, float]
    files: dict[str, int]
    scratch: int
    log_mib: float


def weight(found: Town) -> Weight:
    """As it is now."""
    memory, files = {}, {}
    for name, pid in found.named().items():
        status = Path(f"/proc/{pid}/status").read_text()
        memory[name] = int(status.partition("VmRSS:")[2].split()[0]) / 1024
        files[name] = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    journals = sum(path.stat().st_size for path in found.folder.glob("*.db-wal"))
    return Weight(memory, files, len(list(found.scratch.iterdir())), journals / 2**20)


def settled(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it came about in that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True
