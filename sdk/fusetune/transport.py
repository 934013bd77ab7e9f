"""The one place that speaks HTTP: requests out, wire types or typed errors back."""

from __future__ import annotations

import contextlib
import io
import ipaddress
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import httpx2
import pydantic

from fusetune.errors import (
    InvalidRequest,
    ServerBroken,
    ServerNotReady,
    ServerRefused,
    ServerTimedOut,
    ServerUnreachable,
    Unauthorized,
)
from fusetune.wire.fusion import show
from fusetune.wire.problems import Problem
from fusetune.wire.service import API_VERSION, AuditEntries, Health, ProblemDetails, Trials, Tunings

HttpTransport = httpx2.BaseTransport
"""What a test puts in the place of the network: see `httpx2.MockTransport`."""

M = TypeVar("M", bound=pydantic.BaseModel)

Params = Mapping[str, str | int] | Mapping[str, str | int | Sequence[str]]
"""What stands behind the `?` of an address; a name with several words stands there for each of them."""

Body = pydantic.BaseModel | bytes | Path
"""A document, or bytes that say themselves what they are; a file's are read as they are sent."""

PAGE = 200
"""Rows of a list asked for at a time."""

_AWAY = (502, 503, 504)
"""What a proxy answers for a service that is away (RFC 9110, 15.6), and a service that cannot reach its database."""


class Transport:
    """A connection to one service. Raises InvalidRequest for an address, a key, a time or a proxy that cannot be.

    `timeout_s` bounds each wait for the network, not a whole answer. Every request may be sent twice: a kept
    connection that the service has closed meanwhile is noticed by a request only, which then goes out once more.
    """

    def __init__(
        self, url: str, api_key: str | None = None, timeout_s: float = 10.0, transport: HttpTransport | None = None
    ) -> None:
        base = _checked_url(url)
        self.url = _without_secret(base)
        self.timeout_s = timeout_s
        self.has_key = api_key is not None
        headers = {"accept": "application/json"}
        if api_key is not None:
            headers["authorization"] = f"Bearer {_checked_key(api_key)}"
        checked_seconds(timeout_s, "Leave it out for 10 s.")
        try:
            # A proxy of the environment is for other hosts: this one is where the program itself runs.
            self._http = httpx2.Client(
                base_url=base, headers=headers, timeout=timeout_s, transport=transport, trust_env=not _is_loopback(base)
            )
        except (httpx2.InvalidURL, ImportError, ValueError) as error:
            fix = f"Correct HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, or name {base.host} in NO_PROXY."
            found = Problem("the proxy of the environment", show(str(error)), "one that can be used", fix)
            raise InvalidRequest((found,)) from None

    def close(self) -> None:
        """Gives the connections back."""
        self._http.close()

    def _check_open(self) -> None:
        if self._http.is_closed:
            fix = "Make a new one; close it after its last use."
            raise InvalidRequest((Problem("client", "a closed Client", "an open one", fix),))

    def get(self, path: str, model: type[M], params: Params | None = None, timeout_s: float | None = None) -> M:
        """GET `/v1` + `path`, which answers 200. Raises ServiceError."""
        response = self.send("GET", path, params=params, timeout_s=timeout_s)
        return self.read(response, model)

    def pages(
        self,
        path: str,
        model: type[Tunings] | type[Trials] | type[AuditEntries],
        asked: Mapping[str, str | None],
        following: str = "after",
    ) -> Iterator[Any]:
        """The items of a list, page after page; a word of `asked` that is None asks for nothing. Raises ServiceError.

        `following`: the name under which a page's `next` asks for the page behind it.
        """
        params: dict[str, str | int] = {
            "limit": PAGE,
            **{name: word for name, word in asked.items() if word is not None},
        }
        while True:
            page = self.get(path, model, params)
            yield from page.items
            if page.next is None:
                return
            params[following] = page.next

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Body | None = None,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> httpx2.Response:
        """The 2xx answer of `/v1` + `path`. Raises ServiceError."""
        response = self._send(method, f"/{API_VERSION}{path}", body, params, headers, timeout_s)
        self._check_status(response)
        return response

    def health(self) -> Health:
        """GET /readyz. A service that is up and not ready answers too, with 503. Raises ServiceError."""
        response = self._send("GET", "/readyz")
        if response.status_code == 503:
            with contextlib.suppress(pydantic.ValidationError):
                return Health.model_validate_json(response.content)
        self._check_status(response)
        return self.read(response, Health)

    def _send(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> httpx2.Response:
        self._check_open()
        with ExitStack() as opened:
            content, kind = _content(body, opened)
            request = self._http.build_request(
                method,
                path,
                content=content,
                params=params,
                headers={**kind, **(headers or {})},
                timeout=self.timeout_s if timeout_s is None else timeout_s,
            )
            with self._translated(_name(request), timeout_s):
                try:
                    return self._http.send(request)
                except (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError):
                    if isinstance(content, io.BufferedReader):
                        content.seek(0)
                    return self._http.send(request)

    def download(self, path: str, file: BinaryIO, params: Params | None, timeout_s: float) -> httpx2.Response:
        """GET `/v1` + `path` into `file`, as it comes; returns the answer without its body. Raises ServiceError."""
        self._check_open()
        request = self._http.build_request("GET", f"/{API_VERSION}{path}", params=params, timeout=timeout_s)
        with self._translated(_name(request), timeout_s):
            response = self._http.send(request, stream=True)
            try:
                if response.status_code != 200:
                    response.read()
                self._check_status(response)
                for part in response.iter_bytes():
                    file.write(part)
            finally:
                response.close()
        return response

    def lines(self, path: str, silence_s: float) -> Generator[str]:
        """The lines of an event stream as they come. Raises ServiceError, also if none comes for `silence_s`."""
        self._check_open()
        timeout = httpx2.Timeout(min(self.timeout_s, silence_s), read=silence_s)
        headers = {"accept": "text/event-stream"}
        request = self._http.build_request("GET", f"/{API_VERSION}{path}", headers=headers, timeout=timeout)
        with self._translated(_name(request), silence_s):
            response = self._http.send(request, stream=True)
            try:
                if response.status_code != 200:
                    response.read()
                self._check_status(response)
                if _content_type(response) != "text/event-stream":
                    raise self._broken(response, "an event stream")
                yield from response.iter_lines()
            finally:
                response.close()

    def read(self, response: httpx2.Response, model: type[M]) -> M:
        """The document that the response holds. Raises ServerBroken."""
        try:
            return model.model_validate_json(response.content)
        except pydantic.ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, fault["loc"])) or "its text"
            raise self._broken(response, f"a {model.__name__} ({place}: {fault['msg']})") from None

    def _check_status(self, response: httpx2.Response) -> None:
        """Raises for every answer that is not a 2xx."""
        status = response.status_code
        if 200 <= status < 300:
            return
        name = _name(response.request)
        problem = _problem(response)
        if status in _AWAY:
            if problem is not None:
                raise ServerNotReady(name, self.url, problem.detail, problem.fix)
            raise ServerUnreachable(name, self.url, f"{status} {response.reason_phrase}")
        if problem is None:
            raise self._broken(response, "an answer of a fusetune service")
        if status >= 500:
            log = f", request {problem.request_id}" if problem.request_id else ""
            raise ServerBroken(name, self.url, f"{status} {problem.title}: {problem.detail}{log}", "no internal error")
        refusal = Unauthorized if status in (401, 403) else ServerRefused
        raise refusal(name, problem, _retry_after(response))

    def _broken(self, response: httpx2.Response, expected: str) -> ServerBroken:
        kind = _content_type(response) or "without a content type"
        found = f"{response.status_code} {kind}"
        if response.is_closed and response.content:
            found += f" {show(response.content[:60].decode(errors='replace'))}"
        return ServerBroken(_name(response.request), self.url, found, expected)

    @contextlib.contextmanager
    def _translated(self, name: str, timeout_s: float | None) -> Iterator[None]:
        """httpx2's errors as ours; none of its own leaves this module."""
        # `from None`: httpx2's errors hold the request and with it the key, and their texts are in ours.
        try:
            yield
        except httpx2.TimeoutException:
            waited_s = self.timeout_s if timeout_s is None else timeout_s
            raise ServerTimedOut(name, self.url, waited_s) from None
        except httpx2.TransportError as error:
            raise ServerUnreachable(name, self.url, _reason(error)) from None
        except httpx2.RequestError as error:
            raise ServerBroken(name, self.url, _reason(error), "an answer that can be read") from None


