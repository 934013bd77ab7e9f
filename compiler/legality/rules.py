"""The registry of rules and the check that runs them all.

A rule is one function from a `Schedule` to the breaches it finds; it neither repairs nor raises. Rules of the first
stage (structure) must hold before index maps exist; the second stage reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from compiler.analysis.facts import Facts
from compiler.arch import Arch
from compiler.errors import Violation


@dataclass(frozen=True)
class Schedule(Facts):
    """A scheduled fusion on an architecture, with the analyses that rules share."""

    arch: Arch


Rule = Callable[[Schedule], Iterable[Violation]]
STRUCTURE: list[Rule] = []
RULES: list[Rule] = []


def structure_rule(f: Rule) -> Rule:
    """Registers a rule that must hold before indices can be computed."""
    STRUCTURE.append(f)
    return f


def rule(f: Rule) -> Rule:
    """Registers a rule."""
    RULES.append(f)
    return f


def check(schedule: Schedule) -> tuple[Violation, ...]:
    """Every breach of every rule; structure first, and alone if it fails."""
    broken = tuple(v for r in STRUCTURE for v in r(schedule))
    if broken:
        return broken
    return tuple(v for r in RULES for v in r(schedule))
