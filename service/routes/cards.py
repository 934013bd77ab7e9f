"""Cards and the workers that serve them."""

from __future__ import annotations

from starlette.responses import Response

from fusetune.wire.service import Cards
from service.operations import cards
from service.routes.dependencies import Ctx, as_json
from service.routes.strict import strict_router

router = strict_router("cards", "/v1/cards")


@router.get("", response_model=Cards)
def list_cards(context: Ctx) -> Response:
    """All cards that a worker had or a request named, those with a living worker first."""
    return as_json(cards.listing(context))