def _content(body: Body | None, opened: ExitStack) -> tuple[str | bytes | io.BufferedReader | None, dict[str, str]]:
    """What is sent, and the header that says what it is; a file is closed with `opened`. Raises OSError."""
    if body is None:
        return None, {}
    if isinstance(body, pydantic.BaseModel):
        return body.model_dump_json(by_alias=True, exclude_none=True), {"content-type": "application/json"}
    kind = {"content-type": "application/octet-stream"}
    return body if isinstance(body, bytes) else opened.enter_context(body.open("rb")), kind


def _name(request: httpx2.Request) -> str:
    """`POST /v1/tunings`"""
    return f"{request.method} {request.url.path}"


def _reason(error: httpx2.RequestError) -> str:
    text = str(error)
    return text if text else type(error).__name__


def _content_type(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _problem(response: httpx2.Response) -> ProblemDetails | None:
    try:
        return ProblemDetails.model_validate_json(response.content)
    except pydantic.ValidationError:
        return None


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds of the Retry-After header; its other form, a date, is not used by the service."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


def _checked_url(url: str) -> httpx2.URL:
    fix = "Write it like http://127.0.0.1:8765."
    expected = "the address of a service, http or https"
    try:
        found = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError):
        raise InvalidRequest((Problem("url", show(url), expected, fix),)) from None
    if found.scheme not in ("http", "https") or not found.host or found.query or found.fragment:
        raise InvalidRequest((Problem("url", show(_without_secret(found)), expected, fix),))
    if found.path.rstrip("/").endswith(f"/{API_VERSION}"):
        fix = f"Leave /{API_VERSION} out: the client adds it."
        raise InvalidRequest((Problem("url", show(_without_secret(found)), expected, fix),))
    return found


def checked_seconds(seconds: object, fix: str) -> None:
    """Raises InvalidRequest for a `timeout_s` that is none: the network would take some of it for no limit."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise InvalidRequest((Problem("timeout_s", show(seconds), "seconds, more than 0 and finite", fix),))


def _without_secret(url: httpx2.URL) -> str:
    """The address as it may be shown."""
    return str(url.copy_with(username=None, password=None)).rstrip("/")


def _checked_key(key: object) -> str:
    """A key that a header can hold. It is checked here because an error further in would show it."""
    if not isinstance(key, str) or not key or not key.isascii() or not key.isprintable() or " " in key:
        fix = "Take it without the line end or blanks around it."
        raise InvalidRequest((Problem("api_key", "a text that cannot be one", "printable ASCII, no blanks", fix),))
    return key


def _is_loopback(url: httpx2.URL) -> bool:
    if url.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(url.host).is_loopback
    except ValueError:
        return False
