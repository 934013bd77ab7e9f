"""A worker's id is its own: a lock on this host, a row in the database for everybody else."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from sqlalchemy.exc import SQLAlchemyError

from service.db import cards
from service.db.cards import Presence
from service.db.engine import Database
from service.db.models import WorkerRow
from service.db.types import now
from service.db.unready import reason

log = logging.getLogger(__name__)

ALIVE_BEATS = 3
"""A worker that has missed so many beats in a row is taken for dead."""


class WorkerRefused(Exception):
    """Another worker of this id is alive. `worker` and `reason` say which and how that is known."""

    def __init__(self, worker: str, reason: str) -> None:
        super().__init__(worker, reason)
        self.worker = worker
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"worker {self.worker}: another one of this id is alive ({self.reason}). Stop it, or give this one another "
            "--worker-id."
        )


class FolderRefused(Exception):
    """The data folder cannot be used, as the system says in `reason`."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder = folder
        self.reason = reason

    def __str__(self) -> str:
        return f"data folder {self.folder}: cannot be written to ({self.reason}). Name another one: --data-dir."


_MACHINE_FAILED = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""What no other folder of the same disk mends."""


class WorkerLock:
    """Held by the living worker of an id in a data folder. The system lets go of it however the process ends."""

    def __init__(self, data_dir: Path, worker: str) -> None:
        self._worker = worker
        self._path = data_dir / f"worker-{re.sub(r'[^A-Za-z0-9_.-]', '_', worker)}.lock"
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        """Raises WorkerRefused, FolderRefused where the folder cannot be written to, and OSError of a full disk."""
        with ExitStack() as undo:
            file = undo.enter_context(self._open())
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise WorkerRefused(self._worker, f"process {file.read().strip() or '?'} on this host") from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            undo.pop_all()
            self._file = file
        return self

    def _open(self) -> IO[str]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return self._path.open("a+", encoding="utf-8")
        except OSError as error:
            if error.errno in _MACHINE_FAILED:
                raise
            raise FolderRefused(self._path.parent, error.strerror or str(error)) from None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()


def refuse_twin(row: WorkerRow | None, host: str, heartbeat_s: float) -> None:
    """Raises WorkerRefused if `row`, that of our id, is of a living worker: one on another host is by its heartbeat,
    one on this host by its process too, which a data folder of its own would hide from the lock.
    """
    if row is None or row.stopped_at is not None:
        return
    silent = now() - row.heartbeat_at
    if silent > timedelta(seconds=ALIVE_BEATS * heartbeat_s):
        return
    if row.host == host and (row.pid == os.getpid() or not _is_running(row.pid)):
        return
    place = "this host" if row.host == host else row.host
    raise WorkerRefused(row.id, f"process {row.pid} on {place}, heard of {silent.total_seconds():.0f} s ago")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Heartbeat:
    """Announces a worker on entry, says every `every_s` that it lives and what it works on, takes leave on exit."""

    def __init__(self, db: Database, worker: Presence, every_s: float, current: Callable[[], str | None]) -> None:
        self._db = db
        self._worker = worker
        self._every_s = every_s
        self._current = current
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        """Raises WorkerRefused if another worker of the id is alive, and what the database raises."""
        with self._db.write() as session:
            refuse_twin(cards.worker(session, self._worker.id), self._worker.host, self._every_s)
            cards.announce(session, self._worker)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._left.set()
        self._thread.join()
        try:
            with self._db.write() as session:
                cards.leave(session, self._worker.id)
        except SQLAlchemyError as fault:
            log.warning("the worker could not take leave: %s", reason(fault))

    def _beat(self) -> None:
        while not self._left.wait(self._every_s):
            try:
                with self._db.write() as session:
                    if not cards.beat(session, self._worker.id, self._current()):
                        cards.announce(session, self._worker)
            except SQLAlchemyError as error:
                log.warning("no heartbeat: %s", reason(error))
