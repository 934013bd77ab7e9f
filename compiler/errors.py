"""What can go wrong in the compiler, one class for each thing a caller handles differently.

CompilerError
├── InvalidFusion        the fusion or its binding is malformed: shapes, dtypes, names
├── Unsupported          valid, but not built yet: named, never silently skipped
├── InvalidStep          a schedule step does not apply to the tensor it names
├── IllegalSchedule      one or more legality rules refuse the schedule
├── UnknownArch          no compile target has that name
├── UnknownCard          no GPU model has that name
└── CompileError         NVRTC refused, crashed, or ran past its limits
    └── CompileTimeout
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar


class Stage(StrEnum):
    """When a schedule is found out: at the step itself, when it is compiled, or with the sizes and addresses given."""

    SCHEDULE = "schedule"
    COMPILE = "compile"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach of one rule: data first, text derived from it (docs/contracts.md, "Violation")."""

    rule: str
    where: str
    found: int | float | str
    limit: int | float | str
    fix: str
    message: str = ""
    stage: Stage = Stage.COMPILE

    def __str__(self) -> str:
        text = self.message or f"found {self.found}, expected {self.limit}"
        return f"{self.where}: {text} ({self.rule}). {self.fix}"


class Outcome(StrEnum):
    """What is known of a condition before launch."""

    PROVED = "proved"
    REFUTED = "refuted"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that must hold: what is known of it for all launches, its formula, and whether it holds at this one.

    `formula` is in the guards' grammar (docs/contracts.md, "Kernel artifact"): true where the condition holds.
    `bound`: what its left side is at this launch, where that is one number.
    """

    outcome: Outcome
    formula: str
    holds: bool
    bound: int | None = None

    def require(self, breach: Violation) -> Iterator[Violation | Kept]:
        """Nothing if proved, the breach if refuted, else the guard; and the breach too where this launch fails it."""
        if self.outcome is Outcome.REFUTED:
            yield breach
        elif self.outcome is Outcome.KEPT:
            yield Kept(breach.rule, breach.where, self.formula, breach.message or f"{breach.where}: {breach.fix}")
            if not self.holds:
                yield replace(breach, found=self._found(breach), stage=Stage.RUNTIME)

    def _found(self, breach: Violation) -> int | float | str:
        """What was found; where that is a formula, its value at this launch with it."""
        if self.bound is None or not isinstance(breach.found, str) or str(self.bound) in breach.found:
            return breach.found
        return f"{breach.found}, here {self.bound}"


@dataclass(frozen=True, slots=True)
class Kept:
    """A condition of one rule that sizes or addresses decide: `expr` is evaluated before every launch."""

    rule: str
    where: str
    expr: str
    message: str


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a fusion or binding: where it is, what was found, what was expected, how to mend it."""

    where: str
    found: str
    expected: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: found {self.found}, expected {self.expected}. {self.fix}"


class CompilerError(Exception):
    """Base of everything the compiler raises on purpose."""


class InvalidFusion(CompilerError):
    """The fusion or binding cannot mean anything. `problems` lists every fault, not just the first."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(p) for p in self.problems)


class Unsupported(CompilerError):
    """Valid input that this version cannot compile. `what` names the construct, `fix` what to do instead."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what} is not supported yet. {self.fix}"


class InvalidStep(CompilerError):
    """A schedule step that cannot be applied: `step` is its printed form, `reason` says why, `fix` how to mend it.

    `violations` are the rules that refuse it, with what was found and allowed; empty where no rule was asked.
    """

    def __init__(self, step: str, reason: str, fix: str, violations: tuple[Violation, ...] = ()) -> None:
        super().__init__(step, reason, fix, violations)
        self.step = step
        self.reason = reason
        self.fix = fix
        self.violations = violations

    def __str__(self) -> str:
        return f"{self.step}: {self.reason}. {self.fix}"


class IllegalSchedule(CompilerError):
    """Rules refuse the schedule; `violations` holds every breach."""

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        super().__init__(violations)
        self.violations = violations

    def __str__(self) -> str:
        return "\n".join(str(v) for v in self.violations)


class _UnknownName(CompilerError):
    """A name that is in no table: `name` as given, `known` the names there are."""

    kind: ClassVar[str]

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name = name
        self.known = known

    def __str__(self) -> str:
        return f"Found {self.kind} {self.name!r}, expected one of {', '.join(self.known)}. Use one of these names."


class UnknownArch(_UnknownName):
    """No compile target is called that."""

    kind = "architecture"


class UnknownCard(_UnknownName):
    """No GPU model is called that, as its name or as an alias."""

    kind = "card"


class CompileError(CompilerError):
    """NVRTC refused the source or its process died. `log` is the compiler's own text."""

    def __init__(self, reason: str, log: str = "") -> None:
        super().__init__(reason, log)
        self.reason = reason
        self.log = log

    def __str__(self) -> str:
        return f"{self.reason}\n{self.log}".rstrip()


class CompileTimeout(CompileError):
    """The compile ran past its time or memory limit and its process was killed."""
