"""What an operator sets: environment variables `FUSETUNE_*`, which the options of the commands override."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

_MIB = 1024 * 1024

FOREVER = "forever"

Days = Annotated[float, Field(ge=0, le=36_500)] | Literal["forever"]
"""For how long `python -m service prune` keeps something."""


class Settings(BaseSettings):
    """One frozen object, made at the start of a process and handed down; nothing else reads the environment.

    An empty variable counts as one that is not set, as compose files pass it on.
    """

    model_config = SettingsConfigDict(env_prefix="FUSETUNE_", env_ignore_empty=True, frozen=True, extra="ignore")

    data_dir: Path = Path("fusetune-data")
    """Where the default databases are."""

    database_url: str | None = None
    """Our tables: `sqlite:///PATH` or `postgresql+psycopg://…`. Default: `DATA_DIR/fusetune.db`."""

    jobs_url: str | None = None
    """The database of the job queue (DBOS). Default: `DATA_DIR/jobs.db`; a PostgreSQL URL may be the one above."""

    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    workers: int = Field(default=1, ge=1, le=64)
    """Processes of `serve` that answer requests, on one socket. What tunes is another thing, a `worker`."""

    api_key: SecretStr | None = None
    """A key that is always accepted, beside those made by `keys create`."""

    require_key: bool | None = None
    """Default: only where `host` is not loopback."""

    max_body_bytes: int = Field(default=1 * _MIB, ge=1024)
    max_ops: int = Field(default=256, ge=1, le=256)
    """Operators of one fusion: the wire's own limit (fusetune.wire.infer.MAX_OPS) or less."""

    max_budget_s: float = Field(default=3600.0, ge=1)
    max_queued: int = Field(default=1000, ge=1)
    """Tunings that may wait; one more is answered 429."""

    keep_code_days: Days = 90.0
    """For how long the code of a kernel is kept after another took its place; a lock file may still name it."""

    keep_samples_days: Days = 30.0
    keep_workers_days: Days = 7.0
    keep_idempotency_days: Days = 7.0
    """For how long samples and Idempotency-Keys are kept after their tuning, and workers after they were heard of."""

    worker_id: str = Field(default_factory=lambda: f"{socket.gethostname()}-0", min_length=1, max_length=100)
    """Must stay the same over restarts: a worker goes on with the tunings of its id."""

    device: Literal["auto", "fake", "none"] = "auto"
    """`auto`: the attached GPU. `none`: compile only. `fake`: for tests, invented times on a card named "fake"."""

    gpu: int = Field(default=0, ge=0)
    """Which of this machine's GPUs the worker takes; a worker has one."""

    card: str | None = None
    """The GPU model that a worker without a GPU compiles for."""

    signing_key: Path | None = None
    """The private key that a worker signs its kernels with (`python -m service signing create`)."""

    learn: bool = True
    """Whether a worker orders candidates by what it learns of its card from the trials in the database."""

    compilers: int | None = Field(default=None, ge=1, le=256)
    heartbeat_s: float = Field(default=5.0, gt=0)
    poll_s: float = Field(default=0.2, gt=0)
    """How often the service looks for news of a tuning that somebody watches."""

    log_format: Literal["console", "json"] = "console"

    @field_validator("api_key")
    @classmethod
    def _can_be_sent(cls, key: SecretStr | None) -> SecretStr | None:
        """What no header or cookie can hold would let nobody in. The message does not show it."""
        text = "k" if key is None else key.get_secret_value()
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise ValueError("printable ASCII without blanks")
        return key

    @property
    def db_url(self) -> str:
        """The URL of our tables."""
        return self.database_url or f"sqlite:///{self.data_dir.resolve() / 'fusetune.db'}"

    @property
    def dbos_url(self) -> str:
        """The URL of the job queue's tables."""
        return self.jobs_url or f"sqlite:///{self.data_dir.resolve() / 'jobs.db'}"
