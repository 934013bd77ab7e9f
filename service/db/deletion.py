"""Kernels and fusions that somebody wants gone: taken out of the tables, and never taken in again under their id.

A kernel that is deleted leaves its id in `deleted_kernels`: whoever finds the same bytes again, a search that goes on
or a pack, is refused by `service.db.kernels.publish`. What its key answers with from then on is nothing, not the kernel
before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, exists, func, select
from sqlalchemy.orm import Session

from service.db import kernels
from service.db.models import (
    ArtifactRow,
    BaselineRow,
    BindingRow,
    DeletedKernelRow,
    FusionRow,
    KernelRow,
    SampleRow,
    SignatureRow,
    TrialRow,
    TuningRow,
)

_ACTIVE = ("queued", "running")


class InUse(Exception):
    """Tunings of the fusion have not ended: `tuning_ids`."""

    def __init__(self, tuning_ids: tuple[str, ...]) -> None:
        super().__init__(tuning_ids)
        self.tuning_ids = tuning_ids

    def __str__(self) -> str:
        return f"{len(self.tuning_ids)} tunings of the fusion have not ended: {', '.join(self.tuning_ids[:_NAMED])}."


_NAMED = 5


@dataclass(frozen=True, slots=True)
class DeletedFusion:
    """How much went with a fusion."""

    kernels: int
    tunings: int
    trials: int


def deleted(session: Session, id: str) -> DeletedKernelRow | None:
    """What is left of a deleted kernel; None if no kernel of this id was deleted."""
    return session.get(DeletedKernelRow, id)


def delete_kernel(session: Session, id: str) -> KernelRow | None:
    """Take a kernel out with its code, whether it answers or not; returns what it was, None if there is no such kernel.

    Its tuning and trial stay: they say what was tried and how long it took.
    """
    row = kernels.get(session, id)
    if row is None:
        return None
    kernels.take_turn(session, (row.fingerprint, row.binding, row.card_id, row.policy))
    row = session.get(KernelRow, id, populate_existing=True)  # somebody may have been first
    if row is not None:
        session.expunge(row)
        _take_out(session, KernelRow.id == id)
    return row


def delete_fusion(session: Session, fingerprint: str) -> DeletedFusion | None:
    """Take a fusion out with all that is known of it; None if there is no such fusion.

    Raises InUse while one of its tunings has not ended.
    """
    # Whoever posts the fusion meanwhile waits for these rows, and makes them anew.
    if session.get(FusionRow, fingerprint, with_for_update=True) is None:
        return None
    session.scalars(select(BindingRow.hash).where(BindingRow.fingerprint == fingerprint).with_for_update()).all()
    own = select(TuningRow.id).where(TuningRow.fingerprint == fingerprint)
    if active := session.scalars(own.where(TuningRow.state.in_(_ACTIVE)).order_by(TuningRow.created_at)).all():
        raise InUse(tuple(active))
    gone = DeletedFusion(
        kernels=_count(session, KernelRow, KernelRow.fingerprint == fingerprint),
        tunings=_count(session, TuningRow, TuningRow.fingerprint == fingerprint),
        trials=_count(session, TrialRow, TrialRow.tuning_id.in_(own)),
    )
    _take_out(session, KernelRow.fingerprint == fingerprint)
    session.execute(delete(SampleRow).where(SampleRow.tuning_id.in_(own)), execution_options=_UNSEEN)
    session.execute(delete(TrialRow).where(TrialRow.tuning_id.in_(own)), execution_options=_UNSEEN)
    for row in (TuningRow, BaselineRow, BindingRow, FusionRow):
        session.execute(delete(row).where(row.fingerprint == fingerprint), execution_options=_UNSEEN)
    session.expire_all()
    return gone


_UNSEEN = {"synchronize_session": False}


def _count(session: Session, row: type[KernelRow | TuningRow | TrialRow], which: ColumnElement[bool]) -> int:
    return session.scalar(select(func.count()).select_from(row).where(which)) or 0


def _take_out(session: Session, which: ColumnElement[bool]) -> None:
    """Kernels and their artifacts; their ids stay behind."""
    columns = (KernelRow.id, KernelRow.fingerprint, KernelRow.artifact_sha256)
    found = session.execute(select(*columns).where(which)).all()
    session.execute(delete(KernelRow).where(which), execution_options=_UNSEEN)
    for id, fingerprint, sha256 in found:
        session.merge(DeletedKernelRow(id=id, fingerprint=fingerprint))
        is_used = exists().where(KernelRow.artifact_sha256 == sha256)
        session.execute(
            delete(SignatureRow).where(SignatureRow.artifact_sha256 == sha256, ~is_used), execution_options=_UNSEEN
        )
        unused = delete(ArtifactRow).where(ArtifactRow.sha256 == sha256, ~is_used)
        session.execute(unused, execution_options=_UNSEEN)
    session.flush()
