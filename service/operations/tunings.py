"""Tunings: opened, joined or answered from the cache; listed, looked at and cancelled."""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from fusetune.wire import t4
from fusetune.wire.artifact import TIMING_POLICY
from fusetune.wire.printing import fusion_text
from fusetune.wire.service import (
    ACTIVE,
    KernelView,
    Trials,
    TrialStateName,
    TuningRequest,
    Tunings,
    TuningState,
    TuningView,
)
from service.db import cards, fusions, keys, trials, tunings
from service.db.kernels import Key
from service.db.models import CardRow, TuningRow
from service.operations.answers import Meant, Question
from service.operations.asked_before import nothing_new
from service.operations.cards import current, resolve
from service.operations.context import Context
from service.operations.errors import IdempotencyConflict, NotFound, OverLimit, QueueFull
from service.operations.kernels import answer
from service.operations.paging import cursor_faults
from service.operations.quotas import priority_of, spend
from service.operations.reading import Identity, identify
from service.views import trial_view, tuning_views

if TYPE_CHECKING:
    from service.operations.understanding import Asked


@dataclass(frozen=True, slots=True)
class TuningOrder:
    """Who asks, under which Idempotency-Key, and the hash of the request's bytes where they may come again.

    `key_id`: the API key that a search counts against.
    """

    actor: str
    idempotency_key: str | None = None
    body_sha256: bytes | None = None
    key_id: str | None = None


def open_or_answer(context: Context, request: TuningRequest, order: TuningOrder) -> KernelView | TuningView:
    """A kernel that the cache has, else the tuning that looks for one: a new one, or one in flight with the same key.
    A search that came to nothing is the answer again, as it ended, while nothing has changed since.

    Raises InvalidDocument, UnknownCard, Unsupported, OverLimit, QueueFull, QuotaSpent and IdempotencyConflict.
    """
    if request.budget_s > context.settings.max_budget_s:
        raise OverLimit(
            f"budget_s: found {request.budget_s:g}, at most {context.settings.max_budget_s:g} is given here.",
            "Ask for less; a later request goes on from the cache.",
        )
    call = _Call(request, order, identify(request.fusion, request.binding, context.settings.max_ops))
    with context.db.read() as session:  # most requests end here, without a writer's lock
        before = context.answers.directory(session)
        card = current(session, context, request.card)
        known = _known(session, context, call, card)
        if isinstance(known, KernelView) and card is not None:
            _note(session, context, call, card, known, before)
    if known is not None:
        return known
    from service.operations.understanding import decidable  # `service.later`

    asked = decidable(request.fusion, request.binding)
    for _ in range(_LOOKS - 1):
        # Between our look and our insert, another request took the Idempotency-Key; or the tuning to join has ended.
        with contextlib.suppress(IntegrityError, _TooLate):
            return _open(context, call, asked)
    return _open(context, call, asked)


_LOOKS = 4
"""Times that a request is looked at anew before what came between is an error."""


class _TooLate(Exception):
    """The tuning that a request was to join has ended just now."""


@dataclass(frozen=True)
class _Call:
    """A request, who asks, and what its fusion and binding are called."""

    request: TuningRequest
    order: TuningOrder
    identity: Identity

    def key(self, card: CardRow) -> Key:
        """What the cache knows its answer by."""
        return self.identity.fingerprint, self.identity.binding_hash, card.id, TIMING_POLICY

    @cached_property
    def sha256(self) -> str:
        """What an Idempotency-Key stands for."""
        return hashlib.sha256(self.request.model_dump_json(by_alias=True).encode()).hexdigest()


def _known(session: Session, context: Context, call: _Call, card: CardRow | None) -> KernelView | TuningView | None:
    """The tuning that this very request opened before, else a kernel of the cache, else the tuning that has searched
    for it in vain. Raises IdempotencyConflict."""
    key = call.order.idempotency_key
    before = None if key is None else tunings.by_idempotency_key(session, key)
    if key is not None and before is not None:
        if before.request_sha256 != call.sha256:
            raise IdempotencyConflict(key)
        return tuning_views(session, [before])[0]
    if card is None or call.request.refresh:
        return None
    cached = call.key(card)
    if (found := answer(session, [cached], call.request.accept, call.request.want)[0]) is not None:
        return found
    ended = nothing_new(session, context, call.request, cached, card)
    return None if ended is None else tuning_views(session, [ended])[0]


def _note(
    session: Session, context: Context, call: _Call, card: CardRow, view: KernelView, before: tuple[str, str]
) -> None:
    """Keep an answer of the cache, to be told again while what it stands on stays.

    A worker can come to count as dead between two looks at one snapshot, never to life: if both saw the same, so did
    whoever chose the card between them.
    """
    body, key = call.order.body_sha256, call.key(card)
    cards, workers = context.answers.directory(session)
    facts = context.answers.facts(session, [key]).get(key)
    if body is None or facts is None or (cards, workers) != before:
        return
    context.answers.write(key, facts, view)
    request = call.request
    meant = Meant(card.id, cards, None if request.card is not None else workers)
    context.answers.mean(request.card, meant)
    context.answers.note(body, Question(key, meant, request.accept, request.want))


