"""A constraint: which combinations of a few knobs are legal, as one expression over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.arch import Arch, card_named
from search.space.expressions import Expression, NotAnExpression, traced
from search.space.knobs import Knob

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Constraint:
    """`predicate` says where `rule` allows a point; it reads the knobs named in `axes` and no others.

    It is a function of one value for each of `axes`, in that order, written so that an expression may stand in place of
    each (search.space.expressions): `condition` is what it then computes. True where legal.

    `reason` is the sentence a user reads. `measured_on`: the card on which the points that it leaves out, which are
    legal, were slower; empty for what is wrong or repeats another point. `refuses`: False where that is advice, of a
    card of another architecture: such points are not drawn, but tried where a search comes to them from others.
    """

    rule: str
    axes: tuple[str, ...]
    predicate: Callable[..., Any]
    reason: str
    measured_on: str = ""
    refuses: bool = True

    def __post_init__(self) -> None:
        if len(set(self.axes)) != len(self.axes):
            raise ValueError(f"constraint {self.rule}: {self.axes} names an axis twice. Name each axis once.")

    @cached_property
    def condition(self) -> Expression:
        """What holds where the constraint allows a point. Raises NotAnExpression, naming the rule."""
        try:
            return traced(self.predicate, self.axes)
        except NotAnExpression as error:
            raise NotAnExpression(f"constraint {self.rule}: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """Rule, knobs, the condition as text, the reason, the card of what was measured (null otherwise), and whether
        the constraint refuses points or is advice."""
        return {
            "rule": self.rule,
            "knobs": list(self.axes),
            "legal_where": str(self.condition),
            "reason": self.reason,
            "measured_on": self.measured_on or None,
            "refuses": self.refuses,
        }

    def holds(self, values: Mapping[str, NDArray[np.generic]]) -> Any:
        """Where it allows points, from arrays of knob values that broadcast against each other; they may be of more
        knobs than its own."""
        return np.asarray(self.condition.on(values), dtype=np.bool_)

    def mask(self, knobs: tuple[Knob, ...], slices: tuple[slice, ...]) -> Mask:
        """The legal points of the block `slices` of `knobs`: size 1 on every axis that the constraint does not name.

        Raises ValueError if the predicate gives a shape that its axes do not have.
        """
        place = {knob.name: axis for axis, knob in enumerate(knobs)}
        legal = self.on([knobs[place[name]].array[slices[place[name]]] for name in self.axes])
        order = sorted(range(len(self.axes)), key=lambda i: place[self.axes[i]])
        sizes = dict(zip(self.axes, legal.shape, strict=True))
        return legal.transpose(order).reshape([sizes.get(knob.name, 1) for knob in knobs])

    def on(self, values: Sequence[NDArray[np.generic]]) -> Mask:
        """What it allows of all combinations of some values of `axes`, in their order: an axis of the mask for each.

        Raises ValueError if the predicate gives a shape that its axes do not have.
        """
        legal = self.holds(dict(zip(self.axes, np.meshgrid(*values, indexing="ij", sparse=True), strict=True)))
        wanted = tuple(map(len, values))
        try:
            return np.broadcast_to(legal, wanted)
        except ValueError:
            raise ValueError(f"constraint {self.rule}: the mask has shape {legal.shape}, expected {wanted}.") from None


WORKED_OUT = frozenset(
    {
        "persistent_blocks_are_resident",
        "persistent_grid_is_filled",
        "tile_exceeds_the_problem",
        "tile_fits_the_registers_of_a_thread",
        "registers_in_flight",
    }
)
"""Reasons that follow from a problem's size and the limits of an architecture, whatever card was timed."""


def measured(card: str, arch: Arch, constraints: Iterable[Constraint]) -> list[Constraint]:
    """Constraints that leave out what was slower on a card: legal points all the same, which cards of another
    architecture do not refuse. Those of `WORKED_OUT` stay."""
    is_own = card_named(card).arch.name == arch.name
    return [c if c.rule in WORKED_OUT else replace(c, measured_on=card, refuses=is_own) for c in constraints]
