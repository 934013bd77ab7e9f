"""What a page cannot show, as an HTML page of its own. The routes of the API answer with problem details instead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from service.auth import COOKIE
from service.dashboard.guard import PAGE_HEADERS
from service.dashboard.templating import logged_in, render
from service.db.kernels import DamagedArtifact, PrunedArtifact
from service.db.pages import BadCursor
from service.db.types import DamagedDocument
from service.db.unready import is_damaged, is_disk_full, reason
from service.problems import ProblemDetail, answer


class PageFault(Exception):
    """A page that is not there or may not be had: `status`, `title`, and `detail`, which says what to do."""

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(status, title, detail)
        self.status = status
        self.title = title
        self.detail = detail


def not_found(what: str, id: str) -> PageFault:
    """There is no such thing here; `what` is its kind."""
    return PageFault(404, f"No such {what}", f"This service has no {what} {id}. The address may be cut short or old.")


class PageRoute(APIRoute):
    """A route of the dashboard: its pages carry our headers, its faults are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler with both."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            logged_in.set(COOKIE in request.cookies)
            try:
                response = await inner(request)
            except PageFault as fault:
                response = fault_page(fault)
            except RequestValidationError as error:
                response = fault_page(_of_validation(error))
            except BadCursor:
                detail = "This link to a further page is not one that the dashboard gave out. Begin at the first page."
                response = fault_page(PageFault(400, "No such page", detail))
            except (OperationalError, PoolTimeout) as error:
                response = fault_page(_DISK_FULL if is_disk_full(error) else _NO_DATABASE)
                response.headers["Retry-After"] = "2"
            except DBAPIError as error:
                if not is_damaged(error):
                    raise
                detail = f"The database says: {reason(error)}. Restore it from a backup."
                response = fault_page(PageFault(500, "The database is damaged", detail))
            except DamagedDocument as error:
                detail = f"The page needs a row of the database that is damaged: {error}. Restore it from a backup."
                response = fault_page(PageFault(500, "The database is damaged", detail))
            except PrunedArtifact as error:
                response = fault_page(PageFault(410, "The code of this kernel is not kept", _sentence(str(error))))
            except DamagedArtifact as error:
                response = fault_page(PageFault(500, "This kernel is damaged", str(error)))
            for name, value in PAGE_HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return handle


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


_NO_DATABASE = PageFault(503, "The service is not ready", "Its database does not answer. Reload this page in a moment.")


_DISK_FULL = PageFault(503, "The service is not ready", "The disk of its database is full. Make room there.")


def fault_page(fault: PageFault) -> HTMLResponse:
    """The fault as a page."""
    return HTMLResponse(render("fault.html", fault=fault, section=""), fault.status)


Handler = Callable[[Request, Exception], Response | Awaitable[Response]]


def page_for_browsers(otherwise: Handler) -> Handler:
    """A handler of HTTP errors: an address that nothing has is a page where a browser asks, else what it was before."""

    async def handle(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.status_code == 404 and _is_browser(request):
            return _whole_page(request, PageFault(404, "No such page", "The address is not one of this dashboard's."))
        found = otherwise(request, error)
        return await found if isinstance(found, Awaitable) else found

    return handle


def unexpected(request: Request, fault: ProblemDetail) -> Response:
    """An error that no route has translated: a page where a browser asks, else problem details."""
    if _is_browser(request):
        return _whole_page(request, PageFault(fault.kind.status, fault.kind.title, f"{fault.detail} {fault.fix}"))
    return answer(request, fault)


def _is_browser(request: Request) -> bool:
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


def _whole_page(request: Request, fault: PageFault) -> Response:
    logged_in.set(COOKIE in request.cookies)
    response = fault_page(fault)
    response.headers.update(PAGE_HEADERS)
    return response


def _of_validation(error: RequestValidationError) -> PageFault:
    """An id of the wrong form names nothing, so that is a 404; anything else in the address is a 400."""
    first = error.errors()[0]
    part, *name = (str(one) for one in first["loc"])
    if part == "path":
        detail = "The address is not one of this dashboard's: an id in it has the wrong form."
        return PageFault(404, "No such page", detail)
    return PageFault(
        400, "This address cannot be read", f"{'.'.join(name) or part}: {first['msg']}. Correct or remove it."
    )
