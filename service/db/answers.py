"""What an answer from the cache stands on, read in one statement: two equal readings mean two equal answers.

`directory` is all that says which card a request means; `facts` is all that a kernel's view shows. Neither is a counter
that somebody has to remember to raise: whoever changes a row, by whatever way, changes what is read here.
"""

from __future__ import annotations

from typing import Any
from typing import cast as cast_type

from sqlalchemy import JSON, Select, String, Text, and_, bindparam, case, cast, func, literal, null, or_, select
from sqlalchemy.sql.elements import BindParameter, ColumnElement

from service.db.kernels import ANSWERING, Key, parameter_type, wanted
from service.db.models import (
    ApiKeyRow,
    ArtifactRow,
    BaselineRow,
    CardRow,
    FusionRow,
    KernelRow,
    SignatureRow,
    TrialRow,
    TuningRow,
    WorkerRow,
)
from service.db.types import Moment

Facts = tuple[Any, ...]
"""The columns of a kernel, and of what is shown beside it."""


def _given(name: str, kind: Any) -> BindParameter[Any]:
    """A parameter that comes with each request, not when the statement is compiled."""
    return bindparam(name, None, kind, required=False)


def _text(column: Any) -> ColumnElement[str]:
    """A column as text that can be joined and compared: JSON as it is written, NULL as a sign that no text has."""
    return func.coalesce(cast(column, Text), literal("\x1f"))


def _line(*columns: Any) -> ColumnElement[str]:
    line = _text(columns[0])
    for column in columns[1:]:
        line = line.concat(literal("\x1e")).concat(_text(column))
    return line


def _all(line: ColumnElement[str]) -> ColumnElement[str]:
    return func.aggregate_strings(line, "\x1d")


_SINCE = _given("since", Moment())

_CARDS = (
    select(_all(_line(CardRow.id, CardRow.name, CardRow.source, CardRow.created_at)))
    .select_from(CardRow)
    .scalar_subquery()
)

_IS_ALIVE = and_(WorkerRow.stopped_at.is_(None), WorkerRow.heartbeat_at > _SINCE)
_WORKERS = (
    select(
        _all(
            _line(
                WorkerRow.id,
                WorkerRow.card_id,
                WorkerRow.attached,
                # Of a living one it does not matter when it was heard of, and that changes all the time.
                case((_IS_ALIVE, null()), else_=WorkerRow.heartbeat_at),
            )
        )
    )
    .select_from(WorkerRow)
    .scalar_subquery()
)

_BASELINES = (
    select(_all(_line(BaselineRow.name, BaselineRow.median_us, BaselineRow.recorded_at)))
    .where(
        BaselineRow.fingerprint == KernelRow.fingerprint,
        BaselineRow.binding == KernelRow.binding,
        BaselineRow.card_id == KernelRow.card_id,
        BaselineRow.policy == KernelRow.policy,
    )
    .correlate(KernelRow)
    .scalar_subquery()
)

_SIGNED = (
    select(_all(_line(SignatureRow.key, SignatureRow.signed_at)))
    .where(SignatureRow.artifact_sha256 == KernelRow.artifact_sha256)
    .correlate(KernelRow)
    .scalar_subquery()
)

_PREDICTED = (
    select(TrialRow.predicted_us)
    .where(TrialRow.tuning_id == KernelRow.tuning_id, TrialRow.number == KernelRow.trial_number)
    .correlate(KernelRow)
    .scalar_subquery()
)


def _plain(column: Any) -> ColumnElement[Any]:
    """A column in a form that can be compared: documents as text."""
    return cast(column, Text) if isinstance(column.type, JSON) else column


_FACTS = (
    *(_plain(column) for column in KernelRow.__table__.columns),
    *(_plain(column) for column in CardRow.__table__.columns),
    FusionRow.name,
    _BASELINES,
    _PREDICTED,
    _SIGNED,
)


def _joined(query: Select[Any]) -> Select[Any]:
    return (
        query.select_from(KernelRow)
        .join(CardRow, CardRow.id == KernelRow.card_id)
        .join(FusionRow, FusionRow.fingerprint == KernelRow.fingerprint)
        .where(ANSWERING)
    )


DIRECTORY = select(_CARDS.label("cards"), _WORKERS.label("workers"))
"""The cards, and the workers with what decides whose card a request means that names none; parameter `since`."""

ONE = _joined(select(_CARDS, _WORKERS, *_FACTS)).where(
    KernelRow.fingerprint == _given("fingerprint", String),
    KernelRow.binding == _given("binding", String),
    KernelRow.card_id == _given("card_id", String),
    KernelRow.policy == _given("policy", String),
)
"""Directory, then facts, of one key; parameters `since` and those of the key."""


def _many(dialect: str) -> Select[Any]:
    table, columns = wanted(dialect, _given("keys", parameter_type(dialect)))
    key = (KernelRow.fingerprint, KernelRow.binding, KernelRow.card_id, KernelRow.policy)
    query = select(*_FACTS).select_from(table)
    joined = and_(*(one == of for one, of in zip(key, columns, strict=True)), ANSWERING)
    query = query.join(KernelRow, joined).join(CardRow, CardRow.id == KernelRow.card_id)
    return query.join(FusionRow, FusionRow.fingerprint == KernelRow.fingerprint)


MANY = {dialect: _many(dialect) for dialect in ("sqlite", "postgresql")}
"""Facts of many keys, by dialect; parameter `keys` (`as_parameter`). What nothing answers for has no row."""

_PLACES = tuple(
    KernelRow.__table__.columns.keys().index(name) for name in ("fingerprint", "binding", "card_id", "policy")
)


def key_of(facts: Facts) -> Key:
    """The key that facts are of."""
    fingerprint, binding, card_id, policy = (facts[place] for place in _PLACES)
    return fingerprint, binding, card_id, policy


STORED = (
    select(KernelRow.id)
    .join(ArtifactRow, ArtifactRow.sha256 == KernelRow.artifact_sha256)
    .where(KernelRow.id == _given("id", String), ArtifactRow.pruned_at.is_(None))
)
"""The kernel of that id, if it is there with its code."""

_HOLDER = select(ApiKeyRow.name, ApiKeyRow.scope, ApiKeyRow.id, ApiKeyRow.requests_a_minute).where(
    ApiKeyRow.key_sha256 == _given("key_sha256", String),
    ApiKeyRow.revoked_at.is_(None),
    or_(ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > _given("at", Moment())),
)
HOLDER = cast_type("Select[Any]", _HOLDER)
"""Who holds an accepted key, and what it may do; parameters `key_sha256` and `at`, the moment."""

SENT_BEFORE = select(TuningRow.id).where(TuningRow.idempotency_key == _given("key", String))
"""The tuning that a request under this Idempotency-Key opened."""
