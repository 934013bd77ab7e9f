"""The registry of rules and the checks that run them.

A rule is one function from a `Schedule` to the breaches it finds; it neither repairs nor raises. Three lists:

- `MODEL`: what the scheduling model and the hardware allow, whatever this compiler can lower. `python -m compiler
  check` and `POST /v1/schedules/check` run these alone.
- `STRUCTURE`: what must hold before index maps exist.
- `RULES`: what those index maps must fulfil for this compiler's lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from compiler.analysis.facts import Facts
from compiler.arch import Arch
from compiler.errors import Kept, Violation


@dataclass(frozen=True)
class Schedule(Facts):
    """A scheduled fusion on an architecture, with the analyses that rules share."""

    arch: Arch


Rule = Callable[[Schedule], Iterable[Violation]]
ModelRule = Callable[[Schedule], Iterable[Violation | Kept]]
MODEL: list[ModelRule] = []
STRUCTURE: list[Rule] = []
RULES: list[Rule] = []


def model_rule(f: ModelRule) -> ModelRule:
    """Registers a rule of the scheduling model."""
    MODEL.append(f)
    return f


def structure_rule(f: Rule) -> Rule:
    """Registers a rule that must hold before indices can be computed."""
    STRUCTURE.append(f)
    return f


def rule(f: Rule) -> Rule:
    """Registers a rule of the lowering."""
    RULES.append(f)
    return f


def check(schedule: Schedule) -> tuple[Violation, ...]:
    """Every breach of the lowering's rules; structure first, and alone if it fails."""
    broken = tuple(v for r in STRUCTURE for v in r(schedule))
    if broken:
        return broken
    return tuple(v for r in RULES for v in r(schedule))


def check_model(schedule: Schedule) -> tuple[tuple[Violation, ...], tuple[Kept, ...]]:
    """Every breach of the model's rules, and the conditions that a launch must settle."""
    found = [v for r in MODEL for v in r(schedule)]
    return tuple(v for v in found if isinstance(v, Violation)), tuple(v for v in found if isinstance(v, Kept))
