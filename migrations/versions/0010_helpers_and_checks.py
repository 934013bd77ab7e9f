"""Workers that help with tunings of others, their errands, the conditions of samples, and kernels timed again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Tunings so far had one worker each; nothing is known of the conditions of their samples."""
    op.create_table(
        "helpers",
        sa.Column("tuning_id", sa.String(length=32), nullable=False),
        sa.Column("worker_id", sa.String(length=120), nullable=False),
        sa.Column("attached", sa.Boolean(), nullable=False),
        sa.Column("hands", sa.Integer(), nullable=False),
        sa.Column("measured", sa.Integer(), nullable=False),
        sa.Column("built", sa.Integer(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("joined_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("left_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["tuning_id"], ["tunings.id"], name="fk_helpers_tuning_id_tunings"),
        sa.PrimaryKeyConstraint("tuning_id", "worker_id", name="pk_helpers"),
    )
    op.create_table(
        "errands",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tuning_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("worker_id", sa.String(length=120), nullable=True),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("is_taken", sa.Boolean(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["tuning_id"], ["tunings.id"], name="fk_errands_tuning_id_tunings"),
        sa.PrimaryKeyConstraint("id", name="pk_errands"),
    )
    op.create_index("ix_errands_tuning", "errands", ["tuning_id", "created_at"])
    op.add_column("samples", sa.Column("conditions", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("cards", sa.Column("clock_limit_mhz", sa.Integer(), nullable=True))
    op.add_column("kernels", sa.Column("clock_limit_mhz", sa.Integer(), nullable=True))
    op.add_column("kernels", sa.Column("checked", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """What helpers were asked for and what was timed again is lost."""
    for table, columns in (("kernels", ("checked", "clock_limit_mhz")), ("cards", ("clock_limit_mhz",))):
        with op.batch_alter_table(table) as batch:
            for column in columns:
                batch.drop_column(column)
    with op.batch_alter_table("samples") as batch:
        batch.drop_column("conditions")
    op.drop_index("ix_errands_tuning", table_name="errands")
    op.drop_table("errands")
    op.drop_table("helpers")
