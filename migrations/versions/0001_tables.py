"""The first tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

HASH, ID, TEXT = sa.String(64), sa.String(32), sa.String()
NUMBER: sa.Double[float] = sa.Double()
MOMENT = sa.DateTime(timezone=True)
DOCUMENT = sa.JSON(none_as_null=True)


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


JOINABLE = _where("state IN ('queued', 'running') AND NOT cancel_requested")
CURRENT = _where("superseded_at IS NULL")
ACCEPTED = _where("revoked_at IS NULL")
TABLES = (
    "api_keys",
    "artifacts",
    "audit",
    "cards",
    "fusions",
    "bindings",
    "workers",
    "baselines",
    "tunings",
    "kernels",
    "trials",
    "samples",
)


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "api_keys",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("key_sha256", HASH, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("revoked_at", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("key_sha256", name=op.f("uq_api_keys_key_sha256")),
    )
    op.create_index("uq_api_keys_accepted", "api_keys", ["name"], unique=True, **ACCEPTED)

    op.create_table(
        "artifacts",
        sa.Column("sha256", HASH, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_artifacts")),
    )

    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("actor", sa.String(120), nullable=False),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("subject", sa.String(120), nullable=False),
        sa.Column("detail", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index("ix_audit_at", "audit", ["at"])

    op.create_table(
        "cards",
        sa.Column("id", ID, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("name", sa.String(120), nullable=False),
        sa.Column("facts", DOCUMENT, nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("driver", sa.String(64), nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cards")),
        sa.UniqueConstraint("key", name=op.f("uq_cards_key")),
    )

    op.create_table(
        "fusions",
        sa.Column("fingerprint", HASH, nullable=False),
        sa.Column("name", sa.String(80), nullable=True),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", name=op.f("pk_fusions")),
    )
    op.create_index("ix_fusions_created", "fusions", ["created_at", "fingerprint"])

    op.create_table(
        "bindings",
        sa.Column("fingerprint", HASH, nullable=False),
        sa.Column("hash", HASH, nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["fingerprint"], ["fusions.fingerprint"], name=op.f("fk_bindings_fingerprint_fusions")),
        sa.PrimaryKeyConstraint("fingerprint", "hash", name=op.f("pk_bindings")),
    )

    op.create_table(
        "workers",
        sa.Column("id", sa.String(120), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("card_id", ID, nullable=False),
        sa.Column("attached", sa.Boolean(), nullable=False),
        sa.Column("why", TEXT, nullable=False),
        sa.Column("tuning_id", ID, nullable=True),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("heartbeat_at", MOMENT, nullable=False),
        sa.Column("stopped_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["card_id"], ["cards.id"], name=op.f("fk_workers_card_id_cards")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )

    op.create_table(
        "baselines",
        sa.Column("fingerprint", HASH, nullable=False),
        sa.Column("binding", HASH, nullable=False),
        sa.Column("card_id", ID, nullable=False),
        sa.Column("policy", sa.String(40), nullable=False),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("median_us", NUMBER, nullable=False),
        sa.Column("samples_us", DOCUMENT, nullable=False),
        sa.Column("conditions", DOCUMENT, nullable=False),
        sa.Column("recorded_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["card_id"], ["cards.id"], name=op.f("fk_baselines_card_id_cards")),
        sa.ForeignKeyConstraint(
            ["fingerprint", "binding"],
            ["bindings.fingerprint", "bindings.hash"],
            name=op.f("fk_baselines_fingerprint_binding_bindings"),
        ),
        sa.PrimaryKeyConstraint("fingerprint", "binding", "card_id", "policy", "name", name=op.f("pk_baselines")),
    )

    op.create_table(
        "tunings",
        sa.Column("id", ID, nullable=False),
        sa.Column("fingerprint", HASH, nullable=False),
        sa.Column("binding", HASH, nullable=False),
        sa.Column("card_id", ID, nullable=False),
        sa.Column("policy", sa.String(40), nullable=False),
        sa.Column("queue", sa.String(80), nullable=False),
        sa.Column("name", sa.String(80), nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("phase", sa.String(80), nullable=False),
        sa.Column("accept", DOCUMENT, nullable=False),
        sa.Column("budget_s", NUMBER, nullable=False),
        sa.Column("trials_limit", sa.Integer(), nullable=True),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("spent_s", NUMBER, nullable=False),
        sa.Column("points", sa.BigInteger(), nullable=True),
        sa.Column("legal", sa.BigInteger(), nullable=True),
        sa.Column("refused", DOCUMENT, nullable=True),
        sa.Column("reasons", DOCUMENT, nullable=True),
        sa.Column("floor_us", NUMBER, nullable=True),
        sa.Column("kernel_id", ID, nullable=True),
        sa.Column("ended", sa.String(32), nullable=True),
        sa.Column("note", TEXT, nullable=False),
        sa.Column("error", TEXT, nullable=True),
        sa.Column("worker_id", sa.String(120), nullable=True),
        sa.Column("run_id", ID, nullable=True),
        sa.Column("deaths", sa.Integer(), nullable=False),
        sa.Column("generator", sa.String(120), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("idempotency_key", sa.String(255), nullable=True),
        sa.Column("request_sha256", HASH, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("started_at", MOMENT, nullable=True),
        sa.Column("ended_at", MOMENT, nullable=True),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'done', 'failed', 'cancelled')", name=op.f("ck_tunings_state")
        ),
        sa.ForeignKeyConstraint(["card_id"], ["cards.id"], name=op.f("fk_tunings_card_id_cards")),
        sa.ForeignKeyConstraint(
            ["fingerprint", "binding"],
            ["bindings.fingerprint", "bindings.hash"],
            name=op.f("fk_tunings_fingerprint_binding_bindings"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tunings")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_tunings_idempotency_key")),
    )
    op.create_index("ix_tunings_created", "tunings", ["created_at", "id"])
    op.create_index("ix_tunings_fingerprint", "tunings", ["fingerprint", "created_at", "id"])
    op.create_index("ix_tunings_state", "tunings", ["state", "created_at", "id"])
    op.create_index(
        "uq_tunings_active", "tunings", ["fingerprint", "binding", "card_id", "policy"], unique=True, **JOINABLE
    )

    op.create_table(
        "kernels",
        sa.Column("id", ID, nullable=False),
        sa.Column("artifact_sha256", HASH, nullable=False),
        sa.Column("fingerprint", HASH, nullable=False),
        sa.Column("binding", HASH, nullable=False),
        sa.Column("card_id", ID, nullable=False),
        sa.Column("policy", sa.String(40), nullable=False),
        sa.Column("arch", sa.String(16), nullable=False),
        sa.Column("correct", sa.String(24), nullable=False),
        sa.Column("time", sa.String(16), nullable=False),
        sa.Column("median_us", NUMBER, nullable=True),
        sa.Column("p10_us", NUMBER, nullable=True),
        sa.Column("p90_us", NUMBER, nullable=True),
        sa.Column("floor_us", NUMBER, nullable=True),
        sa.Column("scheduler", sa.String(40), nullable=False),
        sa.Column("point", DOCUMENT, nullable=False),
        sa.Column("resources", DOCUMENT, nullable=False),
        sa.Column("generator", sa.String(64), nullable=False),
        sa.Column("nvrtc", sa.String(32), nullable=False),
        sa.Column("driver", sa.String(64), nullable=True),
        sa.Column("tuning_id", ID, nullable=True),
        sa.Column("trial_number", sa.Integer(), nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("superseded_at", MOMENT, nullable=True),
        sa.CheckConstraint("correct IN ('verified_on_gpu', 'verified_emulated')", name=op.f("ck_kernels_correct")),
        sa.CheckConstraint("time IN ('measured', 'predicted', 'none')", name=op.f("ck_kernels_time")),
        sa.ForeignKeyConstraint(
            ["artifact_sha256"], ["artifacts.sha256"], name=op.f("fk_kernels_artifact_sha256_artifacts")
        ),
        sa.ForeignKeyConstraint(["card_id"], ["cards.id"], name=op.f("fk_kernels_card_id_cards")),
        sa.ForeignKeyConstraint(
            ["fingerprint", "binding"],
            ["bindings.fingerprint", "bindings.hash"],
            name=op.f("fk_kernels_fingerprint_binding_bindings"),
        ),
        sa.ForeignKeyConstraint(["tuning_id"], ["tunings.id"], name=op.f("fk_kernels_tuning_id_tunings")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_kernels")),
    )
    op.create_index("ix_kernels_created", "kernels", ["created_at", "id"], **CURRENT)
    op.create_index(
        "uq_kernels_current", "kernels", ["fingerprint", "binding", "card_id", "policy"], unique=True, **CURRENT
    )

    op.create_table(
        "trials",
        sa.Column("tuning_id", ID, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("scheduler", sa.String(40), nullable=False),
        sa.Column("point", DOCUMENT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("violations", DOCUMENT, nullable=False),
        sa.Column("predicted_us", NUMBER, nullable=True),
        sa.Column("median_us", NUMBER, nullable=True),
        sa.Column("p10_us", NUMBER, nullable=True),
        sa.Column("p90_us", NUMBER, nullable=True),
        sa.Column("resources", DOCUMENT, nullable=True),
        sa.Column("code_hash", HASH, nullable=True),
        sa.Column("launch_hash", HASH, nullable=True),
        sa.Column("duplicate_of", sa.Integer(), nullable=True),
        sa.Column("seconds", DOCUMENT, nullable=False),
        sa.Column("recorded_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["tuning_id"], ["tunings.id"], name=op.f("fk_trials_tuning_id_tunings")),
        sa.PrimaryKeyConstraint("tuning_id", "number", name=op.f("pk_trials")),
    )
    op.create_index("ix_trials_median", "trials", ["tuning_id", "state", "median_us", "number"])
    op.create_index("ix_trials_state", "trials", ["tuning_id", "state", "number"])

    op.create_table(
        "samples",
        sa.Column("tuning_id", ID, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("samples_us", DOCUMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["tuning_id", "number"],
            ["trials.tuning_id", "trials.number"],
            name=op.f("fk_samples_tuning_id_number_trials"),
        ),
        sa.PrimaryKeyConstraint("tuning_id", "number", name=op.f("pk_samples")),
    )


def downgrade() -> None:
    """Drop every table: nothing is left."""
    for table in reversed(TABLES):
        op.drop_table(table)
