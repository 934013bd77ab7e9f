"""The form by which a browser gets a key into its cookie, where the service demands one."""

from __future__ import annotations

from html import escape

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from service.auth import COOKIE, LOGIN, KeyRing

router = APIRouter(include_in_schema=False)

_KEPT_S = 30 * 24 * 3600
"""How long a browser keeps the key."""

_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cache-Control": "no-store",
}

_STYLE = """\
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { display: grid; min-height: 90vh; place-items: center; margin: 1rem }
form { display: grid; gap: .75rem; width: min(24rem, 100%) }
input, button { font: inherit; padding: .5rem }
p { margin: 0 }"""


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
    said = f'<p role="alert"><strong>{escape(message)}</strong></p>' if message else ""
    body = f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fusetune: log in</title>
<style>{_STYLE}</style>
</head>
<body>
<form method="post" action="{LOGIN}">
<h1>fusetune</h1>
{said}
<label for="key">Key</label>
<input id="key" name="key" type="password" autocomplete="current-password" required autofocus>
<input type="hidden" name="next" value="{escape(_local(following))}">
<button>Log in</button>
<p>Keys are made by <code>python -m service keys create NAME</code>.</p>
</form>
</body>
</html>
"""
    return HTMLResponse(body, status, _PAGE_HEADERS)
