"""Cards and the workers that serve them."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from fusetune.wire.service import Cards
from service.operations import cards
from service.routes.dependencies import EVERYWHERE, Ctx, as_json
from service.routes.strict import StrictRoute

router = APIRouter(prefix="/v1/cards", tags=["cards"], route_class=StrictRoute, responses=EVERYWHERE)


@router.get("", response_model=Cards)
def list_cards(context: Ctx) -> Response:
    """All cards that a worker had or a request named, those with a living worker first."""
    return as_json(cards.listing(context))
