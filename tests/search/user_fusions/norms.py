"""Normalizations over rows, channels, groups and images, their gradients, and statistics."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import torch
from torch.nn import functional

from fusetune import FusionBuilder, Tensor
from fusetune.functional import logsumexp, softmax, std, var
from fusetune.wire.fusion import DTypeName
from tests.search.user_fusions.posted import Given, Posted, Shape, between, positive
from tests.search.user_fusions.spelled import along, kept, last, wide


def normal_over(f: FusionBuilder, x: Tensor, dims: tuple[int, ...], eps: float = 1e-5) -> Tensor:
    centred = x - kept(x.mean(dims, keepdim=True), x)
    return centred * kept(f.rsqrt(f.square(centred).mean(dims, keepdim=True) + eps), x)


def layer_norm(f: FusionBuilder, x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    made = normal_over(f, wide(x), (last(x),))
    return (made * along(wide(gain), x, last(x)) + along(wide(bias), x, last(x))).cast(x.dtype)


def layer_norm_by_torch(x: Any, gain: Any, bias: Any) -> Any:
    return functional.layer_norm(x.float(), gain.shape, gain.float(), bias.float()).to(x.dtype)


def modulated(f: FusionBuilder, x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """adaLN: [batch, tokens, size] by [batch, size]."""
    made = normal_over(f, wide(x), (2,), 1e-6)
    return (made * along(wide(scale) + 1.0, x, 0, 2) + along(wide(shift), x, 0, 2)).cast(x.dtype)


def modulated_by_torch(x: Any, shift: Any, scale: Any) -> Any:
    made = functional.layer_norm(x.float(), x.shape[-1:], eps=1e-6)
    return (made * (scale.float() + 1)[:, None] + shift.float()[:, None]).to(x.dtype)


def group_norm(f: FusionBuilder, x: Tensor, gain: Tensor, bias: Tensor, groups: int) -> Tensor:
    """Of [batch, channels, ...], followed by silu."""
    parts = wide(x).reshape((x.shape[0], groups, -1))
    made = normal_over(f, parts, (2,)).reshape(x.shape)
    return f.silu(made * along(gain, x, 1) + along(bias, x, 1)).cast(x.dtype)


def group_norm_by_torch(x: Any, gain: Any, bias: Any, groups: int) -> Any:
    return functional.silu(functional.group_norm(x.float(), groups, gain, bias)).to(x.dtype)


def instance_norm(f: FusionBuilder, x: Tensor) -> Tensor:
    return normal_over(f, x, tuple(range(2, len(x.shape))))


def batch_norm(f: FusionBuilder, x: Tensor, gain: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """With the mean and what the spread comes to, for the backward pass."""
    dims = tuple(d for d in range(len(x.shape)) if d != 1)
    mean = x.mean(dims)
    root = f.rsqrt(var(x, dims, correction=0) + 1e-5)
    made = (x - along(mean, x, 1)) * along(root * gain, x, 1) + along(bias, x, 1)
    return made, mean, root


def batch_norm_by_torch(x: Any, gain: Any, bias: Any) -> Any:
    return torch.native_batch_norm(x, gain, bias, None, None, True, 0.1, 1e-5)


def batch_norm_served(f: FusionBuilder, x: Tensor, mean: Tensor, spread: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    scale = gain * f.rsqrt(spread + 1e-5)
    return f.relu(x * along(scale, x, 1) + along(bias - mean * scale, x, 1))


def rms_norm(f: FusionBuilder, x: Tensor, gain: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """With a residual, which is kept."""
    total = wide(x) + wide(added)
    root = f.rsqrt(f.square(total).mean((last(x),), keepdim=True) + 1e-6)
    return (total * kept(root, x) * along(wide(gain), x, last(x))).cast(x.dtype), total.cast(x.dtype)


def rms_norm_by_torch(x: Any, gain: Any, added: Any) -> Any:
    total = x.float() + added.float()
    return (total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * gain.float()).to(x.dtype), total.to(
        x.dtype
    )


def layer_norm_gradient(f: FusionBuilder, dy: Tensor, x: Tensor, gain: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of the input, and summed over rows, of gain and bias."""
    made = normal_over(f, x, (1,))
    root = f.rsqrt(var(x, (1,), correction=0, keepdim=True) + 1e-5)
    scaled = dy * along(gain, dy, 1)
    mean, weighted = scaled.mean((1,), keepdim=True), (scaled * made).mean((1,), keepdim=True)
    dx = (scaled - kept(mean, x) - made * kept(weighted, x)) * kept(root, x)
    return dx, (dy * made).sum((0,)), dy.sum((0,))


