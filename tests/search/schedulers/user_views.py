"""Fusions of pads, flips, strided slices and constants as users have them, each with what torch says of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

from fusetune import Fusion, FusionBuilder, Tensor
from fusetune.wire.fusion import DTypeName
from tests.search.random_fusions.cases import Case

if TYPE_CHECKING:
    import torch

    OfTorch = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]

Built = Tensor | Sequence[Tensor]


@dataclass(frozen=True)
class UserFusion:
    """`build` makes of a builder and inputs what `by_torch` makes of tensors of these shapes and this dtype."""

    build: Callable[..., Built]
    by_torch: OfTorch
    shapes: tuple[tuple[int, ...], ...]
    dtype: DTypeName = "f32"

    def fusion(self) -> Fusion:
        f = FusionBuilder()
        inputs = [f.input(f"x{n}", shape, self.dtype) for n, shape in enumerate(self.shapes)]
        made = self.build(f, *inputs)
        for n, tensor in enumerate([made] if isinstance(made, Tensor) else made):
            f.output(tensor, name=f"y{n}")
        return f.build()


def case_of(name: str) -> Case:
    """One of `USER_FUSIONS` with what binds it: nothing."""
    one = USER_FUSIONS[name]
    return Case(name, json.loads(one.fusion().to_json()), {"sizes": {}, "inputs": [{} for _ in one.shapes]})


def _halves(f: FusionBuilder, x: Tensor) -> tuple[Tensor, Tensor]:
    last, size = len(x.shape) - 1, int(x.shape[-1])
    return f.slice(x, last, 0, size // 2), f.slice(x, last, size // 2, size)


def _rotated(f: FusionBuilder, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE: x * cos + rotate_half(x) * sin."""
    low, high = _halves(f, x)
    turned = f.cat([-high, low], dim=len(x.shape) - 1)
    dims = (len(x.shape) - 2, len(x.shape) - 1)
    return x * cos.broadcast_to(x.shape, dims) + turned * sin.broadcast_to(x.shape, dims)


def _rotated_by_torch(x: Any, cos: Any, sin: Any) -> Any:
    import torch

    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


