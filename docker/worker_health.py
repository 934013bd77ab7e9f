"""The worker's health check: exits with 0 if this container's worker has given a sign of life lately, else with 1.

A process that hangs looks alive from outside; its heartbeat in the database is what the service itself goes by.
"""

from __future__ import annotations

import sys
from datetime import timedelta

from service.db.engine import Database, DatabaseFault
from service.db.models import WorkerRow
from service.db.types import now
from service.settings import Settings

MISSED_BEATS = 6
"""Heartbeats that may be late in a row: a busy database or a long compile is no reason for a restart."""


def fault(settings: Settings) -> str:
    """What is wrong with the worker of these settings; empty if nothing is."""
    try:
        with Database(settings.db_url, must_exist=True) as database, database.faults(), database.read() as session:
            worker = session.get(WorkerRow, settings.worker_id)
    except DatabaseFault as error:
        return str(error)
    if worker is None:
        return f"worker {settings.worker_id}: not in the database yet"
    if worker.stopped_at is not None:
        return f"worker {settings.worker_id}: stopped at {worker.stopped_at:%H:%M:%S} UTC"
    silent = now() - worker.heartbeat_at
    if silent > MISSED_BEATS * timedelta(seconds=settings.heartbeat_s):
        return f"worker {settings.worker_id}: no heartbeat for {silent.total_seconds():.0f} s"
    return ""


if __name__ == "__main__":
    if told := fault(Settings()):
        sys.exit(told)
