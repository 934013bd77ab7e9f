"""A pack of what a lock names, out of a store."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from fusetune.errors import InvalidLock
from fusetune.pack import check_out
from fusetune.running.lock import locked_kernel, read_lock
from fusetune.signer import Signer, SignKeyLike
from fusetune.store import Store
from fusetune.whole import written_whole
from fusetune.wire.pack import PackWriter, pack_bytes
from fusetune.wire.wheel import named


def build(
    lock: str | os.PathLike[str],
    out: str | os.PathLike[str],
    store: Store | None = None,
    sign_key: SignKeyLike | None = None,
) -> str:
    """Writes the kernels of a lock, one of `service ci` or of `fusetune.write_lock`, into a pack; returns its hash.

    They come from the store, with what was known of them there. A name that ends in `.whl` makes a wheel of it,
    `sign_key` signs it. Raises OSError, UnusableKey, PackageMissing; InvalidRequest for a name that no wheel may have;
    InvalidLock for a lock that is none or that names what the store has not; what a kernel that cannot be used raises.
    """
    check_out(out)
    signer = None if sign_key is None else Signer.load(sign_key)
    found = read_lock(lock)
    if not found.kernels:
        raise InvalidLock(str(lock), "it names no kernel")
    held = store if store is not None else Store()
    pack = PackWriter()
    for entry in found.kernels:
        what = f"kernel {entry.code_hash[:12]} for {entry.card.name}"
        data, _ = locked_kernel(entry, held)
        view = held.view(entry.fingerprint, entry.binding_hash, sha256(data).hexdigest())
        if view is None:
            raise InvalidLock(what, f"{held!r} has its code, and not what was known of it: fetch it from its service")
        pack.add(view, data, entry.binding)
    if signer is not None:
        pack.sign([signer.signature(pack_bytes(pack.sha256))])
    with written_whole(out) as part:
        part.write_bytes(named(Path(out).name, pack.content()))
    return pack.sha256
