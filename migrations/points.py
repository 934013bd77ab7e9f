"""Points of kernels and trials, for migrations that rename their knobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

Point = Mapping[str, Any]
Wanted = Callable[[sa.TableClause], sa.ColumnElement[bool]]

_ROWS = 500
"""Rows that are rewritten at a time: a point is a kilobyte."""

_TABLES = {"kernels": ("id",), "trials": ("tuning_id", "number")}
"""Tables that hold points, and their keys."""


def rewrite(renamed: Callable[[Point], Point], wanted: Wanted) -> None:
    """Gives the rows that are `wanted`, by their scheduler or their point, the point that `renamed` makes of theirs.
    Page by page, in the order of keys: what is written in between is not read again."""
    for name, key in _TABLES.items():
        columns: list[Any] = [sa.column(part) for part in key]
        table = sa.table(name, *columns, sa.column("scheduler", sa.String), sa.column("point", sa.JSON))
        last: tuple[Any, ...] | None = None
        while True:
            query = sa.select(*columns, table.c.point).where(wanted(table)).order_by(*columns).limit(_ROWS)
            if last is not None:
                query = query.where(sa.tuple_(*columns) > sa.tuple_(*map(sa.literal, last)))
            rows = list(op.get_bind().execute(query))
            if not rows:
                break
            for *place, point in rows:
                if (found := renamed(point)) != point:
                    here = (table.c[part] == value for part, value in zip(key, place, strict=True))
                    op.get_bind().execute(sa.update(table).where(*here).values(point=found))
            last = tuple(rows[-1][: len(key)])


def with_settings(point: Point, names: Mapping[tuple[str, Any], tuple[str, Any]]) -> Point:
    """The point with these settings, knob and value, in place of others. Of several launches, knobs are called
    `0.store`, `1.store`, …"""
    found = {}
    for full, value in point.items():
        launch, dot, knob = full.rpartition(".")
        is_one = isinstance(value, str | int) and not isinstance(value, bool)  # True is no 1
        new, now = names.get((knob, value), (knob, value)) if is_one else (knob, value)
        found[f"{launch}{dot}{new}"] = now
    return found
