"""What is deleted or pruned stays so: kernels that are not taken again, and artifacts whose bytes are gone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

INDEXES = {
    "ix_kernels_binding": ["binding"],
    "ix_kernels_artifact_sha256": ["artifact_sha256"],
    "ix_kernels_tuning_id": ["tuning_id"],
}


def upgrade() -> None:
    """Nothing was deleted or pruned so far."""
    op.create_table(
        "deleted_kernels",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deleted_kernels")),
    )
    op.add_column("artifacts", sa.Column("pruned_at", sa.DateTime(timezone=True), nullable=True))
    for name, columns in INDEXES.items():
        op.create_index(name, "kernels", columns)


def downgrade() -> None:
    """Kernels whose code was pruned go: before this revision their artifacts would pass for damaged."""
    for name in INDEXES:
        op.drop_index(name, "kernels")
    pruned = "SELECT sha256 FROM artifacts WHERE pruned_at IS NOT NULL"
    op.execute(f"DELETE FROM kernels WHERE artifact_sha256 IN ({pruned})")
    op.execute("DELETE FROM artifacts WHERE pruned_at IS NOT NULL")
    with op.batch_alter_table("artifacts") as batch:
        batch.drop_column("pruned_at")
    op.drop_table("deleted_kernels")