def _rotated_backward(f: FusionBuilder, dy: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Its gradient as autograd writes it: a slice's gradient is a pad of zeros, and the two are added."""
    dims = (len(dy.shape) - 2, len(dy.shape) - 1)
    turned = dy * sin.broadcast_to(dy.shape, dims)
    low, high = _halves(f, turned)
    zeros, half = [0] * len(dy.shape), int(dy.shape[-1]) // 2
    end = [*zeros[1:], half]
    return dy * cos.broadcast_to(dy.shape, dims) + f.pad(-low, end, zeros) + f.pad(high, zeros, end)


def _gradient(of: Callable[..., Any]) -> Callable[..., Any]:
    def by_torch(dy: Any, *others: Any) -> Any:
        import torch

        return torch.func.vjp(lambda x: of(x, *others), dy)[1](dy)[0]

    return by_torch


def _windows(f: FusionBuilder, x: Tensor) -> Tensor:
    """Swin's shifted windows of [batch, height, width, channels]: rolled by 2 both ways, cut into windows of 4."""
    b, h, w, c = (int(n) for n in x.shape)
    for dim, size in ((1, h), (2, w)):
        x = f.cat([f.slice(x, dim, 2, size), f.slice(x, dim, 0, 2)], dim)
    return x.reshape((b, h // 4, 4, w // 4, 4, c)).permute((0, 1, 3, 2, 4, 5)).reshape((-1, 16, c))


def _windows_by_torch(x: Any) -> Any:
    b, h, w, c = x.shape
    x = x.roll((-2, -2), (1, 2)).reshape(b, h // 4, 4, w // 4, 4, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)


def _patches(f: FusionBuilder, x: Tensor, step: int) -> Tensor:
    """im2col of 3 by 3 patches of [channels, height, width], padded by 1."""
    c, h, w = (int(n) for n in x.shape)
    padded = f.pad(x, (0, 1, 1), (0, 1, 1))
    taken = []
    for i, j in product(range(3), repeat=2):
        rows = f.slice(padded, 1, i, i + h, step)
        taken.append(f.slice(rows, 2, j, j + w, step).reshape((c, 1, -1)))
    return f.cat(taken, dim=1).reshape((9 * c, -1))


def _patches_by_torch(x: Any, step: int) -> Any:
    import torch

    return torch.nn.functional.unfold(x[None], 3, padding=1, stride=step)[0]


def _pairs_rotated(f: FusionBuilder, x: Tensor) -> Tensor:
    """Interleaved RoPE's turn: (-x1, x0) of each pair."""
    each = [f.slice(x, 1, first, int(x.shape[1]), 2).reshape((int(x.shape[0]), -1, 1)) for first in (1, 0)]
    return f.cat([-each[0], each[1]], 2)


def _pairs_rotated_by_torch(x: Any) -> Any:
    import torch

    return torch.stack([-x[:, 1::2], x[:, ::2]], -1)


def _padded(*sizes: int, **options: Any) -> Callable[..., Any]:
    def by_torch(x: Any) -> Any:
        import torch

        return torch.nn.functional.pad(x, sizes, **options)

    return by_torch


def _full(value: float) -> Callable[..., Any]:
    def by_torch(x: Any) -> Any:
        import torch

        return torch.full_like(x, value)

    return by_torch


USER_FUSIONS: dict[str, UserFusion] = {
    "rope": UserFusion(_rotated, _rotated_by_torch, ((2, 3, 5, 24), (5, 24), (5, 24))),
    "rope-backward": UserFusion(_rotated_backward, _gradient(_rotated_by_torch), ((2, 3, 5, 24), (5, 24), (5, 24))),
    "shifted-windows": UserFusion(_windows, _windows_by_torch, ((2, 8, 12, 5),)),
    "im2col": UserFusion(lambda f, x: _patches(f, x, 1), lambda x: _patches_by_torch(x, 1), ((3, 7, 9),)),
    "im2col-of-every-second": UserFusion(
        lambda f, x: _patches(f, x, 2), lambda x: _patches_by_torch(x, 2), ((3, 7, 9),)
    ),
    "every-second-column": UserFusion(lambda f, x: f.slice(x, 1, 0, 67, 2), lambda x: x[:, ::2], ((13, 67),)),
    "odd-columns-of-halves": UserFusion(
        lambda f, x: f.slice(x, 1, 1, 130, 2), lambda x: x[:, 1::2], ((6, 130),), "f16"
    ),
    "every-third-row": UserFusion(lambda f, x: f.exp(f.slice(x, 0, 1, 31, 3)), lambda x: x[1:31:3].exp(), ((33, 64),)),
    "every-second-of-each": UserFusion(
        lambda f, x: f.slice(f.slice(f.slice(x, 0, 1, 5, 2), 1, 0, 9, 4), 2, 2, 33, 5),
        lambda x: x[1:5:2, :9:4, 2:33:5],
        ((5, 9, 33),),
    ),
    "pairs-rotated": UserFusion(_pairs_rotated, _pairs_rotated_by_torch, ((7, 34),)),
    "flipped-rows": UserFusion(lambda f, x: f.flip(x, (-1,)), lambda x: x.flip(-1), ((11, 37),)),
    "flipped-halves": UserFusion(lambda f, x: x + f.flip(x, (1,)), lambda x: x + x.flip(1), ((5, 64),), "bf16"),
    "flipped-all": UserFusion(lambda f, x: f.exp(f.flip(x, (0, 1, 2))), lambda x: x.flip(0, 1, 2).exp(), ((3, 5, 17),)),
    "flipped-and-transposed": UserFusion(
        lambda f, x: f.flip(x, (0,)).permute((1, 0)), lambda x: x.flip(0).T, ((33, 37),)
    ),
    "flipped-sums": UserFusion(lambda f, x: f.flip(f.sum(x, dims=(1,)), (0,)), lambda x: x.sum(1).flip(0), ((9, 70),)),
    "summed-from-the-end": UserFusion(
        lambda f, x: f.sum(f.flip(x, (1,)), dims=(1,)), lambda x: x.flip(1).sum(1), ((9, 70),)
    ),
    "flipped-reshaped": UserFusion(
        lambda f, x: f.flip(f.flip(x, (1,)).reshape((6, 10)), (1,)).reshape((5, 12)),
        lambda x: x.flip(1).reshape(6, 10).flip(1).reshape(5, 12),
        ((4, 15),),
    ),
    "padded-rows": UserFusion(lambda f, x: f.pad(x, (0, 4), (0, 8)), _padded(4, 8), ((9, 36),)),
    "padded-with-a-number": UserFusion(
        lambda f, x: f.pad(x, (1, 0), (2, 3), -1.5), _padded(0, 3, 1, 2, value=-1.5), ((5, 13),)
    ),
    "padded-with-inf": UserFusion(lambda f, x: f.pad(x, (0,), (3,), -inf), _padded(0, 3, value=-inf), ((40,),), "f16"),
    "padded-result": UserFusion(
        lambda f, x: f.exp(f.pad(f.exp(x), (1, 2), (0, 1))), lambda x: _padded(2, 1, 1, 0)(x.exp()).exp(), ((5, 13),)
    ),
    "padded-sums": UserFusion(
        lambda f, x: f.sum(f.pad(x, (0, 1), (0, 2), 0.25), dims=(1,)),
        lambda x: _padded(1, 2, value=0.25)(x).sum(1),
        ((9, 61),),
    ),
    "padded-twice": UserFusion(
        lambda f, x: f.pad(f.pad(x, (1, 1), (1, 1), 2.0), (1, 1), (1, 1)),
        lambda x: _padded(1, 1, 1, 1)(_padded(1, 1, 1, 1, value=2.0)(x)),
        ((3, 6),),
    ),
    "padded-of-rank-6": UserFusion(
        lambda f, x: f.pad(x, (1, 0, 0, 1, 0, 0), (0, 1, 0, 0, 0, 2)),
        _padded(0, 2, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0),
        ((2, 1, 3, 2, 2, 5),),
    ),
    "padded-and-cut": UserFusion(
        lambda f, x: f.slice(f.pad(x, (3,), (4,)), 0, 1, 22, 2), lambda x: _padded(3, 4)(x)[1:22:2], ((17,),)
    ),
    "full-like": UserFusion(lambda f, x: f.full(x.shape, 2.5, "f32"), _full(2.5), ((7, 33),)),
    "ones-for-a-sum": UserFusion(
        lambda f, x: (f.sum(f.square(x), dims=(1,)), f.full(x.shape, 1, "f32") * (x * 2)),
        lambda x: ((x * x).sum(1), x * 2),
        ((7, 65),),
    ),
    "constants-joined": UserFusion(
        lambda f, x: f.cat([f.full((3, 8), 0.5, "f32"), f.exp(x), f.full((3, 4), -1, "f32")], dim=1),
        lambda x: _padded(0, 4, value=-1.0)(_padded(8, 0, value=0.5)(x.exp())),
        ((3, 20),),
    ),
}
