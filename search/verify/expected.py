"""What a kernel's outputs must be: bounds around the reference for every element, made once a binding and input set.

Bounds are what is kept, not the reference: comparing an output is then two comparisons an element, and overflow,
infinity and NaN are settled when the bounds are made.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal
from compiler.ir.ops import VIEWS, OpKind
from compiler.reference import evaluate_rows
from search.verify.arrays import Array, Arrays, elems_of
from search.verify.inputs import only_moves
from search.verify.tolerance import Tolerance, tolerance

BLOCK_ELEMS = 1 << 24
"""Elements of a row block: 128 MiB an f64 value, of which a fusion has a few alive at a time."""

_SUMS = frozenset({OpKind.ADD, OpKind.SUB})
_KEEPS_MAGNITUDE = VIEWS | {OpKind.COPY, OpKind.CAST, OpKind.NEG, OpKind.ABS, OpKind.RELU}


@dataclass(frozen=True, slots=True)
class Expected:
    """One output of one input set, flat in logical order.

    Exact outputs (`tolerance` None) hold the values themselves in both `lower` and `upper`, as storages of `dtype`;
    others hold f32 bounds (f64 for f64). A NaN bound asks for NaN.
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
    value = fusion.value(fusion.outputs[output])
    reference = arrays.empty_values((elems_of(value.shape),), wide=value.dtype is DType.F64)
    for part, rows in _rows(fusion, inputs, output, arrays):
        reference[part] = rows.reshape(-1)
    if only_moves(fusion):
        exact = arrays.store(reference, value.dtype)
        return Expected(value.shape, value.strides, value.dtype, None, exact, exact)
    scale = max(_largest(arrays, reference), _largest_cancelling_term(fusion, inputs, output, arrays))
    allowed = tolerance(value.dtype, scale)
    return Expected(value.shape, value.strides, value.dtype, allowed, *_bounds(reference, allowed, arrays))


def _rows(fusion: Fusion, inputs: list[Array], output: int, arrays: Arrays) -> Iterator[tuple[slice, Array]]:
    """(place in the flat output, f64 values) of one row block after another."""
    shape = fusion.value(fusion.outputs[output]).shape
    rows = shape[0] if shape else 1
    row_elems = elems_of(shape[1:])
    step = max(1, BLOCK_ELEMS // row_elems)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        block = evaluate_rows(fusion, inputs, arrays.xp, output=output, start=start, stop=stop)
        yield slice(start * row_elems, stop * row_elems), block


def _bounds(reference: Array, allowed: Tolerance, arrays: Arrays) -> tuple[Array, Array]:
    """Lower and upper bounds; `reference` becomes the upper ones."""
    xp = arrays.xp
    lower = xp.empty_like(reference)
    for start in range(0, len(reference), BLOCK_ELEMS):
        part = slice(start, start + BLOCK_ELEMS)
        r = reference[part] + 0.0
        slack = xp.abs(r) * allowed.rtol + allowed.atol
        low, high = r - slack, r + slack
        # Next to the largest number of the dtype, rounding may go to infinity or not: both are near enough.
        high = xp.where(high > allowed.largest, xp.full_like(r, math.inf), high)
        low = xp.where(low < -allowed.largest, xp.full_like(r, -math.inf), low)
        low = xp.where(xp.isinf(r), r, low)  # inf - inf is NaN
        high = xp.where(xp.isinf(r), r, high)
        # A value too large for the dtype is stored as infinity.
        low = xp.where(r > allowed.largest * (1 + allowed.rtol), xp.full_like(r, math.inf), low)
        high = xp.where(r < -allowed.largest * (1 + allowed.rtol), xp.full_like(r, -math.inf), high)
        lower[part], reference[part] = low, high
    return lower, reference


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
        for _, rows in _rows(probe, inputs, index, arrays)
    ]
    return max([*numbers, *arrays.to_host(tops)]) if tops else max(numbers)
