"""Signatures of artifacts: who stands for them, by key."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from fusetune.wire.signature import Signature
from service.db.models import ArtifactRow, KernelRow, SignatureRow
from service.db.once import find_or_add
from service.db.types import now


def put(session: Session, artifact_sha256: str, key: str, value: bytes) -> None:
    """Keep the signature of an artifact that is stored; one of the same key is replaced."""
    row, is_new = find_or_add(
        session,
        lambda: session.get(SignatureRow, (artifact_sha256, key)),
        lambda: SignatureRow(artifact_sha256=artifact_sha256, key=key, value=value),
    )
    if not is_new and row.value != value:
        row.value, row.signed_at = value, now()


def of(session: Session, artifacts: Sequence[str]) -> dict[str, tuple[Signature, ...]]:
    """The signatures of each artifact, in the order of their keys."""
    found: dict[str, tuple[Signature, ...]] = {}
    query = select(SignatureRow).where(SignatureRow.artifact_sha256.in_(list(dict.fromkeys(artifacts))))
    for row in session.scalars(query.order_by(SignatureRow.key)):
        one = Signature(key=row.key, value=base64.b64encode(row.value))
        found[row.artifact_sha256] = (*found.get(row.artifact_sha256, ()), one)
    return found


def unsigned(session: Session, key: str, among: Sequence[str] | None = None) -> Sequence[str]:
    """Artifacts of kernels, replaced ones too, that have their code and no signature of this key; of these, or all."""
    signed = select(SignatureRow.artifact_sha256).where(SignatureRow.key == key)
    query = select(ArtifactRow.sha256).where(
        ArtifactRow.sha256.in_(select(KernelRow.artifact_sha256)),
        ArtifactRow.pruned_at.is_(None),
        ArtifactRow.sha256.not_in(signed),
    )
    if among is not None:
        query = query.where(ArtifactRow.sha256.in_(among))
    return session.scalars(query.order_by(ArtifactRow.sha256)).all()


def forget(session: Session, key: str) -> int:
    """Take away what a key has signed, once it is not to be trusted any more; returns how many signatures went."""
    held = session.scalars(select(SignatureRow.artifact_sha256).where(SignatureRow.key == key)).all()
    session.execute(delete(SignatureRow).where(SignatureRow.key == key))
    return len(held)
