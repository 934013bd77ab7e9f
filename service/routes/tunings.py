"""Tunings: open or join one, look at it, watch it, cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

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
from service.operations import events, tunings
from service.operations.board import Board
from service.operations.errors import NotFound
from service.operations.tunings import TuningOrder
from service.problems import (
    BODY_TOO_LARGE,
    IDEMPOTENCY_CONFLICT,
    INVALID_REQUEST,
    NOT_FOUND,
    NOT_JSON,
    OVER_LIMIT,
    QUEUE_FULL,
    QUOTA_SPENT,
    RATE_LIMITED,
    UNKNOWN_CARD,
    UNSUPPORTED_FUSION,
    UNSUPPORTED_MEDIA_TYPE,
    problems,
)
from service.routes.dependencies import (
    PAGE_LIMIT,
    Actor,
    After,
    BodyHash,
    Ctx,
    HashFilter,
    IdempotencyKey,
    KeyId,
    Limit,
    as_json,
)
from service.routes.strict import strict_router

router = strict_router("tunings", "/v1/tunings")

_STOP_CHECK_S = 0.25
"""How soon an open stream notices that the server stops."""


@router.post(
    "",
    response_model=KernelView,
    responses={
        200: {"description": "The cache has a kernel whose evidence is accepted."},
        202: {
            "model": TuningView,
            "description": "A search: a new one, or one that is under way for the same fusion, binding and card; or "
            "one that has ended (`state`, `ended_at`, `note`) without anything that the request accepts, while nothing "
            "has changed since.",
            "headers": {"Location": {"schema": {"type": "string"}, "description": "Where to look at the tuning."}},
        },
        **problems(
            NOT_JSON, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, UNKNOWN_CARD, UNSUPPORTED_FUSION,
            OVER_LIMIT, IDEMPOTENCY_CONFLICT, QUEUE_FULL, QUOTA_SPENT, RATE_LIMITED,
        ),
    },
)  # fmt: skip
def open_tuning(
    body: TuningRequest,
    context: Ctx,
    actor: Actor,
    key_id: KeyId,
    sent: BodyHash,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Ask for the fastest correct kernel of a fusion: answered from the cache, or by a search.

    What was searched for in vain is not searched for again while cards, generator, verifier, budget and `accept` are
    the same, unless `refresh` is set.
    """
    found = tunings.open_or_answer(context, body, TuningOrder(actor, idempotency_key, sent, key_id))
    if isinstance(found, KernelView):
        return as_json(found)
    return as_json(found, 202, {"Location": f"{router.prefix}/{found.id}"})


@router.get("", response_model=Tunings)
def list_tunings(
    context: Ctx,
    state: TuningState | None = None,
    fingerprint: HashFilter = None,
    after: After = None,
    limit: Limit = PAGE_LIMIT,
) -> Response:
    """Tunings, the newest first."""
    return as_json(tunings.page(context, after, limit, state, fingerprint))


@router.get("/{tuning_id}", response_model=TuningView, responses=problems(NOT_FOUND))
def get_tuning(tuning_id: str, context: Ctx) -> Response:
    """A tuning: its request, how far it is, and how it ended."""
    return as_json(tunings.get(context, tuning_id))


@router.delete(
    "/{tuning_id}",
    response_model=TuningView,
    responses={
        200: {"description": "It had ended."},
        202: {"model": TuningView, "description": "It is asked to stop."},
        **problems(NOT_FOUND),
    },
)
def cancel_tuning(tuning_id: str, context: Ctx, actor: Actor) -> Response:
    """Cancel a tuning. One that no worker has begun ends at once; one that has ended stays as it is."""
    view, is_news = tunings.cancel(context, tuning_id, actor)
    return as_json(view, 202 if is_news or view.state in ACTIVE else 200)


@router.get("/{tuning_id}/trials", response_model=Trials, responses=problems(NOT_FOUND))
def list_trials(
    tuning_id: str,
    context: Ctx,
    state: Annotated[list[TrialStateName], Query(description="Repeat it for several.")] = [],  # noqa: B006 (FastAPI copies it)
    after: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    limit: Limit = PAGE_LIMIT,
) -> Response:
    """What happened to each candidate, in order of number."""
    return as_json(tunings.trials_of(context, tuning_id, after, limit, state))


@router.get("/{tuning_id}/history.t4.json", responses=problems(NOT_FOUND))
def get_history(tuning_id: str, context: Ctx) -> dict[str, Any]:
    """All trials with a verdict in T4, the results format of Kernel Tuner and other tuners; times in milliseconds."""
    return tunings.history_of(context, tuning_id)


_URGENT = 4
"""How many times as often it is looked for news of a tuning of which somebody waits for the first kernel."""


async def _first_event(tuning_id: str, context: Ctx) -> events.Event:
    """Asked before the stream begins: an unknown tuning is a 404, not a stream without events."""
    return await run_in_threadpool(events.latest, context, tuning_id)


@router.get(
    "/{tuning_id}/events",
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "Events `progress`, then one `end`; the data of each is a TuningView. With `changes`, that "
            "of the first and of `end`; in between come events `change`, with those of its fields that have changed."
        },
        **problems(NOT_FOUND),
    },
)
async def watch_tuning(
    tuning_id: str,
    request: Request,
    context: Ctx,
    first: Annotated[events.Event, Depends(_first_event)],
    changes: Annotated[bool, Query(description="Between the first event and the last, only what has changed.")] = False,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events: `progress` whenever the tuning has changed, and `end`, the last one."""
    event, sent = first, request.headers.get("last-event-id")
    told: events.Event | None = None
    board: Board = request.app.state.board
    while True:
        if event.id != sent or event.name == "end":
            if changes and told is not None and event.name != "end":
                yield ServerSentEvent(raw_data=events.change(told, event), event="change", id=event.id)
            else:
                yield ServerSentEvent(raw_data=event.data, event=event.name, id=event.id)
            told, sent = event, event.id
        pause_s = context.settings.poll_s / (_URGENT if event.is_urgent else 1)
        if event.name == "end" or await _is_over(request, pause_s):
            return
        try:
            event = await board.following(tuning_id) or event
        except NotFound:  # it ended and was deleted between two looks: who asks again is told so
            return


async def _is_over(request: Request, pause_s: float) -> bool:
    """Waits for `pause_s`; True at once when the server stops or the client has left."""
    stopping = request.app.state.stopping
    loop = asyncio.get_running_loop()
    until = loop.time() + pause_s
    while not stopping.is_set():
        left = until - loop.time()
        if left <= 0:
            return await request.is_disconnected()
        await asyncio.sleep(min(left, _STOP_CHECK_S))
    return True
