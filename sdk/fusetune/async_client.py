"""`AsyncClient`: a `Client` whose methods are awaited. Each call is one of the Client's, on a thread of a pool."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

from fusetune.client import Client
from fusetune.progress import told_to
from fusetune.signing import TrustLike
from fusetune.store import Store
from fusetune.waiting import Pace, Progress
from fusetune.wire.service import TuningView

if TYPE_CHECKING:
    from fusetune.transport import HttpTransport

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_CONCURRENCY = 32
"""Calls that are under way at a time; a further one waits for its turn."""


class _Abandoned(Exception):
    """Ends a wait on its thread: nobody is there to take its answer."""


# What makes a method of AsyncClient of one of Client's: parameters, types and text stay as they stand there.


def _awaited(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """The method awaited: one call on a thread."""

    @wraps(method)
    async def awaited(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(method, self._client, *args, **kwargs)

    return awaited


def _awaited_until_left(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """The method awaited, one that may take long and tells its `progress`: where nobody waits any more, its thread
    notices with the next thing that it would tell."""

    @wraps(method)
    async def awaited(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        abandoned = threading.Event()
        with told_to(cast("Progress | bool | None", kwargs.get("progress"))) as progress:
            kwargs["progress"] = self._unless_left(progress, abandoned)
            try:
                return await self._run(method, self._client, *args, **kwargs)
            finally:
                abandoned.set()

    return awaited


def _one_by_one(
    method: Callable[Concatenate[Client, P], Iterator[T]],
) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]:
    """The method's items, each by a call on a thread."""

    @wraps(method)
    async def items(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        found = method(self._client, *args, **kwargs)
        while (item := await self._run(next, found, None)) is not None:
            yield item

    return items


class AsyncClient:
    """A fusetune service for programs that await: `async with AsyncClient() as client: await client.tune(...)`.

    Every method takes, returns and raises what the Client's method of its name does; `concurrency` calls are under way
    at a time. A call whose task is cancelled returns at once, its tuning goes on in the service, and its thread is free
    at the next event of that. `progress` is called on a thread that is not the loop's.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 10.0,
        store: Store | str | os.PathLike[str] | bool | None = True,
        transport: HttpTransport | None = None,
        pace: Pace | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        trust: TrustLike | None = None,
    ) -> None:
        self._client = Client(url, api_key, timeout_s, store, transport, pace, trust)
        self._threads = ThreadPoolExecutor(concurrency, "fusetune-async")
        self._closing = threading.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Gives the connections back; calls that are under way end at their tunings' next event."""
        self._closing.set()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        self._client.close()

    def __repr__(self) -> str:
        return f"Async{self._client!r}"

    tune = _awaited_until_left(Client.tune)
    wait = _awaited_until_left(Client.wait)
    submit = _awaited(Client.submit)
    tuning = _awaited(Client.tuning)
    cancel = _awaited(Client.cancel)
    trials = _one_by_one(Client.trials)
    kernel = _awaited(Client.kernel)
    kernels = _awaited(Client.kernels)
    tunings = _one_by_one(Client.tunings)
    space = _awaited(Client.space)
    check_schedules = _awaited(Client.check_schedules)
    delete_kernel = _awaited(Client.delete_kernel)
    delete_fusion = _awaited(Client.delete_fusion)
    audit = _one_by_one(Client.audit)
    export_pack = _awaited(Client.export_pack)
    import_pack = _awaited(Client.import_pack)
    cards = _awaited(Client.cards)
    health = _awaited(Client.health)

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        run = partial(contextvars.copy_context().run, call, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    def _unless_left(self, progress: Progress | None, abandoned: threading.Event) -> Progress:
        """`progress`, which ends the wait on its thread once nobody is there to take its answer."""

        def told(view: TuningView) -> None:
            if abandoned.is_set() or self._closing.is_set():
                raise _Abandoned
            if progress is not None:
                progress(view)

        return told
