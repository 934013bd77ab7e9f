"""What a kernel's outputs must be: the ends of every element, made once a binding and input set.

Ends are what is kept, not the reference: comparing an output is then two comparisons an element, and overflow, infinity
and NaN are settled when they are made.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Value
from compiler.ir.ops import CARRIES
from compiler.ir.pinned import pinned
from compiler.reference import Walk
from search.proof.verify.arrays import Array, Arrays, elems_of
from search.proof.verify.finite import FiniteIntervals, NotFinite, are_all_floats
from search.proof.verify.glances import finite_span
from search.proof.verify.intervals import Bounded
from search.proof.verify.online_sums import OnlineIntervals
from search.proof.verify.relations import relations, zeros_have_signs
from search.proof.verify.tolerance import Tolerance, telling, tolerance

BLOCK_ELEMS = 1 << 24
"""Elements of a row block: 128 MiB an f64 value, of which a fusion has a few alive at a time."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One output of one input set, flat in logical order.

    Exact outputs (`tolerance` None) hold the values themselves in both `lower` and `upper`, as storages of `dtype`;
    others hold f32 ends (f64 for f64, integers and bools). A NaN end asks for NaN; all between the infinities, NaN
    included, is right where no answer is wrong. `apart`: how far apart ends may be that tell (`telling`); of integers
    and bools, not at all; None where outputs are exact.
    `zeros_are_signed`: a zero that is asked for has the sign of its ends. `are_finite`: ends are known to be finite.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    tolerance: Tolerance | None
    lower: Array
    upper: Array
    apart: Tolerance | None = None
    zeros_are_signed: bool = False
    are_finite: bool = False


def expect(fusion: Fusion, storages: Sequence[Array], arrays: Arrays) -> tuple[Expected, ...]:
    """The outputs for these inputs (flat storages as of `make_inputs`). Works in row blocks to bound memory."""
    fusion = pinned(fusion)
    values = [fusion.value(name) for name in fusion.inputs]
    inputs = [
        arrays.strided(arrays.load(storage, value.dtype), value.shape, value.strides)
        for storage, value in zip(storages, values, strict=True)
    ]
    with arrays.quiet():
        return tuple(_expect_output(fusion, inputs, output, arrays) for output in range(len(fusion.outputs)))


def expected_at(fusion: Fusion, name: str, bounded: Bounded, count: int, arrays: Arrays) -> Expected:
    """What `count` elements of a value of a pinned fusion must be, of which this is known."""
    vector = dataclasses.replace(fusion.value(name), shape=(count,), strides=(1,))
    return _gathered(fusion, name, vector, iter([(slice(0, count), bounded)]), arrays)


def widened(expected: Expected, times: float, arrays: Arrays) -> Expected:
    """The same with so many tolerances of the dtype more to each side; exact outputs, infinities and NaN stay."""
    allowed = expected.tolerance
    if allowed is None or not expected.dtype.is_float:
        return expected
    xp = arrays.xp
    with arrays.quiet():
        lower, upper = (
            xp.where(xp.isfinite(end), end + sign * times * (xp.abs(end) * allowed.rtol + allowed.atol), end)
            for sign, end in ((-1.0, expected.lower), (1.0, expected.upper))
        )
    return dataclasses.replace(expected, lower=lower, upper=upper)


def only_moves(fusion: Fusion, name: str) -> bool:
    """Whether a value is made by operators that carry values unchanged, so that it must be exact to the bit."""
    return all(op.kind in CARRIES for op in fusion.behind(name))


def _expect_output(fusion: Fusion, inputs: list[Array], output: int, arrays: Arrays) -> Expected:
    name = fusion.outputs[output]
    return _gathered(fusion, name, fusion.value(name), _rows(fusion, inputs, output, arrays), arrays)


