"""Functions that a fusion has no operator for, in the operators that it has; each adds these to the builder of `x`.

    from fusetune import functional
    y = functional.softmax(x, dims=(1,))

They mean what torch's mean. Halves are worked out in f32 and rounded once, at the end. All raise InvalidFusion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from fusetune.elementwise import Number
from fusetune.errors import InvalidFusion
from fusetune.fusion import Tensor
from fusetune.wire.problems import Problem

_HALVES = ("f16", "bf16")


def softmax(x: Tensor, dims: Sequence[int]) -> Tensor:
    """Exponentials over their sum along `dims`; NaN where the largest element is infinite."""

    def made(x: Tensor) -> Tensor:
        e = x.builder.exp(_shifted(x, dims))
        return e / _back(e.sum(dims, keepdim=True), x)

    return _in_f32(x, made)


def log_softmax(x: Tensor, dims: Sequence[int]) -> Tensor:
    """The logarithm of `softmax`, without its underflow."""

    def made(x: Tensor) -> Tensor:
        f, shifted = x.builder, _shifted(x, dims)
        return shifted - _back(f.log(f.exp(shifted).sum(dims, keepdim=True)), x)

    return _in_f32(x, made)


def logsumexp(x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials along `dims`; the largest element where that is infinite."""

    def made(x: Tensor) -> Tensor:
        f = x.builder
        top = x.amax(dims, keepdim)
        total = f.log(f.exp(_shifted(x, dims)).sum(dims, keepdim)) + top
        return f.where(f.eq(f.abs(top), inf), top, total)

    return _in_f32(x, made)


def var(x: Tensor, dims: Sequence[int], correction: float = 1, keepdim: bool = False) -> Tensor:
    """The variance along `dims`: the sum of squared distances from the mean over their number less `correction`."""
    return _in_f32(x, lambda x: _variance(x, dims, correction, keepdim))


def std(x: Tensor, dims: Sequence[int], correction: float = 1, keepdim: bool = False) -> Tensor:
    """The root of `var`."""
    return _in_f32(x, lambda x: x.builder.sqrt(_variance(x, dims, correction, keepdim)))


def clamp(x: Tensor, low: Tensor | Number | None = None, high: Tensor | Number | None = None) -> Tensor:
    """`x` between two bounds, or on one side of one; `high` where that is less than `low`. NaN stays, and a bound that
    is NaN makes NaN."""
    if low is None and high is None:
        fix = "Write low, high, or both."
        raise InvalidFusion((Problem("clamp", "no bounds", "one at least", fix),))
    raised = x if low is None else x.builder.maximum(x, low)
    return raised if high is None else x.builder.minimum(raised, high)


def isnan(x: Tensor) -> Tensor:
    """Of any dtype; integers are never NaN."""
    return x.builder.ne(x, x)


def isinf(x: Tensor) -> Tensor:
    """Of floats."""
    return x.builder.eq(x.builder.abs(x), inf)


def isfinite(x: Tensor) -> Tensor:
    """Of floats: neither infinite nor NaN."""
    return x.builder.lt(x.builder.abs(x), inf)


def logical_not(x: Tensor) -> Tensor:
    """A bool. A number holds unless it is 0, here and in the next three."""
    return x.builder.bitwise_not(_truth(x))


def logical_and(x: Tensor, y: Tensor) -> Tensor:
    """Whether both hold."""
    return x.builder.bitwise_and(_truth(x), _truth(y))


def logical_or(x: Tensor, y: Tensor) -> Tensor:
    """Whether one holds at least."""
    return x.builder.bitwise_or(_truth(x), _truth(y))


def logical_xor(x: Tensor, y: Tensor) -> Tensor:
    """Whether one holds and the other does not."""
    return x.builder.bitwise_xor(_truth(x), _truth(y))


def _truth(x: Tensor) -> Tensor:
    return x if x.dtype == "bool" else x.cast("bool")


def _in_f32(x: Tensor, made: Callable[[Tensor], Tensor]) -> Tensor:
    return made(x.cast("f32")).cast(x.dtype) if x.dtype in _HALVES else made(x)


def _back(folded: Tensor, x: Tensor) -> Tensor:
    """What was folded and kept its dimensions, in the shape of `x`."""
    return folded.broadcast_to(x.shape, tuple(range(len(x.shape))))


def _shifted(x: Tensor, dims: Sequence[int]) -> Tensor:
    """Distances from the largest element, so that no exponential overflows."""
    return x - _back(x.amax(dims, keepdim=True), x)


def _variance(x: Tensor, dims: Sequence[int], correction: float, keepdim: bool) -> Tensor:
    squares = x.builder.square(x - _back(x.mean(dims, keepdim=True), x))
    if correction == 0:
        return squares.mean(dims, keepdim)
    return squares.sum(dims, keepdim) / max(0.0, _count(x, dims) - correction)


def _count(x: Tensor, dims: Sequence[int]) -> int:
    """The number of elements along `dims`, which symbols leave open."""
    count = 1
    for dim in dims:
        size = x.shape[dim]
        if not isinstance(size, int):
            fix = "Pass correction=0, and multiply by n / (n - correction) outside."
            raise InvalidFusion((Problem("dims", f"dimension {dim} of size {size}", "a size that is a number", fix),))
        count *= size
    return count
