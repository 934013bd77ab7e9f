"""What is known of a value of a random fusion: enough to keep its results comparable with a reference.

A kernel may skip the rounding between operators, or take approximate instructions; the reference rounds nowhere. Both
are near each other where nothing amplifies a rounding: away from poles, from jumps and from sums that all but vanish.
So each value carries the interval in which it lies, whether both compute it exactly, and how coarse its roundings are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

FP8 = ("f8e4m3", "f8e5m2")
FLOATS = ("f64", "f32", "f16", "bf16", *FP8)
HALVES = ("f16", "bf16")
INTEGERS = ("i8", "u8", "i16", "i32", "i64")
DTYPES = (*FLOATS, *INTEGERS, "bool")
NBYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1}
NBYTES |= {"i8": 1, "u8": 1, "i16": 2, "i32": 4, "i64": 8, "bool": 1}

PRECISION = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8e4m3": 4, "f8e5m2": 3}
"""Significant bits (IEEE 754; bfloat16 has 8; the OCP 8-bit floating point specification)."""

INTEGER_RANGE = {
    "i8": (-(2**7), 2**7 - 1),
    "u8": (0, 2**8 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "bool": (0, 1),
}

LARGEST_INPUT = 8.0
"""No element of the `random` input set is larger: one of 10^15 normal numbers is (search.proof.verify.inputs)."""

LARGEST = dict.fromkeys(FLOATS, 256.0)
"""Values are scaled down beyond: sums of squares of them stay far from the largest f16."""


@dataclass(frozen=True)
class Known:
    """A value by name. `low` and `high` bound its elements.

    `is_exact`: computed without rounding, so that comparisons and truncations have one answer.
    `precision`: significant bits of the coarsest rounding on its way; an output stores no more than these.
    `is_coarse`: rounded to 16 bits or less, which arithmetic could amplify beyond the tolerance of such results.
    `varies`: for each dimension, whether elements along it differ.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    low: float
    high: float
    is_exact: bool
    precision: int
    is_coarse: bool
    varies: tuple[bool, ...]

    @property
    def elems(self) -> int:
        return prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def magnitude(self) -> float:
        """No element is larger in size."""
        return max(abs(self.low), abs(self.high))
