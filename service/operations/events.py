"""What somebody who watches a tuning is told: its view whenever it has changed, and at last how it ended."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

from sqlalchemy.exc import OperationalError

from fusetune.wire.service import ACTIVE, TuningView
from service.operations import tunings
from service.operations.context import Context


@dataclass(frozen=True, slots=True)
class Event:
    """`data` is a TuningView as JSON; `id` is the same for equal ones, so a watcher that comes back misses nothing.
    `is_urgent`: somebody waits for the first kernel, which comes within a second mostly."""

    name: Literal["progress", "end"]
    id: str
    data: str
    is_urgent: bool = False


def event_of(view: TuningView) -> Event:
    """The event that says how a tuning stands."""
    data = view.model_dump_json()
    name: Literal["progress", "end"] = "progress" if view.state in ACTIVE else "end"
    is_urgent = name == "progress" and view.want == "first" and view.first is None
    return Event(name, hashlib.sha256(data.encode()).hexdigest()[:16], data, is_urgent)


def change(before: Event, now: Event) -> str:
    """The fields of `now` that are not as they were, as JSON: taken over those of `before`, they give `now`."""
    known, found = json.loads(before.data), json.loads(now.data)
    return json.dumps({name: value for name, value in found.items() if name not in known or known[name] != value})


def latest(context: Context, tuning_id: str) -> Event:
    """How the tuning stands now. Raises NotFound."""
    return event_of(tunings.get(context, tuning_id))


def following(context: Context, tuning_id: str) -> Event | None:
    """How the tuning stands now; None while the database does not answer: a stream outlives a restart of it."""
    try:
        return latest(context, tuning_id)
    except OperationalError:
        return None
