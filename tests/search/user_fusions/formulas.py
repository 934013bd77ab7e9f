"""Formulas as users write them with the builder, and beside each what torch says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from fusetune import FusionBuilder, Tensor
from fusetune.functional import (
    clamp,
    isfinite,
    isinf,
    isnan,
    log_softmax,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
)
from fusetune.torch import DTYPES
from fusetune.wire.fusion import DTypeName
from tests.search.user_fusions.spelled import along, halves, last, wide


def gelu_gradient(f: FusionBuilder, dy: Tensor, x: Tensor) -> Tensor:
    """Of the exact form: dy * (cdf + x * pdf)."""
    w = wide(x)
    cdf = (f.erf(w * math.sqrt(0.5)) + 1.0) * 0.5
    pdf = f.exp(f.square(w) * -0.5) * (1 / math.sqrt(2 * math.pi))
    return (wide(dy) * (cdf + w * pdf)).cast(x.dtype)


def silu_gradient(f: FusionBuilder, dy: Tensor, x: Tensor) -> Tensor:
    s = f.sigmoid(wide(x))
    return (wide(dy) * s * ((1.0 - s) * wide(x) + 1.0)).cast(x.dtype)


def gradient(of: Callable[..., Any]) -> Callable[..., Any]:
    """torch's own of a function of one tensor, worked out in f32."""

    def by_torch(dy: Any, x: Any) -> Any:
        to = torch.promote_types(x.dtype, torch.float32)
        return torch.func.vjp(of, x.to(to))[1](dy.to(to))[0].to(x.dtype)

    return by_torch


def gated(f: FusionBuilder, x: Tensor, bias: Tensor) -> Tensor:
    gate, up = halves(wide(x) + along(wide(bias), x, last(x)), last(x))
    return (f.gelu(gate, approximate="none") * up).cast(x.dtype)


def gated_by_torch(x: Any, bias: Any) -> Any:
    gate, up = (x.float() + bias.float()).chunk(2, -1)
    return (functional.gelu(gate) * up).to(x.dtype)


def softplus(f: FusionBuilder, x: Tensor) -> Tensor:
    return f.relu(x) + f.log1p(f.exp(-f.abs(x)))


def mish(f: FusionBuilder, x: Tensor) -> Tensor:
    return (wide(x) * f.tanh(softplus(f, wide(x)))).cast(x.dtype)


def elu(f: FusionBuilder, x: Tensor, alpha: Any) -> Tensor:
    return f.where(f.gt(x, 0.0), x, f.expm1(f.minimum(x, 0.0)) * alpha)


def huber(f: FusionBuilder, x: Tensor, y: Tensor, delta: float) -> tuple[Tensor, Tensor]:
    apart = x - y
    far = f.abs(apart)
    each = f.where(f.lt(far, delta), f.square(apart) * 0.5, (far - 0.5 * delta) * delta)
    return each.mean(range(len(x.shape))), clamp(apart, -delta, delta)


def huber_by_torch(x: Any, y: Any, delta: float) -> Any:
    return functional.huber_loss(x, y, delta=delta), (x - y).clamp(-delta, delta)


