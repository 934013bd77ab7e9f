"""A process that has loaded what tests start processes for, and forks one when it is asked: loading takes longer than
most tests.

What it forks has the arguments, environment, folder, output and open files that a process started by itself would have.
Children of `compiler.child` come from it too, those of the processes that it forked among them, where a test has them
`forked`. It makes no context of a GPU, which a forked process could not use.

Processes that are started by themselves are what `tests.service.running` has, and, as children,
`tests/compiler/test_child.py` and a test of each kind of child (CONTRIBUTING.md names them).
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

import compiler.child

_LOADED = """
import gc
gc.disable()
import sys
from tests.nursery import serve
import cuda.bindings.nvrtc, numpy.random, search.measure.fake, search.proof.emulated.apart, service.cli.serve
import service.cli.worker, service.jobs.worker, service.server
gc.freeze()  # going through it finds nothing, and would copy it all
serve(int(sys.argv[1]))
"""

ROOT = Path(__file__).parents[1]

NAME = "FUSETUNE_TEST_NURSERY"
"""The variable by which a process of the nursery finds it."""

_MOST_BYTES = 1 << 17
"""Of a message: an environment takes most of it."""

_MOST_FILES = 8
_FREE = 512
"""Descriptors from here on are nobody's."""


def python_path() -> str:
    """Where a process of its own finds the tree; then where this one was told to look, for what it runs with may lie
    there."""
    return os.pathsep.join([str(ROOT), str(ROOT / "sdk"), *filter(None, [os.environ.get("PYTHONPATH")])])


class Forked:
    """A process of a nursery, with what is needed of `subprocess.Popen`. `told`: where its exit code will be said."""

    def __init__(self, pid: int, told: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._told = told
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it lives."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutExpired."""
        with self._lock:
            if self.returncode is None:
                self._told.settimeout(timeout)
                try:
                    said = self._told.recv(64)
                except (TimeoutError, BlockingIOError):
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0) from None
                self._told.close()
                self.returncode = int(said) if said else -signal.SIGKILL  # the nursery has ended
            return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """To a living one."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """Starts with the first process that it is asked for. Close it, or use it in a `with`."""

    def __init__(self) -> None:
        self._popen: subprocess.Popen[bytes] | None = None
        self._name = f"fusetune-nursery-{uuid.uuid4().hex}"
        self._starting = threading.Lock()

    def fork(
        self, code: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
    ) -> Forked:
        """A process that runs `code` as `python -c` would; what it says is in `log`."""
        with log.open("wb") as out:
            files = {1: out.fileno(), 2: out.fileno()}
            return self.process(code, arguments, environment, folder, files)

    def process(
        self,
        code: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        files: Mapping[int, int],
        *,
        is_session: bool = False,
    ) -> Forked:
        """A process that runs `code` as `python -c` would. `files`: what its descriptors are here; it has no others,
        and reads nothing."""
        with self._starting:
            self._start()
        return _asked(self._name, code, arguments, environment, folder, files, is_session)

    def child(self, name: str, pipe: int, lifeline: int, output: IO[bytes]) -> Forked:
        """In place of `compiler.child.spawned`."""
        with self._starting:
            self._start()
        return _child(self._name, name, pipe, lifeline, output)

    def living(self, name: str, value: str) -> dict[int, list[str]]:
        """Of the processes that live and have that variable in their environment: pid -> arguments."""
        if self._popen is None:
            return {}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect(_address(self._name))
            asking.send(json.dumps([name, value]).encode())
            return dict(json.loads(asking.recv(_MOST_BYTES)))

    def _start(self) -> None:
        if self._popen is not None:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(_address(self._name))
            listener.listen(64)
            self._popen = subprocess.Popen(
                [sys.executable, "-c", _LOADED, str(listener.fileno())],
                # One thread, which is all of what is forked.
                env={**os.environ, "PYTHONPATH": python_path(), "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.PIPE, pass_fds=[listener.fileno()],
            )  # fmt: skip

    def close(self) -> None:
        """Ends it; what it has forked is ended already."""
        if self._popen is not None:
            assert self._popen.stdin is not None
            self._popen.stdin.close()
            self._popen.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _child(nursery: str, name: str, pipe: int, lifeline: int, output: IO[bytes]) -> Forked:
    """A child of `compiler.child`, of the nursery with that name."""
    said = output.fileno()
    files = {1: said, 2: said, pipe: pipe, lifeline: lifeline}
    code = "from compiler.child import serve; serve()"
    return _asked(nursery, code, [str(pipe), str(lifeline), name], os.environ, Path.cwd(), files, is_session=True)


def _address(name: str) -> str:
    """Where no file is: Linux's own names of sockets."""
    return f"\0{name}"


