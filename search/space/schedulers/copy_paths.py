"""The load path by cp.async: threads copy to shared memory past their registers. What schedulers share of it.

A thread asks for all of its part of a tile before it waits, and holds none of it; a ring of stages is filled one group
of copies a turn, by the threads that use it (PTX ISA, cp.async; CUDA guide, asynchronous copies).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import numpy as np

from compiler.arch import CP_ASYNC_BYTES
from search.space.constraints import Constraint
from search.space.schedulers.rings import ALL_BUT_ONE, ELECTED

CP_ASYNC = "cp_async"
"""The value of the knobs that say how tiles are loaded."""


def copies_by(elems: Any, sizes: Iterable[int]) -> Any:
    """Where words of `elems` elements are of a width that cp.async has, for elements of each of `sizes` bytes."""
    return reduce(operator.and_, [np.isin(elems * n, CP_ASYNC_BYTES) for n in dict.fromkeys(sizes)], np.bool_(True))


def copied_rings(axes: tuple[str, ...], copied: Callable[..., Any]) -> Constraint:
    """Rings that threads fill by cp.async, where `copied` of the knobs `axes`: each thread waits for its own copies, so
    no other asks for them, and the barrier that shows them to all tells as well that a stage is free."""
    return Constraint(
        "threads_fill_the_rings_they_copy",
        (*axes, "prefetch", "fill"),
        lambda *knobs: ~copied(*knobs[:-2]) | (knobs[-2] == ALL_BUT_ONE) & (knobs[-1] == ELECTED),
        "Threads that copy by cp.async fill the stages that they use, all but the one in use.",
    )
