"""Pages show every row that was there at the start once, whatever arrives meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from service.db import fusions, kernels, tunings
from service.db.engine import Database
from service.db.models import FusionRow
from service.db.pages import BadCursor, Page, cursor_of
from service.db.types import now
from tests.service.db.rows import DOCUMENT, digest, kernel, opened, posted

Shown = Callable[[Session, str | None, int], Page[Any]]
START = now()


def add_fusion(session: Session, n: int) -> str:
    # Three rows share each moment: then the id decides.
    moment = START + timedelta(seconds=n // 3)
    session.add(FusionRow(fingerprint=digest(f"page {n}"), document=DOCUMENT, text="", created_at=moment))
    return digest(f"page {n}")


def add_tuning(session: Session, n: int) -> str:
    return opened(session, f"page {n}", created_at=START + timedelta(seconds=n // 3)).id


def add_kernel(session: Session, n: int) -> str:
    row = kernel(session, posted(session, f"page {n}"), b"%d" % n, created_at=START + timedelta(seconds=n // 3))
    return kernels.publish(session, row).id


LISTS = [
    pytest.param(add_fusion, fusions.page, "fingerprint", id="fusions"),
    pytest.param(add_tuning, tunings.page, "id", id="tunings"),
    pytest.param(add_kernel, kernels.page, "id", id="kernels"),
]


@pytest.mark.parametrize("limit", [1, 2, 7, 20, 21])
@pytest.mark.parametrize(("add", "shown", "name"), LISTS)
def test_no_row_is_skipped_or_repeated_while_rows_arrive(
    database: Database, add: Callable[[Session, int], str], shown: Shown, name: str, limit: int
) -> None:
    with database.write() as session:
        there = [add(session, n) for n in range(20)]
    order = list(there)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        with database.read() as session:
            found = shown(session, cursor, limit)
        assert 0 < len(found.rows) <= limit
        seen += [getattr(row, name) for row in found.rows]
        cursor = found.next
        if cursor is None:
            break
        with database.write() as session:
            order.append(add(session, len(order)))
    assert len(seen) == len(set(seen))
    assert set(there) <= set(seen)
    moments = [order.index(one) // 3 for one in seen]
    assert moments == sorted(moments, reverse=True)


@pytest.mark.parametrize(("add", "shown", "name"), LISTS)
def test_nothing_is_one_empty_page(
    database: Database, add: Callable[[Session, int], str], shown: Shown, name: str
) -> None:
    with database.read() as session:
        assert shown(session, None, 5) == Page((), None)


@pytest.mark.parametrize(
    "cursor",
    [
        pytest.param("", id="empty"),
        pytest.param("nonsense", id="word"),
        pytest.param("2026-01-01T00:00:00+00:00", id="no-key"),
        pytest.param("2026-01-01T00:00:00~key", id="no-zone"),
        pytest.param("2026-13-01T00:00:00+00:00~key", id="no-such-month"),
        pytest.param("0001-01-01T00:00:00+14:00~key", id="before-the-calendar"),
        pytest.param("9999-12-31T23:59:59-14:00~key", id="after-the-calendar"),
        pytest.param("~", id="tilde"),
        pytest.param("\x00~\x00", id="nul"),
    ],
)
def test_a_cursor_that_no_page_gave_is_refused(database: Database, cursor: str) -> None:
    with database.read() as session, pytest.raises(BadCursor):
        tunings.page(session, cursor, 5)


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1970, 1, 1)))
def test_a_cursor_stands_in_an_address_as_it_is(moment: datetime) -> None:
    cursor = cursor_of(moment, "0" * 32)
    assert quote(cursor, safe="") == cursor
    text, _, key = cursor.partition("~")
    assert (datetime.fromisoformat(text), key) == (moment, "0" * 32)
