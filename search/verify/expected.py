"""What a kernel's outputs must be: bounds around the reference for every element, made once a binding and input set.

Bounds are what is kept, not the reference: comparing an output is then two comparisons an element, and overflow,
infinity and NaN are settled when the bounds are made.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal, Value
from compiler.ir.ops import BINARY, MOVES, UNARY, VIEWS, OpKind
from compiler.reference import Arithmetic, Values, Walk
from search.verify.arrays import Array, Arrays, elems_of
from search.verify.errors import Bounded
from search.verify.online_sums import OnlineErrors
from search.verify.tolerance import Tolerance, tolerance

BLOCK_ELEMS = 1 << 24
"""Elements of a row block: 128 MiB an f64 value, of which a fusion has a few alive at a time."""

_MOVES = MOVES | {OpKind.CAT}
_POINTWISE = _MOVES | UNARY | BINARY | {OpKind.CAST}
_NOT_ROUNDED = frozenset({OpKind.NEG, OpKind.ABS, OpKind.RELU, OpKind.MAXIMUM, OpKind.MINIMUM})
_HALVES = frozenset({DType.BF16, DType.F16})
_SUMS = frozenset({OpKind.ADD, OpKind.SUB})
_KEEPS_MAGNITUDE = VIEWS | {OpKind.COPY, OpKind.CAT, OpKind.CAST, OpKind.NEG, OpKind.ABS, OpKind.RELU}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Expected:
    """One output of one input set, flat in logical order.

    Exact outputs (`tolerance` None) hold the values themselves in both `lower` and `upper`, as storages of `dtype`;
    others hold f32 bounds (f64 for f64, integers and bools). A NaN bound asks for NaN; all between the infinities, NaN
    included, is right where no answer is wrong.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    tolerance: Tolerance | None
    lower: Array
    upper: Array


def expect(fusion: Fusion, storages: Sequence[Array], arrays: Arrays) -> tuple[Expected, ...]:
    """The outputs for these inputs (flat storages as of `make_inputs`). Works in row blocks to bound memory."""
    values = [fusion.value(name) for name in fusion.inputs]
    inputs = [
        arrays.strided(arrays.load(storage, value.dtype), value.shape, value.strides)
        for storage, value in zip(storages, values, strict=True)
    ]
    with arrays.quiet():
        return tuple(_expect_output(fusion, inputs, output, arrays) for output in range(len(fusion.outputs)))


def widened(expected: Expected, times: float, arrays: Arrays) -> Expected:
    """The same with bounds so many times as far from the reference; exact outputs, infinities and NaN stay."""
    if times == 1 or expected.tolerance is None:
        return expected
    xp = arrays.xp
    with arrays.quiet():
        low, high = expected.lower, expected.upper
        more = (high - low) * ((times - 1) / 2)
        finite = xp.isfinite(more)
        lower, upper = xp.where(finite, low - more, low), xp.where(finite, high + more, high)
    return dataclasses.replace(expected, lower=lower, upper=upper)


def _expect_output(fusion: Fusion, inputs: list[Array], output: int, arrays: Arrays) -> Expected:
    kinds, dtypes = _ancestors(fusion, fusion.outputs[output])
    if kinds <= _MOVES:
        return _exact(fusion, output, _rows(fusion, inputs, output, Values(arrays.xp), arrays), arrays)
    plain = kinds <= _POINTWISE and all(dtype.is_float for dtype in dtypes)
    if plain and not _computes_with_rounded_halves(fusion, fusion.outputs[output]):
        return _pointwise(fusion, inputs, output, arrays)
    return _with_errors(fusion, inputs, output, arrays)


def _ancestors(fusion: Fusion, name: str) -> tuple[set[OpKind], set[DType]]:
    """The operators that a value is made by, and the dtypes on the way."""
    kinds, dtypes = set(), set()
    pending, seen = [name], {name}
    while pending:
        here = pending.pop()
        dtypes.add(fusion.value(here).dtype)
        op = fusion.producer(here)
        if op is not None:
            kinds.add(op.kind)
            pending += [x for x in dict.fromkeys(op.tensor_inputs) if x not in seen]
            seen.update(op.tensor_inputs)
    return kinds, dtypes


