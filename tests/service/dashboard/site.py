"""The service with a dashboard to look at: the whole application, a job queue that only notes what it is told."""

from __future__ import annotations

from fastapi import FastAPI

from service.app import create_app
from service.db.engine import Database
from service.settings import Settings

ORIGIN = "http://127.0.0.1"

A_DAY_S = 86400.0
"""Between heartbeats: seeded workers stay alive however long a test takes."""


class SilentQueue:
    """Hands nothing to anybody."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    def enqueue(self, tuning_id: str, queue: str, priority: int) -> None:
        pass

    def cancel(self, tuning_id: str) -> None:
        self.cancelled.append(tuning_id)

    def close(self) -> None:
        pass


def site(database: Database) -> FastAPI:
    """The service over `database`; without a worker's job queue, nothing changes but by us."""
    return create_app(Settings(heartbeat_s=A_DAY_S), database=database, queue=SilentQueue())
