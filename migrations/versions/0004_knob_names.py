"""Points of the two-dimensional tiles under the knob names of today (search/space/renamed.py, 0.1.0)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

Wanted = Callable[[sa.ColumnClause[str]], sa.ColumnElement[bool]]

_ROWS = 500
"""Rows that are rewritten at a time: a point is a kilobyte."""

_NAMES = {
    ("store", "register"): ("store", "vector"),
    ("operands", "at_use"): ("operands", "late"),
    ("operands", "ahead"): ("operands", "early"),
    ("rows_begin", "vector"): ("row_span", "vector"),
    ("rows_begin", "sector"): ("row_span", "sector"),
    ("rows_begin", "line"): ("row_span", "line"),
}
"""As of this revision: the map of the search may go on."""

_TABLES = {"kernels": ("id",), "trials": ("tuning_id", "number")}
"""Tables that hold points, and their keys."""


def upgrade() -> None:
    """Knobs and values get the names that schedulers share."""
    _rename(_NAMES, lambda scheduler: scheduler.contains("tile2d"))


def downgrade() -> None:
    """Points of tiles get their old names again. Those of several launches stay: others always had the new ones."""
    _rename({new: old for old, new in _NAMES.items()}, lambda scheduler: scheduler == "tile2d")


def _rename(names: Mapping[tuple[str, Any], tuple[str, Any]], wanted: Wanted) -> None:
    for name, key in _TABLES.items():
        columns: list[Any] = [sa.column(part) for part in key]
        table = sa.table(name, *columns, sa.column("scheduler", sa.String), sa.column("point", sa.JSON))
        for rows in _pages(table, [table.c[part] for part in key], wanted):
            for *place, point in rows:
                renamed = _renamed(point, names)
                if renamed != point:
                    here = (table.c[part] == value for part, value in zip(key, place, strict=True))
                    op.get_bind().execute(sa.update(table).where(*here).values(point=renamed))


def _pages(table: sa.TableClause, key: list[Any], wanted: Wanted) -> Iterator[list[Any]]:
    """Key and point of the rows of the schedulers that are `wanted`, page by page."""
    last: tuple[Any, ...] | None = None
    while True:
        query = sa.select(*key, table.c.point).where(wanted(table.c.scheduler)).order_by(*key).limit(_ROWS)
        if last is not None:
            query = query.where(sa.tuple_(*key) > sa.tuple_(*map(sa.literal, last)))
        rows = list(op.get_bind().execute(query))
        if not rows:
            return
        yield rows
        last = tuple(rows[-1][: len(key)])


def _renamed(point: Mapping[str, Any], names: Mapping[tuple[str, Any], tuple[str, Any]]) -> dict[str, Any]:
    found = {}
    for full, value in point.items():
        launch, dot, knob = full.rpartition(".")
        new, now = names.get((knob, value), (knob, value)) if isinstance(value, str) else (knob, value)
        found[f"{launch}{dot}{new}"] = now
    return found
