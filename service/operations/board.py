"""Where everybody who watches a tuning looks: the database is asked once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from service.operations.events import Event

THREADS = 4
"""How many tunings are read at once for watchers, however many are watched."""


@dataclass(slots=True)
class _Reading:
    """A question that is under way, or its answer. `began`: seconds of the event loop's clock."""

    began: float
    answer: asyncio.Task[Event | None]


class Board:
    """The latest events of the tunings that are watched. To be used in one event loop."""

    def __init__(self, read: Callable[[str], Event | None], fresh_s: float) -> None:
        """`read` is called in a thread, for one tuning once in `fresh_s` seconds at most."""
        self._read = read
        self._fresh_s = fresh_s
        self._turns = asyncio.Semaphore(THREADS)
        self._readings: dict[str, _Reading] = {}

    async def following(self, tuning_id: str) -> Event | None:
        """What `read` says, or said less than `fresh_s` ago. Raises what it raises."""
        now = asyncio.get_running_loop().time()
        found = self._readings.get(tuning_id)
        if found is None or (found.answer.done() and now - found.began >= self._fresh_s):
            self._forget(now)
            found = _Reading(now, asyncio.create_task(self._asked(tuning_id)))
            self._readings[tuning_id] = found
        # One watcher who leaves must not take the answer from the others.
        return await asyncio.shield(found.answer)

    async def _asked(self, tuning_id: str) -> Event | None:
        async with self._turns:
            return await asyncio.to_thread(self._read, tuning_id)  # not the threads that requests are answered in

    def _forget(self, now: float) -> None:
        """Drops what is old: of tunings that nobody watches any more too."""
        old = [id for id, one in self._readings.items() if one.answer.done() and now - one.began >= self._fresh_s]
        for id in old:
            del self._readings[id]
