"""`AsyncClient`: a `Client` whose methods are awaited. Each call is one of the Client's, on a thread of a pool."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from fusetune.administration import PACK_S
from fusetune.bindings import BindingLike, TensorLike
from fusetune.client import AnyKernel, Client
from fusetune.kernel import Kernel
from fusetune.progress import StatusLine
from fusetune.query import AcceptLike, EnoughLike, FusionLike
from fusetune.signing import TrustLike
from fusetune.store import Store
from fusetune.waiting import Pace, Progress
from fusetune.wire.service import (
    AuditEntry,
    CardStatus,
    DeletedFusionView,
    Health,
    KernelView,
    PackTaken,
    SpaceView,
    TrialStateName,
    TrialView,
    TuningView,
)
from fusetune.wire.verdicts import ScheduleVerdict
from fusetune.wire.wanting import Want

if TYPE_CHECKING:
    from fusetune.transport import HttpTransport

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_CONCURRENCY = 32
"""Calls that are under way at a time; a further one waits for its turn."""


class _Abandoned(Exception):
    """Ends a wait on its thread: nobody is there to take its answer."""


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

    async def tune(
        self,
        fusion: FusionLike,
        *,
        inputs: Sequence[TensorLike] | None = None,
        binding: BindingLike | None = None,
        budget_s: float = 60.0,
        trials: int | None = None,
        accept: AcceptLike | None = None,
        card: str | None = None,
        refresh: bool = False,
        name: str | None = None,
        wait: Want = "best",
        enough: EnoughLike | None = None,
        progress: Progress | bool | None = None,
        timeout_s: float | None = None,
    ) -> AnyKernel:
        """The fastest kernel that is known, or else is found within `budget_s` seconds or `trials` (Client.tune)."""
        call = partial(
            self._client.tune, fusion, inputs=inputs, binding=binding, budget_s=budget_s, trials=trials, accept=accept,
            card=card, refresh=refresh, name=name, wait=wait, enough=enough, timeout_s=timeout_s,
        )  # fmt: skip
        return await self._wait(call, progress)

    async def submit(
        self,
        fusion: FusionLike,
        *,
        inputs: Sequence[TensorLike] | None = None,
        binding: BindingLike | None = None,
        budget_s: float = 60.0,
        trials: int | None = None,
        accept: AcceptLike | None = None,
        card: str | None = None,
        refresh: bool = False,
        name: str | None = None,
    ) -> TuningView:
        """Like `tune`, without waiting (Client.submit)."""
        return await self._run(
            self._client.submit, fusion, inputs=inputs, binding=binding, budget_s=budget_s, trials=trials,
            accept=accept, card=card, refresh=refresh, name=name,
        )  # fmt: skip

    async def wait(
        self,
        tuning: str | TuningView,
        *,
        accept: AcceptLike | None = None,
        progress: Progress | bool | None = None,
        timeout_s: float | None = None,
    ) -> Kernel:
        """The kernel of a tuning, once that has ended (Client.wait)."""
        return await self._wait(partial(self._client.wait, tuning, accept=accept, timeout_s=timeout_s), progress)

    async def tuning(self, tuning_id: str) -> TuningView:
        """How far a tuning is."""
        return await self._run(self._client.tuning, tuning_id)

    async def cancel(self, tuning_id: str) -> TuningView:
        """Ends a tuning; it publishes no kernel."""
        return await self._run(self._client.cancel, tuning_id)

    def trials(self, tuning_id: str, *, state: TrialStateName | None = None) -> AsyncIterator[TrialView]:
        """What happened to each candidate of a tuning, in order; only those in `state`, if given."""
        return self._each(self._client.trials(tuning_id, state=state))

    async def kernel(
        self,
        fusion: FusionLike,
        *,
        inputs: Sequence[TensorLike] | None = None,
        binding: BindingLike | None = None,
        card: str | None = None,
        accept: AcceptLike | None = None,
    ) -> AnyKernel:
        """The kernel in the cache; nothing is searched for (Client.kernel)."""
        return await self._run(self._client.kernel, fusion, inputs=inputs, binding=binding, card=card, accept=accept)

    async def kernels(
        self,
        wanted: Sequence[tuple[FusionLike, BindingLike | Sequence[TensorLike] | None]],
        *,
        card: str | None = None,
        accept: AcceptLike | None = None,
    ) -> list[AnyKernel | None]:
        """The kernels in the cache for many pairs, None where there is none (Client.kernels)."""
        return await self._run(self._client.kernels, wanted, card=card, accept=accept)

    def tunings(self, fusion: FusionLike | None = None) -> AsyncIterator[TuningView]:
        """All tunings, the newest first; only those of `fusion`, if given."""
        return self._each(self._client.tunings(fusion))

    async def space(
        self,
        fusion: FusionLike,
        *,
        inputs: Sequence[TensorLike] | None = None,
        binding: BindingLike | None = None,
        card: str | None = None,
        samples: int = 5,
        seed: int = 0,
    ) -> SpaceView:
        """What a search would look through (Client.space)."""
        return await self._run(
            self._client.space, fusion, inputs=inputs, binding=binding, card=card, samples=samples, seed=seed
        )

    async def check_schedules(
        self, schedules: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, arch: str | None = None
    ) -> tuple[ScheduleVerdict, ...]:
        """Verdicts on explicit schedules, in order (Client.check_schedules)."""
        return await self._run(self._client.check_schedules, schedules, arch=arch)

    async def delete_kernel(self, kernel: str | KernelView) -> None:
        """Takes a kernel out of the service for good (Client.delete_kernel)."""
        await self._run(self._client.delete_kernel, kernel)

    async def delete_fusion(self, fusion: FusionLike) -> DeletedFusionView:
        """Takes a fusion out with all that belongs to it (Client.delete_fusion)."""
        return await self._run(self._client.delete_fusion, fusion)

    def audit(
        self, *, actor: str | None = None, action: str | None = None, subject: str | None = None
    ) -> AsyncIterator[AuditEntry]:
        """Who did what to what, the newest first (Client.audit)."""
        return self._each(self._client.audit(actor=actor, action=action, subject=subject))

    async def export_pack(
        self,
        path: str | os.PathLike[str],
        *,
        fusions: Sequence[FusionLike] = (),
        card: str | None = None,
        history: bool = False,
        timeout_s: float = PACK_S,
    ) -> str:
        """Writes what is served into a pack; returns its hash (Client.export_pack)."""
        return await self._run(
            self._client.export_pack, path, fusions=fusions, card=card, history=history, timeout_s=timeout_s
        )

    async def import_pack(
        self, path: str | os.PathLike[str], *, sha256: str | None = None, timeout_s: float = PACK_S
    ) -> PackTaken:
        """Has the service take the kernels of a pack in (Client.import_pack)."""
        return await self._run(self._client.import_pack, path, sha256=sha256, timeout_s=timeout_s)

    async def cards(self) -> tuple[CardStatus, ...]:
        """The cards that the service knows, and the workers that serve them."""
        return await self._run(self._client.cards)

    async def health(self) -> Health:
        """Whether the service is ready, and what is not."""
        return await self._run(self._client.health)

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        run = partial(contextvars.copy_context().run, call, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    async def _wait(self, call: Callable[..., T], progress: Progress | bool | None) -> T:
        """A call that may take long, whose thread notices that nobody waits any more."""
        abandoned = threading.Event()
        line = StatusLine() if progress is True else None
        tell = line if line is not None else progress if callable(progress) else None

        def told(view: TuningView) -> None:
            if abandoned.is_set() or self._closing.is_set():
                raise _Abandoned
            if tell is not None:
                tell(view)

        try:
            return await self._run(call, progress=told)
        finally:
            abandoned.set()
            if line is not None:
                line.close()

    async def _each(self, items: Iterator[T]) -> AsyncIterator[T]:
        end = object()
        while (item := await self._run(next, items, end)) is not end:
            yield item  # type: ignore[misc]
