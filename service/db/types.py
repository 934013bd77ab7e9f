"""Column types that mean the same on SQLite and on PostgreSQL, which differ in what they keep, change or refuse."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Double, String, TypeDecorator
from sqlalchemy.engine import Dialect

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""PostgreSQL refuses NUL in text, and neither database has a form for half of a surrogate pair."""


class Moment(TypeDecorator[datetime]):
    """A moment in UTC, with its zone on both sides: SQLite itself keeps none."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError(f"a moment needs a time zone: {value}")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Words(TypeDecorator[str]):
    """Text; `Words(n)` holds n characters, which PostgreSQL alone enforces. What no database holds becomes U+FFFD.

    So a compiler's message with a NUL in it is kept, and an id with one, sent by a client, is just not found.
    """

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else _UNSTORABLE.sub("\ufffd", value)


class Finite(TypeDecorator[float]):
    """A number. NaN and the infinities are refused: SQLite would make NULL of NaN, and a time is never either."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        if value is not None and not math.isfinite(value):
            raise ValueError(f"found {value}, expected a finite number")
        return value


class DamagedDocument(Exception):
    """A stored document is not JSON: the disk or somebody changed it. `found` is how it begins, `where` it breaks."""

    def __init__(self, found: str, where: str) -> None:
        super().__init__(found, where)
        self.found = found
        self.where = where

    def __str__(self) -> str:
        return f"found {self.found} in a column that holds JSON ({self.where})"


def loads(text: str | bytes) -> Any:
    """A document as it was stored. Raises DamagedDocument."""
    try:
        return json.loads(text)
    except ValueError as error:
        shown = text[:_SHOWN] if isinstance(text, str) else text[:_SHOWN].decode(errors="replace")
        raise DamagedDocument(repr(shown), str(error)) from None


_SHOWN = 60


Document = JSON(none_as_null=True)
"""JSON as it was written, None as NULL. The engine refuses NaN (see `service.db.engine`).

On PostgreSQL this is `json`, not `jsonb`: nothing looks inside, and `jsonb` would reorder keys, lose the sign of -0.0,
turn 1e16 into an integer and refuse the escape of NUL.
"""


def now() -> datetime:
    """The moment, in UTC."""
    return datetime.now(UTC)
