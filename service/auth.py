"""Who may ask: keys where they are demanded, and nothing from other people's web pages anywhere.

A service on loopback needs no key by default: whoever reaches it has this machine. What also reaches it is a browser on
this machine, showing a page of somebody else. Such a page is known by its names: a Host that is not loopback (a domain
that resolves to 127.0.0.1, "DNS rebinding"), or an Origin that is not ours on a request that changes something.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
from datetime import datetime
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.access import KeyScope, allows, needed
from service.db import answers, keys
from service.db.engine import Database
from service.db.instant import Held
from service.db.keys import Holder
from service.db.types import now
from service.problems import FORBIDDEN, FOREIGN_REQUEST, RATE_LIMITED, UNAUTHORIZED, ProblemDetail, answer
from service.rates import Rates
from service.settings import Settings

COOKIE = "fusetune_key"
"""Holds the key of a browser that has logged in: HttpOnly, SameSite=Strict."""

LOGIN = "/login"
OPERATOR = Holder("operator", "admin")
"""Who uses the key of the settings."""

LOCAL = Holder("local", "admin")
"""Who asks without a key where none is demanded, on loopback: whoever reaches it has this machine, and its files."""

ANYBODY = Holder("local", "tune")
"""The same where others reach this address."""

_OPEN = frozenset({"/healthz", "/readyz", LOGIN})
"""Answered to everybody: they say nothing of what is stored."""

_OPEN_PREFIX = "/static/"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def is_loopback(host: str) -> bool:
    """True for names and addresses that only this machine reaches."""
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761, 6.3
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def demands_key(settings: Settings) -> bool:
    """Whether every request needs a key."""
    return settings.require_key if settings.require_key is not None else not is_loopback(settings.host)


class KeyRing:
    """The keys that are accepted: the operator's and those in the database."""

    def __init__(self, settings: Settings, db: Database) -> None:
        self._operator = None if settings.api_key is None else settings.api_key.get_secret_value().encode()
        self._db = db
        self._rates = Rates()
        self._used: dict[str, datetime] = {}

    def holder(self, key: str) -> Holder | None:
        """Who holds the key, None if it is not accepted. Reads the database."""
        if self._operator is not None and hmac.compare_digest(self._operator, key.encode()):
            return OPERATOR
        with self._db.read() as session:
            return keys.holder(session, key)

    async def holder_now(self, key: str) -> Holder | None:
        """The same, as quickly as the database can be asked."""
        if self._operator is not None and hmac.compare_digest(self._operator, key.encode()):
            return OPERATOR
        try:
            rows = await self._db.instant.rows(answers.HOLDER, keys.asked(key))
        except Held:
            return await run_in_threadpool(self.holder, key)
        return Holder(*rows[0]) if rows else None

    def wait_s(self, holder: Holder) -> float:
        """How long the holder has to wait with this request, 0 if not at all; it counts as a use of the key."""
        if holder.id is None:
            return 0.0
        self._used[holder.id] = now()
        return 0.0 if holder.requests_a_minute is None else self._rates.wait_s(holder.id, holder.requests_a_minute)

    def write_down_uses(self) -> None:
        """Stores when keys were used last. Raises SQLAlchemyError; then they are stored the next time."""
        used = dict(self._used)
        if not used:
            return
        with self._db.write() as session:
            keys.note_use(session, used)
        for id, at in used.items():
            if self._used.get(id) == at:
                self._used.pop(id, None)

    def is_empty(self) -> bool:
        """True if no key at all would be accepted. Reads the database."""
        if self._operator is not None:
            return False
        with self._db.read() as session:
            return keys.usable(session) == 0


class Gate:
    """Lets a request pass with `scope["state"]["actor"]` set, or answers it with a problem."""

    def __init__(self, app: ASGIApp, settings: Settings, ring: KeyRing) -> None:
        self._app = app
        self._demands_key = demands_key(settings)
        self._is_loopback = is_loopback(settings.host)
        self._nobody = LOCAL if self._is_loopback else ANYBODY
        self._ring = ring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._foreign(request) or await self._keyless(request)
        await (refusal or self._app)(scope, receive, send)

    def _foreign(self, request: Request) -> Response | None:
        """The answer to a request that another site has sent; None to all others."""
        host = request.headers.get("host", "")
        if self._is_loopback and not self._demands_key and not is_loopback(_name_of(host)):
            detail = f"This service answers to loopback names, not to the Host {host[:100]!r}."
            return answer(request, ProblemDetail(FOREIGN_REQUEST, detail, "Use http://127.0.0.1 or http://localhost."))
        origin = request.headers.get("origin")
        if origin is None or request.method in _SAFE or _bearer(request) is not None:
            return None  # a browser adds Origin to what changes something, and never a key of its own accord
        if origin.partition("://")[2].lower() == host.lower():  # behind a proxy that ends TLS, the scheme differs
            return None
        detail = f"The page that sent this is from {origin[:100]!r}, not from here."
        return answer(
            request, ProblemDetail(FOREIGN_REQUEST, detail, "Send it from a page of this service, or with a key.")
        )

    async def _keyless(self, request: Request) -> Response | None:
        """The answer to a request without a key that it needs; None if it may pass, its actor noted."""
        if _is_open(request.url.path):  # no key is looked up: that a process lives must not depend on its database
            _note(request, self._nobody)
            return None
        bearer = _bearer(request)
        key = bearer if bearer is not None else request.cookies.get(COOKIE)
        holder = await self._ring.holder_now(key) if key else None
        if holder is None and (bearer is not None or self._demands_key):
            return _ask_for_key(request, "The key is not accepted." if key else "No key was sent.")
        holder = holder or self._nobody
        _note(request, holder)
        if (wait_s := self._ring.wait_s(holder)) > 0:
            return _ask_later(request, holder, wait_s)
        wanted = needed(request.method, request.url.path)
        return None if allows(holder.scope, wanted) else _refuse(request, holder, wanted)


def _note(request: Request, holder: Holder) -> None:
    """Who asks, for the log, the audit and what it counts against."""
    state = request.scope.setdefault("state", {})
    state["actor"], state["key_id"] = holder.name, holder.id


def _ask_later(request: Request, holder: Holder, wait_s: float) -> Response:
    detail = f"The key of {holder.name} may send {holder.requests_a_minute} requests a minute."
    retry = {"Retry-After": str(math.ceil(wait_s))}
    return answer(request, ProblemDetail(RATE_LIMITED, detail, "Ask again later, or more seldom.", headers=retry))


def _refuse(request: Request, holder: Holder, wanted: KeyScope) -> Response:
    detail = f"This needs the scope {wanted}; the key of {holder.name} has {holder.scope}."
    return answer(request, ProblemDetail(FORBIDDEN, detail, "Ask the operator for a key of that scope."))


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith(_OPEN_PREFIX)


def _name_of(host: str) -> str:
    """The name in a Host header, its port left out."""
    return host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host


def _bearer(request: Request) -> str | None:
    """The key of the Authorization header; empty if the header holds something else."""
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, key = header.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _ask_for_key(request: Request, detail: str) -> Response:
    """A person with a browser gets the login page, a program the problem."""
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"{LOGIN}?next={quote(request.url.path + query)}", 303)
    fix = "Send the header Authorization: Bearer KEY. Keys are made by `python -m service keys create NAME`."
    return answer(request, ProblemDetail(UNAUTHORIZED, detail, fix, headers={"WWW-Authenticate": "Bearer"}))
