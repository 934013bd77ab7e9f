"""A trial: what happened to a candidate. Illegal is not slow: each way to end has a state of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from compiler.errors import Violation
from compiler.renamed import rule_today
from fusetune.wire.artifact import Resources
from search.tuning.candidates.candidate import Candidate, checked


class TrialState(StrEnum):
    """How a trial ended (docs/contracts.md, "Trial states")."""

    ILLEGAL = "illegal"
    COMPILE_FAILED = "compile_failed"
    COMPILE_TIMED_OUT = "compile_timed_out"
    WRONG_RESULT = "wrong_result"
    UNSUPPORTED = "unsupported"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    PRUNED = "pruned"
    DUPLICATE = "duplicate"
    VERIFIED = "verified"
    MEASURED = "measured"
    COMPILED = "compiled"
    """By a worker without the GPU: neither verified nor timed."""
    CANCELLED = "cancelled"

    @property
    def is_tried(self) -> bool:
        """Whether it was found out what the candidate is worth, or that it is worth nothing."""
        return self not in (TrialState.COMPILED, TrialState.CANCELLED)

    @property
    def is_failure(self) -> bool:
        """True if the candidate itself is at fault: it will not be tried again and has no time."""
        return self in _FAILURES


_FAILURES = frozenset(
    {
        TrialState.ILLEGAL,
        TrialState.COMPILE_FAILED,
        TrialState.COMPILE_TIMED_OUT,
        TrialState.WRONG_RESULT,
        TrialState.UNSUPPORTED,
        TrialState.CRASHED,
        TrialState.TIMED_OUT,
    }
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate and its end. Times in microseconds; `seconds` is what each phase of the trial took.

    `conditions` stood beside the samples: clocks, power, temperature, other processes, marks (`search.measure.marks`).
    `code_hash` tells machine code apart, `launch_hash` how it is launched; a trial with both equal to those of trial
    `duplicate_of` is not run, and its `median_us` is that trial's.
    `predicted_us` is never a measurement; `predicted_terms` are the microseconds that the model makes it of, by name,
    of which some overlap (`search.cost.model`). `reason` is the first line a user should read of a failure.
    """

    number: int
    candidate: Candidate
    state: TrialState
    reason: str = ""
    violations: tuple[Violation, ...] = ()
    predicted_us: float | None = None
    predicted_terms: Mapping[str, float] = field(default_factory=dict)
    median_us: float | None = None
    p10_us: float | None = None
    p90_us: float | None = None
    samples_us: tuple[float, ...] = ()
    conditions: Mapping[str, Any] = field(default_factory=dict)
    resources: Resources | None = None
    code_hash: str | None = None
    launch_hash: str | None = None
    duplicate_of: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)

    def set_aside(self, reason: str) -> Trial:
        """The trial as one that counts no more; `reason` says why. What it was known by goes, its figures stay."""
        return replace(
            self, state=TrialState.CANCELLED, reason=reason, code_hash=None, launch_hash=None, duplicate_of=None
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON object; what is empty or None is left out."""
        data: dict[str, Any] = {
            "number": self.number,
            **self.candidate.to_json(),
            "state": self.state.value,
            "reason": self.reason,
            "violations": [asdict(violation) for violation in self.violations],
            "predicted_us": self.predicted_us,
            "predicted_terms": {name: round(us, 3) for name, us in self.predicted_terms.items()},
            "median_us": self.median_us,
            "p10_us": self.p10_us,
            "p90_us": self.p90_us,
            "samples_us": list(self.samples_us),
            "conditions": dict(self.conditions),
            "resources": self.resources.model_dump(mode="json") if self.resources else None,
            "code_hash": self.code_hash,
            "launch_hash": self.launch_hash,
            "duplicate_of": self.duplicate_of,
            "seconds": dict(self.seconds),
        }
        return {name: value for name, value in data.items() if value not in (None, "", [], {}) or name == "point"}

    @classmethod
    def from_json(cls, data: Any) -> Trial:
        """The trial that `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        candidate = Candidate.from_json(data)
        plain = {name: checked(data, name, *kinds) for name, kinds in _PLAIN.items() if name in data}
        samples = checked({"samples_us": [], **data}, "samples_us", list)
        if not all(type(sample) in _NUMBER for sample in samples):
            raise TypeError("samples_us: found something else, expected numbers")
        return cls(
            number=checked(data, "number", int),
            candidate=candidate,
            state=TrialState(checked(data, "state", str)),
            violations=tuple(_named_today(Violation(**v)) for v in data.get("violations", ())),
            samples_us=tuple(samples),
            resources=Resources.model_validate(data["resources"]) if "resources" in data else None,
            **plain,
        )


def _named_today(violation: Violation) -> Violation:
    return replace(violation, rule=rule_today(violation.rule))


_NUMBER = (float, int)
_PLAIN: dict[str, tuple[type, ...]] = {
    "reason": (str,),
    "predicted_us": _NUMBER,
    "predicted_terms": (dict,),
    "median_us": _NUMBER,
    "p10_us": _NUMBER,
    "p90_us": _NUMBER,
    "conditions": (dict,),
    "code_hash": (str,),
    "launch_hash": (str,),
    "duplicate_of": (int,),
    "seconds": (dict,),
}
"""Fields that stand in JSON as they are, and their types."""
