"""Points of the two-dimensional tiles under the knob names of today (search/space/renamed.py, 0.1.0)."""

from __future__ import annotations

from migrations.points import rewrite, with_settings

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NAMES = {
    ("store", "register"): ("store", "vector"),
    ("operands", "at_use"): ("operands", "late"),
    ("operands", "ahead"): ("operands", "early"),
    ("rows_begin", "vector"): ("row_span", "vector"),
    ("rows_begin", "sector"): ("row_span", "sector"),
    ("rows_begin", "line"): ("row_span", "line"),
}
"""As of this revision: the map of the search may go on."""


def upgrade() -> None:
    """Knobs and values get the names that schedulers share."""
    rewrite(lambda point: with_settings(point, _NAMES), lambda table: table.c.scheduler.contains("tile2d"))


def downgrade() -> None:
    """Points of tiles get their old names again. Those of several launches stay: others always had the new ones."""
    old = {new: old for old, new in _NAMES.items()}
    rewrite(lambda point: with_settings(point, old), lambda table: table.c.scheduler == "tile2d")
