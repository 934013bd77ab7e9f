"""Pages of a list that grows at its front: a cursor names the last row seen, so nothing is shown twice or skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, literal, tuple_
from sqlalchemy.orm import InstrumentedAttribute

R = TypeVar("R")


class BadCursor(ValueError):
    """A cursor that no page gave out."""


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Rows, and the cursor of the next page, None at the end."""

    rows: tuple[R, ...]
    next: str | None

    @classmethod
    def of(cls, rows: Sequence[R], limit: int, cursor: Callable[[R], str]) -> Page[R]:
        """The first `limit` of `rows`, of which one more was asked for."""
        shown = tuple(rows[:limit])
        return cls(shown, cursor(shown[-1]) if len(rows) > limit else None)


def cursor_of(moment: datetime, key: str) -> str:
    """The cursor that names a row, in characters that an address takes as they are (RFC 3986, 2.3)."""
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%S.%f}Z~{key}"


def after(
    query: Select[R],
    moment: InstrumentedAttribute[datetime],
    key: InstrumentedAttribute[Any],
    cursor: str | None,
) -> Select[R]:
    """`query` with the newest first, beginning behind `cursor`. Raises BadCursor."""
    ordered = query.order_by(moment.desc(), key.desc())
    if cursor is None:
        return ordered
    text, tilde, last = cursor.partition("~")
    try:
        seen = datetime.fromisoformat(text)
        if not tilde or seen.tzinfo is None:
            raise BadCursor(cursor)
        seen = seen.astimezone(UTC)
    except (ValueError, OverflowError):  # OverflowError: the first and last hours of the calendar
        raise BadCursor(cursor) from None
    return ordered.where(tuple_(moment, key) < tuple_(literal(seen, moment.type), literal(last, key.type)))
