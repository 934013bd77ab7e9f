"""A private key to sign with: Ed25519 (RFC 8032), PKCS #8 in a PEM file. Workers, `service ci` and locks use it."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fusetune.errors import PackageMissing, UnusableKey
from fusetune.wire.lock import Lock
from fusetune.wire.signature import PREFIX, Signature, key_id

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SignKeyLike = str | os.PathLike[str]
"""The file of a private key."""

AnyLock = TypeVar("AnyLock", bound=Lock)


def signed_by(lock: AnyLock, signer: Signer | None) -> AnyLock:
    """The lock with the signature of this key; without a key as it is."""
    return lock if signer is None else lock.model_copy(update={"signature": signer.signature(lock.signed_bytes())})


class Signer:
    """Signs with one private key, which it never shows."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self._public = private.public_key().public_bytes_raw()

    @property
    def key(self) -> str:
        """What its signatures name the key by."""
        return key_id(self._public)

    @property
    def public(self) -> str:
        """The public key as people write it."""
        return f"{PREFIX}{base64.b64encode(self._public).decode()}"

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of the signature; the same message has the same one."""
        return self._private.sign(message)

    def signature(self, message: bytes) -> Signature:
        """The same, as it travels."""
        return Signature(key=self.key, value=base64.b64encode(self.sign(message)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Signer:
        """The key in a file. Raises UnusableKey, PackageMissing."""
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ModuleNotFoundError:
            raise _missing() from None
        try:
            found = load_pem_private_key(Path(path).read_bytes(), None)
        except OSError as error:
            raise UnusableKey(str(path), error.strerror or "it cannot be read") from None
        except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it needs a password
            raise UnusableKey(str(path), "found no private key without a password in PEM") from None
        if not isinstance(found, Ed25519PrivateKey):
            raise UnusableKey(str(path), "found a private key of another kind, expected Ed25519")
        return cls(found)

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Signer:
        """A new key, in a new file that only its owner reads. Raises UnusableKey, PackageMissing."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        except ModuleNotFoundError:
            raise _missing() from None
        private = Ed25519PrivateKey.generate()
        text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(text)
        except OSError as error:
            raise UnusableKey(str(path), error.strerror or "it cannot be written") from None
        return cls(private)


def _missing() -> PackageMissing:
    return PackageMissing("a key to sign with was named", "cryptography", "sign")
