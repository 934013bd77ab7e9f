"""Kernels pinned by a file: a program takes these and no others, whatever is tuned in the meantime.

Another kernel of the same fusion is as right, and may round otherwise: with a lock a run gives the bits of the last.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from fusetune.errors import FusetuneError, InvalidLock
from fusetune.kernel import Kernel
from fusetune.running.source import KernelSource, Key, Search, ServiceSource
from fusetune.signing import Trust, TrustLike, process_trust
from fusetune.store import Store
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import Fusion
from fusetune.wire.lock import CARD_FACTS, Lock, LockedCard, LockedEvidence, LockEntry, UnusableLock, parse_lock
from fusetune.wire.service import Accept, KernelView

_ANY = Search()
_HASH_CHARS = 12
"""Of a hash, enough to tell two apart in a name."""


class LockedSource(ServiceSource):
    """The kernels that a lock names, out of a store: nothing is asked for, and what it does not name runs in eager."""

    def __init__(self, lock: Lock, store: Store | None = None) -> None:
        super().__init__(store=store)
        self._lock = lock

    def request(self, fusion: Fusion, binding: Binding, *, weight: float, search: Search = _ANY) -> None:
        """Nobody is asked."""

    def failure_of(self, key: Key) -> str | None:
        """Why a key has no kernel, in words."""
        if self._lock.of_key(*key):
            return super().failure_of(key)
        return "the lock has no kernel of it, and nothing else is taken; write the lock anew with it"

    def _stored(self, key: Key, search: Search) -> Kernel | None:
        pins = self._lock.of_key(*key, search.card)
        try:
            return _loaded(pins[0], self._store if self._store is not None else Store()) if pins else None
        except FusetuneError as error:
            self._failed[key] = (float("-inf"), str(error))
            return None


def lock_of(source: KernelSource) -> Lock:
    """The kernels that a source holds. Those without a record of a service, made by hand or read from files, have no
    place in it. Raises InvalidLock for a provisional one: the best of its search may have other bits."""
    held = source.held().values() if isinstance(source, ServiceSource) else ()
    entries: dict[str, LockEntry] = {}
    for kernel in held:
        if not isinstance(kernel, Kernel) or kernel.info is None:
            continue
        if kernel.info.provisional is not None:
            what = f"kernel {kernel.info.id} for {kernel.info.card.name}"
            raise InvalidLock(what, "it is provisional, its search goes on: take what that ends with (Client.tune)")
        entries[_name(kernel.info)] = _entry(kernel, kernel.info)
    return Lock(fusions=dict(sorted(entries.items())))


def _name(info: KernelView) -> str:
    key = f"{info.fingerprint[:_HASH_CHARS]}-{info.binding[:_HASH_CHARS]}-{info.card.id}"
    return f"{info.name}-{key}" if info.name else key


def _entry(kernel: Kernel, info: KernelView) -> LockEntry:
    artifact = kernel.artifact
    return LockEntry(
        fingerprint=info.fingerprint,
        binding_hash=info.binding,
        card=LockedCard.of_view(info.card, info.arch),
        policy=info.policy,
        generator=artifact.conditions.generator,
        nvrtc=artifact.conditions.nvrtc,
        driver=info.driver,
        code_hash=artifact.code_hash,
        launch_hash=artifact.launch_hash,
        artifact_sha256=info.artifact_sha256,
        evidence=LockedEvidence.model_validate({**info.evidence.model_dump(), "verifier": info.verifier}),
        median_us=info.median_us,
        p10_us=info.p10_us,
        p90_us=info.p90_us,
        floor_us=info.floor_us,
    )


def read_lock(path: str | os.PathLike[str], trust: TrustLike | None = None) -> Lock:
    """The lock in a file, `fusetune.write_lock`'s or `service ci`'s.

    `trust`: public keys, one of which must have signed it. A signature that is there must hold where the process trusts
    keys (FUSETUNE_TRUST). Raises OSError, InvalidLock, Untrusted, InvalidRequest, PackageMissing.
    """
    lock = _parsed(path)
    ours = process_trust() if trust is None else Trust.of(trust)
    if ours is not None and (trust is not None or lock.signature is not None):
        ours.check(str(path), lock.signed_bytes(), () if lock.signature is None else (lock.signature,))
    return lock


def _parsed(path: str | os.PathLike[str]) -> Lock:
    try:
        return parse_lock(Path(path).read_bytes(), Lock)
    except UnusableLock as error:
        raise InvalidLock(str(path), "; ".join(reason.rstrip(".") for reason in error.reasons)) from None


def _loaded(pin: LockEntry, store: Store) -> Kernel:
    return locked_kernel(pin, store)[1]


def locked_kernel(pin: LockEntry, store: Store) -> tuple[bytes, Kernel]:
    """The locked kernel, and no other: by the bytes that are named, or by its code and launch. Raises FusetuneError."""
    what = f"kernel {pin.code_hash[:_HASH_CHARS]} for {pin.card.name}"
    data = _bytes_of(pin, store)
    if data is None:
        raise InvalidLock(what, f"{store!r} does not have it: copy the store's folder that the lock was written beside")
    info = store.view(pin.fingerprint, pin.binding_hash, sha256(data).hexdigest())
    kernel = Kernel.from_json(data, where=what, info=info, origin="store")
    if strangers := pin.strangers(kernel.artifact) + _misfits(pin, kernel):
        raise InvalidLock(what, f"{store!r} has another kernel in its place: {'; '.join(strangers)}")
    return data, kernel


def _misfits(pin: LockEntry, kernel: Kernel) -> tuple[str, ...]:
    """Each field of an entry that names a kernel's bytes in which it is not as `write_lock` would have written it.

    Times and the driver may have changed since: kernels are timed again. An entry of `service ci` says what its own GPU
    said of itself, so it is not held against what a service knows.
    """
    if pin.artifact_sha256 is None or kernel.info is None:
        return ()
    ours, theirs = pin.model_dump(), _entry(kernel, kernel.info).model_dump()
    found = [
        (f"card.{name}", value, theirs["card"][name]) for name, value in ours["card"].items() if name in CARD_FACTS
    ]
    found += [(f"evidence.{name}", ours["evidence"][name], theirs["evidence"][name]) for name in ("correct", "time")]
    found += [(name, ours[name], theirs[name]) for name in ("policy", "nvrtc")]
    return tuple(f"{name}: the lock has {x}, the kernel {y}" for name, x, y in found if x != y)


def _bytes_of(pin: LockEntry, store: Store) -> bytes | None:
    if pin.artifact_sha256 is not None:
        return store.artifact(pin.artifact_sha256)
    accept = Accept(correct=(pin.evidence.correct,), time=(pin.evidence.time,))
    found = store.find(pin.fingerprint, pin.binding_hash, accept, pin.card.name)
    return None if found is None else found.artifact