def binary_entropy(f: FusionBuilder, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Of logits, with more weight for what holds, as torch has it: each row's mean."""
    w = wide(x)
    truth = y.cast("f32")
    positive_weight = truth * (along(weight, x, 1) - 1.0) + 1.0
    each = (1.0 - truth) * w + positive_weight * (f.log1p(f.exp(-f.abs(w))) + f.relu(-w))
    return each.mean((1,))


def binary_entropy_by_torch(x: Any, y: Any, weight: Any) -> Any:
    every = functional.binary_cross_entropy_with_logits(x.float(), y.float(), pos_weight=weight, reduction="none")
    return every.mean(1)


def focal(f: FusionBuilder, x: Tensor, y: Tensor, gamma: float) -> Tensor:
    p = f.sigmoid(x)
    right = f.where(y, p, 1.0 - p)
    each = f.pow(1.0 - right, gamma) * f.log(right + 1e-6)
    return -each.sum((1,))


def focal_by_torch(x: Any, y: Any, gamma: float) -> Any:
    p = x.sigmoid()
    right = torch.where(y, p, 1 - p)
    return -((1 - right) ** gamma * (right + 1e-6).log()).sum(1)


def divergence(f: FusionBuilder, x: Tensor, y: Tensor, heat: Any) -> Tensor:
    """KL of a teacher and a student, softened."""
    student, teacher = (log_softmax(wide(z) / heat, (1,)) for z in (x, y))
    return (f.exp(teacher) * (teacher - student)).sum((1,))


def divergence_by_torch(x: Any, y: Any, heat: float) -> Any:
    student, teacher = ((z.float() / heat).log_softmax(1) for z in (x, y))
    return (teacher.exp() * (teacher - student)).sum(1)


def cosine(f: FusionBuilder, x: Tensor, y: Tensor) -> Tensor:
    sizes = f.sqrt(f.square(x).sum((1,)) * f.square(y).sum((1,)))
    return (x * y).sum((1,)) / f.maximum(sizes, 1e-8)


def cosine_by_torch(x: Any, y: Any) -> Any:
    return (x * y).sum(1) / (x.square().sum(1) * y.square().sum(1)).sqrt().clamp(min=1e-8)


def masked_mean(f: FusionBuilder, x: Tensor, mask: Tensor) -> Tensor:
    """Of the tokens that count: [batch, tokens, size]."""
    total = f.where(along(mask, x, 0, 1), wide(x), 0.0).sum((1,))
    count = f.maximum(mask.sum((1,), dtype="i64"), 1).cast("f32")
    return total / along(count, total, 0)


def masked_mean_by_torch(x: Any, mask: Any) -> Any:
    return (x.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def dice(f: FusionBuilder, x: Tensor, y: Tensor) -> Tensor:
    p, truth = f.sigmoid(x), y.cast("f32")
    dims = tuple(range(1, len(x.shape)))
    return 1.0 - ((p * truth).sum(dims) * 2.0 + 1.0) / (p.sum(dims) + truth.sum(dims) + 1.0)


def dice_by_torch(x: Any, y: Any) -> Any:
    p, t = x.sigmoid().flatten(1), y.float().flatten(1)
    return 1 - (2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)


def policy(f: FusionBuilder, new: Tensor, old: Tensor, gain: Tensor, room: Any) -> Tensor:
    """PPO's clipped objective."""
    ratio = f.exp(new - old)
    near = f.maximum(f.minimum(ratio, f.full((), 1.0, "f32").broadcast_to(ratio.shape, ()) + room), 0.8)
    return -f.minimum(ratio * gain, near * gain)


def policy_by_torch(new: Any, old: Any, gain: Any, room: float) -> Any:
    ratio = (new - old).exp()
    return -torch.minimum(ratio * gain, ratio.clamp(max=1 + room).clamp(min=0.8) * gain)


def hinge(f: FusionBuilder, x: Tensor, y: Tensor) -> Tensor:
    sign = y.cast("f32") * 2.0 - 1.0
    return f.square(f.relu(1.0 - sign * x)).mean((1,))


def gamma_corrected(f: FusionBuilder, x: Tensor, gamma: Any) -> Tensor:
    """Bytes of an image made brighter."""
    return f.round(f.pow(x.cast("f32") / 255.0, gamma) * 255.0).cast("u8")


def compressed(f: FusionBuilder, x: Tensor) -> Tensor:
    """mu-law of 8 bits."""
    size = f.log1p(f.abs(x) * 255.0) / math.log1p(255.0)
    return f.floor((f.sign(x) * size + 1.0) * 0.5 * 255.0 + 0.5).cast("i16")


def compressed_by_torch(x: Any) -> Any:
    size = torch.log1p(x.abs() * 255.0) / math.log1p(255.0)
    return ((x.sign() * size + 1) * 0.5 * 255.0 + 0.5).floor().to(torch.int16)


def decibels(f: FusionBuilder, x: Tensor) -> Tensor:
    """Spectra: no more than 80 below the loudest."""
    level = f.log2(f.maximum(x, 1e-10)) * (10 * math.log10(2))
    return f.maximum(level, along(level.amax((1, 2)), level, 0) - 80.0)


def decibels_by_torch(x: Any) -> Any:
    level = 10 * torch.log10(x.clamp(min=1e-10))
    return torch.maximum(level, level.amax((1, 2), keepdim=True) - 80)


def angles(f: FusionBuilder, count: int, size: int) -> Tensor:
    """Sines and cosines of positions, of the first transformer."""
    place = f.iota((count, size), 0, "f32")
    rate = f.exp2(f.iota((count, size), 1, "f32") * (-math.log2(10000.0) / size))
    return f.cat([f.sin(place * rate), f.cos(place * rate)], 1)


def angles_by_torch(x: Any, size: int) -> Any:
    place = torch.arange(x.shape[0], device=x.device, dtype=torch.float32)[:, None]
    rate = torch.exp2(torch.arange(size, device=x.device, dtype=torch.float32) * (-math.log2(10000.0) / size))
    return x + torch.cat([(place * rate).sin(), (place * rate).cos()], 1)


def biased_by_distance(f: FusionBuilder, scores: Tensor, slope: Tensor) -> Tensor:
    """ALiBi: [heads, queries, keys]."""
    apart = f.iota(scores.shape, 2, "i32") - f.iota(scores.shape, 1, "i32")
    bias = -f.abs(apart).cast("f32") * along(slope, scores, 0)
    return f.where(f.le(apart, 0), wide(scores) + bias, float("-inf")).cast(scores.dtype)


def biased_by_distance_by_torch(scores: Any, slope: Any) -> Any:
    at = torch.arange(scores.shape[1], device=scores.device)
    apart = at - at[:, None]
    made = scores.float() - apart.abs() * slope[:, None, None]
    return made.masked_fill(apart > 0, float("-inf")).to(scores.dtype)


def logic(f: FusionBuilder, a: Tensor, b: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    return (
        logical_and(a, logical_or(b, f.gt(x, 0.5))),
        logical_xor(a, logical_not(x)),
        f.where(logical_not(a), 1.5, -2.0),
    )


def logic_by_torch(a: Any, b: Any, x: Any) -> Any:
    return (
        torch.logical_and(a, torch.logical_or(b, x > 0.5)),
        torch.logical_xor(a, torch.logical_not(x)),
        torch.where(torch.logical_not(a), 1.5, -2.0),
    )


def health(f: FusionBuilder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of a tensor that may have overflowed: each row's NaN, infinities, and whether it is fine."""
    big = f.exp(wide(x) * 60.0)
    odd = big - f.where(isinf(big), big, 0.0)
    return isnan(odd).sum((1,), dtype="i64"), isinf(big).any((1,)), isfinite(odd).all((1,))


def health_by_torch(x: Any) -> Any:
    big = (x.float() * 60).exp()
    odd = big - torch.where(big.isinf(), big, 0)
    return odd.isnan().sum(1), big.isinf().any(1), odd.isfinite().all(1)


def replaced(f: FusionBuilder, x: Tensor) -> Tensor:
    """nan_to_num of a logarithm of any number."""
    y = f.log(x)
    y = f.where(isnan(y), 0.0, y)
    return f.where(isinf(y), -1e4, y)


def pixels(f: FusionBuilder, x: Tensor, mean: Tensor, spread: Tensor, dtype: DTypeName) -> Tensor:
    """Bytes of [batch, height, width, channels] to normalized [batch, channels, height, width]."""
    made = (x.cast("f32") / 255.0 - along(mean, x, 3)) / along(spread, x, 3)
    return made.permute((0, 3, 1, 2)).cast(dtype)


def pixels_by_torch(x: Any, mean: Any, spread: Any, dtype: DTypeName) -> Any:
    return ((x.float() / 255.0 - mean) / spread).permute(0, 3, 1, 2).contiguous().to(DTYPES[dtype])


def mixed(f: FusionBuilder, x: Tensor, y: Tensor, gain: Any) -> Tensor:
    """Two tracks of 16 bits, the second turned down."""
    total = x.cast("f32") + y.cast("f32") * gain
    return clamp(f.round(total), -32768.0, 32767.0).cast("i16")


def blended(f: FusionBuilder, x: Tensor, y: Tensor, alpha: Tensor) -> Tensor:
    """Images of bytes, by whole numbers: (x * a + y * (255 - a) + 127) // 255."""
    a = alpha.cast("i32")
    total = x.cast("i32") * a + y.cast("i32") * (255 - a) + 127
    return f.floor_divide(total, 255).cast("u8")


def blended_by_torch(x: Any, y: Any, alpha: Any) -> Any:
    a = alpha.int()
    return ((x.int() * a + y.int() * (255 - a) + 127) // 255).to(torch.uint8)


def calendar(f: FusionBuilder, seconds: Tensor) -> tuple[Tensor, ...]:
    """Hours, minutes and days of the week, also of times before 1970."""
    minutes = f.floor_divide(seconds, 60)
    hours, days = f.floor_divide(minutes, 60), f.floor_divide(seconds, 86400)
    return f.remainder(hours, 24).cast("i8"), f.remainder(minutes, 60).cast("u8"), f.remainder(days + 4, 7)


def calendar_by_torch(s: Any) -> Any:
    return (s // 3600 % 24).to(torch.int8), (s // 60 % 60).to(torch.uint8), (s // 86400 + 4) % 7


def buckets(f: FusionBuilder, apart: Tensor) -> Tensor:
    """T5's of relative positions: near ones have their own, far ones share by their logarithm."""
    size = f.abs(apart)
    far = f.log(f.maximum(size, 1).cast("f32") / 8.0) * (8 / math.log(128 / 8))
    bucket = f.where(f.lt(size, 8), size, f.minimum(far.cast("i64") + 8, 15))
    return bucket + f.where(f.gt(apart, 0), 16, 0, "i64")


def buckets_by_torch(apart: Any) -> Any:
    size = apart.abs()
    far = (torch.log(size.clamp(min=1).float() / 8.0) * (8 / math.log(128 / 8))).long() + 8
    return torch.where(size < 8, size, far.clamp(max=15)) + torch.where(apart > 0, 16, 0)
