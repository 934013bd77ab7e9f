"""The tables. Migrations in `migrations/` make the same ones; a test holds them against each other.

Ids are text: hashes for what is named by its content, random for what happens (tunings). Moments are UTC. What goes
with a deleted fusion or kernel is found by indexes: a foreign key has one of its own where its table grows.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    false,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from service.db.types import Document, Finite, Moment, Words, now

HASH = 64
"""Characters of a SHA-256 in hexadecimal."""

ID = 32
"""Characters of every other id."""

JOINABLE = text("state IN ('queued', 'running') AND NOT cancel_requested")
CURRENT = text("superseded_at IS NULL")
ACCEPTED = text("revoked_at IS NULL")

NORMAL = 5
"""The priority of a tuning whose key has no other: 1 comes first, 9 last."""

FIRST_VERIFIER = text("1")
"""Of kernels whose record does not say which verifier proved them."""


class Base(DeclarativeBase):
    """Every constraint has a name, so that a migration can drop it."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy's own)
        dict[str, Any]: Document,
        list[Any]: Document,
        datetime: Moment,
        float: Finite,
        str: Words,
    }


class FusionRow(Base):
    """A graph by its fingerprint; `document` is its canonical form, `name` the first that a request gave it."""

    __tablename__ = "fusions"
    __table_args__ = (Index("ix_fusions_created", "created_at", "fingerprint"),)

    fingerprint: Mapped[str] = mapped_column(Words(HASH), primary_key=True)
    name: Mapped[str | None] = mapped_column(Words(80))
    text: Mapped[str]
    document: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(default=now)


class BindingRow(Base):
    """Sizes, strides and alignments of a fusion, under their hash."""

    __tablename__ = "bindings"

    fingerprint: Mapped[str] = mapped_column(Words(HASH), ForeignKey("fusions.fingerprint"), primary_key=True)
    hash: Mapped[str] = mapped_column(Words(HASH), primary_key=True)
    document: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(default=now)


