"""What a prediction is made of, beside it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Trials so far have none."""
    op.add_column("trials", sa.Column("predicted_terms", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """The terms are lost."""
    with op.batch_alter_table("trials") as batch:
        batch.drop_column("predicted_terms")
