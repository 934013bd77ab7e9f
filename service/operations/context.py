"""What every operation works with."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from service.db.engine import Database
from service.operations.answers import Answers
from service.operations.artifacts import ArtifactCache
from service.operations.handover import Handover
from service.settings import Settings

COUNTED_AT_ONCE = 4
"""Spaces that are counted at the same time: a second of one core each, which nobody else shall wait for."""


JUDGED_AT_ONCE = 2
"""Requests whose explicit schedules are judged at the same time, for the same reason."""


@dataclass(frozen=True, slots=True)
class Context:
    """One for each application; operations keep nothing else between two calls."""

    settings: Settings
    db: Database
    handover: Handover
    answers: Answers
    artifacts: ArtifactCache = field(default_factory=ArtifactCache)
    counting: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(COUNTED_AT_ONCE))
    judging: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(JUDGED_AT_ONCE))
