"""Points of columns under the knob name of today: threads that share a multiprocessor, where it was the registers of
each (search/space/renamed.py, 0.1.0)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_ROWS = 500
"""Rows that are rewritten at a time: a point is a kilobyte."""

_REGISTERS, _RESIDENT = "registers", "resident"

_THREADS = {0: 0, 32: 2048, 40: 1536, 64: 1024}
"""Of a multiprocessor, by the registers that leaves each. As of this revision: the map of the search may go on."""

_TABLES = {"kernels": ("id",), "trials": ("tuning_id", "number")}
"""Tables that hold points, and their keys."""


def upgrade() -> None:
    """One launch among several may be columns, and long names of these are hashed: rows tell by the knob."""
    for table, place, point in _points(_REGISTERS):
        _write(table, place, _renamed(point, _REGISTERS, _RESIDENT, _THREADS))


def downgrade() -> None:
    """Points of columns get their old name again. Those of several launches stay: rows are called so, too."""
    for table, place, point in _points(_RESIDENT, "column"):
        _write(table, place, _renamed(point, _RESIDENT, _REGISTERS, {new: old for old, new in _THREADS.items()}))


def _points(knob: str, scheduler: str | None = None) -> Iterator[tuple[sa.TableClause, Mapping[str, Any], Any]]:
    """Table, key and point of what has the knob, of any scheduler or of one. Read page by page, so that what is written
    in between is not read again."""
    for name, key in _TABLES.items():
        columns: list[Any] = [sa.column(part) for part in key]
        table = sa.table(name, *columns, sa.column("scheduler", sa.String), sa.column("point", sa.JSON))
        wanted = sa.cast(table.c.point, sa.Text).contains(f'{knob}"')
        if scheduler is not None:
            wanted &= table.c.scheduler == scheduler
        last: tuple[Any, ...] | None = None
        while True:
            query = sa.select(*columns, table.c.point).where(wanted).order_by(*columns).limit(_ROWS)
            if last is not None:
                query = query.where(sa.tuple_(*columns) > sa.tuple_(*map(sa.literal, last)))
            rows = list(op.get_bind().execute(query))
            if not rows:
                break
            for *place, point in rows:
                yield table, dict(zip(key, place, strict=True)), point
            last = tuple(rows[-1][: len(key)])


def _write(table: sa.TableClause, place: Mapping[str, Any], point: Mapping[str, Any]) -> None:
    here = (table.c[part] == value for part, value in place.items())
    op.get_bind().execute(sa.update(table).where(*here).values(point=point))


def _renamed(point: Mapping[str, Any], old: str, new: str, values: Mapping[int, int]) -> dict[str, Any]:
    """Of a launch, or of the only one: knobs of launches are called `0.resident`, `1.resident`, …"""
    found = {}
    for full, value in point.items():
        launch, dot, knob = full.rpartition(".")
        if knob == old and not isinstance(value, str) and value in values:
            full, value = f"{launch}{dot}{new}", values[value]
        found[full] = value
    return found
