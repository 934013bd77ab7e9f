"""Whether a key may have a tuning searched: how many it may open within a day, and for how many seconds of a GPU."""

from __future__ import annotations

import math
from datetime import timedelta

from sqlalchemy.orm import Session

from service.db import keys, quotas
from service.db.models import NORMAL
from service.db.types import now
from service.operations.errors import OverLimit, QuotaSpent


def priority_of(session: Session, key_id: str | None) -> int:
    """Of the tunings of a key."""
    key = None if key_id is None else keys.get(session, key_id)
    return NORMAL if key is None else key.priority


def spend(session: Session, key_id: str | None, budget_s: float, joined: str | None = None) -> None:
    """The key pays for a tuning of that budget, a new one or the one it joins; two that spend of one key take turns.

    A tuning that goes on counts with its whole budget, one that has ended with what it took. Raises QuotaSpent, and
    OverLimit for what no day would allow.
    """
    key = None if key_id is None else keys.get(session, key_id, to_spend=True)
    if key is None or (key.tunings_a_day is None and key.gpu_s_a_day is None):
        return
    at = now()
    paid = [one for one in quotas.charges(session, key.id, at - quotas.DAY) if one.tuning_id != joined]
    if key.gpu_s_a_day is not None and budget_s > key.gpu_s_a_day:
        raise OverLimit(
            f"budget_s: found {budget_s:g}, the key of {key.name} has {key.gpu_s_a_day:g} s of a GPU a day.",
            "Ask for less.",
        )
    until: list[timedelta] = []
    told: list[str] = []
    if key.tunings_a_day is not None and len(paid) >= key.tunings_a_day:
        told.append(f"{len(paid)} of {key.tunings_a_day} tunings")
        until += [paid[len(paid) - key.tunings_a_day].at + quotas.DAY - at] if key.tunings_a_day else [quotas.DAY]
    taken_s = sum(one.gpu_s for one in paid)
    if key.gpu_s_a_day is not None and taken_s + budget_s > key.gpu_s_a_day:
        told.append(f"{taken_s:.0f} of {key.gpu_s_a_day:g} GPU seconds, and this asks for {budget_s:g}")
        left_s = taken_s
        for one in paid:
            left_s -= one.gpu_s
            if left_s + budget_s <= key.gpu_s_a_day:
                until.append(one.at + quotas.DAY - at)
                break
    if told:
        wait_s = max(1, math.ceil(max(until).total_seconds()))
        raise QuotaSpent(f"The key of {key.name} has used {' and '.join(told)} within 24 hours.", wait_s)
