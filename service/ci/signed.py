"""Who stands for a lock: a signature over all its entries, written with a private key, held against public ones."""

from __future__ import annotations

from pathlib import Path

from fusetune.errors import Untrusted
from fusetune.signing import Trust
from service.ci.lock import CiLock, LockError
from service.signing import Signer


def check_signature(path: Path, lock: CiLock, trust: Trust) -> None:
    """Raises LockError unless one of the keys has signed these entries; PackageMissing."""
    try:
        trust.check(str(path), lock.signed_bytes(), () if lock.signature is None else (lock.signature,))
    except Untrusted as error:
        raise LockError(path, (f"{error.reason}, expected a signature of a key of --trust.",)) from None


def signed_by(lock: CiLock, signer: Signer | None) -> CiLock:
    """The lock with the signature of this key; without a key, one whose entries have changed has none."""
    return lock if signer is None else lock.model_copy(update={"signature": signer.signature(lock.signed_bytes())})
