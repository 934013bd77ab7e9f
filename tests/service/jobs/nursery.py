"""A process that has loaded what a worker runs and forks one when it is asked: loading takes longer than most tests.

What it forks has the arguments, environment, folder and output that a process started by itself would have. Those that
are started by themselves are what `tests.service.running` has.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Self

_LOADED = "from tests.service.jobs.nursery import serve; import service.jobs.worker; serve()"


class Forked:
    """A process of a nursery, with what tests need of `subprocess.Popen`."""

    def __init__(self, pid: int, nursery: Nursery) -> None:
        self.pid = pid
        self._nursery = nursery

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it lives."""
        return self._nursery.codes.get(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutExpired."""
        with self._nursery.news:
            if not self._nursery.news.wait_for(lambda: self.poll() is not None, timeout):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self._nursery.codes[self.pid]

    def send_signal(self, number: signal.Signals) -> None:
        """To a living one."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """Close it, or use it in a `with`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.codes: dict[int, int] = {}
        self.news = threading.Condition()
        self._pids: list[int] = []
        self._popen = subprocess.Popen(
            [sys.executable, "-c", _LOADED], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def fork(
        self, code: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
    ) -> Forked:
        """A process that runs `code` as `python -c` would; what it says is in `log`."""
        asked = {"code": code, "arguments": [*arguments], "environment": environment, "folder": folder, "log": log}
        stdin = self._popen.stdin
        assert stdin is not None
        with self.news:
            stdin.write(json.dumps(asked, default=str) + "\n")
            stdin.flush()
            self.news.wait_for(lambda: self._pids)
            return Forked(self._pids.pop(), self)

    def _listen(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            said = json.loads(line)
            with self.news:
                if "code" in said:
                    self.codes[said["pid"]] = said["code"]
                else:
                    self._pids.append(said["pid"])
                self.news.notify_all()

    def close(self) -> None:
        """Ends it; what it has forked is ended already."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.close()
        self._popen.wait()
        self._thread.join()
        self._popen.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


# In the nursery ------------------------------------------------------------------------------------------------------


def serve() -> None:
    """Forks for every line of stdin, and tells pids and exit codes on stdout."""

    def ended(number: int, frame: FrameType | None) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            _tell(pid=pid, code=os.waitstatus_to_exitcode(status))

    signal.signal(signal.SIGCHLD, ended)
    for line in sys.stdin:
        asked = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # its pid is told before its end
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            _become(**asked)
            return
        _tell(pid=pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def _tell(**said: int) -> None:
    os.write(1, (json.dumps(said) + "\n").encode())


def _become(code: str, arguments: list[str], environment: dict[str, str], folder: str, log: str) -> None:
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    os.dup2(1, 2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["-c", *arguments]
    named: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "<string>", "exec"), named)
