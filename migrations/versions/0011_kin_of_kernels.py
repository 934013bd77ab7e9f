"""What tells which kernels are of kin: fusions that are alike but for sizes, or but for operators and types."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """It is worked out of fusions: the next search, or an idle worker, does so for kernels of before."""
    op.add_column("kernels", sa.Column("alike", sa.String(length=16), nullable=True))
    op.add_column("kernels", sa.Column("structure", sa.String(length=16), nullable=True))
    op.add_column("kernels", sa.Column("sizes", sa.JSON(none_as_null=True), nullable=True))
    op.create_index("ix_kernels_alike", "kernels", ["alike", "created_at"])
    op.create_index("ix_kernels_structure", "kernels", ["structure", "card_id", "created_at"])


def downgrade() -> None:
    """It can be worked out again."""
    op.drop_index("ix_kernels_structure", table_name="kernels")
    op.drop_index("ix_kernels_alike", table_name="kernels")
    with op.batch_alter_table("kernels") as batch:
        for column in ("sizes", "structure", "alike"):
            batch.drop_column(column)
