"""What operators are checked with: element types and their ranges, types of operands, and where faults are put."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fusetune.wire.extent import Extent
from fusetune.wire.fusion import (
    DTypeName,
    ScalarName,
)
from fusetune.wire.problems import Problem

FP8: frozenset[str] = frozenset({"f8e4m3", "f8e5m2"})
"""Floats without arithmetic."""


FLOATS: frozenset[str] = FP8 | {"f64", "f32", "f16", "bf16"}


LARGEST_FLOAT = {
    "f32": (2 - 2**-23) * 2.0**127, "bf16": (2 - 2**-7) * 2.0**127, "f16": 65504.0, "f8e5m2": 57344.0, "f8e4m3": 448.0,
}  # fmt: skip
"""The largest finite number of the floats that do not hold all that JSON can write (IEEE 754; bfloat16; OCP FP8)."""


INTEGER_RANGE = {
    "i8": (-(2**7), 2**7 - 1),
    "u8": (0, 2**8 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
}


ITEM_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1,
    "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1,
}  # fmt: skip


INDEX_TYPES = ("i32", "i64")
"""What rows and elements are chosen by, as torch has it."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and dtype of a value."""

    shape: tuple[Extent, ...]
    dtype: DTypeName

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype} {shape_text(self.shape)}"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A number that is told at each call."""

    name: str
    dtype: ScalarName

    def __str__(self) -> str:
        return f"{self.dtype} scalar {self.name!r}"


Number = int | float
OperandType = TensorType | ScalarType | Number


@dataclass(frozen=True, slots=True)
class OpCheck:
    """Collects the faults of one operator; `place` is where it stands, such as `ops[3]`."""

    place: str
    problems: list[Problem] = field(default_factory=list)

    def fault(self, at: str, found: object, expected: str, fix: str) -> None:
        self.problems.append(Problem(f"{self.place}.{at}" if at else self.place, str(found), expected, fix))


def shape_text(shape: Iterable[Extent | int | str]) -> str:
    """`(M, 4096)`"""
    return f"({', '.join(map(str, shape))})"


def dim_in(dim: int, rank: int, at: str, check: OpCheck) -> int | None:
    """The dimension counted from 0, also for a negative one, which counts from the end."""
    if -rank <= dim < rank:
        return dim % rank
    expected = f"{-rank} to {rank - 1} for rank {rank}" if rank else "no dimension: the rank is 0"
    check.fault(at, dim, expected, "Name a dimension that is there.")
    return None


def dims_in(dims: tuple[int, ...], rank: int, check: OpCheck) -> tuple[int, ...] | None:
    """Each dimension once, counted from 0."""
    found = [dim_in(dim, rank, f"dims[{i}]", check) for i, dim in enumerate(dims)]
    known = tuple(dim for dim in found if dim is not None)
    if len(known) != len(dims):
        return None
    if len(set(known)) != len(known):
        check.fault("dims", list(dims), "each dimension once", "Remove the repeated one.")
        return None
    return known


def integer_fits(number: Number, dtype: DTypeName, at: str, why: str, fix: str, check: OpCheck) -> bool:
    """Whether a dtype of integers holds the number; a fault at `at` where it does not, which says `why` and `fix`."""
    if isinstance(number, float) and not number.is_integer():
        check.fault(at, number, f"an integer, {why}", fix)
        return False
    low, high = (0, 1) if dtype == "bool" else INTEGER_RANGE[dtype]
    if not low <= number <= high:
        check.fault(at, number, f"{low} to {high}, {why}", fix)
        return False
    return True


def float_fits(number: Number, dtype: DTypeName, at: str, check: OpCheck) -> bool:
    """Whether the number is one that floats hold at all; a fault at `at` where it is too large."""
    try:
        float(number)
    except OverflowError:
        check.fault(at, "an integer over 1.8e308", f"a number that {dtype} can hold", 'Write "inf".')
        return False
    return True
