"""Who stands for a lock: a signature over all its entries, held against public keys."""

from __future__ import annotations

from pathlib import Path

from fusetune.errors import Untrusted
from fusetune.signing import Trust
from fusetune.wire.lock import Lock
from service.ci.lock import LockError


def check_signature(path: Path, lock: Lock, trust: Trust) -> None:
    """Raises LockError unless one of the keys has signed these entries; PackageMissing."""
    try:
        trust.check(str(path), lock.signed_bytes(), () if lock.signature is None else (lock.signature,))
    except Untrusted as error:
        raise LockError(path, (f"{error.reason}, expected a signature of a key of --trust.",)) from None
