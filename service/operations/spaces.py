"""What a search would look through: points, legal ones, what each rule refuses, samples."""

from __future__ import annotations

from fusetune.wire.service import SchedulerSpace, SpaceRequest, SpaceView
from search.space.counted import MOST_COUNTED
from search.space.schedulers import refusals
from search.space.space import Space
from service.db import cards
from service.operations.cards import resolve
from service.operations.context import Context
from service.operations.errors import Busy
from service.operations.reading import identify
from service.operations.understanding import understand
from service.views import card_view


def describe(context: Context, request: SpaceRequest) -> SpaceView:
    """The spaces of all schedulers that take the fusion. Counting is exact and takes up to a second or two.

    Raises InvalidDocument, UnknownCard, Unsupported, OverLimit, and Busy while as many are counted as may be at once.
    """
    identity = identify(request.fusion, request.binding, context.settings.max_ops)
    asked = understand(request.fusion, request.binding)
    with context.db.write() as session:
        row = resolve(session, context, request.card)
        shown, card = card_view(row), cards.card_of(row)
    if not context.counting.acquire(blocking=False):
        raise Busy("Other spaces are being counted.")
    try:
        found = asked.schedulers(card)
        spaces = [_described(one.space(asked.bound, card.arch), request.samples, request.seed) for one in found]
        not_applicable = refusals(asked.bound, card)
    finally:
        context.counting.release()
    return SpaceView(
        fingerprint=identity.fingerprint,
        binding=identity.binding_hash,
        card=shown,
        schedulers=tuple(spaces),
        not_applicable=not_applicable,
    )


def _described(space: Space, samples: int, seed: int) -> SchedulerSpace:
    return SchedulerSpace(
        scheduler=space.name,
        knobs={knob.name: tuple(knob.values) for knob in space.knobs},
        points=min(MOST_COUNTED, space.points),
        legal=min(MOST_COUNTED, space.legal),
        refused={rule: min(MOST_COUNTED, count) for rule, count in space.refused.items()},
        reasons=space.reasons,
        samples=tuple(space.sample(samples, seed)),
    )
