"""What a fusion means, worked out apart from the rest of the compiler (docs/contracts.md, "Right before fast").

Floats are worked out in f64, integers and bools exactly. `xp` is the array module, numpy or torch; arrays are its own.
No operator rounds a float to the dtype of its result, casts between floats included: kernels may skip rounding between
operators (docs/contracts.md, "Fusion"), so what they must be near to is the unrounded value. `round_to` gives the
stored one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.ir.fusion import Fusion
from compiler.reference.arithmetic import Arithmetic, Values
from compiler.reference.boxes import whole
from compiler.reference.floats import FLOAT_FORMATS, Array, FloatFormat, round_to
from compiler.reference.walk import Walk

__all__ = [
    "FLOAT_FORMATS",
    "Arithmetic",
    "Array",
    "FloatFormat",
    "Values",
    "Walk",
    "evaluate",
    "evaluate_rows",
    "round_to",
]


def evaluate(fusion: Fusion, inputs: Sequence[Array], xp: Any) -> tuple[Array, ...]:
    """The outputs, of the logical shapes: floats in f64, unrounded, integers in int64, bools. `inputs`: see `Walk`."""
    walk = Walk(fusion, inputs, xp, Values(xp))
    return tuple(walk.box(name, whole(fusion.value(name).shape)) for name in fusion.outputs)


def evaluate_rows(fusion: Fusion, inputs: Sequence[Array], xp: Any, *, output: int, start: int, stop: int) -> Array:
    """Rows `start` up to `stop` of output number `output`, as `evaluate` gives them, without computing the others.

    Works back from the rows that are wanted: an operand is asked for the part of it that they need, so that no more
    than that is held at any time. A result without dimensions is one row.
    """
    return Walk(fusion, inputs, xp, Values(xp)).rows(output, start, stop)
