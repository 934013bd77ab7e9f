"""Short words for what users spell in every other line."""

from __future__ import annotations

from collections.abc import Sequence

from fusetune import Tensor


def kept(x: Tensor, like: Tensor) -> Tensor:
    """What was folded and kept its dimensions, in the shape of `like`."""
    return x.broadcast_to(like.shape, range(len(like.shape)))


def along(x: Tensor, like: Tensor, *dims: int) -> Tensor:
    """The dimensions of `x` as these of `like`."""
    return x.broadcast_to(like.shape, dims)


def last(x: Tensor) -> int:
    return len(x.shape) - 1


def wide(x: Tensor) -> Tensor:
    return x if x.dtype in ("f32", "f64") else x.cast("f32")


def halves(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    size = int(x.shape[dim])
    return x.slice(dim, 0, size // 2), x.slice(dim, size // 2, size)


def every(x: Tensor, dim: int, step: int) -> list[Tensor]:
    """The elements at 0, 1, and so on up to `step`, each with every `step`th behind it."""
    return [x.slice(dim, first, int(x.shape[dim]), step) for first in range(step)]


def joined(tensors: Sequence[Tensor], dim: int) -> Tensor:
    return tensors[0].builder.cat(tensors, dim)


def stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Along a new last dimension."""
    return joined([x.reshape((*x.shape, 1)) for x in tensors], len(tensors[0].shape))
