"""A knob: one finite ordered axis of a scheduling space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

KnobValue = int | float | str | bool

Point = Mapping[str, Any]
"""A value of each knob, by its name."""


@dataclass(frozen=True)
class Knob:
    """`name` takes one of `values`, in this order; a distance between two values counts positions of this order.

    The values of one knob are all numbers, all strings or all booleans: they become one NumPy array without objects.
    """

    name: str
    values: tuple[KnobValue, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"knob {self.name}: no values. Give it at least one.")
        if len(set(self.values)) != len(self.values):
            raise ValueError(f"knob {self.name}: {self.values} holds a value twice. List each value once.")
        if len({_sort_of(value) for value in self.values}) != 1:
            raise ValueError(f"knob {self.name}: {self.values} mixes numbers, strings or booleans. Use one sort.")

    @property
    def is_numeric(self) -> bool:
        """True if the order of the values means more than their listing: numbers, not strings or booleans."""
        return _sort_of(self.values[0]) == "number"

    @cached_property
    def array(self) -> NDArray[np.generic]:
        """The values as a 1-D array: int64, float64, bool or str. Read-only."""
        array = np.array(self.values)
        array.flags.writeable = False
        return array

    @cached_property
    def _positions(self) -> dict[object, int]:
        return {value: position for position, value in enumerate(self.values)}

    def position(self, value: object) -> int:
        """Index of `value`. Raises ValueError if the knob does not take it (True is not 1)."""
        try:
            position = self._positions.get(value)
        except TypeError:  # a list, say, which has no hash
            position = None
        if position is not None and isinstance(value, bool) == isinstance(self.values[position], bool):
            return position
        raise ValueError(f"knob {self.name}: found {value!r}, expected one of {', '.join(map(repr, self.values))}.")


def powers_of_two(most: int) -> tuple[int, ...]:
    """1, 2, 4, … up to `most`."""
    return tuple(1 << bit for bit in range(most.bit_length()))


def _sort_of(value: KnobValue) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"
