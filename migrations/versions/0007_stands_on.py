"""What the end of a tuning stands on: an equal request is answered by it while that has not changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Of tunings so far it is not known, and their requests are searched for again."""
    op.add_column("tunings", sa.Column("stands_on", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """Every request searches again."""
    with op.batch_alter_table("tunings") as batch:
        batch.drop_column("stands_on")
