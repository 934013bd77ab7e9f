"""Verdicts on explicit schedules: what is sent to be judged, and what is answered (docs/contracts.md, "Verdict")."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, RootModel, WithJsonSchema

from fusetune.wire.artifact import Wire
from fusetune.wire.fusion import Seq

ScheduleStage = Literal["schedule", "compile", "runtime"]
"""When a breach of an explicit schedule is found."""

MAX_CASES = 256
"""Explicit schedules of one POST /v1/schedules/check."""

ArchName = Literal["sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_120a"]
"""A compile target (compiler.arch has their limits)."""


def _in_a_list(value: Any) -> Any:
    return (value,) if isinstance(value, dict) else tuple(value) if isinstance(value, list) else value


_CASES_SCHEMA = {
    "anyOf": [{"type": "object", "additionalProperties": True}, {"type": "array", "items": {}, "maxItems": MAX_CASES}]
}
Cases = Annotated[
    tuple[Any, ...], Field(max_length=MAX_CASES), BeforeValidator(_in_a_list), WithJsonSchema(_CASES_SCHEMA)
]


class ScheduleCases(RootModel[Cases]):
    """POST /v1/schedules/check: an explicit schedule, or a list of them (docs/contracts.md, "Explicit schedules").

    What is inside is judged, not parsed: an entry that is no schedule gets a verdict that says so.
    """

    model_config = ConfigDict(frozen=True, strict=True)


class BreachView(Wire):
    """A rule's refusal of an explicit schedule, found as the schedule is made, compiled, or run."""

    rule: str
    where: str
    found: int | float | str
    limit: int | float | str
    fix: str
    message: str = ""
    stage: ScheduleStage


class TmaView(Wire):
    """A bulk copy, by the tensor that it writes; lists are innermost first, null where nothing was inferred."""

    tensor: str
    dims: int | None
    box: Seq[int] | None
    tile: Seq[int] | None
    element_strides: Seq[int] | None
    swizzle: str
    correctness: Literal["strong", "strong_with_predicate", "weak"] | None


class TmemView(Wire):
    """A tensor in tensor memory; `allocated_columns` is null where it needs too many."""

    tensor: str
    lanes: int
    columns: int
    allocated_columns: int | None
    pattern: str | None


class GuardView(Wire):
    """A condition that is checked before every launch: `expr` is true where it holds."""

    rule: str
    where: str
    expr: str
    message: str


class ScheduleVerdict(Wire):
    """What is known of an explicit schedule (docs/contracts.md, "Verdict").

    `legal` is null, and `error` says why, for an entry that is no schedule.
    """

    name: str
    legal: bool | None
    stage: ScheduleStage | None
    violations: Seq[BreachView]
    tma: Seq[TmaView]
    tmem: TmemView | None
    tmem_all: Seq[TmemView]
    smem_bytes: int | None
    kept: Seq[GuardView]
    arch: str | None
    error: str | None = None


class ScheduleVerdicts(RootModel[Seq[ScheduleVerdict]]):
    """The verdicts on explicit schedules, in their order."""

    model_config = ConfigDict(frozen=True, strict=True)
