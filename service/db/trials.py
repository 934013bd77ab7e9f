"""Trials and their samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, select, tuple_, update
from sqlalchemy.orm import Session, aliased

from compiler.renamed import rule_today
from service.db.models import SampleRow, TrialRow, TuningRow
from service.db.once import find_or_add
from service.db.types import now

_COLUMNS = (
    "state", "scheduler", "point", "reason", "violations", "predicted_us", "predicted_terms",
    "median_us", "p10_us", "p90_us", "resources", "code_hash", "launch_hash", "duplicate_of", "seconds",
)  # fmt: skip
_EMPTY: Mapping[str, type] = {"reason": str, "violations": list, "seconds": dict}
"""What a column holds where the trial leaves it out; the others hold NULL."""

_LAST = 2**31 - 1
"""The highest number that the column holds on PostgreSQL."""


def record(session: Session, tuning_id: str, trial: Mapping[str, Any]) -> None:
    """Keep a trial as `Trial.to_json` writes it; one of the same number is replaced, samples and all."""
    number = trial["number"]
    values = {name: trial.get(name, _EMPTY[name]() if name in _EMPTY else None) for name in _COLUMNS}
    row, is_new = find_or_add(
        session,
        lambda: session.get(TrialRow, (tuning_id, number)),
        lambda: TrialRow(tuning_id=tuning_id, number=number, **values),
    )
    if not is_new:
        for name, value in values.items():
            setattr(row, name, value)
        row.recorded_at = now()
        session.execute(delete(SampleRow).where(SampleRow.tuning_id == tuning_id, SampleRow.number == number))
    if taken := trial.get("samples_us"):
        session.execute(
            insert(SampleRow).values(
                tuning_id=tuning_id, number=number, samples_us=list(taken), conditions=trial.get("conditions") or None
            )
        )
    session.flush()


def add_all(session: Session, tuning_id: str, found: Sequence[Mapping[str, Any]]) -> None:
    """Keep trials of a tuning that has none yet, without samples."""
    rows = [
        {name: trial.get(name, _EMPTY[name]() if name in _EMPTY else None) for name in _COLUMNS}
        | {"tuning_id": tuning_id, "number": trial["number"]}
        for trial in found
    ]
    if rows:
        session.execute(insert(TrialRow), rows)


def violations_today(violations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Stored violations under the names that their rules have today."""
    return [{**violation, "rule": rule_today(violation["rule"])} for violation in violations]


def set_aside(session: Session, tuning_id: str, reason: str) -> None:
    """Trials so far count no more, and their candidates may be tried again; `reason` says why.

    Numbers and figures stay. Their code and launch are no longer what the candidates stand for, so those go.
    """
    query = update(TrialRow).where(TrialRow.tuning_id == tuning_id)
    session.execute(query.values(state="cancelled", reason=reason, code_hash=None, launch_hash=None))


