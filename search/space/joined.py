"""Legal points by joining knob after knob: every constraint is asked as soon as all knobs that it reads have values.

Where few points of many are legal, this examines little more than those, while masks over the whole product examine all
(the chain of trees of Rasch et al., "Efficient Auto-Tuning of Parallel Programs with Interdependent Tuning Parameters
via Auto-Tuning Framework", ACM TACO 2021, does it value by value; here a knob at a time, in NumPy).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from search.space.constraints import Constraint
from search.space.knobs import Knob

MOST_JOINED = 1 << 22
"""Partial points that are held at once: 32 MiB for their indices, and 8 MiB for the positions of each knob."""

_MOST_VISITED = 16
"""Partial points that are looked at in all, in multiples of those that may be held: beyond, masks are as good."""

Positions = NDArray[np.int16]
Indices = NDArray[np.int64]
Allows = Callable[[int, dict[str, Positions]], NDArray[np.bool_]]
"""What a constraint, by its number, says of points given by the positions of the knobs that it reads."""
Table = NDArray[np.bool_] | None
"""What a constraint says of all values of the knobs that it reads, in its order; None where those are too many."""


def joined(
    knobs: Sequence[Knob],
    constraints: Sequence[Constraint],
    allows: Allows,
    table: Callable[[int], Table] = lambda number: None,
    most: int = MOST_JOINED,
) -> Indices | None:
    """Flat indices (row-major, last knob fastest) of all legal points, ascending; None where they are more than `most`,
    or many times as many partial points lead to them. The product has fewer than 2^63 points.

    A knob is taken next if it settles constraints while it multiplies the partial points least; where they would be
    more than `most`, one half of them after the other is joined to the end.
    """
    strides = {k.name: prod(len(later.values) for later in knobs[i + 1 :]) for i, k in enumerate(knobs)}
    found = _Join(constraints, allows, table, strides, most).ends(
        np.zeros(1, np.int64), {}, list(range(len(constraints))), {k.name: k for k in knobs}
    )
    return None if found is None else np.sort(found)


@dataclass
class _Join:
    constraints: Sequence[Constraint]
    allows: Allows
    table: Callable[[int], Table]
    strides: dict[str, int]
    most: int
    visited: int = 0
    legal: int = 0

    def ends(
        self, flat: Indices, held: dict[str, Positions], waiting: Sequence[int], left: dict[str, Knob]
    ) -> Indices | None:
        """The legal points that partial points lead to; None beyond the limits. `waiting`: constraints that are not
        asked yet, `left`: knobs without a value; `held`: the positions of those with one that are still asked about."""
        for number in [n for n in waiting if not self.constraints[n].axes]:
            flat = flat if np.all(self.allows(number, {})) else flat[:0]
        waiting = [n for n in waiting if self.constraints[n].axes]
        while left:
            knob = left[_next([self.constraints[n] for n in waiting], left)]
            size = len(knob.values)
            if len(flat) * size > self.most and len(flat) > 1:
                return self._halves(flat, held, waiting, left)
            self.visited += len(flat) * size
            if self.visited > _MOST_VISITED * self.most:
                return None
            left = {name: k for name, k in left.items() if k is not knob}
            ready = [n for n in waiting if left.keys().isdisjoint(self.constraints[n].axes)]
            waiting = [n for n in waiting if n not in ready]
            row, at = self._settled(len(flat), held, knob, ready)
            asked = {name for n in waiting for name in self.constraints[n].axes}
            flat = flat.take(row) + at * np.int64(self.strides[knob.name])
            held = {name: was.take(row) for name, was in held.items() if name in asked}
            if knob.name in asked:
                held[knob.name] = at
        self.legal += len(flat)
        return flat if self.legal <= self.most else None

    def _settled(
        self, count: int, held: dict[str, Positions], knob: Knob, ready: Sequence[int]
    ) -> tuple[Indices, Positions]:
        """Which of `count` partial points go on with which positions of a knob, as the constraints allow that it
        settles. Tables are asked for all of its values at once; the others, of the points that these leave."""
        mask, others = np.ones((1, len(knob.values)), dtype=np.bool_), []
        for number in sorted(ready, key=lambda n: len(self.constraints[n].axes)):
            table, axes = self.table(number), self.constraints[number].axes
            if table is None:
                others.append(number)
                continue
            last = np.ascontiguousarray(np.moveaxis(table, axes.index(knob.name), -1))
            mask = mask & looked_up(last, [held[name] for name in axes if name != knob.name])
        places = np.flatnonzero(np.broadcast_to(mask, (count, mask.shape[-1])))
        row, column = np.divmod(places.astype(np.uint32), np.uint32(mask.shape[-1]))
        at = column.astype(np.int16)
        for number in others:
            names = [name for name in self.constraints[number].axes if name != knob.name]
            legal = self.allows(number, {**{name: held[name].take(row) for name in names}, knob.name: at})
            if not legal.all():
                kept = np.flatnonzero(legal)
                row, at = row.take(kept), at.take(kept)
        return row, at

    def _halves(
        self, flat: Indices, held: dict[str, Positions], waiting: Sequence[int], left: dict[str, Knob]
    ) -> Indices | None:
        found = []
        middle = len(flat) // 2
        for half in (slice(None, middle), slice(middle, None)):
            part = self.ends(flat[half], {name: at[half] for name, at in held.items()}, waiting, left)
            if part is None:
                return None
            found.append(part)
        return np.concatenate(found)


def looked_up(table: NDArray[np.bool_], positions: Sequence[NDArray[np.integer[Any]]]) -> NDArray[np.bool_]:
    """`table[tuple(positions)]`, of arrays of one length, by a single index, which takes NumPy a third of the time."""
    inside = table.shape[len(positions) :]
    if not positions:
        return table
    place = positions[0].astype(np.intp)
    for at, size in zip(positions[1:], table.shape[1:], strict=False):
        place *= size
        place += at
    return table.reshape(-1, *inside).take(place, axis=0)


def _next(waiting: Sequence[Constraint], left: dict[str, Knob]) -> str:
    """The knob on the cheapest way to settling a constraint: fewest combinations of the values that it still lacks."""

    def cost(constraint: Constraint) -> int:
        return prod(len(left[name].values) for name in constraint.axes if name in left)

    if not waiting:
        return next(iter(left))
    lacking = [name for name in min(waiting, key=cost).axes if name in left]
    return min(lacking, key=lambda name: len(left[name].values))
