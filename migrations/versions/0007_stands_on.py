"""What the end of a tuning stands on, and trials that were compiled only.

An equal request is answered by a tuning's end while what it stands on has not changed.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Of tunings so far it is not known, and their requests are searched for again. What has a code was compiled."""
    op.add_column("tunings", sa.Column("stands_on", sa.JSON(none_as_null=True), nullable=True))
    op.execute("UPDATE trials SET state = 'compiled' WHERE state = 'cancelled' AND code_hash IS NOT NULL")


def downgrade() -> None:
    """Every request searches again."""
    op.execute("UPDATE trials SET state = 'cancelled' WHERE state = 'compiled'")
    with op.batch_alter_table("tunings") as batch:
        batch.drop_column("stands_on")
