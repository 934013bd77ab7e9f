"""Kernels that are served while their search goes on, who wants them, when a search has enough, and what ties."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """All kernels so far are what a search has ended with, and every tuning was asked for the best."""
    op.add_column("kernels", sa.Column("provisional", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("tunings", sa.Column("want", sa.String(length=8), server_default="best", nullable=False))
    op.add_column("tunings", sa.Column("enough", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("tunings", sa.Column("tied", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("tunings", sa.Column("first_kernel_id", sa.String(length=32), nullable=True))


def downgrade() -> None:
    """Provisional kernels go: before this revision they would answer as the best. Artifacts stay."""
    op.execute("DELETE FROM kernels WHERE provisional IS NOT NULL")
    with op.batch_alter_table("tunings") as batch:
        batch.drop_column("first_kernel_id")
        batch.drop_column("tied")
        batch.drop_column("enough")
        batch.drop_column("want")
    with op.batch_alter_table("kernels") as batch:
        batch.drop_column("provisional")
