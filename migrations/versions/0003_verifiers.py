"""Which verifier proved a kernel, and what a later one found; whether a tuning is to search in any case."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Kernels so far were proven by the first verifier."""
    op.add_column("kernels", sa.Column("verifier", sa.Integer(), server_default=sa.text("1"), nullable=False))
    op.add_column("kernels", sa.Column("refuted", sa.String(), nullable=True))
    op.add_column("tunings", sa.Column("refresh", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    """Who proved a kernel is forgotten: a version that does not ask serves all that are there."""
    with op.batch_alter_table("tunings") as batch:
        batch.drop_column("refresh")
    with op.batch_alter_table("kernels") as batch:
        batch.drop_column("refuted")
        batch.drop_column("verifier")
