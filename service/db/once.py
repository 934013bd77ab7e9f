"""Rows that several processes may make at once: whoever comes second finds the row of the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.db.models import Base

R = TypeVar("R", bound=Base)

_ATTEMPTS = 5
"""A row may be found taken and gone again, where it only counts while it is active; not many times in a row."""


def find_or_add(session: Session, find: Callable[[], R | None], make: Callable[[], R]) -> tuple[R, bool]:
    """What `find` finds, else the row of `make`, added. Returns it, and whether it is new.

    Raises IntegrityError if the new row breaks another constraint than the one that `find` looks by.
    """
    for attempt in range(_ATTEMPTS):
        found = find()
        if found is not None:
            return found, False
        row = make()
        try:
            with session.begin_nested():
                session.add(row)
        except IntegrityError:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return row, True
    raise AssertionError("unreachable")
