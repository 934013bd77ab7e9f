"""What API keys may do, and how much of it; who pays for a tuning, which comes first; who signed a kernel."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

LIMITS = ("expires_at", "last_used_at", "tunings_a_day", "gpu_s_a_day", "requests_a_minute")


def upgrade() -> None:
    """Keys go on doing what they could: post and cancel tunings, and read. What is new to delete needs a key for it."""
    op.add_column("api_keys", sa.Column("scope", sa.String(length=8), server_default="tune", nullable=False))
    op.add_column("api_keys", sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("api_keys", sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("api_keys", sa.Column("priority", sa.Integer(), server_default=sa.text("5"), nullable=False))
    op.add_column("api_keys", sa.Column("tunings_a_day", sa.Integer(), nullable=True))
    op.add_column("api_keys", sa.Column("gpu_s_a_day", sa.Double(), nullable=True))
    op.add_column("api_keys", sa.Column("requests_a_minute", sa.Integer(), nullable=True))
    op.add_column("tunings", sa.Column("payer", sa.String(length=32), nullable=True))
    op.add_column("tunings", sa.Column("priority", sa.Integer(), server_default=sa.text("5"), nullable=False))
    op.create_table(
        "signatures",
        sa.Column("artifact_sha256", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("signed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["artifact_sha256"], ["artifacts.sha256"], name=op.f("fk_signatures_artifact_sha256_artifacts")
        ),
        sa.PrimaryKeyConstraint("artifact_sha256", "key", name=op.f("pk_signatures")),
    )
    op.create_index("ix_tunings_payer", "tunings", ["payer", "created_at"])


def downgrade() -> None:
    """Keys that were made for less than all go: before this revision each may do everything."""
    limited = " OR ".join(f"{name} IS NOT NULL" for name in LIMITS if name != "last_used_at")
    op.execute(f"DELETE FROM api_keys WHERE scope = 'read' OR {limited}")
    op.drop_table("signatures")
    op.drop_index("ix_tunings_payer", "tunings")
    with op.batch_alter_table("tunings") as batch:
        batch.drop_column("priority")
        batch.drop_column("payer")
    with op.batch_alter_table("api_keys") as batch:
        batch.drop_column("priority")
        batch.drop_column("scope")
        for name in LIMITS:
            batch.drop_column(name)
