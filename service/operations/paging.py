"""Pages: how long they may be, and what a cursor must not be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fusetune.wire.fusion import show
from fusetune.wire.problems import InvalidDocument, Problem
from service.db.pages import BadCursor

DEFAULT_LIMIT = 50
MAX_LIMIT = 500
"""Rows of one page."""


@contextmanager
def cursor_faults(after: str | None) -> Iterator[None]:
    """Says of a cursor that no page gave out what is wrong with it. Raises InvalidDocument."""
    try:
        yield
    except (BadCursor, OverflowError):  # a moment so early or late that its UTC form does not exist
        expected, fix = "the `next` of the page before", "Leave it out for the first page."
        raise InvalidDocument((Problem("after", show(after), expected, fix),)) from None
