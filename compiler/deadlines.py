"""Deadlines of requests to child processes, all watched by one thread.

A `threading.Timer` for each would be a thread for each: with several children at work the start of one waits for the
interpreter's lock more than once, and a search makes hundreds of requests a second.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count


class RequestDeadline:
    """Calls `kill` when time is up, whatever the caller is blocked in: sending, waiting or receiving."""

    def __init__(self, seconds: float, kill: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._expired = False
        self._kill = kill
        self.is_done = False
        _watch().add(time.monotonic() + seconds, self)

    def fire(self) -> None:
        """Time is up."""
        with self._lock:
            if not self.is_done:
                self._expired = True
                with suppress(OSError):  # others have deadlines too
                    self._kill()

    def finish(self) -> bool:
        """Stops the clock. Returns whether `kill` was called; it never is afterwards."""
        with self._lock:
            self.is_done, self._kill = True, _nothing
            return self._expired


def _nothing() -> None:
    return


class _Watch:
    """The thread, and what it watches: the soonest first."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._waiting: list[tuple[float, int, RequestDeadline]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="deadlines", daemon=True).start()

    def add(self, at_s: float, deadline: RequestDeadline) -> None:
        """`at_s` on the monotonic clock."""
        with self._changed:
            heappush(self._waiting, (at_s, next(self._numbers), deadline))
            if self._waiting[0][2] is deadline:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            self._next().fire()

    def _next(self) -> RequestDeadline:
        """Waits for the next deadline that has passed. Those that are done are dropped whenever one is looked for."""
        with self._changed:
            while True:
                self._waiting = [one for one in self._waiting if not one[2].is_done]
                heapify(self._waiting)
                left_s = self._waiting[0][0] - time.monotonic() if self._waiting else threading.TIMEOUT_MAX
                if left_s <= 0.0:
                    return heappop(self._waiting)[2]
                self._changed.wait(min(left_s, threading.TIMEOUT_MAX))


_watches: list[_Watch] = []
_begins = threading.Lock()


def _watch() -> _Watch:
    """That of this process: a fork has none of its parent's threads."""
    known = _watches[-1] if _watches else None
    if known is not None and known.process == os.getpid():
        return known
    with _begins:
        if not _watches or _watches[-1].process != os.getpid():
            _watches[:] = [_Watch()]
        return _watches[-1]
