"""PostgreSQL asked by the event loop: what all requests wait for goes out together, over one connection.

A statement is sent after it was asked for, never before, so it sees whatever was committed by then. While one batch is
on its way the next gathers: one round trip serves all who wait, and no thread is needed for any of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

Rows = Sequence[tuple[Any, ...]]
Connect = Callable[[], Awaitable[AsyncConnection[Any]]]

SILENT_S = 1.5
"""How long a batch may take, its connection included. A server that is slower is asked in the way that waits."""


class Unanswered(Exception):
    """The server did not answer, or not in time."""


@dataclass(frozen=True, slots=True)
class _Asked:
    text: str
    values: Mapping[str, Any]
    answer: asyncio.Future[Rows]


class Pipeline:
    """One for each process: the connection is made when it is first needed, and anew after any failure."""

    def __init__(self, connect: Connect, silent_s: float = SILENT_S) -> None:
        """`connect` gives a connection that commits each statement by itself."""
        self._connect, self._silent_s = connect, silent_s
        self._waiting: list[_Asked] = []
        self._asking: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: AsyncConnection[Any] | None = None

    async def rows(self, text: str, values: Mapping[str, Any]) -> Rows:
        """What a statement finds. Raises Unanswered."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the last one has ended, and with it whatever waited on the connection
            self.close()
            self._loop = loop
        asked = _Asked(text, values, loop.create_future())
        self._waiting.append(asked)
        if self._asking is None:
            self._asking = loop.create_task(self._ask())
        return await asked.answer

    def close(self) -> None:
        """Closes the connection. Nobody may be waiting."""
        if self._kept is not None:
            self._kept.pgconn.finish()
        self._kept, self._asking, self._waiting = None, None, []

    async def _ask(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                found = await asyncio.wait_for(self._answered(batch), self._silent_s)
            except Exception as error:  # noqa: BLE001 (nobody shall wait for ever)
                self._drop()
                for asked in batch:
                    if not asked.answer.done():
                        asked.answer.set_exception(Unanswered(f"{type(error).__name__}: {error}"))
            else:
                for asked, rows in zip(batch, found, strict=True):
                    if not asked.answer.done():  # whose client has left
                        asked.answer.set_result(rows)
        self._asking = None

    async def _answered(self, batch: Sequence[_Asked]) -> list[Rows]:
        if self._kept is None:
            self._kept = await self._connect()
        connection = self._kept
        if len(batch) == 1:
            cursor = await connection.execute(batch[0].text, batch[0].values, prepare=True)
            return [await cursor.fetchall()]
        async with connection.pipeline():
            cursors = [await connection.execute(asked.text, asked.values, prepare=True) for asked in batch]
        return [await cursor.fetchall() for cursor in cursors]

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept.pgconn.finish()
            self._kept = None
