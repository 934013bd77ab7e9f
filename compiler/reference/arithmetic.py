"""What a walk over a fusion computes with: plain values here; a verifier brings values with bounds on their errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from compiler.dtypes import DType
from compiler.ir.fusion import Literal
from compiler.ir.ops import OpKind
from compiler.reference import operators
from compiler.reference.floats import Array, scalar

T = TypeVar("T")


class Arithmetic(Protocol[T]):
    """Elements of tensors and the operators on them; `T` is an array with whatever else is known of its elements."""

    def tensor(self, x: Array, dtype: DType) -> T:
        """Elements as an input or an iota has them."""

    def moved(self, x: T, view: Callable[[Array], Array]) -> T:
        """The same elements in other places."""

    def joined(self, parts: Sequence[T], axis: int) -> T:
        """One after the other; of folds too."""

    def cast(self, x: T, source: DType, target: DType) -> T:
        """The elements in another type."""

    def pointwise(self, kind: OpKind, operands: Sequence[T | Literal], dtype: DType) -> T:
        """An elementwise operator on operands of `dtype` (of `where`, those chosen from)."""

    def fold(self, kind: OpKind, x: T, axes: tuple[int, ...], dtype: DType) -> T:
        """Along `axes`, which stay with size 1."""

    def merge(self, kind: OpKind, x: T, y: T) -> T:
        """Two folds in one."""

    def finish(self, kind: OpKind, x: T, count: int, dtype: DType) -> T:
        """A reduction from the fold of `count` elements."""


class Values:
    """Plain values: an array of f64, int64 or bool."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def tensor(self, x: Array, dtype: DType) -> Array:
        return operators.held(x, dtype, self.xp)

    def moved(self, x: Array, view: Callable[[Array], Array]) -> Array:
        return view(x)

    def joined(self, parts: Sequence[Array], axis: int) -> Array:
        return self.xp.concatenate(tuple(parts), axis=axis)

    def cast(self, x: Array, source: DType, target: DType) -> Array:
        return operators.cast(x, source, target, self.xp)

    def pointwise(self, kind: OpKind, operands: Sequence[Array | Literal], dtype: DType) -> Array:
        like = next(x for x in reversed(operands) if not isinstance(x, Literal))
        args = [scalar(x.value, like, self.xp) if isinstance(x, Literal) else x for x in operands]
        return operators.pointwise(kind, args, dtype, self.xp)

    def fold(self, kind: OpKind, x: Array, axes: tuple[int, ...], dtype: DType) -> Array:
        return operators.fold(kind, x, axes, self.xp)

    def merge(self, kind: OpKind, x: Array, y: Array) -> Array:
        return operators.merge(kind, x, y, self.xp)

    def finish(self, kind: OpKind, x: Array, count: int, dtype: DType) -> Array:
        return operators.finish(kind, x, count, dtype, self.xp)
