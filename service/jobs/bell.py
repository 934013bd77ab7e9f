"""Wakes workers when a queue has new work, so that none of them has to ask for it again and again.

Whoever has put a job into the queue rings; a worker that waits hears it at once. On PostgreSQL that is a NOTIFY, which
reaches every host; beside a SQLite file it is a byte in a named pipe of each worker, for that file serves one host
alone. A ring may be lost, with a connection or a worker that is just starting: workers ask by themselves too, seldom.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError

log = logging.getLogger(__name__)

WORK, ERRANDS = "work", "errands"
"""What a bell is rung for: jobs in queues; what tunings and their helpers ask of each other."""

_AGAIN_S = 5.0
"""How long a listener waits at a time before it looks whether it shall end, or connects again."""


class Bell(Protocol):
    """Of one job queue's database. May be used by many threads."""

    def ring(self) -> None:
        """Wakes every worker that listens. Never raises: what is not heard is found later."""
        ...

    def listen(self, heard: Callable[[], None]) -> Listener:
        """Calls `heard` for each ring until the listener is closed. Raises OSError where that cannot be."""
        ...

    def close(self) -> None:
        """Gives connections back."""
        ...


def bell_of(url: str, what: str = WORK) -> Bell:
    """The bell of the job queue in the database at `url`, for one kind of news."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return PipeBell(Path(f"{parsed.database}.{'bells' if what == WORK else what}"))
    return PostgresBell(url, what)


class Listener:
    """A thread that waits for rings. Close it, or use it in a `with`."""

    def __init__(self, wait: Callable[[threading.Event], None], let_go: Callable[[], None]) -> None:
        self._stopping = threading.Event()
        self._let_go = let_go
        self._thread = threading.Thread(target=wait, args=(self._stopping,), name="bell", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops listening."""
        self._stopping.set()
        self._let_go()
        self._thread.join(timeout=_AGAIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PipeBell:
    """A folder with a named pipe for each worker that listens."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ring(self) -> None:
        """Writes a byte into every pipe; one that nobody reads any more is removed."""
        with contextlib.suppress(OSError):
            for pipe in self._folder.iterdir():
                try:
                    end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
                except OSError:  # nobody reads it: its worker is gone
                    pipe.unlink(missing_ok=True)
                    continue
                try:
                    with contextlib.suppress(BlockingIOError):  # full: it will be heard
                        os.write(end, b".")
                finally:
                    os.close(end)

    def listen(self, heard: Callable[[], None]) -> Listener:
        """Raises OSError where the folder takes no pipe."""
        self._folder.mkdir(parents=True, exist_ok=True)
        pipe = self._folder / uuid.uuid4().hex
        os.mkfifo(pipe, 0o600)
        end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # for writing too, so that it never ends

        def wait(stopping: threading.Event) -> None:
            while not stopping.is_set():
                select.select([end], [], [])
                with contextlib.suppress(BlockingIOError):
                    os.read(end, 4096)
                if not stopping.is_set():
                    heard()
            os.close(end)

        def let_go() -> None:
            with contextlib.suppress(OSError):
                os.write(end, b".")
            pipe.unlink(missing_ok=True)

        return Listener(wait, let_go)

    def close(self) -> None:
        """Nothing is held."""


class PostgresBell:
    """NOTIFY and LISTEN, each over a connection of its own."""

    def __init__(self, url: str, what: str = WORK) -> None:
        self._engine: Engine = create_engine(url, pool_size=1, max_overflow=-1, pool_pre_ping=True)
        self._channel = f"fusetune_{what}"

    def ring(self) -> None:
        """Notifies; a database that does not answer had its say when the job was put there."""
        try:
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("SELECT pg_notify(:channel, '')"), {"channel": self._channel})
        except SQLAlchemyError as error:
            log.warning("workers are not woken, they look by themselves: %s", error)

    def listen(self, heard: Callable[[], None]) -> Listener:
        """Connects again whenever the connection is lost, and then takes it that a ring was missed."""

        ended, end = os.pipe()  # ends the wait at once: a worker that stops does not sit one out

        def wait(stopping: threading.Event) -> None:
            while not stopping.is_set():
                try:
                    with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                        driver: Any = connection.connection.driver_connection
                        driver.execute(f"LISTEN {self._channel}")
                        heard()
                        while not stopping.is_set():
                            select.select([driver.fileno(), ended], [], [], _AGAIN_S)
                            if not stopping.is_set() and list(driver.notifies(timeout=0.0)):
                                heard()
                        driver.execute(f"UNLISTEN {self._channel}")
                except Exception as error:  # noqa: BLE001 (the driver's errors are many; workers look by themselves too)
                    log.warning("the bell of the job queue is not heard: %s", error)
                    stopping.wait(_AGAIN_S)
            os.close(ended)

        return Listener(wait, lambda: os.close(end))

    def close(self) -> None:
        """Gives connections back."""
        self._engine.dispose()
