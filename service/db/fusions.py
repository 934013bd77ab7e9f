"""Fusions and their bindings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.db.models import BindingRow, FusionRow, KernelRow, TuningRow
from service.db.once import find_or_add
from service.db.pages import Page, after, cursor_of


def put(session: Session, fingerprint: str, document: Mapping[str, Any], text: str, name: str | None) -> FusionRow:
    """The fusion's row, made if it is not there; a name sticks to the first that has one."""
    row, _ = find_or_add(
        session,
        lambda: session.get(FusionRow, fingerprint),
        lambda: FusionRow(fingerprint=fingerprint, document=dict(document), text=text, name=name),
    )
    row.name = row.name or name
    return row


def put_binding(session: Session, fingerprint: str, binding: str, document: Mapping[str, Any]) -> BindingRow:
    """The binding's row, made if it is not there."""
    row, _ = find_or_add(
        session,
        lambda: session.get(BindingRow, (fingerprint, binding)),
        lambda: BindingRow(fingerprint=fingerprint, hash=binding, document=dict(document)),
    )
    return row


def get(session: Session, fingerprint: str) -> FusionRow | None:
    """The fusion, None if it was never posted."""
    return session.get(FusionRow, fingerprint)


def get_binding(session: Session, fingerprint: str, binding: str) -> BindingRow | None:
    """The binding of that fusion, None if it was never posted."""
    return session.get(BindingRow, (fingerprint, binding))


def names(session: Session, fingerprints: Iterable[str]) -> dict[str, str | None]:
    """The names of those fusions; their documents are not read."""
    query = select(FusionRow.fingerprint, FusionRow.name).where(FusionRow.fingerprint.in_(set(fingerprints)))
    return dict(session.execute(query).all())


def page(session: Session, cursor: str | None, limit: int) -> Page[FusionRow]:
    """Fusions, the newest first. Raises BadCursor."""
    query = after(select(FusionRow), FusionRow.created_at, FusionRow.fingerprint, cursor)
    rows = session.scalars(query.limit(limit + 1)).all()
    return Page.of(rows, limit, lambda row: cursor_of(row.created_at, row.fingerprint))


def counts(session: Session, fingerprints: Sequence[str]) -> dict[str, tuple[int, int]]:
    """For each fingerprint, its tunings and its current kernels."""
    tunings = select(TuningRow.fingerprint, func.count()).where(TuningRow.fingerprint.in_(fingerprints))
    kernels = select(KernelRow.fingerprint, func.count()).where(
        KernelRow.fingerprint.in_(fingerprints), KernelRow.superseded_at.is_(None)
    )
    by_tuning: dict[str, int] = dict(session.execute(tunings.group_by(TuningRow.fingerprint)).all())
    by_kernel: dict[str, int] = dict(session.execute(kernels.group_by(KernelRow.fingerprint)).all())
    return {f: (by_tuning.get(f, 0), by_kernel.get(f, 0)) for f in fingerprints}
