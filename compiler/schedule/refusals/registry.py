"""The registry of step rules: why a schedule step cannot be taken.

A rule is one function from the place where a step is taken, and the step, to what it refuses. Rules of one kind of step
run in the order of their registration and stop at the first that refuses, so each may rely on those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from compiler.errors import Stage, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import IdExpr
from compiler.ir.iter_domain import IterDomain
from compiler.ir.tensor import TensorView
from compiler.schedule.axes import AxisList


@dataclass(frozen=True)
class Site:
    """Where a step is taken: the fusion, the name of the tensor if the step has one, and the axes that its numbers
    count where they are not the loops (`listed`: an allocation domain being made).

    `is_settled`: no step follows, so that types and memories are the last ones.
    """

    sf: ScheduledFusion
    name: str
    listed: AxisList | None = None
    is_settled: bool = False

    @property
    def tensor(self) -> TensorView:
        return self.sf.by_name[self.name]

    @property
    def axes(self) -> tuple[IterDomain, ...]:
        return self.tensor.loop if self.listed is None else self.listed.axes

    @property
    def exprs(self) -> tuple[IdExpr, ...]:
        """The transforms that led from the logical axes to `axes`."""
        own = self.tensor.exprs
        return own if self.listed is None else own + self.listed.exprs

    @property
    def is_loop(self) -> bool:
        return self.listed is None


@dataclass(frozen=True, slots=True)
class Refusal:
    """What one rule refuses; it becomes a Violation of that rule."""

    where: str
    found: int | str
    limit: int | str
    fix: str
    message: str

    def by(self, rule: Callable[..., object], stage: Stage) -> Violation:
        """The violation of the rule that refuses, at the stage at which it was asked."""
        return Violation(rule.__name__, self.where, self.found, self.limit, self.fix, self.message, stage)


StepRule = Callable[[Site, Any], Iterator[Refusal]]


@dataclass(frozen=True, slots=True)
class _Registry:
    all: list[StepRule] = field(default_factory=list)
    by_kind: dict[type, list[StepRule]] = field(default_factory=dict)


_REGISTRY = _Registry()
STEP_RULES: list[StepRule] = _REGISTRY.all
"""Every step rule, in the order in which they run."""


def step_rule(*kinds: type) -> Callable[[StepRule], StepRule]:
    """Registers a rule of these kinds of steps."""

    def register(rule: StepRule) -> StepRule:
        _REGISTRY.all.append(rule)
        for kind in kinds:
            _REGISTRY.by_kind.setdefault(kind, []).append(rule)
        return rule

    return register


def refusals(site: Site, step: object) -> tuple[Violation, ...]:
    """What the first rule that refuses the step says; nothing if it can be taken."""
    for rule in _REGISTRY.by_kind.get(type(step), ()):
        found = tuple(rule(site, step))
        if found:
            return tuple(r.by(rule, Stage.SCHEDULE) for r in found)
    return ()
