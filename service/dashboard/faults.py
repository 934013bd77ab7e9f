"""What a page cannot show, as an HTML page of its own. The routes of the API answer with problem details instead."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute

from service.dashboard.guard import PAGE_HEADERS
from service.dashboard.templating import render
from service.db.kernels import DamagedArtifact
from service.db.pages import BadCursor


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
            try:
                response = await inner(request)
            except PageFault as fault:
                response = fault_page(fault)
            except RequestValidationError as error:
                response = fault_page(_of_validation(error))
            except BadCursor:
                detail = "This link to a further page is not one that the dashboard gave out. Begin at the first page."
                response = fault_page(PageFault(400, "No such page", detail))
            except DamagedArtifact as error:
                response = fault_page(PageFault(500, "This kernel is damaged", str(error)))
            for name, value in PAGE_HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return handle


def fault_page(fault: PageFault) -> HTMLResponse:
    """The fault as a page."""
    return HTMLResponse(render("fault.html", fault=fault, section=""), fault.status)


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
