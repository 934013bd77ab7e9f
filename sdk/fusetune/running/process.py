"""Where the functions of a process take kernels from that name no source of their own."""

from __future__ import annotations

import os

from fusetune.environment import Environment
from fusetune.pack import Pack
from fusetune.running.lock import LockedSource, lock_of, read_lock
from fusetune.running.packed import PackSource
from fusetune.running.source import KernelSource, ServiceSource
from fusetune.signer import Signer, SignKeyLike, signed_by
from fusetune.signing import TrustLike
from fusetune.store import Store
from fusetune.whole import written_whole

_DEFAULT: list[KernelSource] = []


def default_source() -> KernelSource:
    """The one that functions use which name no other: the store and the service of the environment, or what its lock
    names. Raises OSError, InvalidLock where FUSETUNE_LOCK names no lock."""
    if not _DEFAULT:
        locked = Environment.read().lock
        _DEFAULT.append(ServiceSource() if locked is None else LockedSource(read_lock(locked)))
    return _DEFAULT[0]


def use_source(source: KernelSource | None) -> None:
    """Another default for this process; None is the first again."""
    _DEFAULT[:] = [] if source is None else [source]


def use_lock(path: str | os.PathLike[str], store: Store | None = None, trust: TrustLike | None = None) -> None:
    """From now on functions take the kernels of this file alone, out of the store; `trust` as of `read_lock`.

    Raises OSError, InvalidLock, Untrusted, InvalidRequest, PackageMissing.
    """
    use_source(LockedSource(read_lock(path, trust), store))


def use_pack(pack: Pack | str | os.PathLike[str]) -> None:
    """From now on functions take the kernels of this pack alone. Raises OSError, InvalidPack, Untrusted."""
    use_source(PackSource(pack if isinstance(pack, Pack) else Pack.load(pack)))


def write_lock(
    path: str | os.PathLike[str], source: KernelSource | None = None, *, sign_key: SignKeyLike | None = None
) -> int:
    """Writes which kernels this process holds (those of `default_source()` unless another is named); returns how many.

    `sign_key`: the file of a private key (`python -m service signing create`) that signs the lock, for `trust` of
    `read_lock` and `service ci --trust`; without one it is not signed. Raises OSError; InvalidLock where a kernel is
    provisional; UnusableKey, PackageMissing, with nothing written.
    """
    signer = None if sign_key is None else Signer.load(sign_key)
    lock = signed_by(lock_of(source if source is not None else default_source()), signer)
    with written_whole(path) as part:
        part.write_text(lock.to_json(), encoding="utf-8")
    return len(lock.kernels)
