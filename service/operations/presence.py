"""When a worker counts as alive."""

from __future__ import annotations

from datetime import datetime, timedelta

from service.db.types import now
from service.jobs.presence import ALIVE_BEATS
from service.settings import Settings


def alive_since(settings: Settings) -> datetime:
    """A worker is alive if it was heard of after this moment and has not stopped."""
    return now() - timedelta(seconds=ALIVE_BEATS * settings.heartbeat_s)
