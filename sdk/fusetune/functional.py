"""Functions that a fusion has no operator for, in the operators that it has; each adds these to the builder of `x`.

    from fusetune import functional
    y = functional.softmax(x, dims=(1,))

They mean what torch's mean. Halves are worked out in f32 and rounded once, at the end. All raise InvalidFusion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

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
