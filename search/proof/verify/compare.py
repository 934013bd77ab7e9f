"""Comparing a kernel's outputs with their bounds, in chunks; nothing waits for the GPU until numbers are read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.ir.fusion import storage_elems
from search.proof.verify.arrays import Array, Arrays, elems_of
from search.proof.verify.expected import Expected
from search.proof.verify.zones import POISONS

CHUNK_ELEMS = 1 << 24


@dataclass(frozen=True, slots=True)
class Comparison:
    """Zero-dimensional arrays, not read yet. `worst_share`: the largest error as a share of what its element allows."""

    wrong: Array
    worst_share: Array


@dataclass(frozen=True, slots=True)
class Fault:
    """The first wrong element of an output, for the reason of a `wrong_result`."""

    index: tuple[int, ...]
    found: float
    low: float
    high: float

    def __str__(self) -> str:
        low, high = f"{self.low:.9g}", f"{self.high:.9g}"
        digits = 17 if f"{self.found:.9g}" in (low, high) else 9  # of f64 more tell them apart
        found, low, high = (f"{x:.{digits}g}" for x in (self.found, self.low, self.high))
        return f"element {list(self.index)} is {found}, expected {low} to {high}"


def compare(expected: Expected, storage: Array, arrays: Arrays) -> Comparison:
    """Holds a flat storage of the output against its bounds."""
    flat = elements(expected, storage, arrays)
    wrong, shares = [], []
    with arrays.quiet():
        for start in range(0, len(flat), CHUNK_ELEMS):
            part = slice(start, start + CHUNK_ELEMS)
            right, share = _judge(expected, flat[part], part, arrays)
            wrong.append((~right).sum())
            shares.append(share)
    worst = shares[0]
    for share in shares[1:]:
        worst = arrays.xp.maximum(worst, share)
    return Comparison(sum(wrong[1:], wrong[0]), worst)


def first_fault(expected: Expected, storage: Array, arrays: Arrays) -> Fault | None:
    """Where the first wrong element is; None if there is none. Reads the GPU: for reports only."""
    flat = elements(expected, storage, arrays)
    with arrays.quiet():
        for start in range(0, len(flat), CHUNK_ELEMS):
            part = slice(start, start + CHUNK_ELEMS)
            right, _ = _judge(expected, flat[part], part, arrays)
            if bool(right.all()):
                continue
            at = start + int((~right).nonzero()[0][0])
            values = [array[at : at + 1] for array in (flat, expected.lower, expected.upper)]
            if expected.tolerance is None:
                numbers = [arrays.load(value, expected.dtype)[0] for value in values]
            else:
                numbers = [arrays.load(values[0], expected.dtype)[0], values[1][0], values[2][0]]
            return Fault(tuple(map(int, np.unravel_index(at, expected.shape))), *arrays.to_host(numbers))
    return None


def differing(first: Array, second: Array, arrays: Arrays) -> Array:
    """How many elements of two storages differ in any bit, as a zero-dimensional array."""
    a, b = arrays.bits(first), arrays.bits(second)
    counts = [
        (a[start : start + CHUNK_ELEMS] != b[start : start + CHUNK_ELEMS]).sum()
        for start in range(0, len(a), CHUNK_ELEMS)
    ]
    return sum(counts[1:], counts[0])


def poisoned_holes(expected: Expected, storage: Array, arrays: Arrays) -> Array | int:
    """How many bytes between the elements of a strided output lost the poison of the second run; 0 for a dense one."""
    if storage_elems(expected.shape, expected.strides) == elems_of(expected.shape):
        return 0
    rest, poisoned = arrays.copy(storage), arrays.copy(storage[:1])
    arrays.bytes_of(poisoned)[:] = POISONS[1]
    arrays.strided(arrays.bits(rest), expected.shape, expected.strides)[...] = arrays.bits(poisoned)
    return (arrays.bytes_of(rest) != POISONS[1]).sum()


def changed_holes(expected: Expected, storage: Array, before: Array, arrays: Arrays) -> Array | int:
    """How many bytes between the elements of a strided output are others than before, where it lies in an input."""
    layout = expected.shape, expected.strides
    if storage_elems(*layout) == elems_of(expected.shape):
        return 0
    rest = arrays.copy(storage)
    arrays.strided(arrays.bits(rest), *layout)[...] = arrays.strided(arrays.bits(before), *layout)
    return (arrays.bytes_of(rest) != arrays.bytes_of(before)).sum()


def _judge(expected: Expected, outputs: Array, part: slice, arrays: Arrays) -> tuple[Array, Array]:
    """(which elements are right, largest share of the allowance used)."""
    xp = arrays.xp
    if expected.tolerance is None:
        want = expected.lower[part]
        same_bits = arrays.bits(outputs) == arrays.bits(want)
        both_nan = xp.isnan(arrays.load(outputs, expected.dtype)) & xp.isnan(arrays.load(want, expected.dtype))
        right = same_bits | both_nan
        return right, (~right).any() * 1.0
    low, high = expected.lower[part], expected.upper[part]
    values = arrays.load(outputs, expected.dtype)
    right = (values >= low) & (values <= high)
    if not expected.are_finite:
        anything = xp.isinf(low) & xp.isinf(high) & (low < high)
        right = right | (xp.isnan(values) & (xp.isnan(low) | anything))
    if expected.zeros_are_signed:
        sign = xp.signbit(low)
        right = right & ~((low == 0) & (high == 0) & (sign == xp.signbit(high)) & (sign != xp.signbit(values)))
    # Differences of neighbours are exact, sums are not. Ends that are one number, infinite or NaN leave no room to use
    # a share of: a right value there uses none, a wrong one twice what there is, if no other has gone beyond its ends.
    reach = xp.nan_to_num(xp.maximum(values - low, high - values) / (high - low), nan=0.5, posinf=1.5, neginf=0.5)
    most = 2.0 * reach.max() - 1.0
    return right, xp.where(right.all() | (most > 1.0), most, xp.full_like(most, 2.0))


def elements(expected: Expected, storage: Array, arrays: Arrays) -> Array:
    """The elements of an output's flat storage, in logical order; what lies between them is left out."""
    return arrays.strided(storage, expected.shape, expected.strides).reshape(-1)
