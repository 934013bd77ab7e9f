"""Several processes that answer on one socket: each is started again when it dies, the others answer meanwhile.

They share the database and nothing else that a request is answered from (`service.operations.answers`), so what one
has acknowledged all of them tell. Their metrics lie in a folder, where any of them adds up all.

Run as a program, `python -m service.crew SLOT LISTENER READY`, this is one of them: its settings are the environment's,
the other two are open file descriptors, a socket that listens and a pipe that is told that requests are answered.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType

from service import log, metrics
from service.db.engine import PROMPT_MS, Database
from service.server import GRACE_S, answer
from service.settings import Settings
from service.supervisor import Supervisor

_FOLDERS = "fusetune-metrics-"
"""How the folders of metrics begin, in the folder for temporary files; the process that made one follows."""

STOP_S = GRACE_S + 5.0
"""How long a process may take to stop before it is killed."""


def run(
    count: int,
    listener: socket.socket,
    environment: Mapping[str, str],
    first_answers: Callable[[], None],
    started: Callable[[], None],
    told_to_stop: Callable[[], None],
) -> None:
    """Have `count` processes answer until SIGTERM or Ctrl-C. `first_answers` is called once one of them does, `started`
    once all do."""
    with ExitStack() as stack:
        _sweep()
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{_FOLDERS}{os.getpid()}-"))
        ready, tell_ready = _pipe(stack)
        stop, tell_stop = _pipe(stack)

        def note(number: int, frame: FrameType | None) -> None:
            os.write(tell_stop, b".")

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, note)
        shared = {**environment, metrics.FOLDER: folder}
        handed_on = (listener.fileno(), tell_ready)
        members = [_member(slot, shared, handed_on) for slot in range(count)]
        for member in members:
            stack.callback(member.stop, STOP_S)
            member.start()
        up = 0
        while stop not in (heard := select.select([ready, stop], [], [])[0]):
            if ready in heard:
                before, up = up, up + len(os.read(ready, 4096))
                if before == 0:
                    first_answers()
                if before < count <= up:
                    started()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # once is enough, and the pipe that was told of it is closed below
        told_to_stop()
        for member in members:
            member.ask_to_stop()


def _sweep() -> None:
    """Takes away the folders of services of this user that were killed: they could not."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDERS}*"):
        with suppress(OSError, ValueError):
            pid = int(folder.name.removeprefix(_FOLDERS).partition("-")[0])
            if folder.stat().st_uid == os.getuid() and not Path(f"/proc/{pid}").exists():
                shutil.rmtree(folder)


def _pipe(stack: ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends


def _member(slot: int, environment: Mapping[str, str], handed_on: tuple[int, int]) -> Supervisor:
    command = [sys.executable, "-m", "service.crew", str(slot), *map(str, handed_on)]
    return Supervisor(environment, command, name=f"answering process {slot}", handed_on=handed_on)


def main(slot: str, listener: str, ready: str) -> int:
    """One process of several. Returns its exit code."""
    settings = Settings()
    log.configure(settings.log_format)
    metrics.share(int(slot))
    with Database(settings.db_url, busy_ms=PROMPT_MS) as db, socket.socket(fileno=int(listener)) as heard:
        has_begun = answer(settings, db, heard, lambda: _tell(int(ready)), lambda: None)
    return 0 if has_begun else 1


def _tell(ready: int) -> None:
    with suppress(BrokenPipeError):  # who started this was killed meanwhile, so that this is about to be stopped
        os.write(ready, b".")
    os.close(ready)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
