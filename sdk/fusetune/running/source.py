"""`KernelSource`: kernels for callers that must not wait. What is there is taken, what is not is fetched on a thread.

No thread runs before the first request. A child process that was forked has none of its parent's, and starts its own.
"""

from __future__ import annotations

import heapq
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from fusetune.bindings import bound_by
from fusetune.errors import FusetuneError, ServiceUnavailable
from fusetune.kernel import EmptyKernel, Kernel, empty_kernel
from fusetune.query import read_accept
from fusetune.store import Store
from fusetune.wire import fingerprint
from fusetune.wire.binding import Binding
from fusetune.wire.canonical import binding_hash
from fusetune.wire.fusion import Fusion
from fusetune.wire.service import Accept

SomeKernel = Kernel | EmptyKernel
Key = tuple[str, str]
"""Fingerprint of a fusion, hash of a binding."""

RETRY_S = 60.0
"""How long a key that could not be had is not asked for again: a service may be starting."""


@dataclass(frozen=True, slots=True)
class Search:
    """What a request may cost: seconds of search, candidates at most; and for which card, on which evidence."""

    budget_s: float = 60.0
    trials: int | None = None
    card: str | None = None
    accept: Accept = field(default_factory=Accept)
    name: str | None = None


class KernelSource(Protocol):
    """Where a kernel comes from. Both methods return at once; neither uses the network on the caller's thread."""

    def peek(self, fusion: Fusion, binding: Binding) -> Any:
        """The kernel, if it is here; else None."""
        ...

    def request(self, fusion: Fusion, binding: Binding, *, weight: float) -> None:
        """Have it fetched or searched for, the larger `weight` the sooner; a key that is under way is asked once."""
        ...


@dataclass(slots=True)
class _Wanted:
    fusion: Fusion
    binding: Binding
    search: Search
    weight: float


