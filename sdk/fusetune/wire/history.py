"""`fusetune.history/1`: a search that has ended, with all its trials, as it travels in a pack.

Whoever takes it in learns of it as of a search of his own: what won at other sizes, what the emulator found right.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from fusetune.wire.artifact import Resources, Wire
from fusetune.wire.fusion import Seq
from fusetune.wire.patterns import ID
from fusetune.wire.service import Accept, Hash, Name, TrialStateName, ViolationView

HISTORY_FORMAT: Literal["fusetune.history/1"] = "fusetune.history/1"

_MOST_NUMBERS = 2**31

Number = Annotated[int, Field(ge=0, lt=_MOST_NUMBERS)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Microseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Words = Annotated[str, Field(max_length=120)]
At = Annotated[AwareDatetime, Field(strict=False)]


class PackedCandidate(Wire):
    """A point of a scheduler's space."""

    scheduler: Annotated[str, Field(min_length=1, max_length=40)]
    point: dict[str, int | Finite | str | bool]


class PackedTrial(Wire):
    """What happened to one candidate; times in microseconds. Single samples are left out, as they are pruned."""

    number: Number
    candidate: PackedCandidate
    state: TrialStateName
    reason: str = ""
    violations: Seq[ViolationView] = ()
    predicted_us: Finite | None = None
    predicted_terms: dict[str, Finite] | None = None
    median_us: Microseconds | None = None
    p10_us: Microseconds | None = None
    p90_us: Microseconds | None = None
    resources: Resources | None = None
    code_hash: Hash | None = None
    launch_hash: Hash | None = None
    duplicate_of: Number | None = None
    seconds: dict[str, Finite] = Field(default={})


class PackedTuning(Wire):
    """A search that has ended: what was asked for, how it ended, and its trials in order of number."""

    format: Literal["fusetune.history/1"] = HISTORY_FORMAT
    id: Annotated[str, Field(pattern=ID)]
    fingerprint: Hash
    binding: Hash
    card: Words
    policy: Annotated[str, Field(min_length=1, max_length=40)]
    name: Name | None = None
    state: Literal["done", "failed", "cancelled"]
    accept: Accept = Accept()
    budget_s: Seconds
    spent_s: Seconds = 0.0
    trials_limit: Count | None = None
    points: Count | None = None
    legal: Count | None = None
    refused: dict[str, Count] | None = None
    reasons: dict[str, str] | None = None
    floor_us: Microseconds | None = None
    ended: Annotated[str, Field(max_length=32)] | None = None
    note: str = ""
    error: str | None = None
    generator: Words | None = None
    created_at: At
    started_at: At | None = None
    ended_at: At
    trials: Seq[PackedTrial] = ()
