"""What a walk over a fusion computes with: plain values here; a verifier brings values with bounds on their errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from compiler.dtypes import DType
from compiler.ir.fusion import Literal, Number, Op
from compiler.ir.ops import COMPARE, OpKind
from compiler.reference import operators
from compiler.reference.floats import Array, round_to, rounded, scalar

T = TypeVar("T")


class Arithmetic(Protocol[T]):
    """Elements of tensors and the operators on them; `T` is an array with whatever else is known of its elements."""

    def tensor(self, x: Array, dtype: DType) -> T:
        """Elements as an input or an iota has them."""

    def indices(self, x: T) -> Array:
        """Integers that choose elements: what they are."""

    def moved(self, x: T, view: Callable[[Array], Array]) -> T:
        """The same elements in other places."""

    def joined(self, parts: Sequence[T], axis: int) -> T:
        """One after the other; of folds too."""

    def cast(self, x: T, source: DType, target: DType) -> T:
        """The elements in another type."""

    def pointwise(self, op: Op, operands: Sequence[T | Number], dtype: DType) -> T:
        """An elementwise operator on operands of `dtype` (of `where`, those chosen from)."""

    def fold(self, kind: OpKind, x: T, axes: tuple[int, ...], dtype: DType) -> T:
        """Along `axes`, which stay with size 1."""

    def contract(self, kind: OpKind, x: T, y: T, dtype: DType) -> T:
        """Sums of products: x's last dimension and y's last but one are one dimension, those before them the same;
        `dtype` is that of both."""

    def merge(self, kind: OpKind, x: T, y: T) -> T:
        """Two folds in one."""

    def finish(self, op: Op, x: T, count: int, dtype: DType) -> T:
        """The result of the reduction `op`, of `dtype`, from the fold of `count` elements."""

    def scan(self, op: Op, x: T, dtype: DType) -> T:
        """The result of the scan `op`, of `dtype`, of whole runs."""


class Values:
    """Plain values: an array of f64, int64 or bool; floats are rounded to their dtype by every operator, or by none."""

    def __init__(self, xp: Any, *, rounds: bool = True) -> None:
        self.xp = xp
        self.rounds = rounds

    def tensor(self, x: Array, dtype: DType) -> Array:
        held = operators.held(x, dtype, self.xp)
        # Positions, which a half may not hold; inputs are what they are.
        is_made = self.rounds and dtype.is_float and "float" not in str(x.dtype)
        return round_to(held, dtype, self.xp) if is_made else held

    def indices(self, x: Array) -> Array:
        return x

    def moved(self, x: Array, view: Callable[[Array], Array]) -> Array:
        return view(x)

    def joined(self, parts: Sequence[Array], axis: int) -> Array:
        return self.xp.concatenate(tuple(parts), axis=axis)

    def cast(self, x: Array, source: DType, target: DType) -> Array:
        found = operators.cast(x, source, target, self.xp)
        is_made = self.rounds and target.is_float and source is not target
        return self.converted(found, source, target) if is_made else found

    def converted(self, x: Array, source: DType, target: DType) -> Array:
        """Numbers (f64) of one type as another float type stores them, still in f64. Those of shorter floats are
        numbers of f32, of which the processor's own conversions are the roundings."""
        is_single = source.is_float and source is not DType.F64
        return (rounded if is_single else round_to)(x, target, self.xp)

    def pointwise(self, op: Op, operands: Sequence[Array | Number], dtype: DType) -> Array:
        like = next(x for x in reversed(operands) if not isinstance(x, Number))
        args = [self.number(op.kind, x, like, dtype) if isinstance(x, Number) else x for x in operands]
        found = operators.pointwise(op.kind, args, dtype, self.xp)
        return self._rounded(found, dtype) if op.kind not in COMPARE else found

    def number(self, kind: OpKind, x: Number, like: Array, dtype: DType) -> Array:
        """A literal as it stands beside `like`: f32 beside halves in arithmetic, rounded to them in comparisons."""
        assert isinstance(x, Literal), f"{x}: scalars get their numbers first (compiler.reference, settled)"
        if kind is OpKind.WHERE:  # beside a mask alone
            like = operators.held(like, dtype, self.xp)
        if not (dtype.is_float and self.rounds):
            return scalar(x.value, like, self.xp)
        held = dtype if kind in COMPARE or dtype is DType.F64 else DType.F32
        return scalar(float(round_to(np.float64(x.value), held, np)), like, self.xp)

    def fold(self, kind: OpKind, x: Array, axes: tuple[int, ...], dtype: DType) -> Array:
        return operators.exact(kind, [x, axes], self.xp)

    def contract(self, kind: OpKind, x: Array, y: Array, dtype: DType) -> Array:
        return operators.exact(kind, [x, y], self.xp)

    def merge(self, kind: OpKind, x: Array, y: Array) -> Array:
        return operators.exact(OpKind(kind.row.step), [x, y], self.xp)

    def finish(self, op: Op, x: Array, count: int, dtype: DType) -> Array:
        # By a bare number torch on CUDA does not divide: it multiplies with the reciprocal.
        is_mean = op.kind is OpKind.MEAN
        found = x / scalar(count, x, self.xp) if is_mean else operators.wrapped(x, dtype, self.xp)
        return self._rounded(found, dtype)

    def scan(self, op: Op, x: Array, dtype: DType) -> Array:
        (axis,) = op.dims
        sums = operators.exact(op.kind, [x, axis, bool(op.start)], self.xp)
        return self._rounded(operators.wrapped(sums, dtype, self.xp), dtype)

    def _rounded(self, x: Array, dtype: DType) -> Array:
        return rounded(x, dtype, self.xp) if self.rounds and dtype.is_float else x
