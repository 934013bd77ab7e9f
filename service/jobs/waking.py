"""Wakes DBOS's queue threads, which otherwise look for work at intervals."""

from __future__ import annotations

import threading
from collections.abc import Sequence


class Waker:
    """Ends the pauses of threads that wait for an event to be set, without setting it.

    DBOS gives its queue threads an event that says when to stop, and they sleep in its `wait`. In place of that they
    wait here, where a ring ends the pause as well. A thread that was not waiting when it rang does not wait the next
    time: what it has looked at meanwhile may be older than the ring.
    """

    def __init__(self, stops: Sequence[threading.Event]) -> None:
        self._changed = threading.Condition()
        self._rings = 0
        self._is_over = threading.Event()
        self._heard = threading.local()
        self.reaches = len(stops)
        """Events whose threads it wakes."""
        for stop in stops:
            self._take_over(stop)

    def ring_later(self, after_s: Sequence[float]) -> None:
        """Ends every pause after each of so many seconds, counted from the one before; returns at once."""

        def ring_each() -> None:
            for seconds in after_s:
                if self._is_over.wait(seconds):
                    return
                self.ring()

        threading.Thread(target=ring_each, name="ring later", daemon=True).start()

    def close(self) -> None:
        """Rings no more by itself."""
        self._is_over.set()

    def ring(self) -> None:
        """Ends every pause."""
        with self._changed:
            self._rings += 1
            self._changed.notify_all()

    def _take_over(self, stop: threading.Event) -> None:
        set_stop = stop.set

        def wait(timeout: float | None = None) -> bool:
            with self._changed:
                before = getattr(self._heard, "rings", self._rings)
                self._changed.wait_for(lambda: stop.is_set() or self._rings != before, timeout)
                self._heard.rings = self._rings
                return stop.is_set()

        def set_and_ring() -> None:
            set_stop()
            self.ring()

        stop.wait, stop.set = wait, set_and_ring  # type: ignore[method-assign]  # of this event alone
