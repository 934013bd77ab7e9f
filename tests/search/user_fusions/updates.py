"""Values written where they were read: optimizers, moving averages, caches; alone and over lists of parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from fusetune import FusionBuilder, Tensor
from fusetune.functional import clamp, isfinite, softmax
from fusetune.wire.fusion import DTypeName
from tests.search.user_fusions.posted import Given, Posted, Shape, between, positive, unit
from tests.search.user_fusions.spelled import along, kept, last, wide

LR, DECAY, B1, B2, EPS, C1, R2 = 1e-3, 0.1, 0.9, 0.999, 1e-8, 0.271, 0.0547
"""Of a third step."""

STEP = (LR, B1, B2, EPS, DECAY, C1, R2)


def adamw(f: FusionBuilder, p: Tensor, g: Tensor, m: Tensor, v: Tensor, *by: Any) -> tuple[Tensor, ...]:
    lr, b1, b2, eps, decay, c1, r2 = by
    wp, wg, wm, wv = map(wide, (p, g, m, v))
    m1 = wg + (wm - wg) * b1
    squared = wg * wg
    v1 = squared + (wv - squared) * b2
    step = m1 / c1 / (f.sqrt(v1) / r2 + eps)
    moved = wp - wp * lr * decay - step * lr
    return tuple(x.cast(like.dtype) for x, like in ((moved, p), (m1, m), (v1, v)))


def adamw_by_torch(p: Any, g: Any, m: Any, v: Any, *by: float) -> Any:
    lr, b1, b2, eps, decay, c1, r2 = by
    wp, wg, wm, wv = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (p, g, m, v))
    m1 = torch.lerp(wg, wm, b1)
    v1 = torch.lerp(wg * wg, wv, b2)
    moved = wp - lr * decay * wp - lr * (m1 / c1) / (v1.sqrt() / r2 + eps)
    return moved.to(p.dtype), m1.to(m.dtype), v1.to(v.dtype)


def lion(
    f: FusionBuilder, p: Tensor, g: Tensor, m: Tensor, lr: Any, b1: Any, b2: Any, decay: Any
) -> tuple[Tensor, Tensor]:
    wp, wg, wm = map(wide, (p, g, m))
    moved = wp - wp * lr * decay - f.sign(wg + (wm - wg) * b1) * lr
    return moved.cast(p.dtype), (wg + (wm - wg) * b2).cast(m.dtype)


def lion_by_torch(p: Any, g: Any, m: Any, lr: float, b1: float, b2: float, decay: float) -> Any:
    wp, wg, wm = (x.float() for x in (p, g, m))
    moved = wp - wp * lr * decay - torch.sign(wg + (wm - wg) * b1) * lr
    return moved.to(p.dtype), (wg + (wm - wg) * b2).to(m.dtype)


def sgd(f: FusionBuilder, p: Tensor, g: Tensor, v: Tensor, lr: Any, momentum: Any) -> tuple[Tensor, Tensor]:
    """Nesterov's momentum."""
    v1 = v * momentum + g
    return p - (g + v1 * momentum) * lr, v1


def adagrad(f: FusionBuilder, p: Tensor, g: Tensor, total: Tensor, lr: Any) -> tuple[Tensor, Tensor]:
    total = total + f.square(g)
    return p - g / (f.sqrt(total) + 1e-10) * lr, total


def rmsprop(f: FusionBuilder, p: Tensor, g: Tensor, v: Tensor, lr: Any, alpha: Any) -> tuple[Tensor, Tensor]:
    v1 = v * alpha + f.square(g) * 0.01
    return p - g * f.rsqrt(v1 + 1e-6) * lr, v1


def rmsprop_by_torch(p: Any, g: Any, v: Any, lr: float, alpha: float) -> Any:
    v1 = v * alpha + g.square() * 0.01
    return p - g * torch.rsqrt(v1 + 1e-6) * lr, v1


def average(f: FusionBuilder, mean: Tensor, x: Tensor, share: Any) -> Tensor:
    moved: Tensor = wide(mean) + (wide(x) - wide(mean)) * share
    return moved.cast(mean.dtype)


def average_by_torch(mean: Any, x: Any, share: float) -> Any:
    to = torch.promote_types(mean.dtype, torch.float32)
    return (mean.to(to) + (x.to(to) - mean.to(to)) * share).to(mean.dtype)


def unscaled(f: FusionBuilder, g: Tensor, by: Any) -> tuple[Tensor, Tensor]:
    """A loss scale taken out of gradients, and whether any of them is not finite."""
    made = wide(g) * by
    return made.cast(g.dtype), f.bitwise_not(isfinite(made)).any(tuple(range(len(g.shape))))


def unscaled_by_torch(g: Any, by: float) -> Any:
    made = g.float() * by
    return made.to(g.dtype), ~made.isfinite().all()


