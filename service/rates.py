"""How many requests a minute a key may send, counted by each process on its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Rates:
    """A bucket for each key: it holds what a minute gives, and fills evenly. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def wait_s(self, key_id: str, a_minute: int) -> float:
        """Takes one request out of the key's bucket: 0 if there was one, else the seconds until there is."""
        with self._lock:
            now = self._clock()
            left, at = self._left.get(key_id, (float(a_minute), now))
            left = min(float(a_minute), left + (now - at) * a_minute / 60)
            if left < 1:
                self._left[key_id] = left, now
                return (1 - left) * 60 / a_minute
            self._left[key_id] = left - 1, now
            return 0.0