def _computes_with_rounded_halves(fusion: Fusion, name: str) -> bool:
    """True if an operator computes with a half that another has rounded: a kernel may have skipped that rounding, and
    what the operator makes of the difference (a sum that cancels, an exponential) no share of its result bounds."""
    pending = [(name, False)]
    seen: set[tuple[str, bool]] = set()
    while pending:
        here, is_read = pending.pop()
        op = fusion.producer(here)
        if op is None or (here, is_read) in seen:
            continue
        seen.add((here, is_read))
        rounds = op.kind not in _MOVES | _NOT_ROUNDED
        if is_read and rounds and fusion.value(here).dtype in _HALVES:
            return True
        pending += [(x, is_read or op.kind not in _MOVES | _NOT_ROUNDED | {OpKind.CAST}) for x in op.tensor_inputs]
    return False


def _exact(fusion: Fusion, output: int, rows: Iterator[tuple[slice, Array]], arrays: Arrays) -> Expected:
    value = fusion.value(fusion.outputs[output])
    storage = arrays.empty(elems_of(value.shape), value.dtype)
    for part, block in rows:
        storage[part] = arrays.store(block.reshape(-1), value.dtype)
    return Expected(value.shape, value.strides, value.dtype, None, storage, storage)


def _pointwise(fusion: Fusion, inputs: list[Array], output: int, arrays: Arrays) -> Expected:
    """One tolerance for all elements."""
    value = fusion.value(fusion.outputs[output])
    reference = arrays.empty_values((elems_of(value.shape),), wide=value.dtype is DType.F64)
    for part, rows in _rows(fusion, inputs, output, Values(arrays.xp), arrays):
        reference[part] = rows.reshape(-1)
    scale = max(_largest(arrays, reference), _largest_cancelling_term(fusion, inputs, output, arrays))
    allowed = tolerance(value.dtype, scale)
    return Expected(value.shape, value.strides, value.dtype, allowed, *_bounds(reference, allowed, arrays))


def _with_errors(fusion: Fusion, inputs: list[Array], output: int, arrays: Arrays) -> Expected:
    """Each element with an error of its own; integers and bools that have none are exact."""
    value = fusion.value(fusion.outputs[output])
    rows = _rows(fusion, inputs, output, OnlineErrors(arrays.xp), arrays)
    first = next(rows)
    if first[1].error is None and not value.dtype.is_float:
        return _exact(fusion, output, ((part, block.value) for part, block in chain([first], rows)), arrays)
    wide = value.dtype is DType.F64 or not value.dtype.is_float
    reference, error = (arrays.empty_values((elems_of(value.shape),), wide=wide) for _ in range(2))
    for part, block in chain([first], rows):
        reference[part] = block.value.reshape(-1)
        error[part] = 0.0 if block.error is None else block.error.reshape(-1)
    return _around(value, reference, error, arrays)


def expected_of(value: Value, bounded: Bounded, arrays: Arrays) -> Expected:
    """What elements must be that make up `value`, in its order, from their reference and errors (`Errors`)."""
    with arrays.quiet():
        x = arrays.xp.asarray(bounded.value).reshape(-1)
        if bounded.error is None and not value.dtype.is_float:
            exact = arrays.store(x, value.dtype)
            return Expected(value.shape, value.strides, value.dtype, None, exact, exact)
        reference = arrays.xp.asarray(x, dtype=arrays.xp.float64) + 0.0
        error = arrays.xp.zeros_like(reference) if bounded.error is None else bounded.error.reshape(-1) + 0.0
        return _around(value, reference, error, arrays)


