"""How far a product of many factors may be from the exact one, in any order.

Every partial product is rounded once, so that `n` factors bring `n - 1` relative errors, as long as partial products
are normal numbers. Which partial products there are is the order's. None is larger than the product of all factors
above one, and none but a zero is smaller than that of all below one; so these two say whether one may leave the range
of the accumulator: a result beside an overflow may be anything, one beside an underflow has an absolute error too, of
half the smallest number for each factor, made larger by those above one at most.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from compiler.dtypes import DType
from compiler.reference import FLOAT_FORMATS
from search.proof.verify.arrays import Array
from search.proof.verify.functions import order_error

_LOGS = 2.0**-26
"""The relative error of a product of a million sizes in the range of f32 that is made of their logarithms."""

_SLACK = 1.0
"""Powers of two between what logarithms say and a limit: more than rounding, of any number of factors, moves a
product."""


@dataclass(frozen=True, slots=True)
class Factors:
    """What is known of the factors of each product. Sizes are logarithms to the base 2.

    grown: of those above one. shrunk: of those below, zeros left out. least, most: products of the least and greatest
    sizes. rounding: how many are no powers of two, by which a product is not rounded. has_zero, has_infinity, has_nan:
    one surely is. is_open: of one it is not known whether it is a zero, an infinity, NaN, or negative. is_negative: an
    odd number are.
    """

    grown: Array
    shrunk: Array
    least: Array
    most: Array
    rounding: Array
    has_zero: Array
    has_infinity: Array
    has_nan: Array
    is_open: Array
    is_negative: Array


def factors(low: Array, high: Array, axes: tuple[int, ...], xp: Any) -> Factors:
    """Of elements between these ends, along `axes`, which stay with size 1."""

    def total(x: Array) -> Array:
        return xp.sum(x, axis=axes, keepdims=True)

    def found(flags: Array) -> Array:
        return total(xp.asarray(flags, dtype=xp.int64)) > 0

    sizes = xp.minimum(xp.abs(low), xp.abs(high)), xp.maximum(xp.abs(low), xp.abs(high))
    zero = (low == 0) & (high == 0)
    infinite = xp.isinf(low) & (low == high)
    nan = xp.isnan(low) & xp.isnan(high)
    told = zero | infinite | nan
    # A zero among others may be of either sign; ends of one sign are of no zero.
    open_ = ~told & ~(xp.isfinite(low) & xp.isfinite(high) & ((low > 0) | (high < 0)))
    one = xp.ones_like(low)
    small, large = (xp.where(told | open_, one, size) for size in sizes)
    small_log, large_log = xp.log2(small), xp.log2(large)
    none = xp.zeros_like(one)
    signs = xp.asarray(xp.signbit(low) & ~nan, dtype=xp.int64)
    return Factors(
        grown=total(xp.maximum(large_log, none)),
        shrunk=total(xp.minimum(small_log, none)),
        least=total(small_log),
        most=total(large_log),
        rounding=total(xp.asarray((small != large) | (xp.floor(small_log) != small_log), dtype=xp.float64)),
        has_zero=found(zero),
        has_infinity=found(infinite),
        has_nan=found(nan),
        is_open=found(open_ | (zero & (xp.signbit(low) != xp.signbit(high)))),
        is_negative=total(signs) % 2 == 1,
    )


def merged(x: Factors, y: Factors) -> Factors:
    """Of the factors of both."""
    found = {}
    for field in fields(Factors):
        a, b = getattr(x, field.name), getattr(y, field.name)
        if field.name == "is_negative":
            found[field.name] = a != b
        else:
            found[field.name] = a | b if field.name.startswith(("has", "is")) else a + b
    return Factors(**found)


def ends_of_product(value: Array, f: Factors, count: int, accumulator: DType, xp: Any) -> tuple[Array, Array]:
    """Between which ends a product of `count` factors lies, not rounded to its own type yet. `value`: the product that
    f64 gives, which is near wherever nothing overflows."""
    form = FLOAT_FORMATS[accumulator]
    top, bottom = float(form.max_exponent), float(form.min_exponent)
    sign = xp.where(f.is_negative, -xp.ones_like(value), xp.ones_like(value))
    infinity = xp.full_like(value, float("inf"))
    no_number = f.has_nan | (f.has_infinity & f.has_zero)
    may_shrink = f.shrunk < bottom + _SLACK
    over = f.has_infinity | (f.grown > top - _SLACK)
    surely_over = ~f.has_zero & ~may_shrink & (f.has_infinity | (f.least > top + _SLACK))
    none = xp.zeros_like(value)
    # Half the smallest number, twice for the reference's own; as large as what is left to multiply by at most.
    lost = form.smallest * count * 2.0 ** xp.minimum(f.grown, xp.full_like(value, top))
    lost = xp.where(may_shrink & ~f.has_zero, lost, none)
    # In f64 the reference errs as much.
    times = 2.0 if accumulator is DType.F64 else 1.0
    roundings = xp.maximum(f.rounding - 1.0, none)
    share = xp.where(f.rounding > 1, times * order_error(roundings, form.unit_roundoff, xp), none)
    small, large = (2.0**e for e in (f.least, f.most))
    known = f.least == f.most
    size = xp.abs(value)
    small, large = xp.where(known, size, small * (1 - _LOGS)), xp.where(known, size, large * (1 + _LOGS))
    small, large = xp.maximum(small * (1.0 - share) - lost, none), large * (1.0 + share) + lost
    small, large = (xp.where(f.has_zero, none, x) for x in (small, large))
    low = xp.where(f.is_negative, -large, small)
    high = xp.where(f.is_negative, -small, large)
    low, high = (xp.where(surely_over, sign * infinity, end) for end in (low, high))
    free = (f.is_open | (over & ~surely_over)) & ~no_number
    low, high = xp.where(free, -infinity, low), xp.where(free, infinity, high)
    nan = xp.full_like(value, float("nan"))
    return xp.where(no_number, nan, low), xp.where(no_number, nan, high)
