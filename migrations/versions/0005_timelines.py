"""What a tuning spends its time on, beside it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Tunings so far have none."""
    op.add_column("tunings", sa.Column("timeline", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """The timelines are lost."""
    with op.batch_alter_table("tunings") as batch:
        batch.drop_column("timeline")
