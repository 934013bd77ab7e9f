"""The dashboard's addresses. `request.app.state` holds what they work with: `db`, `settings`, `context`."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

from fusetune.wire.service import TrialStateName, TuningState
from service.dashboard.assets import CACHE_CONTROL, PREFIX, asset_named
from service.dashboard.faults import PageFault, PageRoute, not_found
from service.dashboard.guard import is_same_origin
from service.dashboard.live import Live
from service.dashboard.pages import api, cards, fusions, tuning, tunings
from service.dashboard.pages.tuning import TrialsShown
from service.dashboard.snippets import first_request, kernel_call
from service.dashboard.templating import render
from service.db.engine import Database
from service.db.overview import TrialOrder
from service.openapi import kept
from service.operations import tunings as operations
from service.operations.context import Context
from service.operations.errors import NotFound
from service.operations.presence import alive_since
from service.settings import Settings

router = APIRouter(route_class=PageRoute, include_in_schema=False, default_response_class=HTMLResponse)

Fingerprint = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
Id = Annotated[str, Path(pattern="^[0-9a-f]{1,32}$")]
Cursor = Annotated[str | None, Query(max_length=160, pattern="^[0-9A-Za-z:.+~-]*$")]
ACTOR = "dashboard"
"""Who cancels, for the audit, where nothing has settled who asks."""

Nothing = Literal[""]
"""What a form sends for a field that is left alone."""


def _db(request: Request) -> Database:
    db: Database = request.app.state.db
    return db


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _url(request: Request) -> str:
    return str(request.base_url).rstrip("/")


@router.get("/")
def show_fusions(
    request: Request,
    q: Annotated[str, Query(max_length=200)] = "",
    card: Annotated[str, Query(pattern="^[0-9a-f]{0,32}$")] = "",
    after: Cursor = None,
) -> str:
    """Fusions and their kernels."""
    words = q.replace("\0", "").strip()
    with _db(request).read() as session:
        page = fusions.fusion_list(session, words, card or None, after or None, alive_since(_settings(request)))
    snippets = first_request(_url(request))
    return render(
        "fusions.html", section="Fusions", page=page, words=words, card_id=card, after=after, snippets=snippets
    )


@router.get("/fusions/{fingerprint}")
def show_fusion(request: Request, fingerprint: Fingerprint) -> str:
    """One fusion, its kernels and tunings."""
    with _db(request).read() as session:
        page = fusions.fusion_page(session, fingerprint)
    return render("fusion.html", section="Fusions", page=page)


@router.get("/tunings")
def show_tunings(
    request: Request,
    state: TuningState | Nothing = "",
    fingerprint: Annotated[str, Query(pattern="^([0-9a-f]{64})?$")] = "",
    after: Cursor = None,
) -> str:
    """Tunings, filtered by state."""
    with _db(request).read() as session:
        page = tunings.tuning_list(session, state or None, fingerprint or None, after or None)
    return render("tunings.html", section="Tunings", page=page, state=state, fingerprint=fingerprint, after=after)


def _shown(state: TrialStateName | Nothing, order: TrialOrder, page: int) -> TrialsShown:
    return TrialsShown(state or None, order, page)


PageNumber = Annotated[int, Query(ge=1, le=100_000)]


@router.get("/tunings/{id}")
def show_tuning(
    request: Request,
    id: Id,
    state: TrialStateName | Nothing = "",
    order: TrialOrder = "fastest",
    page: PageNumber = 1,
) -> str:
    """One tuning; its parts that change are asked for again by the page while it runs."""
    with _db(request).read() as session:
        found = tuning.tuning_page(session, id, _shown(state, order, page), alive_since(_settings(request)))
    live = Live.of(found)
    return render("tuning.html", section="Tunings", page=found, live=live)


@router.get("/tunings/{id}/live")
def show_live(
    request: Request,
    id: Id,
    state: TrialStateName | Nothing = "",
    order: TrialOrder = "fastest",
    page: PageNumber = 1,
    seen: Annotated[str, Query(max_length=16)] = "",
) -> Response:
    """The parts that change, or 204 if the reader has `seen` them as they are."""
    with _db(request).read() as session:
        found = tuning.tuning_page(session, id, _shown(state, order, page), alive_since(_settings(request)))
    live = Live.of(found)
    if seen == live.mark:
        return Response(status_code=204)
    return HTMLResponse(render("tuning_live.html", page=found, live=live))


@router.post("/tunings/{id}/cancel")
def cancel_tuning(request: Request, id: Id) -> RedirectResponse:
    """Ask a tuning to stop, and go back to its page."""
    if not is_same_origin(request.headers):
        raise PageFault(403, "Not cancelled", "The request did not come from a page of this dashboard. Use its button.")
    context: Context = request.app.state.context
    try:
        operations.cancel(context, id, getattr(request.state, "actor", ACTOR))
    except NotFound:
        raise not_found("tuning", id) from None
    return RedirectResponse(f"/tunings/{id}", status_code=303)


@router.get("/tunings/{id}/chart.json")
def show_tuning_chart(request: Request, id: Id) -> JSONResponse:
    """The best-so-far figure."""
    with _db(request).read() as session:
        return JSONResponse(tuning.tuning_chart(session, id))


@router.get("/kernels/{id}")
def show_kernel(request: Request, id: Id) -> str:
    """One kernel with its evidence and code."""
    from service.dashboard.pages import kernel  # `service.later`

    with _db(request).read() as session:
        page = kernel.kernel_page(session, id)
    view = page.result.kernel
    snippet = kernel_call(_url(request), view.card.id, page.document, page.binding, page.artifact)
    return render("kernel.html", section="Fusions", page=page, snippet=snippet)


@router.get("/kernels/{id}/samples.json")
def show_samples(request: Request, id: Id) -> JSONResponse:
    """The figure of a kernel's samples."""
    from service.dashboard.pages import kernel  # `service.later`

    with _db(request).read() as session:
        return JSONResponse(kernel.samples_chart(session, id))


@router.get("/cards")
def show_cards(request: Request) -> str:
    """Cards and their workers."""
    with _db(request).read() as session:
        statuses = cards.card_list(session, alive_since(_settings(request)))
    return render("cards.html", section="Cards", statuses=statuses)


@router.get("/docs")
def show_api(request: Request) -> str:
    """The REST API."""
    return render("api.html", section="API", page=api.api_page(kept(request.app)))


@router.get(PREFIX + "{name:path}")
def serve_asset(name: str, accept_encoding: Annotated[str, Header()] = "") -> Response:
    """A script, style or picture of ours."""
    asset = asset_named(name)
    if asset is None:
        raise PageFault(404, "No such file", "Its name holds a hash of its content; this one is not of this version.")
    headers = {"Cache-Control": CACHE_CONTROL, "Vary": "Accept-Encoding"}
    if "gzip" in accept_encoding:
        return Response(asset.zipped, media_type=asset.media_type, headers=headers | {"Content-Encoding": "gzip"})
    return Response(asset.content, media_type=asset.media_type, headers=headers)
