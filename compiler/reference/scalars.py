"""A fusion with numbers in the place of its scalars: what everything else here works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal, Operand, Scalar


def settled(fusion: Fusion, numbers: Sequence[int | float]) -> Fusion:
    """The fusion of these numbers, one for each of its scalars, which are converted as a kernel's parameters are.

    One that is to be worked out as its kernels are is pinned before (`compiler.ir.pinned`): scalars may be equal, and
    their operators are none the less two.
    """
    if not fusion.scalars:
        return fusion
    given = dict(zip((x.name for x in fusion.scalars), numbers, strict=True))

    def number(x: Operand) -> Operand:
        return Literal(_held(given[x.name], x.dtype)) if isinstance(x, Scalar) else x

    ops = tuple(replace(op, inputs=tuple(map(number, op.inputs))) for op in fusion.ops)
    return replace(fusion, ops=ops, scalars=())


def _held(value: int | float, dtype: DType) -> int | float:
    """What a parameter of this type holds of a number: an integer of any size, or a float."""
    if dtype is DType.I64:
        return int(value)
    if dtype is DType.F64:
        return float(value)
    with np.errstate(over="ignore"):
        return float(np.int64(value).astype(np.float32) if isinstance(value, int) else np.float32(value))
