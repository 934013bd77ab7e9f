"""Processes beside the service, a worker or those that answer: started again when they die, never left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

import structlog

log = structlog.get_logger("service")

WORKER = (sys.executable, "-m", "service", "worker")

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
"""A worker that dies at once is started again after 1, 2, 4 … 30 seconds."""

STEADY_S = 60.0
"""One that has run for so long starts that count anew."""

STOP_S = 12.0
"""How long a worker may take to stop; it lets its tuning wind down for 6 s."""

# Linux sends a process this signal when the thread that started it ends, however that comes about (prctl(2),
# PR_SET_PDEATHSIG): kill -9 of the service must not leave a worker that holds the GPU. It has to be asked for by the
# new process itself, before it becomes the worker.
_TIED = """\
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGTERM, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class Supervisor:
    """Keeps one process of `command` running in a thread of its own, from `start` to `stop`."""

    def __init__(
        self,
        environment: Mapping[str, str],
        command: Sequence[str] = WORKER,
        first_pause_s: float = FIRST_PAUSE_S,
        *,
        name: str = "worker",
        handed_on: Sequence[int] = (),
    ) -> None:
        """`name` is for the log, `handed_on` the open file descriptors that the process finds under their numbers."""
        self._environment = {**os.environ, **environment}
        self._command = [sys.executable, "-c", _TIED, str(os.getpid()), *command]
        self._first_pause_s = first_pause_s
        self._name, self._handed_on = name, tuple(handed_on)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        # Not a daemon: it is this thread whose end the process would take for ours.
        self._thread = threading.Thread(target=self._run, name=f"{name} supervisor")

    def start(self) -> None:
        """Start the process."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Tell the process to stop, without waiting for it."""
        self._stopping.set()
        with self._lock:
            if self._process is not None:
                self._process.terminate()

    def stop(self, within_s: float = STOP_S) -> None:
        """Stop the process, by force if it does not stop `within_s`, and wait for its end."""
        self.ask_to_stop()
        if self._thread.ident is None:
            return  # never started
        self._thread.join(within_s)
        if self._thread.is_alive():
            with self._lock:
                if self._process is not None:
                    self._process.kill()
            self._thread.join()

    def _run(self) -> None:
        pause_s = self._first_pause_s
        while (process := self._started()) is not None:
            began = time.monotonic()
            code = process.wait()
            if self._stopping.is_set():
                return
            if time.monotonic() - began > STEADY_S:
                pause_s = self._first_pause_s
            log.warning(f"{self._name} ended, it is started again", exit_code=code, after_s=pause_s)
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _started(self) -> subprocess.Popen[bytes] | None:
        """A new process; None if it is time to stop."""
        with self._lock:
            if self._stopping.is_set():
                return None
            # A session of its own: Ctrl-C is for the service, which then tells the worker once.
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=self._handed_on,
            )
            return self._process
