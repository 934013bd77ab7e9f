"""What cannot be shown is a page too, with its status: what is not there, cannot be asked, or the database lacks."""

from __future__ import annotations

import pytest
from sqlalchemy.schema import DropTable
from starlette.testclient import TestClient

from service.db.models import Base
from tests.service.dashboard.html_page import HtmlPage
from tests.service.dashboard.seed import Seeded


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/fusions/" + "0" * 64, 404),
        ("/fusions/short", 404),
        ("/kernels/" + "0" * 32, 404),
        ("/kernels/%00", 404),
        ("/tunings/" + "f" * 32, 404),
        ("/tunings/" + "f" * 33, 404),
        ("/tunings/" + "f" * 32 + "/live", 404),
        ("/tunings/" + "f" * 32 + "/chart.json", 404),
        ("/kernels/" + "f" * 32 + "/samples.json", 404),
        ("/static/nothing.js", 404),
        ("/tunings?state=tired", 400),
        ("/tunings?after=yesterday", 400),
        ("/tunings?after=%00", 400),
        ("/?after=2026-01-01T00:00:00~x", 400),
        ("/?card=<b>", 400),
        ("/?q=" + "x" * 201, 400),
    ],
)
def test_what_is_not_there_is_a_page_too(reader: TestClient, path: str, status: int) -> None:
    response = reader.get(path)
    assert response.status_code == status
    assert response.headers["content-type"].startswith("text/html")
    page = HtmlPage(response.text)
    assert page.faults() == []
    assert page.one("h1").text


@pytest.mark.parametrize("path", ["/", "/tunings", "/cards", "/fusions/" + "0" * 64, "/kernels/" + "0" * 32])
def test_a_database_that_does_not_answer_is_a_page_too(empty: TestClient, path: str) -> None:
    with empty.app.state.db.write() as session:  # type: ignore[attr-defined]  # Starlette's client types any ASGI app
        for table in reversed(Base.metadata.sorted_tables):
            session.execute(DropTable(table))
    response = empty.get(path)
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    assert HtmlPage(response.text).faults() == []
    assert "Its database does not answer" in response.text
    assert "default-src 'self'" in response.headers["content-security-policy"]


@pytest.mark.parametrize("query", ["state=tired", "page=0", "page=x", "order=random"])
def test_a_tunings_filter_is_checked(reader: TestClient, ids: Seeded, query: str) -> None:
    assert reader.get(f"/tunings/{ids.done}?{query}").status_code == 400
