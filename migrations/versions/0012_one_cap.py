"""Points of columns under the knob name of today: threads that share a multiprocessor, where it was the registers of
each (search/space/renamed.py, 0.1.0)."""

from __future__ import annotations

import sqlalchemy as sa

from migrations.points import rewrite, with_settings

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_NAMES = {("registers", least): ("resident", most) for least, most in ((0, 0), (32, 2048), (40, 1536), (64, 1024))}
"""As of this revision: the map of the search may go on."""


def upgrade() -> None:
    """One launch among several may be columns, and long names of these are hashed: rows tell by the knob."""
    rewrite(
        lambda point: with_settings(point, _NAMES), lambda table: sa.cast(table.c.point, sa.Text).contains('registers"')
    )


def downgrade() -> None:
    """Points of columns get their old name again. Those of several launches stay: rows are called so, too."""
    old = {new: old for old, new in _NAMES.items()}
    rewrite(lambda point: with_settings(point, old), lambda table: table.c.scheduler == "column")
