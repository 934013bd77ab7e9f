"""Who stands for a document: a signature beside it, over bytes that its type names."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Literal

from pydantic import Base64Bytes, Field

from fusetune.wire.artifact import Wire
from fusetune.wire.patterns import HASH


class Signature(Wire):
    """`value`: the 64 bytes of an Ed25519 signature (RFC 8032). `key`: the SHA-256 of the 32 bytes of the public key in
    hexadecimal. It says which key to look for, not that the key is to be trusted."""

    algorithm: Literal["ed25519"] = "ed25519"
    key: Annotated[str, Field(pattern=HASH)]
    value: Annotated[Base64Bytes, Field(strict=False, min_length=64, max_length=64)]


PREFIX = "ed25519:"
"""How a public key begins where people write it; the base64 of its bytes follows."""


def key_id(public_key: bytes) -> str:
    """What a signature names a key by."""
    return sha256(public_key).hexdigest()


def kernel_bytes(artifact_sha256: str) -> bytes:
    """What a signature of a kernel is over: the hash of its artifact's bytes, and that it is one of a kernel."""
    return f"fusetune.kernel/1 sha256 {artifact_sha256}".encode()
