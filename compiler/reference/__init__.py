"""What a fusion means, worked out apart from the rest of the compiler (docs/contracts.md, "Right before fast").

Floats are worked out in f64 and rounded to the dtype of a result where its operator makes it (docs/contracts.md,
"Bits"), integers and bools exactly. `xp` is the array module, numpy or torch; arrays are its own. Sums, differences,
products, quotients and square roots of f32 are those of IEEE 754: rounding the result of f64 once more gives the same
(Figueroa, "When is double rounding innocuous?", ACM SIGNUM Newsletter 30, 1995: 53 >= 2 * 24 + 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.dtypes import FLOAT_FORMATS, FloatFormat
from compiler.ir.fusion import Fusion
from compiler.reference.arithmetic import Arithmetic, Values
from compiler.reference.boxes import whole
from compiler.reference.floats import Array, narrowed, round_to, rounded
from compiler.reference.fp8 import fp8_bits, fp8_values
from compiler.reference.scalars import settled
from compiler.reference.walk import Walk

__all__ = [
    "FLOAT_FORMATS",
    "Arithmetic",
    "Array",
    "FloatFormat",
    "Values",
    "Walk",
    "evaluate",
    "fp8_bits",
    "fp8_values",
    "narrowed",
    "round_to",
    "rounded",
    "settled",
]


def evaluate(fusion: Fusion, inputs: Sequence[Array], xp: Any, *, rounds: bool = True) -> tuple[Array, ...]:
    """The outputs, of the logical shapes: floats in f64, integers in int64, bools. `inputs`: see `Walk`. A fusion of
    scalars is `settled` before.

    `rounds`: floats are rounded to their dtype by every operator; else by none, for comparing what graphs mean.
    """
    walk = Walk(fusion, inputs, xp, Values(xp, rounds=rounds))
    return tuple(walk.box(name, whole(fusion.value(name).shape)) for name in fusion.outputs)
