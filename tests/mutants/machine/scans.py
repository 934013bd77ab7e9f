"""Sums up to each element, of all threads at once: along words, and over lanes by what those before them have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from compiler.dtypes import DType
from compiler.ir.ops import OpKind
from tests.mutants.machine.numbers import Array, folded

Places = NDArray[np.intp]


def running_sums(start: Array, elements: list[Array], dtype: DType) -> list[Array]:
    """`start`, and what it comes to after each element."""
    sums = [start]
    for element in elements:
        sums.append(folded(OpKind.SUM, sums[-1], element, dtype))
    return sums


def over_lanes(own: Array, lane: Places, lanes: int, dtype: DType) -> tuple[Array, Array]:
    """Of [set, thread] sums what the lanes before each have, and what all `lanes` neighbours do.

    In the order of the hardware: each lane adds that of the lane `distance` before it, at twice the distance each time.
    """
    thread = np.arange(own.shape[1])
    first = thread // lanes * lanes
    distance = 1
    while distance < lanes:
        other = own[:, np.maximum(thread - distance, first)]
        own = np.where(lane < distance, own, folded(OpKind.SUM, other, own, dtype))
        distance *= 2
    before = np.where(lane == 0, np.zeros((), own.dtype), own[:, np.maximum(thread - 1, first)])
    return before, own[:, first + lanes - 1]