def _open(context: Context, call: _Call, asked: Asked) -> KernelView | TuningView:
    with context.db.write() as session:
        card = resolve(session, context, call.request.card)
        if (known := _known(session, context, call, card)) is not None:
            return known
        asked.schedulers(cards.card_of(card))
        row, is_new = _row_of(session, context, call, asked, card)
        view = tuning_views(session, [row])[0]
    if is_new:
        context.handover.hand(row.id, row.queue, row.priority)
    return view


def _row_of(session: Session, context: Context, call: _Call, asked: Asked, card: CardRow) -> tuple[TuningRow, bool]:
    """The tuning in flight with the same key, or a new one. Raises QueueFull, QuotaSpent, OverLimit, _TooLate.

    Who has a tuning in flight go on for longer pays for all of it.
    """
    request, order = call.request, call.order
    fingerprint, binding, policy = call.identity.fingerprint, call.identity.binding_hash, TIMING_POLICY
    joined = tunings.active(session, fingerprint, binding, card.id, policy)
    if joined is None and (waiting := tunings.queued(session)) >= context.settings.max_queued:
        raise QueueFull(waiting)
    is_longer = joined is not None and request.budget_s > joined.budget_s
    if joined is None or is_longer:
        spend(session, order.key_id, request.budget_s, None if joined is None else joined.id)
    document = asked.fusion.model_dump(mode="json", by_alias=True, exclude_none=True)
    fusions.put(session, fingerprint, document, fusion_text(asked.fusion), request.name)
    fusions.put_binding(session, fingerprint, binding, asked.binding.model_dump(mode="json", exclude_none=True))
    row, is_new = tunings.open_or_join(
        session,
        TuningRow(
            id=uuid.uuid4().hex,
            fingerprint=fingerprint,
            binding=binding,
            card_id=card.id,
            policy=policy,
            queue=context.handover.queue_for(session, card.id),
            name=request.name,
            accept=request.accept.model_dump(mode="json"),
            refresh=request.refresh,
            want=request.want,
            enough=None if request.enough is None else request.enough.model_dump(),
            budget_s=request.budget_s,
            trials_limit=request.trials,
            payer=order.key_id,
            priority=priority_of(session, order.key_id),
            idempotency_key=order.idempotency_key,
            request_sha256=call.sha256,
        ),
    )
    if not is_new:
        if is_longer:
            row.payer = order.key_id
        wishes = (request.trials, request.refresh, request.want, request.enough, request.accept)
        if not tunings.extend(session, row.id, request.budget_s, *wishes):
            raise _TooLate
    keys.audit(session, order.actor, "tuning.opened" if is_new else "tuning.joined", row.id)
    return row, is_new


def page(
    context: Context, after: str | None, limit: int, state: TuningState | None, fingerprint: str | None
) -> Tunings:
    """Tunings, the newest first. Raises InvalidDocument for a bad cursor."""
    with context.db.read() as session, cursor_faults(after):
        found = tunings.page(session, after, limit, state, fingerprint)
        return Tunings(items=tuple(tuning_views(session, found.rows)), next=found.next)


def get(context: Context, id: str) -> TuningView:
    """One tuning as it stands. Raises NotFound."""
    with context.db.read() as session:
        return tuning_views(session, [_row(session, id)])[0]


def trials_of(context: Context, id: str, after: int | None, limit: int, states: Sequence[TrialStateName]) -> Trials:
    """Trials of a tuning in order of number. Raises NotFound."""
    with context.db.read() as session:
        _row(session, id)
        rows, following = trials.page(session, id, after, limit, states)
        return Trials(items=tuple(trial_view(row) for row in rows), next=following)


def history_of(context: Context, id: str) -> dict[str, Any]:
    """All trials of a tuning with a verdict, in T4, the format that tuners share. Raises NotFound."""
    with context.db.read() as session:
        row = _row(session, id)
        card = cards.get(session, row.card_id)
        told = {
            "fingerprint": row.fingerprint,
            "binding": row.binding,
            "device": None if card is None else card.name,
            "policy": row.policy,
            "tuning": id,
        }
        return t4.written(trials.every(session, id), told)


def cancel(context: Context, id: str, actor: str) -> tuple[TuningView, bool]:
    """Ask a tuning to stop; one that no worker has begun ends at once, one that has ended stays.

    Returns how it stands, and whether it was asked for the first time. Raises NotFound.
    """
    with context.db.write() as session:
        before = _row(session, id)
        was_queued = before.state == "queued"
        is_news = before.state in ACTIVE and not before.cancel_requested
        row = tunings.request_cancel(session, id)
        assert row is not None
        if is_news:
            keys.audit(session, actor, "tuning.cancelled", id)
        view = tuning_views(session, [row])[0]
    if was_queued and view.state == "cancelled":
        context.handover.drop(id)
    return view, is_news


def _row(session: Session, id: str) -> TuningRow:
    row = tunings.get(session, id)
    if row is None:
        raise NotFound("tuning", id, "GET /v1/tunings")
    return row
