"""What is not kept for ever: code that nothing answers with, samples, workers long gone, Idempotency-Keys.

Knobs, predicted terms, times and states of trials stay, whatever their age: later searches learn from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, false, func, or_, select, update
from sqlalchemy.orm import Session

from service.db import cards
from service.db.engine import Database
from service.db.models import ArtifactRow, KernelRow, SampleRow, TuningRow, WorkerRow
from service.db.types import now

BATCH = 100
"""Rows, or tunings, of one transaction: nobody waits long for the next."""

_ACTIVE = ("queued", "running")


@dataclass(frozen=True, slots=True)
class Keep:
    """For how many days each is kept; None for ever.

    `code_days`: the artifact, source and cubin in one, of a kernel from the day that another took its place.
    `samples_days` and `idempotency_days`: from the end of their tuning. `workers_days`: since the worker was heard of.
    """

    code_days: float | None
    samples_days: float | None
    workers_days: float | None
    idempotency_days: float | None


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many of each went: artifacts, and their bytes; trials without samples; workers; keys without a tuning."""

    code: int = 0
    code_bytes: int = 0
    samples: int = 0
    workers: int = 0
    idempotency_keys: int = 0


def prunable(database: Database, keep: Keep) -> Pruned:
    """What `prune` would take away now; nothing is changed."""
    at = now()
    with database.read() as session:
        codes = select(func.count(), func.sum(func.length(ArtifactRow.content)))
        code, code_bytes = session.execute(codes.where(ArtifactRow.sha256.in_(_code(_since(at, keep.code_days))))).one()
        samples = select(func.count()).select_from(SampleRow)
        ended = _sampled(_since(at, keep.samples_days))
        return Pruned(
            code=code,
            code_bytes=code_bytes or 0,
            samples=session.scalar(samples.where(SampleRow.tuning_id.in_(ended))) or 0,
            workers=len(_workers(session, _since(at, keep.workers_days))),
            idempotency_keys=_count(session, _keyed(_since(at, keep.idempotency_days))),
        )


def prune(database: Database, keep: Keep) -> Pruned:
    """Take away what is older than `keep` says, in short transactions; returns how much it was.

    May be run at any time and by several at once, and be killed: what is left is taken by the next run.
    """
    at = now()
    code = _in_batches(database, lambda session: _prune_code(session, _since(at, keep.code_days)))
    samples = _in_batches(database, lambda session: _prune_samples(session, _since(at, keep.samples_days)))
    workers = _in_batches(database, lambda session: _prune_workers(session, _since(at, keep.workers_days)))
    keys = _in_batches(database, lambda session: _prune_keys(session, _since(at, keep.idempotency_days)))
    return Pruned(
        code=sum(count for count, _ in code),
        code_bytes=sum(size for _, size in code),
        samples=sum(count for count, _ in samples),
        workers=sum(count for count, _ in workers),
        idempotency_keys=sum(count for count, _ in keys),
    )


def _since(at: datetime, days: float | None) -> datetime | None:
    return None if days is None else at - timedelta(days=days)


def _in_batches(database: Database, once: Callable[[Session], tuple[int, int]]) -> list[tuple[int, int]]:
    """What each transaction took away, a count and bytes, until one finds nothing."""
    found: list[tuple[int, int]] = []
    while True:
        with database.write() as session:
            taken = once(session)
        if not taken[0]:
            return found
        found.append(taken)


def _code(before: datetime | None) -> Select[Any]:
    """Hashes of artifacts that only kernels need which another replaced, all of them before that moment."""
    if before is None:
        return select(ArtifactRow.sha256).where(false())
    needed = select(KernelRow.artifact_sha256).where(
        or_(KernelRow.superseded_at.is_(None), KernelRow.superseded_at >= before)
    )
    replaced = select(KernelRow.artifact_sha256).where(KernelRow.superseded_at < before)
    return select(ArtifactRow.sha256).where(
        ArtifactRow.pruned_at.is_(None), ArtifactRow.sha256.in_(replaced), ArtifactRow.sha256.not_in(needed)
    )


def _prune_code(session: Session, before: datetime | None) -> tuple[int, int]:
    shas = session.scalars(_code(before).limit(BATCH)).all()
    size = select(func.sum(func.length(ArtifactRow.content))).where(ArtifactRow.sha256.in_(shas))
    size_bytes = (session.scalar(size) or 0) if shas else 0
    taken = update(ArtifactRow).where(ArtifactRow.sha256.in_(shas), ArtifactRow.pruned_at.is_(None))
    session.execute(taken.values(content=b"", pruned_at=now()))
    return len(shas), size_bytes


def _sampled(before: datetime | None) -> Select[Any]:
    """Tunings that ended before that moment and have samples."""
    query = select(TuningRow.id).where(TuningRow.id.in_(select(SampleRow.tuning_id)))
    return query.where(_ended(before))


def _ended(before: datetime | None) -> ColumnElement[bool]:
    if before is None:
        return false()
    return and_(TuningRow.state.not_in(_ACTIVE), TuningRow.ended_at < before)


def _prune_samples(session: Session, before: datetime | None) -> tuple[int, int]:
    ids = session.scalars(_sampled(before).limit(BATCH)).all()
    return _rows(session.execute(delete(SampleRow).where(SampleRow.tuning_id.in_(ids)))), 0


def _rows(result: Any) -> int:
    count: int = result.rowcount
    return count


def _workers(session: Session, before: datetime | None) -> Sequence[str]:
    """Workers not heard of since that moment.

    One that a tuning still names stays, since whoever cancels that asks whether it lives; so do those whose card is
    meant by a request that names none while no worker lives.
    """
    if before is None:
        return []
    heard = cards.last_heard(session)
    meant = [next(iter(heard), None), next((one for one in heard if not cards.is_invented(session, one.card_id)), None)]
    kept = {one.id for one in meant if one is not None}
    busy = set(session.scalars(select(TuningRow.worker_id).where(TuningRow.state.in_(_ACTIVE))))
    return [one.id for one in heard if one.heartbeat_at < before and one.id not in kept | busy]


def _prune_workers(session: Session, before: datetime | None) -> tuple[int, int]:
    ids = _workers(session, before)[:BATCH]
    if not ids or before is None:
        return 0, 0
    # It may be up again by now.
    return _rows(session.execute(delete(WorkerRow).where(WorkerRow.id.in_(ids), WorkerRow.heartbeat_at < before))), 0


def _keyed(before: datetime | None) -> Select[Any]:
    return select(TuningRow.id).where(TuningRow.idempotency_key.is_not(None), _ended(before))


def _count(session: Session, query: Select[Any]) -> int:
    return session.scalar(select(func.count()).select_from(query.subquery())) or 0


def _prune_keys(session: Session, before: datetime | None) -> tuple[int, int]:
    ids = session.scalars(_keyed(before).limit(BATCH)).all()
    session.execute(update(TuningRow).where(TuningRow.id.in_(ids)).values(idempotency_key=None))
    return len(ids), 0