class CardRow(Base):
    """A GPU model with all that decides how it times. `key` spells it out, `id` is a hash of it.

    `facts` are the fields of `compiler.arch.Card` that the key has; `source` is "attached" or "table".
    """

    __tablename__ = "cards"

    id: Mapped[str] = mapped_column(Words(ID), primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(Words(120))
    facts: Mapped[dict[str, Any]]
    source: Mapped[str] = mapped_column(Words(16))
    driver: Mapped[str | None] = mapped_column(Words(64))
    clock_limit_mhz: Mapped[int | None]
    created_at: Mapped[datetime] = mapped_column(default=now)


class WorkerRow(Base):
    """A worker process. It is alive while `heartbeat_at` is recent and `stopped_at` is not set."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(Words(120), primary_key=True)
    host: Mapped[str] = mapped_column(Words(255))
    pid: Mapped[int]
    card_id: Mapped[str] = mapped_column(Words(ID), ForeignKey("cards.id"))
    attached: Mapped[bool]
    why: Mapped[str] = mapped_column(default="")
    tuning_id: Mapped[str | None] = mapped_column(Words(ID))
    started_at: Mapped[datetime] = mapped_column(default=now)
    heartbeat_at: Mapped[datetime] = mapped_column(default=now)
    stopped_at: Mapped[datetime | None]


class TuningRow(Base):
    """A search. At most one for a key is queued or running and not cancelled: equal requests join it.

    `run_id` names the run of a worker process that has it in hand: what another run writes comes too late. `deaths`
    counts runs that ended in the middle, without a word, since a trial was last kept. `generator` made its trials.
    `refresh`: a search is wanted although a kernel is known. `want`: "first" where somebody takes the first kernel that
    may be served; `first_kernel_id` is that one, once it is there. `enough`: when the search may end before its budget
    (`fusetune.wire.wanting.Enough`), NULL for never. `tied`: trials that time does not tell from its kernel.
    `timeline`: what its last run spent its time on (`search.tuning.timeline`). `stands_on`: what its end stands on
    (`service.stands_on`). `payer`: the id of the API key that it counts against, NULL for none. `priority`: 1 before 9.
    """

    __tablename__ = "tunings"
    __table_args__ = (
        ForeignKeyConstraint(["fingerprint", "binding"], ["bindings.fingerprint", "bindings.hash"]),
        CheckConstraint("state IN ('queued', 'running', 'done', 'failed', 'cancelled')", name="state"),
        Index(
            "uq_tunings_active",
            "fingerprint",
            "binding",
            "card_id",
            "policy",
            unique=True,
            sqlite_where=JOINABLE,
            postgresql_where=JOINABLE,
        ),
        Index("ix_tunings_created", "created_at", "id"),
        Index("ix_tunings_state", "state", "created_at", "id"),
        Index("ix_tunings_fingerprint", "fingerprint", "created_at", "id"),
        Index("ix_tunings_payer", "payer", "created_at"),
    )

    id: Mapped[str] = mapped_column(Words(ID), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(Words(HASH))
    binding: Mapped[str] = mapped_column(Words(HASH))
    card_id: Mapped[str] = mapped_column(Words(ID), ForeignKey("cards.id"))
    policy: Mapped[str] = mapped_column(Words(40))
    queue: Mapped[str] = mapped_column(Words(80))
    name: Mapped[str | None] = mapped_column(Words(80))
    state: Mapped[str] = mapped_column(Words(16), default="queued")
    phase: Mapped[str] = mapped_column(Words(80), default="waiting for a worker")
    accept: Mapped[dict[str, Any]]
    refresh: Mapped[bool] = mapped_column(default=False, server_default=false())
    want: Mapped[str] = mapped_column(Words(8), default="best", server_default="best")
    enough: Mapped[dict[str, Any] | None]
    budget_s: Mapped[float]
    trials_limit: Mapped[int | None]
    seed: Mapped[int] = mapped_column(BigInteger, default=0)
    spent_s: Mapped[float] = mapped_column(default=0.0)
    points: Mapped[int | None] = mapped_column(BigInteger)
    legal: Mapped[int | None] = mapped_column(BigInteger)
    refused: Mapped[dict[str, Any] | None]
    reasons: Mapped[dict[str, Any] | None]
    floor_us: Mapped[float | None]
    kernel_id: Mapped[str | None] = mapped_column(Words(ID))
    first_kernel_id: Mapped[str | None] = mapped_column(Words(ID))
    tied: Mapped[list[Any] | None]
    ended: Mapped[str | None] = mapped_column(Words(32))
    note: Mapped[str] = mapped_column(default="")
    error: Mapped[str | None]
    worker_id: Mapped[str | None] = mapped_column(Words(120))
    run_id: Mapped[str | None] = mapped_column(Words(ID))
    deaths: Mapped[int] = mapped_column(default=0)
    generator: Mapped[str | None] = mapped_column(Words(120))
    timeline: Mapped[dict[str, Any] | None]
    stands_on: Mapped[dict[str, Any] | None]
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    payer: Mapped[str | None] = mapped_column(Words(ID))
    priority: Mapped[int] = mapped_column(default=NORMAL, server_default=text(str(NORMAL)))
    idempotency_key: Mapped[str | None] = mapped_column(Words(255), unique=True)
    request_sha256: Mapped[str] = mapped_column(Words(HASH))
    created_at: Mapped[datetime] = mapped_column(default=now)
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]


class TrialRow(Base):
    """What happened to one candidate of a tuning, as `search.tuning.trial.Trial` says it; its samples stand apart."""

    __tablename__ = "trials"
    __table_args__ = (
        Index("ix_trials_state", "tuning_id", "state", "number"),
        Index("ix_trials_median", "tuning_id", "state", "median_us", "number"),
    )

    tuning_id: Mapped[str] = mapped_column(Words(ID), ForeignKey("tunings.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    state: Mapped[str] = mapped_column(Words(24))
    scheduler: Mapped[str] = mapped_column(Words(40))
    point: Mapped[dict[str, Any]]
    reason: Mapped[str] = mapped_column(default="")
    violations: Mapped[list[Any]] = mapped_column(default=list)
    predicted_us: Mapped[float | None]
    predicted_terms: Mapped[dict[str, Any] | None]
    median_us: Mapped[float | None]
    p10_us: Mapped[float | None]
    p90_us: Mapped[float | None]
    resources: Mapped[dict[str, Any] | None]
    code_hash: Mapped[str | None] = mapped_column(Words(HASH))
    launch_hash: Mapped[str | None] = mapped_column(Words(HASH))
    duplicate_of: Mapped[int | None]
    seconds: Mapped[dict[str, Any]] = mapped_column(default=dict)
    recorded_at: Mapped[datetime] = mapped_column(default=now)


class HelperRow(Base):
    """A worker that helps with the tuning of another one. `attached`: it measures; `hands`: candidates that it builds
    at a time. `left_at`: it helps no more, and `why`. `measured` and `built` count what came of it."""

    __tablename__ = "helpers"

    tuning_id: Mapped[str] = mapped_column(Words(ID), ForeignKey("tunings.id"), primary_key=True)
    worker_id: Mapped[str] = mapped_column(Words(120), primary_key=True)
    attached: Mapped[bool]
    hands: Mapped[int]
    measured: Mapped[int] = mapped_column(default=0)
    built: Mapped[int] = mapped_column(default=0)
    why: Mapped[str] = mapped_column(default="")
    joined_at: Mapped[datetime] = mapped_column(default=now)
    left_at: Mapped[datetime | None]


class ErrandRow(Base):
    """What a tuning asks of its helpers: to measure a kernel (of the one named in `worker_id`) or to build one (of
    whoever takes it, which is then named). Gone once the answer was read. `request` and `answer` are packed JSON
    (`service.jobs.errand_forms`)."""

    __tablename__ = "errands"
    __table_args__ = (Index("ix_errands_tuning", "tuning_id", "created_at"),)

    id: Mapped[str] = mapped_column(Words(ID), primary_key=True)
    tuning_id: Mapped[str] = mapped_column(Words(ID), ForeignKey("tunings.id"))
    kind: Mapped[str] = mapped_column(Words(8))
    worker_id: Mapped[str | None] = mapped_column(Words(120))
    request: Mapped[bytes] = mapped_column(LargeBinary)
    is_taken: Mapped[bool] = mapped_column(default=False)
    answer: Mapped[bytes | None] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(default=now)


class SampleRow(Base):
    """All samples of a trial's time, in microseconds and in the order taken, and the conditions that stood beside them
    (`search.measure.marks`)."""

    __tablename__ = "samples"
    __table_args__ = (ForeignKeyConstraint(["tuning_id", "number"], ["trials.tuning_id", "trials.number"]),)

    tuning_id: Mapped[str] = mapped_column(Words(ID), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    samples_us: Mapped[list[Any]]
    conditions: Mapped[dict[str, Any] | None]


class ArtifactRow(Base):
    """Bytes under their SHA-256, once however often they are named. `content` is zlib's form of them.

    It is empty once they are pruned (`service.db.retention`): the row says that they were, and when.
    """

    __tablename__ = "artifacts"

    sha256: Mapped[str] = mapped_column(Words(HASH), primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)
    size_bytes: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(default=now)
    pruned_at: Mapped[datetime | None]


class SignatureRow(Base):
    """The Ed25519 signature of an artifact by the key with that hash (`fusetune.wire.signature`)."""

    __tablename__ = "signatures"

    artifact_sha256: Mapped[str] = mapped_column(Words(HASH), ForeignKey("artifacts.sha256"), primary_key=True)
    key: Mapped[str] = mapped_column(Words(HASH), primary_key=True)
    value: Mapped[bytes] = mapped_column(LargeBinary)
    signed_at: Mapped[datetime] = mapped_column(default=now)


class KernelRow(Base):
    """A served kernel, never an unverified one; `id` begins its artifact's hash.

    The one without `superseded_at` is the answer for its key, if the number of the `verifier` that proved it is
    today's. `refuted`: why it is none, where a later verifier has found it wrong. `provisional`: how far it may be from
    the best, where its search has not ended (`fusetune.wire.wanting.Distance`); NULL for what a search ended with.
    `clock_limit_mhz`: the SM clock that the card was limited to when it was timed. `checked`: when it was timed again,
    how long it took then, and under which conditions (`fusetune.wire.checks.Checked`); NULL if it never was. `alike`,
    `structure`: hashes of all of its fusion but sizes, and of how data flows; `sizes`: those of its inputs; NULL where
    they were not worked out yet (`service.jobs.past`), empty where they cannot be.
    """

    __tablename__ = "kernels"
    __table_args__ = (
        ForeignKeyConstraint(["fingerprint", "binding"], ["bindings.fingerprint", "bindings.hash"]),
        Index(
            "uq_kernels_current",
            "fingerprint",
            "binding",
            "card_id",
            "policy",
            unique=True,
            sqlite_where=CURRENT,
            postgresql_where=CURRENT,
        ),
        Index("ix_kernels_created", "created_at", "id", sqlite_where=CURRENT, postgresql_where=CURRENT),
        Index("ix_kernels_binding", "binding"),
        Index("ix_kernels_artifact_sha256", "artifact_sha256"),
        Index("ix_kernels_tuning_id", "tuning_id"),
        Index("ix_kernels_alike", "alike", "created_at"),
        Index("ix_kernels_structure", "structure", "card_id", "created_at"),
        CheckConstraint("correct IN ('verified_on_gpu', 'verified_emulated')", name="correct"),
        CheckConstraint("time IN ('measured', 'predicted', 'none')", name="time"),
    )

    id: Mapped[str] = mapped_column(Words(ID), primary_key=True)
    artifact_sha256: Mapped[str] = mapped_column(Words(HASH), ForeignKey("artifacts.sha256"))
    fingerprint: Mapped[str] = mapped_column(Words(HASH))
    binding: Mapped[str] = mapped_column(Words(HASH))
    card_id: Mapped[str] = mapped_column(Words(ID), ForeignKey("cards.id"))
    policy: Mapped[str] = mapped_column(Words(40))
    arch: Mapped[str] = mapped_column(Words(16))
    correct: Mapped[str] = mapped_column(Words(24))
    time: Mapped[str] = mapped_column(Words(16))
    verifier: Mapped[int] = mapped_column(server_default=FIRST_VERIFIER)
    refuted: Mapped[str | None]
    provisional: Mapped[dict[str, Any] | None]
    median_us: Mapped[float | None]
    p10_us: Mapped[float | None]
    p90_us: Mapped[float | None]
    floor_us: Mapped[float | None]
    scheduler: Mapped[str] = mapped_column(Words(40))
    point: Mapped[dict[str, Any]]
    resources: Mapped[dict[str, Any]]
    generator: Mapped[str] = mapped_column(Words(64))
    nvrtc: Mapped[str] = mapped_column(Words(32))
    driver: Mapped[str | None] = mapped_column(Words(64))
    clock_limit_mhz: Mapped[int | None]
    checked: Mapped[dict[str, Any] | None]
    alike: Mapped[str | None] = mapped_column(Words(16))
    structure: Mapped[str | None] = mapped_column(Words(16))
    sizes: Mapped[list[Any] | None]
    tuning_id: Mapped[str | None] = mapped_column(Words(ID), ForeignKey("tunings.id"))
    trial_number: Mapped[int | None]
    created_at: Mapped[datetime] = mapped_column(default=now)
    superseded_at: Mapped[datetime | None]


class DeletedKernelRow(Base):
    """A kernel that somebody has deleted. It comes back only by a search that was asked for after that."""

    __tablename__ = "deleted_kernels"

    id: Mapped[str] = mapped_column(Words(ID), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(Words(HASH))
    deleted_at: Mapped[datetime] = mapped_column(default=now)


class BaselineRow(Base):
    """A measured time of the same work without fusetune, under the same policy on the same card."""

    __tablename__ = "baselines"
    __table_args__ = (ForeignKeyConstraint(["fingerprint", "binding"], ["bindings.fingerprint", "bindings.hash"]),)

    fingerprint: Mapped[str] = mapped_column(Words(HASH), primary_key=True)
    binding: Mapped[str] = mapped_column(Words(HASH), primary_key=True)
    card_id: Mapped[str] = mapped_column(Words(ID), ForeignKey("cards.id"), primary_key=True)
    policy: Mapped[str] = mapped_column(Words(40), primary_key=True)
    name: Mapped[str] = mapped_column(Words(40), primary_key=True)
    median_us: Mapped[float]
    samples_us: Mapped[list[Any]]
    conditions: Mapped[dict[str, Any]]
    recorded_at: Mapped[datetime] = mapped_column(default=now)


class ApiKeyRow(Base):
    """A key that a request may carry; only its hash is kept. A revoked key's name is free again.

    `scope`: what it may do (`service.access`). `priority`: of its tunings, 1 before 9. The quotas are for any 24 hours,
    NULL for none. `last_used_at` is behind by as long as a process gathers it (`service.auth`).
    """

    __tablename__ = "api_keys"
    __table_args__ = (
        Index("uq_api_keys_accepted", "name", unique=True, sqlite_where=ACCEPTED, postgresql_where=ACCEPTED),
    )

    id: Mapped[str] = mapped_column(Words(ID), primary_key=True)
    name: Mapped[str] = mapped_column(Words(80))
    key_sha256: Mapped[str] = mapped_column(Words(HASH), unique=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    revoked_at: Mapped[datetime | None]
    scope: Mapped[str] = mapped_column(Words(8), default="tune", server_default="tune")
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    priority: Mapped[int] = mapped_column(default=NORMAL, server_default=text(str(NORMAL)))
    tunings_a_day: Mapped[int | None]
    gpu_s_a_day: Mapped[float | None]
    requests_a_minute: Mapped[int | None]


class AuditRow(Base):
    """Who did what: tunings opened, joined and cancelled, keys made and revoked, kernels published and deleted."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(default=now, index=True)
    actor: Mapped[str] = mapped_column(Words(120))
    action: Mapped[str] = mapped_column(Words(40))
    subject: Mapped[str] = mapped_column(Words(120))
    detail: Mapped[dict[str, Any]] = mapped_column(default=dict)
