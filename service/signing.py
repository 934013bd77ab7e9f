"""The private key that this service's workers sign kernels with: Ed25519 (RFC 8032), PKCS #8 in a PEM file."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from fusetune.wire.signature import PREFIX, Signature, key_id


class UnusableKey(Exception):
    """A file that holds no private key to sign with: `path`, and `reason`."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"signing key {self.path}: {self.reason}. Make one with `python -m service signing create FILE`."


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
    def load(cls, path: Path) -> Signer:
        """The key in a file. Raises UnusableKey."""
        try:
            found = load_pem_private_key(path.read_bytes(), None)
        except OSError as error:
            raise UnusableKey(path, error.strerror or "it cannot be read") from None
        except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it needs a password
            raise UnusableKey(path, "found no private key without a password in PEM") from None
        if not isinstance(found, Ed25519PrivateKey):
            raise UnusableKey(path, "found a private key of another kind, expected Ed25519")
        return cls(found)

    @classmethod
    def create(cls, path: Path) -> Signer:
        """A new key, in a new file that only its owner reads. Raises UnusableKey."""
        private = Ed25519PrivateKey.generate()
        text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(text)
        except OSError as error:
            raise UnusableKey(path, error.strerror or "it cannot be written") from None
        return cls(private)
