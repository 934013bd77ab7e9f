"""Kernels pinned by a file: a program takes these and no others, whatever is tuned in the meantime.

Another kernel of the same fusion is as right, and may round otherwise: with a lock a run gives the bits of the last.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pydantic

from fusetune.errors import FusetuneError, InvalidLock
from fusetune.kernel import Kernel
from fusetune.running.source import KernelSource, Key, Search, ServiceSource, key_of
from fusetune.store import Store
from fusetune.wire.artifact import Wire
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import Fusion, Seq

_ANY = Search()


class LockedKernel(Wire):
    """One kernel: its key, the card's name, the hash of its artifact's bytes, and what was known of it (for people)."""

    fingerprint: str
    binding: str
    card: str
    artifact_sha256: str
    correct: str
    median_us: float | None = None


class KernelLock(Wire):
    """A file of `fusetune.write_lock`, sorted by key, so that a change of one kernel is a change of its own lines."""

    format: Literal["fusetune.kernels/1"] = "fusetune.kernels/1"
    kernels: Seq[LockedKernel] = ()

    def names(self, fusion: Fusion, binding: Binding, card: str | None = None) -> bool:
        """Whether it has a kernel of this key, for the card if one is named."""
        key = key_of(fusion, binding)
        return any((x.fingerprint, x.binding) == key and card in (None, x.card) for x in self.kernels)


class LockedSource(ServiceSource):
    """The kernels that a lock names, out of a store: nothing is asked for, and what it does not name runs in eager."""

    def __init__(self, lock: KernelLock, store: Store | None = None) -> None:
        super().__init__(store=store)
        self._pins: Mapping[Key, tuple[LockedKernel, ...]] = {
            (one.fingerprint, one.binding): tuple(
                x for x in lock.kernels if (x.fingerprint, x.binding) == (one.fingerprint, one.binding)
            )
            for one in lock.kernels
        }

    def request(self, fusion: Fusion, binding: Binding, *, weight: float, search: Search = _ANY) -> None:
        """Nobody is asked."""

    def failure_of(self, key: Key) -> str | None:
        """Why a key has no kernel, in words."""
        if key in self._pins:
            return super().failure_of(key)
        return "the lock has no kernel of it, and nothing else is taken; write the lock anew with it"

    def _stored(self, key: Key, search: Search) -> Kernel | None:
        pins = [x for x in self._pins.get(key, ()) if search.card is None or x.card.lower() == search.card.lower()]
        try:
            return _loaded(pins[0], self._store if self._store is not None else Store()) if pins else None
        except FusetuneError as error:
            self._failed[key] = (float("-inf"), str(error))
            return None


def lock_of(source: KernelSource) -> KernelLock:
    """The kernels that a source holds. Those without a record of a service, made by hand or read from files, have no
    place in it. Raises InvalidLock for a provisional one: the best of its search may have other bits."""
    held = source.held() if isinstance(source, ServiceSource) else {}
    for kernel in held.values():
        if kernel.info is not None and kernel.info.provisional is not None:
            what = f"kernel {kernel.info.id} for {kernel.info.card.name}"
            raise InvalidLock(what, "it is provisional, its search goes on: take what that ends with (Client.tune)")
    rows = [
        LockedKernel(
            fingerprint=key[0], binding=key[1], card=kernel.info.card.name,
            artifact_sha256=kernel.info.artifact_sha256, correct=kernel.info.evidence.correct,
            median_us=kernel.info.median_us,
        )
        for key, kernel in held.items() if isinstance(kernel, Kernel) and kernel.info is not None
    ]  # fmt: skip
    return KernelLock(kernels=tuple(sorted(rows, key=lambda row: (row.fingerprint, row.binding, row.card))))


def read_lock(path: str | os.PathLike[str]) -> KernelLock:
    """The lock in a file. Raises OSError, InvalidLock."""
    try:
        return KernelLock.model_validate_json(Path(path).read_bytes())
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"])) or "the file"
        raise InvalidLock(str(path), f"{place}: {fault['msg']}") from None


def _loaded(pin: LockedKernel, store: Store) -> Kernel:
    """Raises FusetuneError."""
    data = store.artifact(pin.artifact_sha256)
    if data is None:
        raise InvalidLock(
            f"kernel {pin.artifact_sha256[:12]} for {pin.card}",
            f"{store!r} does not have it: copy the store's folder that the lock was written beside",
        )
    return Kernel.from_json(data, where=f"kernel {pin.artifact_sha256[:12]}", origin="store")
