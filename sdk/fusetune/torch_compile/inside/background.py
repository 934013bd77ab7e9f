"""What takes seconds and nobody waits for, one after another on a thread: compilations beside the running ones.

The thread begins with the first job. It holds the interpreter's lock as any Python does, and torch's lock of
compilations while it compiles: a compilation of the program's own waits for one of these, a step does not.
"""

from __future__ import annotations

import contextvars
import os
import queue
import threading
import weakref
from collections.abc import Callable

from fusetune.running.source import WAITED


class Background:
    """Jobs in the order in which they came."""

    def __init__(self) -> None:
        self._reset()
        WAITED.add(self)
        _ALL.add(self)

    def _reset(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[contextvars.Context, Callable[[], None]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._idle = threading.Condition()
        self._open = 0

    def add(self, job: Callable[[], None]) -> None:
        """Has `job` run, with the caller's context variables (torch's configuration is in them). It may not raise."""
        with self._idle:
            self._open += 1
        self._jobs.put((contextvars.copy_context(), job))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="fusetune-compiling", daemon=True)
            self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until no job is left; whether that is so after `timeout_s` seconds."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._open, timeout_s)

    def _run(self) -> None:
        while True:
            context, job = self._jobs.get()
            try:
                context.run(job)
            finally:
                del context, job
                with self._idle:
                    self._open -= 1
                    self._idle.notify_all()


_ALL: weakref.WeakSet[Background] = weakref.WeakSet()


def _forked() -> None:
    for background in list(_ALL):
        background._reset()


os.register_at_fork(after_in_child=_forked)
