"""What is shown at a glance and no endpoint asks for: fusions with kernels, trials in the order of their times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from sqlalchemy import Select, case, func, or_, select, tuple_
from sqlalchemy.orm import Session, aliased

from service.db import trials
from service.db.models import BindingRow, CardRow, FusionRow, KernelRow, TrialRow, TuningRow
from service.db.pages import Page, after, cursor_of

R = TypeVar("R")

TrialOrder = Literal["fastest", "number", "newest"]
"""`fastest`: measured trials by their median, then verified ones by what a model expects, then the others by number."""


def fusion_page(
    session: Session, cursor: str | None, limit: int, words: str = "", card_id: str | None = None
) -> Page[FusionRow]:
    """Fusions, the newest first, in whose name, printed form or fingerprint every word of `words` stands.

    With `card_id`, those that have a kernel or a tuning on that card. Raises BadCursor.
    """
    query = after(select(FusionRow), FusionRow.created_at, FusionRow.fingerprint, cursor)
    for word in words.split():
        query = query.where(
            or_(
                FusionRow.name.icontains(word, autoescape=True),
                FusionRow.text.icontains(word, autoescape=True),
                FusionRow.fingerprint.startswith(word.lower(), autoescape=True),
            )
        )
    if card_id is not None:
        # Every kernel comes from a tuning, but one may outlive it: both are asked.
        tuned = select(TuningRow.fingerprint).where(TuningRow.card_id == card_id)
        served = select(KernelRow.fingerprint).where(KernelRow.card_id == card_id)
        query = query.where(or_(FusionRow.fingerprint.in_(tuned), FusionRow.fingerprint.in_(served)))
    rows = session.scalars(query.limit(limit + 1)).all()
    return Page.of(rows, limit, lambda row: cursor_of(row.created_at, row.fingerprint))


def newest_kernels(
    session: Session, fingerprints: Sequence[str], each: int, card_id: str | None = None
) -> dict[str, list[KernelRow]]:
    """For each fingerprint up to `each` current kernels, the newest first."""
    query = select(KernelRow).where(KernelRow.fingerprint.in_(fingerprints), KernelRow.superseded_at.is_(None))
    if card_id is not None:
        query = query.where(KernelRow.card_id == card_id)
    place = func.row_number().over(
        partition_by=KernelRow.fingerprint, order_by=(KernelRow.created_at.desc(), KernelRow.id.desc())
    )
    ranked = query.add_columns(place.label("place")).subquery()
    kernel = aliased(KernelRow, ranked)
    found: dict[str, list[KernelRow]] = {fingerprint: [] for fingerprint in fingerprints}
    for row in session.scalars(select(kernel).where(ranked.c.place <= each).order_by(ranked.c.place)):
        found[row.fingerprint].append(row)
    return found


def kernel_counts(session: Session, fingerprints: Sequence[str], card_id: str | None = None) -> dict[str, int]:
    """For each fingerprint the number of its current kernels."""
    query = select(KernelRow.fingerprint, func.count()).where(
        KernelRow.fingerprint.in_(fingerprints), KernelRow.superseded_at.is_(None)
    )
    if card_id is not None:
        query = query.where(KernelRow.card_id == card_id)
    return dict(session.execute(query.group_by(KernelRow.fingerprint)).all())


def newest_tunings(session: Session, fingerprints: Sequence[str], card_id: str | None = None) -> dict[str, TuningRow]:
    """The newest tuning of each fingerprint that has one."""
    query = select(TuningRow).where(TuningRow.fingerprint.in_(fingerprints))
    if card_id is not None:
        query = query.where(TuningRow.card_id == card_id)
    place = func.row_number().over(
        partition_by=TuningRow.fingerprint, order_by=(TuningRow.created_at.desc(), TuningRow.id.desc())
    )
    ranked = query.add_columns(place.label("place")).subquery()
    tuning = aliased(TuningRow, ranked)
    return {row.fingerprint: row for row in session.scalars(select(tuning).where(ranked.c.place == 1))}


def bindings(session: Session, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The documents of bindings by fingerprint and hash."""
    wanted = tuple_(BindingRow.fingerprint, BindingRow.hash).in_(list(dict.fromkeys(keys)))
    return {(row.fingerprint, row.hash): row.document for row in session.scalars(select(BindingRow).where(wanted))}


def documents(session: Session, fingerprints: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The documents of fusions by fingerprint."""
    wanted = FusionRow.fingerprint.in_(list(dict.fromkeys(fingerprints)))
    query = select(FusionRow.fingerprint, FusionRow.document).where(wanted)
    return dict(session.execute(query).all())


def used_cards(session: Session) -> Sequence[CardRow]:
    """Cards that have been tuned for, by name."""
    tuned = select(TuningRow.card_id)
    return session.scalars(select(CardRow).where(CardRow.id.in_(tuned)).order_by(CardRow.name, CardRow.id)).all()


def trial_page(
    session: Session, tuning_id: str, order: TrialOrder, offset: int, limit: int, state: str | None = None
) -> Sequence[TrialRow]:
    """`limit` trials of a tuning from `offset` on, in the order asked for."""
    places = select(TrialRow.number).where(TrialRow.tuning_id == tuning_id)
    if state is not None:
        places = places.where(TrialRow.state == state)
    # Numbers are put in order, not whole trials: what is far behind would carry all before it through the sorting.
    shown = _ordered(places, order).offset(offset).limit(limit).scalar_subquery()
    query = select(TrialRow).where(TrialRow.tuning_id == tuning_id, TrialRow.number.in_(shown))
    return session.scalars(_ordered(query, order)).all()


def _ordered(query: Select[R], order: TrialOrder) -> Select[R]:
    match order:
        case "number":
            return query.order_by(TrialRow.number)
        case "newest":
            return query.order_by(TrialRow.number.desc())
        case "fastest":
            how_far = case((TrialRow.state == "measured", 0), (TrialRow.state == "verified", 1), else_=2)
            # Without a time of its own a trial stands by its number: a duplicate's median belongs to another trial.
            median = case((TrialRow.state == "measured", TrialRow.median_us), else_=None)
            guess = case((TrialRow.state == "verified", TrialRow.predicted_us), else_=None)
            return query.order_by(how_far, median, guess, TrialRow.number)


@dataclass(frozen=True, slots=True)
class RuleRefusals:
    """How many trials a rule refused, and the violation of the first of them."""

    trials: int
    first: dict[str, Any]


def refusals(session: Session, tuning_id: str) -> dict[str, RuleRefusals]:
    """Refused trials of a tuning by rule; a trial that breaks a rule twice counts once."""
    query = select(TrialRow.violations).where(TrialRow.tuning_id == tuning_id, TrialRow.state == "illegal")
    counts: Counter[str] = Counter()
    first: dict[str, dict[str, Any]] = {}
    for violations in session.scalars(query.order_by(TrialRow.number)):
        by_rule = {violation["rule"]: violation for violation in reversed(trials.violations_today(violations))}
        counts.update(by_rule.keys())
        first = by_rule | first
    return {rule: RuleRefusals(count, first[rule]) for rule, count in counts.most_common()}
