"""Legal points by joining knob after knob: every constraint is asked as soon as all knobs that it reads have values.

Where few points of many are legal, this examines little more than those, while masks over the whole product examine all
(the chain of trees of Rasch et al., "Efficient Auto-Tuning of Parallel Programs with Interdependent Tuning Parameters
via Auto-Tuning Framework", ACM TACO 2021, does it value by value; here a knob at a time, in NumPy).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from search.space.constraints import Constraint
from search.space.knobs import Knob

MOST_JOINED = 1 << 22
"""Partial points that are held at once: 32 MiB for their indices, and 8 MiB for the positions of each knob."""

Positions = NDArray[np.int16]
Allows = Callable[[int, dict[str, Positions]], NDArray[np.bool_]]
"""What a constraint, by its number, says of points given by the positions of the knobs that it reads."""


def joined(
    knobs: Sequence[Knob], constraints: Sequence[Constraint], allows: Allows, most: int = MOST_JOINED
) -> NDArray[np.int64] | None:
    """Flat indices (row-major, last knob fastest) of all legal points, ascending; None where more than `most` partial
    points would be held at once. The product has fewer than 2^63 points.

    A knob is taken next if it settles constraints while it multiplies the partial points least.
    """
    strides = {k.name: prod(len(later.values) for later in knobs[i + 1 :]) for i, k in enumerate(knobs)}
    waiting = list(range(len(constraints)))
    held: dict[str, Positions] = {}
    flat: NDArray[np.int64] = np.zeros(1, np.int64)
    left = {k.name: k for k in knobs}
    while True:
        ready = [n for n in waiting if held.keys() >= set(constraints[n].axes)]
        waiting = [n for n in waiting if n not in ready]
        for number in sorted(ready, key=lambda n: len(constraints[n].axes)):
            legal = allows(number, held)
            if not legal.all():
                flat = flat[legal]
                held = {name: at[legal] for name, at in held.items()}
        if not left:
            return np.sort(flat)
        knob = left.pop(_next([constraints[n] for n in waiting], held, left))
        size = len(knob.values)
        if len(flat) * size > most:
            return None
        at = np.tile(np.arange(size, dtype=np.int16), len(flat))
        flat = np.repeat(flat, size) + at.astype(np.int64) * strides[knob.name]
        held = {name: np.repeat(was, size) for name, was in held.items()} | {knob.name: at}


def _next(waiting: Sequence[Constraint], held: dict[str, Positions], left: dict[str, Knob]) -> str:
    """The knob on the cheapest way to settling a constraint: fewest combinations of the values that it still lacks."""

    def cost(constraint: Constraint) -> int:
        return prod(len(left[name].values) for name in constraint.axes if name not in held)

    if not waiting:
        return next(iter(left))
    lacking = [name for name in min(waiting, key=cost).axes if name not in held]
    return min(lacking, key=lambda name: len(left[name].values))
