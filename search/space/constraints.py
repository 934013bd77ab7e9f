"""A constraint: which combinations of a few knobs are legal, as one NumPy expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from search.space.knobs import Knob

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Constraint:
    """`predicate` says where `rule` allows a point; it reads the knobs named in `axes` and no others.

    The predicate is called with one array of knob values for each of `axes`, in that order, shaped to broadcast against
    each other (a sparse `np.meshgrid`), and returns what broadcasts to their common shape: True where legal. It must
    not read or write anything else, so that evaluating it on a slice of the axes gives the slice of the mask.

    `reason` is the sentence a user reads; `fix` says what to change, by default one of the knobs named.
    """

    rule: str
    axes: tuple[str, ...]
    predicate: Callable[..., Any]
    reason: str
    fix: str = ""

    def __post_init__(self) -> None:
        if len(set(self.axes)) != len(self.axes):
            raise ValueError(f"constraint {self.rule}: {self.axes} names an axis twice. Name each axis once.")

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
        legal = np.asarray(self.predicate(*np.meshgrid(*values, indexing="ij", sparse=True)), dtype=np.bool_)
        wanted = tuple(map(len, values))
        try:
            return np.broadcast_to(legal, wanted)
        except ValueError:
            raise ValueError(f"constraint {self.rule}: the mask has shape {legal.shape}, expected {wanted}.") from None