def layer_norm_gradient_by_torch(dy: Any, x: Any, gain: Any) -> Any:
    bias = torch.zeros_like(gain)
    return torch.func.vjp(lambda *a: functional.layer_norm(a[0], gain.shape, a[1], a[2]), x, gain, bias)[1](dy)


def standardized(f: FusionBuilder, w: Tensor) -> Tensor:
    """Weight standardization: each filter less its mean, over its spread."""
    dims = tuple(range(1, len(w.shape)))
    return (w - kept(w.mean(dims, keepdim=True), w)) / kept(std(w, dims, correction=1, keepdim=True) + 1e-5, w)


def standardized_by_torch(w: Any) -> Any:
    dims = tuple(range(1, w.dim()))
    return (w - w.mean(dims, keepdim=True)) / (w.std(dims, keepdim=True) + 1e-5)


def moments(f: FusionBuilder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, spread and the third moment of columns."""
    mean = x.mean((0,))
    apart = x - along(mean, x, 1)
    return mean, std(x, (0,), correction=0), (f.square(apart) * apart).mean((0,))


def moments_by_torch(x: Any) -> Any:
    return x.mean(0), x.std(0, correction=0), (x - x.mean(0)).pow(3).mean(0)


def z_loss(f: FusionBuilder, x: Tensor) -> Tensor:
    return f.square(logsumexp(wide(x), (1,))).mean((0,))


def attention_weights(f: FusionBuilder, scores: Tensor, lengths: Tensor, scale: Any) -> Tensor:
    """[batch, heads, queries, keys]; keys past a sequence's length get nothing."""
    inside = f.lt(f.iota(scores.shape, 3, "i32"), along(lengths, scores, 0))
    return softmax(f.where(inside, wide(scores) * scale, -1e30), (3,)).cast(scores.dtype)


def attention_weights_by_torch(scores: Any, lengths: Any, scale: float) -> Any:
    inside = torch.arange(scores.shape[3], device=scores.device) < lengths[:, None, None, None]
    return (scores.float() * scale).masked_fill(~inside, -1e30).softmax(3).to(scores.dtype)


def causal_weights(f: FusionBuilder, scores: Tensor, window: int) -> Tensor:
    rows, columns = (f.iota(scores.shape, d, "i32") for d in (1, 2))
    seen = f.bitwise_and(f.ge(rows, columns), f.lt(rows - columns, window))
    return softmax(f.where(seen, wide(scores), float("-inf")), (2,)).cast(scores.dtype)


def causal_weights_by_torch(scores: Any, window: int) -> Any:
    n = scores.shape[-1]
    at = torch.arange(n, device=scores.device)
    apart = at[:, None] - at
    return scores.float().masked_fill((apart < 0) | (apart >= window), float("-inf")).softmax(2).to(scores.dtype)


def softmax_gradient(f: FusionBuilder, dy: Tensor, y: Tensor) -> Tensor:
    both = wide(dy) * wide(y)
    return (both - wide(y) * kept(both.sum((last(y),), keepdim=True), y)).cast(y.dtype)


def softmax_gradient_by_torch(dy: Any, y: Any) -> Any:
    to = torch.promote_types(y.dtype, torch.float32)
    both = dy.to(to) * y.to(to)
    return (both - y.to(to) * both.sum(-1, keepdim=True)).to(y.dtype)


def unit_rows(f: FusionBuilder, x: Tensor, p: float) -> Tensor:
    """Over a norm of any power."""
    total = f.pow(f.abs(x), p).sum((1,), keepdim=True)
    return x / kept(f.pow(total, 1 / p), x)


def _layer(dtype: DTypeName, shape: Shape, gain: DTypeName) -> Posted:
    n = shape[-1]
    given = (Given(shape, dtype), Given((n,), gain), Given((n,), gain))
    return Posted(f"layernorm of {dtype}, rank {len(shape)}", layer_norm, layer_norm_by_torch, given)


def _groups(dtype: DTypeName, shape: tuple[int, ...], groups: int) -> Posted:
    given = (Given(shape, dtype), Given(shape[1:2]), Given(shape[1:2]))
    return Posted(
        f"group norm of {dtype}, {groups} of {shape[1]}, {prod(shape[2:])} places",
        partial(group_norm, groups=groups),
        partial(group_norm_by_torch, groups=groups),
        given,
    )


NORMS = (
    _layer("f32", ("M", 129), "f32"),
    _layer("bf16", (3, "M", 64), "bf16"),
    _layer("f16", ("M", 2, 51), "f32"),
    *(
        Posted(
            f"adaptive layernorm of {dtype}",
            modulated,
            modulated_by_torch,
            (Given((3, "M", size), dtype), Given((3, size), dtype), Given((3, size), dtype)),
            slack=2.0,
        )
        for dtype, size in (("bf16", 48), ("f32", 33))
    ),
    _groups("f32", (3, 12, 5, 7), 4),
    _groups("bf16", (2, 16, 6, 6), 8),
    _groups("f16", (2, 6, 45), 3),
    _groups("f32", (2, 8, 3, 4, 5), 2),
    Posted("instance norm", instance_norm, lambda x: functional.instance_norm(x), (Given((4, 5, 9, 7)),)),
    Posted("instance norm of volumes", instance_norm, lambda x: functional.instance_norm(x), (Given((2, 3, 4, 5, 6)),)),
    *(
        Posted(
            f"batch norm of rank {len(shape)}",
            batch_norm,
            batch_norm_by_torch,
            (Given(shape), Given((7,)), Given((7,))),
            slack=2.0,
        )
        for shape in (("M", 7), (5, 7, 6, 5), (2, 7, 3, 4, 5))
    ),
    Posted(
        "batch norm as it is served, and relu",
        batch_norm_served,
        lambda x, mean, spread, gain, bias: functional.relu(functional.batch_norm(x, mean, spread, gain, bias)),
        (Given((4, 6, 9, 8)), Given((6,)), Given((6,), "f32", positive), Given((6,)), Given((6,))),
    ),
    *(
        Posted(
            f"rmsnorm of {dtype} with a residual",
            rms_norm,
            rms_norm_by_torch,
            (Given(shape, dtype), Given(shape[-1:], gain), Given(shape, dtype)),
        )
        for dtype, shape, gain in (
            ("bf16", ("M", 160), "bf16"),
            ("f16", (2, "M", 37), "f32"),
            ("f32", ("M", 5, 21), "f32"),
        )
    ),
    Posted(
        "gradient of layernorm",
        layer_norm_gradient,
        layer_norm_gradient_by_torch,
        (Given(("M", 70)), Given(("M", 70)), Given((70,))),
        slack=4.0,
    ),
    Posted("weights standardized", standardized, standardized_by_torch, (Given((21, 3, 3, 3)),), slack=2.0),
    Posted("moments of columns", moments, moments_by_torch, (Given(("M", 19), "f64"),)),
    Posted("variance of all", lambda f, x: var(x, (0, 1)), lambda x: x.var(), (Given((41, 23)),)),
    Posted("z-loss", z_loss, lambda x: x.float().logsumexp(1).square().mean(), (Given(("M", 65), "bf16"),), slack=2.0),
    Posted(
        "log of sums of exponentials in f64",
        lambda f, x: logsumexp(x, (0, 2)),
        lambda x: x.logsumexp((0, 2)),
        (Given((5, 11, 13), "f64"),),
    ),
    *(
        Posted(
            f"attention weights of {dtype} with padding",
            attention_weights,
            attention_weights_by_torch,
            (Given((2, 3, 17, keys), dtype), Given((2,), "i32", between(1, keys))),
            scalars=(0.125,),
        )
        for dtype, keys in (("f16", 34), ("f32", 29))
    ),
    *(
        Posted(
            f"causal weights in a window of {window}",
            partial(causal_weights, window=window),
            partial(causal_weights_by_torch, window=window),
            (Given((3, 31, 31), dtype),),
        )
        for window, dtype in ((31, "bf16"), (7, "f32"))
    ),
    *(
        Posted(
            f"gradient of softmax in {dtype}", softmax_gradient, softmax_gradient_by_torch, (Given(shape, dtype),) * 2
        )
        for dtype, shape in (("bf16", (2, "M", 40)), ("f64", ("M", 57)))
    ),
    Posted(
        "rows over their third norm",
        partial(unit_rows, p=3.0),
        lambda x: functional.normalize(x, p=3.0),
        (Given(("M", 44)),),
        slack=2.0,
    ),
)
