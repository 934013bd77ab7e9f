"""The form by which a browser gets a key into its cookie, where the service demands one."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from service.auth import COOKIE, LOGIN, KeyRing
from service.dashboard.guard import PAGE_HEADERS
from service.dashboard.templating import render

router = APIRouter(include_in_schema=False)

_KEPT_S = 30 * 24 * 3600
"""How long a browser keeps the key."""


@router.get(LOGIN)
async def form(next: str = "/") -> Response:
    """The form."""
    return _page(next, "")


@router.post(LOGIN)
async def log_in(request: Request) -> Response:
    """Keeps the key in the browser if it is accepted, and goes on to the page that asked for it."""
    async with request.form(max_files=0, max_fields=8) as fields:
        key, following = str(fields.get("key", "")).strip(), str(fields.get("next", "/"))
    ring: KeyRing = request.app.state.ring
    if not key or await run_in_threadpool(ring.holder, key) is None:
        return _page(following, "This key is not accepted.", 401)
    response = RedirectResponse(_local(following), 303)
    is_https = request.url.scheme == "https"
    response.set_cookie(COOKIE, key, max_age=_KEPT_S, httponly=True, samesite="strict", secure=is_https)
    return response


@router.post("/logout")
async def log_out() -> Response:
    """Takes the key out of the browser."""
    response = RedirectResponse(LOGIN, 303)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def _local(path: str) -> str:
    """`path` if it is one of this host, else the first page: nobody is sent elsewhere after a login."""
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_local else "/"


def _page(following: str, message: str, status: int = 200) -> HTMLResponse:
    page = render("login.html", section="", message=message, following=_local(following), address=LOGIN)
    return HTMLResponse(page, status, {**PAGE_HEADERS, "Cache-Control": "no-store"})
