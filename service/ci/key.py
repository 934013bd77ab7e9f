"""What an entry of the lock is looked up by, and in plain words why one does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusetune.wire.binding import Binding
from search.measure.device import TIMING_POLICY
from service.ci.folder import LockSubject
from service.ci.lock import CiEntry

_HASH_CHARS = 12
"""Of a hash, enough to tell two apart in a message."""


@dataclass(frozen=True, slots=True)
class Key:
    """Fingerprint and binding of the file, card of the machine (or the one asked for), and how we time."""

    subject: LockSubject
    card: str
    policy: str = TIMING_POLICY


def differences(entry: CiEntry, key: Key) -> tuple[str, ...]:
    """Every part of the key that differs: the field, the lock's value, the value found. None: the entry is a hit."""
    return tuple(_differences(entry, key))


def _differences(entry: CiEntry, key: Key) -> Iterator[str]:
    fusion = key.subject.fusion
    if entry.fingerprint != fusion.fingerprint:
        yield (
            f"fingerprint: the lock has {_short(entry.fingerprint)}, the file {_short(fusion.fingerprint)}: "
            "its operators, shapes or dtypes are others"
        )
    if entry.binding_hash != fusion.binding_hash:
        yield from _binding_differences(entry, key.subject)
    if entry.card.name != key.card:
        yield f"card: the lock has {entry.card.name}, found {key.card}"
    if entry.policy != key.policy:
        yield f"policy: the lock has {entry.policy}, this version times by {key.policy}"


def _binding_differences(entry: CiEntry, subject: LockSubject) -> Iterator[str]:
    found = [*_size_differences(entry.binding, subject.binding), *_layout_differences(entry.binding, subject)]
    if found or entry.fingerprint != subject.fusion.fingerprint:
        yield from found
        return
    hashes = f"the lock has {_short(entry.binding_hash)}, found {_short(subject.fusion.binding_hash)}"
    yield f"binding: {hashes}: the sizes are equal, but belong to other symbols"


def _size_differences(locked: Binding, found: Binding) -> Iterator[str]:
    for symbol in sorted({*locked.sizes, *found.sizes}):
        before, now = locked.sizes.get(symbol), found.sizes.get(symbol)
        if before != now:
            yield f"size {symbol}: the lock has {_or_none(before)}, found {_or_none(now)}"


def _layout_differences(locked: Binding, subject: LockSubject) -> Iterator[str]:
    found = subject.binding.inputs
    if len(locked.inputs) != len(found):
        yield f"inputs: the lock has {len(locked.inputs)}, found {len(found)}"
        return
    for position, (before, now) in enumerate(zip(locked.inputs, found, strict=True)):
        where = f"input {position} ({subject.input_names[position]})"
        if before.strides != now.strides:
            yield f"{where}: strides: the lock has {list(before.strides or ())}, found {list(now.strides or ())}"
        if before.align != now.align:
            yield f"{where}: align: the lock has {before.align}, found {now.align}"


def _short(digest: str) -> str:
    return digest[:_HASH_CHARS]


def _or_none(size: int | None) -> str:
    return "none" if size is None else str(size)
