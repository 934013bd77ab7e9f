"""Who stands for a document: a signature beside it, over bytes that its type names."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Base64Bytes, Field

from fusetune.wire.artifact import Wire


class Signature(Wire):
    """`value`: the 64 bytes of an Ed25519 signature (RFC 8032). `key`: the SHA-256 of the 32 bytes of the public key in
    hexadecimal. It says which key to look for, not that the key is to be trusted."""

    algorithm: Literal["ed25519"] = "ed25519"
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    value: Annotated[Base64Bytes, Field(min_length=64, max_length=64)]