def _asked(
    name: str,
    code: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    files: Mapping[int, int],
    is_session: bool,
) -> Forked:
    asked = {"code": code, "arguments": [*arguments], "environment": {**environment, NAME: name}, "folder": str(folder),
             "numbers": [*files], "is_session": is_session}  # fmt: skip
    told = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        told.connect(_address(name))
        socket.send_fds(told, [json.dumps(asked).encode()], [*files.values()])
        pid = told.recv(64)
        assert pid, "the nursery has ended"
    except BaseException:
        told.close()
        raise
    return Forked(int(pid), told)


# In the nursery ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Living:
    """A process. `told`: the connection to who asked for it."""

    told: socket.socket
    arguments: list[str]
    environment: dict[str, str]


def serve(listening: int) -> None:
    """Forks for a connection, on which it then tells the process's pid and exit code, or answers who lives; until stdin
    ends. Returns in what was forked, once that has run."""
    living: dict[int, _Living] = {}
    listener = socket.socket(fileno=listening)
    ended, ring = os.pipe()
    for end in (ended, ring):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ring)
    with selectors.DefaultSelector() as news:
        for source in (0, listener, ended):
            news.register(source, selectors.EVENT_READ)
        while True:
            heard = {key.fd for key, _ in news.select()}
            if ended in heard:
                os.read(ended, 4096)
                _bury(living)
            if listener.fileno() in heard:
                asking, _ = listener.accept()
                message, files, _, _ = socket.recv_fds(asking, _MOST_BYTES, _MOST_FILES)
                asked = json.loads(message or "[]")  # nothing: who asked has ended
                if isinstance(asked, list):
                    _answer(asking, living, *asked)
                    continue
                if (pid := os.fork()) == 0:
                    news.close()
                    for ours in (listener, asking, *(one.told for one in living.values())):
                        ours.close()
                    _become(files=files, **asked)
                    return
                for number in files:
                    os.close(number)
                living[pid] = _Living(asking, asked["arguments"], asked["environment"])
                with suppress(OSError):
                    asking.send(str(pid).encode())
            if 0 in heard:
                os._exit(0)


def _bury(living: dict[int, _Living]) -> None:
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = found
            with living.pop(pid).told as told, suppress(OSError):  # who asked may have ended
                told.send(str(os.waitstatus_to_exitcode(status)).encode())


def _answer(asking: socket.socket, living: dict[int, _Living], name: str = "", value: str = "") -> None:
    found = [(pid, one.arguments) for pid, one in living.items() if one.environment.get(name) == value]
    with asking, suppress(OSError):
        asking.send(json.dumps(found).encode())


def _become(
    code: str,
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    numbers: list[int],
    files: list[int],
    is_session: bool,
) -> None:
    gc.enable()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _hold(numbers, files)
    if is_session:
        os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    taken: Any = partial(_child, environment[NAME])
    compiler.child.spawned = taken
    sys.argv = ["-c", *arguments]
    named: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "<string>", "exec"), named)


def _hold(numbers: list[int], files: list[int]) -> None:
    """Has these files under these numbers, nothing to read and no other file open."""
    kept = [fcntl.fcntl(one, fcntl.F_DUPFD, _FREE) for one in files]
    os.closerange(0, _FREE)
    os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free: 0
    for number, one in zip(numbers, kept, strict=True):
        os.dup2(one, number)
    os.closerange(_FREE, _FREE + len(kept))