def _rows(fusion: Fusion, inputs: list[Array], output: int, arrays: Arrays) -> Iterator[tuple[slice, Bounded]]:
    """(place in the flat output, its values) of one row block after another."""
    shape = fusion.value(fusion.outputs[output]).shape
    rows = shape[0] if shape else 1
    row_elems = elems_of(shape[1:])
    step = max(1, BLOCK_ELEMS // row_elems)
    related = relations(fusion)
    quick, plain = FiniteIntervals(arrays.xp, related), OnlineIntervals(arrays.xp, related)
    quick_walk, walk = (
        Walk(fusion, inputs, arrays.xp, arithmetic, device=getattr(arrays, "device", None))
        for arithmetic in (quick, plain)
    )
    is_quick = are_all_floats(fusion)
    for start in range(0, rows, step):
        stop, found = min(start + step, rows), None
        if is_quick:
            try:
                found = quick_walk.rows(output, start, stop)
            except NotFinite:  # what is so in some rows is likely to be in others
                is_quick = False
            quick.forget()
        yield slice(start * row_elems, stop * row_elems), found or walk.rows(output, start, stop)


def _gathered(
    fusion: Fusion, name: str, value: Value, blocks: Iterator[tuple[slice, Bounded]], arrays: Arrays
) -> Expected:
    """The blocks of an output in one: exact where nothing but moves made it, or where integers are known."""
    only_moved = only_moves(fusion, name)
    elems = elems_of(value.shape)
    exact = arrays.empty(elems, value.dtype) if only_moved or not value.dtype.is_float else None
    wide = value.dtype is DType.F64 or not value.dtype.is_float
    ends: tuple[Array, Array] | None = None
    for part, block in blocks:
        if exact is not None and ends is None and (only_moved or block.is_known):
            exact[part] = arrays.store(block.value.reshape(-1), value.dtype)
            continue
        if ends is None:
            ends = arrays.empty_values((elems,), wide=wide), arrays.empty_values((elems,), wide=wide)
            if exact is not None:  # the blocks before were known
                for end in ends:
                    end[: part.start] = arrays.load(exact[: part.start], value.dtype)
        for end, found in zip(ends, (block.low, block.high), strict=True):
            end[part] = (block.value if found is None else found).reshape(-1)
    if ends is None:
        assert exact is not None, "floats have ends"
        return Expected(value.shape, value.strides, value.dtype, None, exact, exact)
    allowed = Tolerance(0.0, 0.0, math.inf)
    apart, are_finite = allowed, False
    if value.dtype.is_float:
        largest, are_finite = _largest(arrays, *ends)
        allowed, apart = tolerance(value.dtype, largest), telling(value.dtype, largest)
    signed = value.dtype.is_float and zeros_have_signs(fusion, name)
    return Expected(value.shape, value.strides, value.dtype, allowed, *ends, apart, signed, are_finite)


def undecided(expected: Expected, arrays: Arrays) -> Array | int:
    """How many elements have ends too far apart to tell a right value from a wrong one, as a zero-dimensional array."""
    allowed = expected.apart
    if allowed is None:
        return 0
    xp, counts = arrays.xp, []
    with arrays.quiet():
        for start in range(0, len(expected.lower), BLOCK_ELEMS):
            low, high = expected.lower[start : start + BLOCK_ELEMS], expected.upper[start : start + BLOCK_ELEMS]
            size = xp.minimum(xp.abs(low), xp.abs(high))
            known = (low == high) | (xp.isnan(low) & xp.isnan(high))
            counts.append((~known & ~(high - low <= 2.0 * (size * allowed.rtol + allowed.atol))).sum())
    return sum(counts[1:], counts[0])


def _largest(arrays: Arrays, lower: Array, upper: Array) -> tuple[float, bool]:
    """The largest finite magnitude of an end, 0 where there is none, and whether all of them are finite."""
    parts = [values[i : i + BLOCK_ELEMS] for values in (lower, upper) for i in range(0, len(values), BLOCK_ELEMS)]
    spans = [finite_span(part, arrays.xp) for part in parts]
    tops = [
        _finite_top(arrays.xp, part) if span is None else max(map(abs, span))
        for part, span in zip(parts, spans, strict=True)
    ]
    return max(tops), None not in spans


def _finite_top(xp: Any, values: Array) -> float:
    size = xp.abs(values)
    return float(xp.where(size < math.inf, size, 0.0).max())
