"""Why a candidate has no kernel: every way to fail has its trial state."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import CompileError, CompileTimeout, IllegalSchedule, InvalidStep, Unsupported, Violation
from search.tuning.trial import TrialState

_REASON_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no artifact."""

    state: TrialState
    reason: str
    violations: tuple[Violation, ...] = ()


def failure_of(error: CompileError | IllegalSchedule | InvalidStep | Unsupported) -> Failure:
    """What scheduling, generating or compiling raised, as a failure."""
    reason = str(error)[:_REASON_CHARS]
    match error:
        case IllegalSchedule():
            return Failure(TrialState.ILLEGAL, reason, error.violations)
        case InvalidStep():
            return Failure(TrialState.ILLEGAL, reason)
        case Unsupported():
            return Failure(TrialState.UNSUPPORTED, reason)
        case CompileTimeout():
            return Failure(TrialState.COMPILE_TIMED_OUT, reason)
        case CompileError():
            return Failure(TrialState.COMPILE_FAILED, reason)
