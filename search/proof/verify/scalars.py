"""The numbers of a fusion's scalars in each input set.

One set has ordinary numbers, no two of them equal, so that a kernel that takes one for another is found out; the others
have 0, negative, tiny and huge ones, and for integers the ends of what a scalar may be. None is exact in f32, but where
it is to be.
"""

from __future__ import annotations

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Op, Scalar
from compiler.ir.ops import COMPARE
from compiler.ir.pinned import pinned
from compiler.ir.scalars import integer_range
from compiler.reference import settled
from search.proof.verify.arrays import Arrays
from search.proof.verify.expected import Expected, expect
from search.proof.verify.inputs import make_inputs
from search.proof.verify.integers import origin

_FLOATS = {
    "large": (700.1, 310.7),
    "tiny": (3.1e-7, 1.7e-7),
    "ties": (0.5, 0.5),
    "zeros": (0.0, 0.0),
    "inf_nan": (3.1e38, -2.9e38),
    "near": (-1.5, 1.0),
    "negative": (-0.7, -0.11),
}
"""Of the first scalar, and how much is added for each one further; of the huge ones, in turns with the second."""

_ORDINARY = (0.3, 0.17)
_INTEGERS = {"tiny": 1, "ties": 2, "zeros": 0, "near": -1, "negative": -3}
_INTEGER = 3


def numbers_in(fusion: Fusion, set_name: str) -> tuple[int | float, ...]:
    """A number for each scalar of a fusion."""
    return tuple(
        _float(set_name, n) if x.dtype is DType.F64 else _integer(fusion, x, set_name, n)
        for n, x in enumerate(fusion.scalars)
    )


def in_set(fusion: Fusion, set_name: str) -> Fusion:
    """The fusion with the numbers of a set: what its inputs are made for, and what kernels are held against."""
    return settled(pinned(fusion), numbers_in(fusion, set_name)) if fusion.scalars else fusion


def expect_set(fusion: Fusion, set_name: str, arrays: Arrays) -> tuple[Expected, ...]:
    """What the outputs must be on an input set, numbers of scalars among it."""
    given = in_set(fusion, set_name)
    return expect(given, make_inputs(given, set_name, arrays), arrays)


def ordinary(position: int) -> float:
    """The number of a float scalar in the `random` set."""
    first, more = _ORDINARY
    return first + more * position


def _float(set_name: str, position: int) -> float:
    if set_name not in _FLOATS:
        return ordinary(position)
    first, more = _FLOATS[set_name]
    if set_name == "inf_nan":
        return (first, more)[position % 2] / (1 + position)
    return first + more * position


def _integer(fusion: Fusion, scalar: Scalar, set_name: str, position: int) -> int:
    """Where it is compared with positions, one of them."""
    low, high = integer_range(fusion, scalar.name)
    if set_name == "large":
        return high - position
    if set_name == "inf_nan":
        return low + position
    extent = _compared_extent(fusion, scalar.name)
    if extent and set_name not in _INTEGERS:
        return max(low, min(high, extent * 2 // 3 - position))
    return max(low, min(high, _INTEGERS.get(set_name, _INTEGER) + 2 * position))


def _compared_extent(fusion: Fusion, name: str) -> int:
    """How many positions a scalar is compared with, 0 for none."""
    extents = [0]
    for op in fusion.ops:
        if op.kind in COMPARE and any(isinstance(x, Scalar) and x.name == name for x in op.inputs):
            for made in (origin(fusion, x) for x in op.tensor_inputs):
                if isinstance(made, Op):
                    extents.append(fusion.value(made.output).shape[made.dims[0]])
    return max(extents)