class ServiceSource:
    """The store, then a service that a thread asks. `trouble` says why the service cannot be had, once it was tried.

    `make_client` gives what is asked (Client); it is called on the thread, at the first request.
    """

    any_device = False
    """Kernels of a service run on CUDA devices."""

    def __init__(self, make_client: Callable[[], Any] | None = None, store: Store | None = None) -> None:
        self._make_client = make_client if make_client is not None else _client
        self._store = store
        self.trouble: str | None = None
        self._reset()
        _SOURCES.add(self)

    def _reset(self) -> None:
        """As new, but for the kernels that are held: what a forked child begins with."""
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._client: Any = None
        self._queue: list[tuple[float, int, Key]] = []
        self._numbers = itertools.count()
        self._wanted: dict[Key, _Wanted] = {}
        self._failed: dict[Key, tuple[float, str]] = {}
        self._kernels: dict[Key, SomeKernel] = getattr(self, "_kernels", {})
        self._looked: set[Key] = set()

    def peek(self, fusion: Fusion, binding: Binding, search: Search = Search()) -> SomeKernel | None:
        """The kernel that is held, or else in the store, which is read once for each key."""
        key = key_of(fusion, binding)
        found = self._kernels.get(key)
        if found is not None or key in self._looked:
            return found
        self._looked.add(key)
        found = empty_kernel(bound_by(fusion, binding)[1]) or self._stored(key, search)
        if found is not None:
            self._kernels[key] = found
        return found

    def request(self, fusion: Fusion, binding: Binding, *, weight: float, search: Search = Search()) -> None:
        """Have the kernel fetched or searched for; nothing is done where that is under way, or failed lately."""
        key = key_of(fusion, binding)
        with self._wake:
            before = self._wanted.get(key)
            if before is not None:
                if weight > before.weight:  # the old place in the queue is passed over when its turn comes
                    before.weight = weight
                    heapq.heappush(self._queue, (-weight, next(self._numbers), key))
                return
            failed = self._failed.get(key)
            if key in self._kernels or (failed is not None and time.monotonic() - failed[0] < RETRY_S):
                return
            self._wanted[key] = _Wanted(fusion, binding, search, weight)
            heapq.heappush(self._queue, (-weight, next(self._numbers), key))
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="fusetune-kernels", daemon=True)
                self._thread.start()
            self._wake.notify_all()

    def why_not(self, fusion: Fusion, binding: Binding) -> str | None:
        """Why the last request of this key gave no kernel, in words."""
        return self.failure_of(key_of(fusion, binding))

    def kernel_of(self, key: Key) -> SomeKernel | None:
        """The kernel that is held: `peek` for who has looked before and knows the key (a hash takes milliseconds)."""
        return self._kernels.get(key)

    def failure_of(self, key: Key) -> str | None:
        """`why_not` for who knows the key."""
        failed = self._failed.get(key)
        return None if failed is None else failed[1]

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until nothing is under way; whether that is so after `timeout_s` seconds."""
        with self._wake:
            return self._wake.wait_for(lambda: not self._wanted, timeout_s)

    def held(self) -> dict[Key, SomeKernel]:
        """The kernels that are here, by key."""
        return dict(self._kernels)

    def put(self, fusion: Fusion, binding: Binding, kernel: SomeKernel) -> None:
        """Hold a kernel that was had in another way."""
        self._kernels[key_of(fusion, binding)] = kernel

    def _serve(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._queue)
                _, _, key = heapq.heappop(self._queue)
                wanted = self._wanted.get(key)
            if wanted is None:
                continue
            try:
                self._kernels[key] = self._fetched(wanted)
                self.trouble = None
            except FusetuneError as error:
                self._give_up(key, error)
            except Exception as error:  # noqa: BLE001 (whatever it is, a waiting program must be told, not hang)
                self._give_up(key, error)
            with self._wake:
                self._wanted.pop(key, None)
                self._wake.notify_all()

    def _fetched(self, wanted: _Wanted) -> SomeKernel:
        """On the thread. Raises FusetuneError."""
        if self._client is None:
            self._client = self._make_client()
        search = wanted.search
        found: SomeKernel = self._client.tune(
            wanted.fusion, binding=wanted.binding, budget_s=search.budget_s, trials=search.trials, card=search.card,
            accept=search.accept, name=search.name,
        )  # fmt: skip
        return found

    def _give_up(self, key: Key, error: Exception) -> None:
        """Note why; where the service is away, of all that wait for it."""
        said = str(error) or type(error).__name__
        now = time.monotonic()
        with self._wake:
            away = isinstance(error, ServiceUnavailable)
            for one in list(self._wanted) if away else [key]:
                self._failed[one] = (now, said)
            if away:
                self.trouble = said
                self._wanted.clear()
                self._queue.clear()

    def _stored(self, key: Key, search: Search) -> Kernel | None:
        store = self._store if self._store is not None else Store()
        try:
            found = store.find(*key, search.accept, search.card)
            if found is None:
                return None
            return Kernel.from_json(found.artifact, where=f"kernel {found.view.id}", info=found.view, origin="store")
        except FusetuneError as error:
            self._failed[key] = (float("-inf"), str(error))
            return None


_SOURCES: weakref.WeakSet[ServiceSource] = weakref.WeakSet()


def _forked() -> None:
    for source in list(_SOURCES):
        source._reset()


os.register_at_fork(after_in_child=_forked)


def key_of(fusion: Fusion, binding: Binding) -> Key:
    """What the caches know a kernel by, the card aside."""
    return getattr(fusion, "fingerprint", None) or fingerprint(fusion), binding_hash(fusion, binding)


def _client() -> Any:
    from fusetune.client import Client

    return Client()


class Waited(Protocol):
    """Something that goes on in the background."""

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until nothing goes on; whether that is so after `timeout_s` seconds."""
        ...


WAITED: weakref.WeakSet[Waited] = weakref.WeakSet()
"""What else `wait` waits for."""


def wait(timeout_s: float | None = None) -> bool:
    """Until no kernel is under way that was asked for in the background, and nothing is compiled there; whether that is
    so after `timeout_s` seconds."""
    until = None if timeout_s is None else time.monotonic() + timeout_s
    waited: list[Waited] = [*_SOURCES, *WAITED]
    return all(x.wait(None if until is None else max(0.0, until - time.monotonic())) for x in waited)


def search_of(
    effort: str, budget_s: float | None, accept: Any, card: str | None = None, name: str | None = None
) -> Search:
    """Effort in words as a Search: "none" the best predicted schedule alone, "quick" 32 candidates, "full" 60 s."""
    trials = {"none": 1, "quick": 32, "full": None}[effort]
    return Search(60.0 if budget_s is None else budget_s, trials, card, read_accept(accept), name)
