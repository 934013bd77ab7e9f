"""What the job queue carries: `python -m benchmarks.service.carried [--workers 1 2 4] [--tunings N] [--postgres URL]`.

Workers with fake GPUs (no kernel runs, times are invented) take tunings of one trial each from an empty service: how
many of them end a second, and how long a post waits for its kernel where nothing else is on the way. Drafting and
compiling are real, so on few cores they are what is measured; `--hold` has each worker hold a tuning for so many
seconds in place of searching, which leaves the queue, the tables and the bell.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compiler.wire import bind
from fusetune.wire.artifact import TIMING_POLICY
from fusetune.wire.parse import parse_binding, parse_fusion
from search.measure.fake import FACTS
from search.tuning.attached import card_of
from service.db import cards, fusions, tunings
from service.db.engine import Database
from service.db.migrate import ensure_ready
from service.db.models import TuningRow, WorkerRow
from service.jobs.dbos_queue import DbosQueue
from service.jobs.queue import queue_name

TREE = Path(__file__).parents[2]
UP_S = 300.0
HELD = """
import sys, time
import service.jobs.tuning as jobs
from search.tuning.tuner import SearchOutcome
def held(gpu, plan, log, budget, *args, **kwargs):
    time.sleep({seconds})
    return SearchOutcome(None, (), "budget")
import service.jobs.searching as searching
searching.tune_on = held
"""
RUN = "from service.cli.app import app; app()"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures each number of workers in a service of its own, and prints a table."""
    parser = argparse.ArgumentParser(prog="benchmarks.service.carried")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--tunings", type=int, default=60)
    parser.add_argument("--hold", type=float, default=None, help="seconds; without it searches are real")
    parser.add_argument("--postgres", help="URL of an empty database")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    rows = []
    for count in asked.workers:
        with tempfile.TemporaryDirectory() as folder, _service(Path(folder), asked.postgres, count, asked.hold) as one:
            rows.append(_measured(*one, count, asked.tunings))
        print(json.dumps(rows[-1]), flush=True)
    if asked.json:
        asked.json.write_text(
            json.dumps({"cores": os.cpu_count(), "hold_s": asked.hold, "rows": rows}, indent=1) + "\n"
        )


@contextmanager
def _service(
    folder: Path, postgres: str | None, count: int, hold_s: float | None
) -> Iterator[tuple[Database, DbosQueue]]:
    """Tables, queue and so many workers that are up."""
    urls = [postgres or f"sqlite:///{folder / name}" for name in ("fusetune.db", "jobs.db")]
    environment = os.environ | {
        "PYTHONPATH": f"{TREE}{os.pathsep}{TREE / 'sdk'}",
        "FUSETUNE_DATABASE_URL": urls[0],
        "FUSETUNE_JOBS_URL": urls[1],
        "FUSETUNE_COMPILERS": "1",
        "FUSETUNE_HEARTBEAT_S": "1",
    }
    code = RUN if hold_s is None else HELD.format(seconds=hold_s) + RUN
    jobs, workers = DbosQueue(urls[1]), list[subprocess.Popen[bytes]]()
    prefix = uuid.uuid4().hex[:6]
    with Database(urls[0]) as db:
        ensure_ready(db)
        jobs.open()
        try:
            for number in range(count):
                own = folder / f"w{number}"
                own.mkdir()
                command = [sys.executable, "-c", code, "worker", "--worker-id", f"{prefix}{number}", "--device", "fake"]
                log = (own / "log").open("w")
                workers.append(
                    subprocess.Popen(
                        command, cwd=TREE, env=environment | {"FUSETUNE_DATA_DIR": str(own)}, stdout=log, stderr=log
                    )
                )
            _wait(lambda: _alive(db, prefix) == count)
            time.sleep(3.0)  # their queues are listened to
            yield db, jobs
        finally:
            for one in workers:
                one.terminate()
            for one in workers:
                one.wait()
            jobs.close()


def _alive(db: Database, prefix: str) -> int:
    with db.read() as session:
        return sum(row.id.startswith(prefix) for row in session.query(WorkerRow).all())


def _measured(db: Database, jobs: DbosQueue, workers: int, count: int) -> dict[str, Any]:
    _post(db, jobs, 0)
    _wait(lambda: _unfinished(db) == 0)  # what is imported at the first tuning
    alone = []
    for number in range(1, 8):
        begun = time.monotonic()
        _post(db, jobs, number)
        _wait(lambda: _unfinished(db) == 0)
        alone.append(time.monotonic() - begun)
    begun = time.monotonic()
    for number in range(8, 8 + count):
        _post(db, jobs, number)
    posted_s = time.monotonic() - begun
    _wait(lambda: _unfinished(db) == 0)
    seconds = time.monotonic() - begun
    return {
        "workers": workers,
        "tunings": count,
        "posted_s": round(posted_s, 2),
        "seconds": round(seconds, 2),
        "tunings_per_s": round(count / seconds, 2),
        "alone_median_s": round(statistics.median(alone), 3),
    }


def _post(db: Database, jobs: DbosQueue, number: int) -> None:
    """A tuning of one trial of a fusion that nothing else has, as the API posts it."""
    document = {
        "format": "fusetune.fusion/1",
        "inputs": [{"name": "x", "shape": ["M", 128], "dtype": "f32"}],
        "ops": [{"op": "mul", "in": ["x", float(number + 2)], "out": "y"}],
        "outputs": [{"name": "y"}],
    }
    sizes = {"sizes": {"M": 64}}
    bound = bind(parse_fusion(document), parse_binding(sizes))
    card = card_of(FACTS)[0]
    with db.write() as session:
        row = cards.put(session, card, attached=True)
        fusions.put(session, bound.fingerprint, document, "y = c x", "small")
        fusions.put_binding(session, bound.fingerprint, bound.binding_hash, sizes)
        tuning = TuningRow(
            id=uuid.uuid4().hex,
            fingerprint=bound.fingerprint,
            binding=bound.binding_hash,
            card_id=row.id,
            policy=TIMING_POLICY,
            queue=queue_name(row.id, attached=True),
            accept={},
            budget_s=60.0,
            trials_limit=1,
            request_sha256="0" * 64,
        )
        tuning, _ = tunings.open_or_join(session, tuning)
    jobs.enqueue(tuning.id, tuning.queue, tuning.priority)


def _unfinished(db: Database) -> int:
    with db.read() as session:
        return len(tunings.unfinished(session))


def _wait(is_so: Any) -> None:
    end = time.monotonic() + UP_S
    while not is_so():
        if time.monotonic() > end:
            raise SystemExit(f"waited {UP_S:g} s in vain")
        time.sleep(0.02)


if __name__ == "__main__":
    main()
