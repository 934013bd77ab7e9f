"""Word that there is something new to look for, for threads that would otherwise look again and again."""

from __future__ import annotations

import threading


class News:
    """Rung by whoever knows of something; each waiter hears of all that came since it last waited."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._heard = threading.local()

    def ring(self) -> None:
        """There is something new."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> None:
        """Until there is something that this thread has not heard of, or for so long."""
        with self._changed:
            before = getattr(self._heard, "count", self._count)
            self._changed.wait_for(lambda: self._count != before, timeout_s)
            self._heard.count = self._count