def clipped(f: FusionBuilder, g: Tensor, norm: Tensor, top: Any) -> Tensor:
    """Gradients to a norm at most; the norm is on the device."""
    factor = f.minimum(f.reciprocal(norm + 1e-6) * top, 1.0)
    return (wide(g) * along(factor, g)).cast(g.dtype)


def clipped_by_torch(g: Any, norm: Any, top: float) -> Any:
    return (g.float() * (top / (norm + 1e-6)).clamp(max=1.0)).to(g.dtype)


def master_weights(f: FusionBuilder, p: Tensor, g: Tensor, m: Tensor, lr: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Momentum in f32 of bf16 gradients, and the parameters once more in bf16."""
    m1 = m * 0.9 + g.cast("f32")
    moved = p - m1 * lr
    return moved, m1, moved.cast("bf16")


def master_weights_by_torch(p: Any, g: Any, m: Any, lr: float) -> Any:
    m1 = m * 0.9 + g.float()
    moved = p - m1 * lr
    return moved, m1, moved.bfloat16()


def softmax_by_torch(x: Any) -> Any:
    return x.float().softmax(-1).to(x.dtype)


def cache_written(f: FusionBuilder, cache: Tensor, x: Tensor, place: Tensor) -> Tensor:
    """One position of each sequence of a cache replaced: what a scatter would do, said by a comparison."""
    at = f.iota(cache.shape, 1, place.dtype)
    return f.where(f.eq(at, along(place, cache, 0)), along(x, cache, 0, 1, 2), cache)


def cache_written_by_torch(cache: Any, x: Any, place: Any) -> Any:
    cache[torch.arange(len(cache), device=cache.device), place.long()] = x[:, 0]
    return cache


def counted(f: FusionBuilder, count: Tensor, hits: Tensor) -> Tensor:
    return count + hits.cast("i32")


def running_stats(f: FusionBuilder, mean: Tensor, var: Tensor, x: Tensor, momentum: Any) -> tuple[Tensor, Tensor]:
    """Batch norm's buffers, of [batch, channels, height, width]."""
    dims, n = (0, 2, 3), int(x.shape[0]) * int(x.shape[2]) * int(x.shape[3])
    centre = x.mean(dims)
    spread = f.square(x - along(centre, x, 1)).sum(dims) / (n - 1)
    return mean + (centre - mean) * momentum, var + (spread - var) * momentum


def running_stats_by_torch(mean: Any, var: Any, x: Any, momentum: float) -> Any:
    torch.nn.functional.batch_norm(x, mean, var, training=True, momentum=momentum)
    return mean, var


def projected(f: FusionBuilder, x: Tensor, g: Tensor, step: Any, room: Any) -> Tensor:
    """An adversarial step, kept near 0 and inside of 0 and 1."""
    return clamp(x + clamp(f.sign(g) * step, -0.05, 0.05), 0.0, room)


def _adamw(name: str, shape: Shape, p: DTypeName, state: DTypeName, is_list: bool = False) -> Posted:
    given = partial(Given, is_list=is_list)
    return Posted(
        f"AdamW {name}",
        adamw,
        adamw_by_torch,
        (given(shape, p), given(shape, p), given(shape, state), given(shape, state, unit)),
        scalars=STEP,
        into={0: 0, 1: 2, 2: 3},
        slack=4.0,
    )


def _average(name: str, dtype: DTypeName, other: DTypeName, shape: Shape, is_list: bool = False) -> Posted:
    given = partial(Given, is_list=is_list)
    inputs = (given(shape, dtype), given(shape, other))
    return Posted(f"moving average {name}", average, average_by_torch, inputs, scalars=(0.01,), into={0: 0})


def _in_place(name: str, build: Callable[..., Any], by_torch: Callable[..., Any], *inputs: Given, **how: Any) -> Posted:
    return Posted(name, build, by_torch, inputs, into=how.pop("into", {0: 0}), **how)


FLAT: Shape = ("M", 67)
LIST: Shape = ("N",)

UPDATES = (
    _adamw("of f32", FLAT, "f32", "f32"),
    _adamw("of bf16, moments in f32", ("M", 3, 22), "bf16", "f32"),
    _adamw("of bf16 throughout", FLAT, "bf16", "bf16"),
    _adamw("of f64", ("M",), "f64", "f64"),
    _adamw("over a list of f32", LIST, "f32", "f32", is_list=True),
    _adamw("over a list of bf16", LIST, "bf16", "f32", is_list=True),
    *(
        _in_place(
            f"Lion of {dtype}{' over a list' if is_list else ''}",
            lion,
            lion_by_torch,
            *(Given(shape, dtype, is_list=is_list) for _ in range(3)),
            scalars=(LR, B1, 0.99, DECAY),
            into={0: 0, 1: 2},
        )
        for dtype, shape, is_list in (("f32", FLAT, False), ("f16", (5, "M", 9), False), ("f32", LIST, True))
    ),
    _in_place(
        "SGD with Nesterov's momentum",
        sgd,
        lambda p, g, v, lr, momentum: (p - (g + (v * momentum + g) * momentum) * lr, v * momentum + g),
        *(Given(FLAT) for _ in range(3)),
        scalars=(LR, B1),
        into={0: 0, 1: 2},
    ),
    _in_place(
        "SGD over a list",
        sgd,
        lambda p, g, v, lr, momentum: (p - (g + (v * momentum + g) * momentum) * lr, v * momentum + g),
        *(Given(LIST, is_list=True) for _ in range(3)),
        scalars=(LR, B1),
        into={0: 0, 1: 2},
    ),
    _in_place(
        "Adagrad",
        adagrad,
        lambda p, g, s, lr: (p - g / ((s + g * g).sqrt() + 1e-10) * lr, s + g * g),
        Given(FLAT),
        Given(FLAT),
        Given(FLAT, "f32", positive),
        scalars=(LR,),
        into={0: 0, 1: 2},
    ),
    _in_place(
        "RMSprop of f64",
        rmsprop,
        rmsprop_by_torch,
        Given(FLAT, "f64"),
        Given(FLAT, "f64"),
        Given(FLAT, "f64", positive),
        scalars=(LR, 0.99),
        into={0: 0, 1: 2},
    ),
    _average("of f32", "f32", "f32", ("M", 131)),
    _average("of f32 by bf16", "f32", "bf16", ("M", 4, 17)),
    _average("of bf16 over a list", "bf16", "bf16", LIST, is_list=True),
    *(
        _in_place(
            f"gradients of {dtype} unscaled", unscaled, unscaled_by_torch, Given(FLAT, dtype), scalars=(1 / 1024,)
        )
        for dtype in ("f32", "f16")
    ),
    _in_place(
        "gradients clipped", clipped, clipped_by_torch, Given(FLAT, "bf16"), Given((), "f32", positive), scalars=(1.0,)
    ),
    _in_place(
        "gradients of a list clipped",
        clipped,
        clipped_by_torch,
        Given(LIST, "f32", is_list=True),
        Given((), "f32", positive),
        scalars=(0.5,),
    ),
    Posted(
        "a list doubled into new tensors",
        lambda f, x: f.exp(x) * 2.0,
        lambda x: x.exp() * 2,
        (Given(LIST, "f32", is_list=True),),
    ),
    Posted(
        "lists of integers joined by a mask",
        lambda f, x, y: f.where(f.gt(x, y), x - y, 0),
        lambda x, y: torch.where(x > y, x - y, 0),
        tuple(Given(LIST, "i32", between(-99, 99), is_list=True) for _ in range(2)),
    ),
    _in_place(
        "momentum with master weights",
        master_weights,
        master_weights_by_torch,
        Given(FLAT),
        Given(FLAT, "bf16"),
        Given(FLAT),
        scalars=(LR,),
        into={0: 0, 1: 2},
    ),
    _in_place("softmax in place", lambda f, x: softmax(x, (last(x),)), softmax_by_torch, Given(("M", 83), "f16")),
    _in_place(
        "bias and relu in place",
        lambda f, x, b: f.relu(x + along(b, x, 1)),
        lambda x, b: torch.relu(x + b[:, None]),
        Given(("M", 6, 35)),
        Given((6,)),
    ),
    _in_place(
        "a position of a cache",
        cache_written,
        cache_written_by_torch,
        Given(("M", 12, 10), "bf16"),
        Given(("M", 1, 10), "bf16"),
        Given(("M",), "i64", between(0, 11)),
    ),
    _in_place(
        "hits counted",
        counted,
        lambda count, hits: count + hits.int(),
        Given(("M", 50), "i32", between(0, 10**6)),
        Given(("M", 50), "bool", between(0, 1)),
    ),
    Posted(
        "running statistics of batch norm",
        running_stats,
        running_stats_by_torch,
        (Given((13,)), Given((13,), "f32", positive), Given((6, 13, 7, 5))),
        scalars=(0.1,),
        into={0: 0, 1: 1},
        slack=2.0,
    ),
    _in_place(
        "an adversarial step",
        projected,
        lambda x, g, step, room: (x + (g.sign() * step).clamp(-0.05, 0.05)).clamp(0.0, room),
        Given(("M", 3, 8, 8), "f32", unit),
        Given(("M", 3, 8, 8)),
        scalars=(0.01, 1.0),
    ),
    _in_place(
        "rows scaled in place",
        lambda f, x, y: x / kept(f.maximum(f.sqrt(f.square(x).sum((1,), keepdim=True)), 1e-12), x) + y,
        lambda x, y: torch.nn.functional.normalize(x) + y,
        Given(("M", 90)),
        Given(("M", 90)),
    ),
)