def _rows(
    fusion: Fusion, inputs: list[Array], output: int, arithmetic: Arithmetic[T], arrays: Arrays
) -> Iterator[tuple[slice, T]]:
    """(place in the flat output, its values in `arithmetic`) of one row block after another."""
    shape = fusion.value(fusion.outputs[output]).shape
    rows = shape[0] if shape else 1
    row_elems = elems_of(shape[1:])
    step = max(1, BLOCK_ELEMS // row_elems)
    walk = Walk(fusion, inputs, arrays.xp, arithmetic, device=getattr(arrays, "device", None))
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        yield slice(start * row_elems, stop * row_elems), walk.rows(output, start, stop)


def _around(value: Value, reference: Array, error: Array, arrays: Arrays) -> Expected:
    """Bounds from the reference and the error of each element, whose memory they take.

    Where there is an error, the tolerance of the dtype comes on top of it: it is what is left for how functions are
    computed. Where there is none, the value itself is asked for.
    """
    xp = arrays.xp
    dtype = value.dtype
    allowed = tolerance(dtype, _largest(arrays, reference)) if dtype.is_float else Tolerance(0.0, 0.0, math.inf)
    for start in range(0, len(reference), BLOCK_ELEMS):
        part = slice(start, start + BLOCK_ELEMS)
        r, e = reference[part] + 0.0, error[part] + 0.0
        slack = xp.where(e > 0, xp.abs(r) * allowed.rtol + allowed.atol + e, e)
        low, high = _kept_in_range(r, slack, allowed, arrays)
        if dtype is DType.BOOL:
            low, high = xp.clip(low, 0.0, 1.0), xp.clip(high, 0.0, 1.0)
        else:
            low = xp.where(xp.isinf(e), xp.full_like(r, -math.inf), low)
            high = xp.where(xp.isinf(e), xp.full_like(r, math.inf), high)
        reference[part], error[part] = low, high
    return Expected(value.shape, value.strides, dtype, allowed, reference, error)


def _bounds(reference: Array, allowed: Tolerance, arrays: Arrays) -> tuple[Array, Array]:
    """Lower and upper bounds; `reference` becomes the upper ones."""
    xp = arrays.xp
    lower = xp.empty_like(reference)
    for start in range(0, len(reference), BLOCK_ELEMS):
        part = slice(start, start + BLOCK_ELEMS)
        r = reference[part] + 0.0
        lower[part], reference[part] = _kept_in_range(r, xp.abs(r) * allowed.rtol + allowed.atol, allowed, arrays)
    return lower, reference


def _kept_in_range(r: Array, slack: Array, allowed: Tolerance, arrays: Arrays) -> tuple[Array, Array]:
    """Bounds `slack` around the reference, infinite ones where the stored value is, or may be, infinite."""
    xp = arrays.xp
    low, high = r - slack, r + slack
    # Next to the largest number of the dtype, rounding may go to infinity or not: both are near enough.
    high = xp.where(high > allowed.largest, xp.full_like(r, math.inf), high)
    low = xp.where(low < -allowed.largest, xp.full_like(r, -math.inf), low)
    low = xp.where(xp.isinf(r), r, low)  # inf - inf is NaN
    high = xp.where(xp.isinf(r), r, high)
    # A value too large for the dtype is stored as infinity.
    low = xp.where(r > allowed.largest * (1 + allowed.rtol), xp.full_like(r, math.inf), low)
    high = xp.where(r < -allowed.largest * (1 + allowed.rtol), xp.full_like(r, -math.inf), high)
    return low, high


def _largest(arrays: Arrays, values: Array) -> float:
    """The largest finite magnitude; 0 where there is none."""
    xp = arrays.xp
    tops = [_finite_top(xp, values[i : i + BLOCK_ELEMS]) for i in range(0, len(values), BLOCK_ELEMS)]
    return max(arrays.to_host(tops))


def _finite_top(xp: Array, values: Array) -> Array:
    size = xp.abs(values)
    return xp.where(xp.isfinite(size), size, xp.zeros_like(size)).max()


def _largest_cancelling_term(fusion: Fusion, inputs: list[Array], output: int, arrays: Arrays) -> float:
    """The largest finite operand of the sums that the output is made of, looking through ops that keep magnitude."""
    terms: list[str] = []
    numbers: list[float] = [0.0]
    seen: set[str] = set()
    pending = [fusion.outputs[output]]
    while pending:
        name = pending.pop()
        op = fusion.producer(name)
        if name in seen or op is None:
            continue
        seen.add(name)
        if op.kind in _SUMS:
            terms += op.tensor_inputs
            numbers += [abs(x.value) for x in op.inputs if isinstance(x, Literal) and math.isfinite(x.value)]
        if op.kind in _SUMS or op.kind in _KEEPS_MAGNITUDE:
            pending += op.tensor_inputs
    probe = dataclasses.replace(fusion, outputs=tuple(dict.fromkeys(terms)))
    tops = [
        _finite_top(arrays.xp, rows)
        for index in range(len(probe.outputs))
        for _, rows in _rows(probe, inputs, index, Values(arrays.xp), arrays)
    ]
    return max([*numbers, *arrays.to_host(tops)]) if tops else max(numbers)
