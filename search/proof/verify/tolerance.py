"""How far an output element may lie from its reference.

An element passes if |output - reference| <= rtol * |reference| + atol, with NaN equal to NaN and infinities by sign:

    dtype   rtol    atol / scale   atol at least   rtol is
    f64     2^-44   2^-48          2^-1000         256 roundings (2^-53 each)
    f32     2^-13   2^-20          2^-125          2048 roundings (2^-24 each): approximate exp2, tanh, rcp are allowed
    f16     2^-9    2^-14          2^-24           4 roundings (2^-11 each); the least is f16's smallest number
    bf16    2^-7    2^-12          2^-125          2 roundings (2^-8 each): the stored one and one in between
    f8e4m3  2^-3    2^-8           2^-9            2 roundings (2^-4 each); the least is its smallest number
    f8e5m2  2^-2    2^-7           2^-16           2 roundings (2^-3 each); the least is its smallest number

`scale` is the largest finite reference value of the tensor, or the largest operand of an addition or subtraction that
feeds it: where large terms cancel, the error is a share of the terms, not of their difference. Outputs behind
reductions, comparisons, integers or halves that are computed with have instead of `atol` an error of each element,
which grows with the reduction length (search/proof/verify/errors.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.dtypes import FLOAT_FORMATS, DType
from compiler.errors import Unsupported


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Bounds for one output tensor; `atol` is absolute. `largest` is the largest finite number of the dtype."""

    rtol: float
    atol: float
    largest: float


@dataclass(frozen=True, slots=True)
class _Row:
    rtol: float
    atol_share: float
    atol_floor: float
    telling: float = 1.0
    """By what the tolerance is multiplied for how far apart the ends of an element may be that tell something."""


_TABLE = {
    # The nearest wrong kernel computes in f32: it is 2^-24 off, which ends 2^-30 apart tell. Long sums and functions
    # that are good to a thousand roundings have no closer ones.
    DType.F64: _Row(2.0**-44, 2.0**-48, 2.0**-1000, telling=2.0**14),
    DType.F32: _Row(2.0**-13, 2.0**-20, 2.0**-125),
    DType.F16: _Row(2.0**-9, 2.0**-14, 2.0**-24),
    DType.BF16: _Row(2.0**-7, 2.0**-12, 2.0**-125),
    DType.F8E4M3: _Row(2.0**-3, 2.0**-8, 2.0**-9),
    DType.F8E5M2: _Row(2.0**-2, 2.0**-7, 2.0**-16),
}


def tolerance(dtype: DType, scale: float) -> Tolerance:
    """The bounds for a tensor stored as `dtype` whose terms reach `scale`. Raises Unsupported for other than floats."""
    row = _TABLE.get(dtype)
    if row is None:
        raise Unsupported(f"a tolerance for dtype {dtype}", f"Use one of {', '.join(_TABLE)}.")
    return Tolerance(row.rtol, max(row.atol_share * scale, row.atol_floor), FLOAT_FORMATS[dtype].largest)


def telling(dtype: DType, scale: float) -> Tolerance:
    """How far the ends of an element may be apart, to either side, and still tell a right value from a wrong one: the
    tolerance, and of f64 what tells it from f32. Raises Unsupported as `tolerance`."""
    allowed = tolerance(dtype, scale)
    times = _TABLE[dtype].telling
    return replace(allowed, rtol=allowed.rtol * times, atol=allowed.atol * times)
