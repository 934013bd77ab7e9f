"""Whose kernels a program loads: public keys, and signatures that are held against them before anything is loaded.

A public key is written `ed25519:` and the base64 of its 32 bytes (RFC 8032). Whoever is told none checks hashes only.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fusetune.environment import Environment
from fusetune.errors import InvalidRequest, PackageMissing, Untrusted
from fusetune.wire.fusion import show
from fusetune.wire.problems import Problem
from fusetune.wire.signature import PREFIX, Signature, kernel_bytes, key_id

TrustLike = str | os.PathLike[str] | Iterable[str]
"""A public key, several, or a file of them: one a line, `#` begins a comment."""

_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Trust:
    """Public keys, by the hash that signatures name them by. One of them must have signed what is loaded."""

    keys: dict[str, bytes]

    @classmethod
    def of(cls, given: TrustLike) -> Trust:
        """The keys that are meant. Raises InvalidRequest for what is no key, and for none."""
        words = _words(given)
        if not words:
            raise _no_key("nothing")
        found = [public_key(word) for word in words]
        return cls({key_id(key): key for key in found})

    def check_kernel(self, where: str, content: bytes, signatures: Sequence[Signature]) -> None:
        """Raises Untrusted unless one of the keys has signed the artifact `content`; PackageMissing."""
        self.check(where, kernel_bytes(sha256(content).hexdigest()), signatures)

    def check(self, where: str, message: bytes, signatures: Sequence[Signature]) -> None:
        """Raises Untrusted unless one of the keys has signed `message`; PackageMissing."""
        ours = [one for one in signatures if one.key in self.keys]
        if not ours:
            named = ", ".join(one.key[:16] for one in signatures)
            raise Untrusted(where, f"it is signed by {named} only" if named else "it is not signed")
        if not any(_is_by(self.keys[one.key], one.value, message) for one in ours):
            raise Untrusted(where, f"the signature of {ours[0].key[:16]} is not over this content")


def public_key(text: str) -> bytes:
    """The 32 bytes of a key as it is written. Raises InvalidRequest."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True) if text.startswith(PREFIX) else b""
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise _no_key(show(text[:80]))
    return key


def process_trust() -> Trust | None:
    """The keys of FUSETUNE_TRUST, None if it is not set. Raises InvalidRequest."""
    word = Environment.read().trust
    return None if word is None else _of_variable(word)


@lru_cache(maxsize=8)
def _of_variable(word: str) -> Trust:
    return Trust.of(word)


def _words(given: TrustLike) -> list[str]:
    if isinstance(given, str) and given.strip().startswith(PREFIX):
        return [word.strip() for word in given.split(",") if word.strip()]
    if not isinstance(given, str | os.PathLike):
        return list(given)
    try:
        lines = Path(given).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise _no_key(f"{show(str(given)[:80])}, a file that cannot be read ({error})") from None
    return [text for line in lines if (text := line.partition("#")[0].strip())]


def _no_key(found: str) -> InvalidRequest:
    expected = f"{PREFIX} and the base64 of a public key's {_KEY_BYTES} bytes, or a file of such lines"
    fix = "Take what `python -m service signing public FILE` prints."
    return InvalidRequest((Problem("trust", found, expected, fix),))


def _is_by(key: bytes, signature: bytes, message: bytes) -> bool:
    invalid, kind = _cryptography()
    try:
        kind.from_public_bytes(key).verify(signature, message)
    except (invalid, ValueError):
        return False
    return True


def _cryptography() -> tuple[type[Exception], Any]:
    """Raises PackageMissing."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ModuleNotFoundError:
        raise PackageMissing("whose kernels are taken was said", "cryptography", "sign") from None
    return InvalidSignature, Ed25519PublicKey