def as_json(row: TrialRow, samples_us: Sequence[float], conditions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The row as `search.tuning.trial.Trial.from_json` reads it."""
    data: dict[str, Any] = {"number": row.number, "samples_us": list(samples_us), "conditions": conditions}
    data |= {name: getattr(row, name) for name in _COLUMNS}
    return {name: value for name, value in data.items() if value is not None}


def every(session: Session, tuning_id: str) -> list[dict[str, Any]]:
    """All trials of a tuning in order of number, for `search.tuning.trial.Trial.from_json`."""
    kept = select(SampleRow).where(SampleRow.tuning_id == tuning_id)
    samples = {row.number: (row.samples_us, row.conditions) for row in session.scalars(kept)}
    rows = session.scalars(select(TrialRow).where(TrialRow.tuning_id == tuning_id).order_by(TrialRow.number))
    return [as_json(row, *samples.get(row.number, ((), None))) for row in rows]


def page(
    session: Session, tuning_id: str, after: int | None, limit: int, states: Sequence[str] = ()
) -> tuple[Sequence[TrialRow], int | None]:
    """Trials with a number above `after`, and the `after` of the next page."""
    query = select(TrialRow).where(TrialRow.tuning_id == tuning_id).order_by(TrialRow.number)
    if after is not None:
        query = query.where(TrialRow.number > max(-1, min(after, _LAST)))
    if states:
        query = query.where(TrialRow.state.in_(states))
    rows = session.scalars(query.limit(limit + 1)).all()
    return rows[:limit], rows[limit - 1].number if len(rows) > limit else None


def get(session: Session, tuning_id: str | None, number: int | None) -> TrialRow | None:
    """One trial, None if there is no such one, or it is not said which."""
    if tuning_id is None or number is None or not 0 <= number <= _LAST:
        return None
    return session.get(TrialRow, (tuning_id, number))


def samples(session: Session, tuning_id: str, number: int) -> list[float]:
    """All samples of one trial's time, in microseconds."""
    row = session.get(SampleRow, (tuning_id, number)) if 0 <= number <= _LAST else None
    return [] if row is None else list(row.samples_us)


def counts_by_state(session: Session, tuning_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """For each tuning, its trials by state."""
    query = (
        select(TrialRow.tuning_id, TrialRow.state, func.count())
        .where(TrialRow.tuning_id.in_(tuning_ids))
        .group_by(TrialRow.tuning_id, TrialRow.state)
        .order_by(TrialRow.state)
    )
    found: dict[str, dict[str, int]] = {id: {} for id in tuning_ids}
    for tuning_id, state, count in session.execute(query):
        found[tuning_id][state] = count
    return found


def totals_by_state(session: Session) -> dict[str, int]:
    """All trials of all tunings by state."""
    query = select(TrialRow.state, func.count()).group_by(TrialRow.state).order_by(TrialRow.state)
    return dict(session.execute(query).all())


def timed_count(session: Session, card_id: str, generator: str) -> int:
    """How many trials of a generator were measured on a card, of all tunings."""
    query = select(func.count()).select_from(TrialRow).join(TuningRow, TuningRow.id == TrialRow.tuning_id)
    return session.scalar(query.where(*_measured_on(card_id, generator))) or 0


def timed(session: Session, card_id: str, generator: str, limit: int) -> list[tuple[str, TrialRow]]:
    """The newest of these, each with what names its fusion as bound."""
    query = (
        select(TuningRow.fingerprint, TuningRow.binding, TrialRow)
        .join(TuningRow, TuningRow.id == TrialRow.tuning_id)
        .where(*_measured_on(card_id, generator))
        .order_by(TuningRow.created_at.desc(), TrialRow.tuning_id, TrialRow.number)
        .limit(limit)
    )
    return [(f"{fingerprint} {binding}", row) for fingerprint, binding, row in session.execute(query)]


def _measured_on(card_id: str, generator: str) -> tuple[ColumnElement[bool], ...]:
    """`TuningRow.generator` has more than the generator's name, behind a comma."""
    is_of = TuningRow.generator.startswith(f"{generator},", autoescape=True)
    return TuningRow.card_id == card_id, is_of, TrialRow.state == "measured"


def best(session: Session, tuning_id: str) -> TrialRow | None:
    """The fastest measured trial; duplicates are no kernels of their own."""
    return best_of(session, [tuning_id]).get(tuning_id)


def best_of(session: Session, tuning_ids: Sequence[str]) -> dict[str, TrialRow]:
    """The fastest measured trial of each tuning that has one; of equally fast ones the first."""
    other = aliased(TrialRow)
    fastest = (
        select(other.number)
        .where(other.tuning_id == TuningRow.id, other.state == "measured", other.median_us.is_not(None))
        .order_by(other.median_us, other.number)
        .limit(1)
        .correlate(TuningRow)
        .scalar_subquery()
    )
    query = select(TrialRow).join(TuningRow, TrialRow.tuning_id == TuningRow.id)
    rows = session.scalars(query.where(TuningRow.id.in_(tuning_ids), TrialRow.number == fastest))
    return {row.tuning_id: row for row in rows}


def predicted(session: Session, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], float]:
    """What the model expected of trials, by tuning and number; those without a prediction are left out."""
    wanted = list(dict.fromkeys(places))
    if not wanted:
        return {}
    query = select(TrialRow.tuning_id, TrialRow.number, TrialRow.predicted_us).where(
        tuple_(TrialRow.tuning_id, TrialRow.number).in_(wanted), TrialRow.predicted_us.is_not(None)
    )
    return {(id, number): float(us) for id, number, us in session.execute(query) if us is not None}


def proven(session: Session, fingerprint: str, binding: str, card_ids: Sequence[str]) -> list[dict[str, Any]]:
    """The candidates that the emulator found right in tunings of a fusion on these cards, the best predicted first."""
    query = select(TrialRow.scheduler, TrialRow.point).join(TuningRow, TrialRow.tuning_id == TuningRow.id)
    query = query.where(
        TuningRow.fingerprint == fingerprint,
        TuningRow.binding == binding,
        TuningRow.card_id.in_(card_ids),
        TrialRow.state == "verified",
    )
    rows = session.execute(query.order_by(TrialRow.predicted_us.is_(None), TrialRow.predicted_us, TrialRow.number))
    return [{"scheduler": scheduler, "point": point} for scheduler, point in rows]


def predictions(session: Session, tuning_id: str) -> list[tuple[int, float]]:
    """Number and predicted time of every trial that was compiled and not timed, in order of number: no measurement, but
    what a model expects of a kernel that is right, or may be."""
    expected, states = TrialRow.predicted_us, ("verified", "compiled")
    query = select(TrialRow.number, expected).where(
        TrialRow.tuning_id == tuning_id, TrialRow.state.in_(states), expected.is_not(None)
    )
    return [(number, float(us)) for number, us in session.execute(query.order_by(TrialRow.number)) if us is not None]


def history(session: Session, tuning_id: str) -> list[tuple[int, float]]:
    """Number and median of every measured trial, in order of number: what a best-so-far curve is made of."""
    query = select(TrialRow.number, TrialRow.median_us).where(
        TrialRow.tuning_id == tuning_id, TrialRow.state == "measured", TrialRow.median_us.is_not(None)
    )
    return [(number, float(us)) for number, us in session.execute(query.order_by(TrialRow.number)) if us is not None]
