"""Activations and their gradients, losses, powers, masks and arithmetic of mixed types."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from fusetune.wire.fusion import DTypeName
from tests.search.user_fusions.formulas import (
    angles,
    angles_by_torch,
    biased_by_distance,
    biased_by_distance_by_torch,
    binary_entropy,
    binary_entropy_by_torch,
    blended,
    blended_by_torch,
    buckets,
    buckets_by_torch,
    calendar,
    calendar_by_torch,
    compressed,
    compressed_by_torch,
    cosine,
    cosine_by_torch,
    decibels,
    decibels_by_torch,
    dice,
    dice_by_torch,
    divergence,
    divergence_by_torch,
    elu,
    focal,
    focal_by_torch,
    gamma_corrected,
    gated,
    gated_by_torch,
    gelu_gradient,
    gradient,
    health,
    health_by_torch,
    hinge,
    huber,
    huber_by_torch,
    logic,
    logic_by_torch,
    masked_mean,
    masked_mean_by_torch,
    mish,
    mixed,
    pixels,
    pixels_by_torch,
    policy,
    policy_by_torch,
    replaced,
    silu_gradient,
    softplus,
)
from tests.search.user_fusions.posted import Given, Posted, Shape, between, positive, unit
from tests.search.user_fusions.spelled import kept, wide


def _gradient(name: str, build: Callable[..., Any], of: Callable[..., Any], dtype: DTypeName, shape: Shape) -> Posted:
    return Posted(f"gradient of {name} in {dtype}", build, gradient(of), (Given(shape, dtype),) * 2)


def _loss(
    name: str, build: Any, by_torch: Any, *inputs: Given, scalars: tuple[float, ...] = (), slack: float = 2.0
) -> Posted:
    return Posted(name, build, by_torch, inputs, scalars=scalars, slack=slack)


ROWS: Shape = ("M", 75)

FUNCTIONS = (
    *(
        Posted(
            f"exact gelu of {dtype}",
            lambda f, x: f.gelu(wide(x), approximate="none").cast(x.dtype),
            lambda x: functional.gelu(x.float() if x.dtype != torch.float64 else x).to(x.dtype),
            (Given(shape, dtype),),
        )
        for dtype, shape in (("bf16", ROWS), ("f64", ("M", 3, 5)))
    ),
    _gradient("exact gelu", gelu_gradient, functional.gelu, "bf16", ("M", 88)),
    _gradient("exact gelu", gelu_gradient, functional.gelu, "f32", ("M", 3, 2, 7)),
    _gradient("exact gelu", gelu_gradient, functional.gelu, "f64", ("M", 13)),
    _gradient("silu", silu_gradient, functional.silu, "f16", ROWS),
    Posted("GEGLU", gated, gated_by_torch, (Given(("M", 90), "bf16"), Given((90,), "f32"))),
    Posted("GEGLU of rank 4", gated, gated_by_torch, (Given((2, "M", 3, 12), "f16"), Given((12,), "f16"))),
    Posted("mish", mish, lambda x: functional.mish(x.float()).to(x.dtype), (Given(ROWS, "bf16"),)),
    Posted("softplus of f64", softplus, functional.softplus, (Given(ROWS, "f64"),)),
    Posted("elu", elu, lambda x, alpha: functional.elu(x, alpha), (Given(ROWS),), scalars=(0.7,)),
    *(
        _loss(
            f"Huber of rank {len(shape)}",
            partial(huber, delta=d),
            partial(huber_by_torch, delta=d),
            Given(shape),
            Given(shape),
        )
        for d, shape in ((1.0, (37, 41)), (0.3, (5, 7, 11)))
    ),
    _loss(
        "binary cross entropy of logits",
        binary_entropy,
        binary_entropy_by_torch,
        Given(("M", 30), "bf16"),
        Given(("M", 30), "bool", between(0, 1)),
        Given((30,), "f32", positive),
    ),
    _loss(
        "focal",
        partial(focal, gamma=2),
        partial(focal_by_torch, gamma=2),
        Given(ROWS),
        Given(ROWS, "bool", between(0, 1)),
    ),
    _loss(
        "focal with an odd power",
        partial(focal, gamma=1.5),
        partial(focal_by_torch, gamma=1.5),
        Given(("M", 31), "f64"),
        Given(("M", 31), "bool", between(0, 1)),
    ),
    _loss(
        "softened divergence", divergence, divergence_by_torch, Given(ROWS, "bf16"), Given(ROWS, "bf16"), scalars=(2.5,)
    ),
    _loss("cosine similarity", cosine, cosine_by_torch, Given(("M", 64)), Given(("M", 64))),
    _loss(
        "mean of tokens",
        masked_mean,
        masked_mean_by_torch,
        Given(("M", 9, 14), "f16"),
        Given(("M", 9), "bool", between(0, 1)),
    ),
    _loss("dice", dice, dice_by_torch, Given((5, 9, 11)), Given((5, 9, 11), "u8", between(0, 1))),
    _loss(
        "clipped policy",
        policy,
        policy_by_torch,
        Given(("M", 3)),
        Given(("M", 3)),
        Given(("M", 3)),
        scalars=(0.2,),
    ),
    _loss(
        "squared hinge",
        hinge,
        lambda x, y: torch.relu(1 - (y.float() * 2 - 1) * x).square().mean(1),
        Given(ROWS),
        Given(ROWS, "i8", between(0, 1)),
    ),
    Posted(
        "bytes made brighter",
        gamma_corrected,
        lambda x, gamma: ((x.float() / 255.0) ** gamma * 255.0).round().to(torch.uint8),
        (Given(("M", 5, 3), "u8", between(0, 255)),),
        scalars=(0.4545,),
        turns=True,
    ),
    *(
        Posted(
            f"power {p} of {dtype}",
            lambda f, x, p=p: f.pow(x, p),
            lambda x, p=p: x.pow(p),
            (Given(ROWS, dtype, positive),),
        )
        for p, dtype in ((3, "f32"), (-1.5, "f64"), (0.5, "f16"), (2, "bf16"), (-0.5, "f32"))
    ),
    Posted(
        "a power of tensors",
        lambda f, x, y: f.pow(x, y),
        torch.pow,
        (Given(("M", 21), "f32", positive), Given(("M", 21))),
    ),
    Posted("powers of ten", lambda f, x: f.pow(10.0, x), lambda x: 10.0**x, (Given(("M", 33)),), slack=2.0),
    Posted("mu-law", compressed, compressed_by_torch, (Given(("M", 4, 9), "f32", unit),), turns=True),
    Posted("spectra in decibels", decibels, decibels_by_torch, (Given((3, 20, 17), "f32", positive),)),
    Posted(
        "sines of positions",
        lambda f, x: x + angles(f, int(x.shape[0]), int(x.shape[1]) // 2),
        partial(angles_by_torch, size=12),
        (Given((45, 24)),),
        slack=8.0,
    ),
    *(
        Posted(
            f"scores of {dtype} less distances",
            biased_by_distance,
            biased_by_distance_by_torch,
            (Given((4, 23, 23), dtype), Given((4,), "f32", unit)),
        )
        for dtype in ("f32", "bf16")
    ),
    Posted(
        "logic of masks",
        logic,
        logic_by_torch,
        (Given(("M", 43), "bool", between(0, 1)), Given(("M", 43), "bool", between(0, 1)), Given(("M", 43))),
    ),
    Posted("rows that are not finite", health, health_by_torch, (Given(("M", 9), "f16"),)),
    Posted(
        "logarithms without NaN",
        replaced,
        lambda x: torch.nan_to_num(x.log(), nan=0.0, neginf=-1e4),
        (Given(ROWS, "f32"),),
    ),
    *(
        Posted(
            f"pixels to {dtype}",
            partial(pixels, dtype=dtype),
            partial(pixels_by_torch, dtype=dtype),
            (Given((3, 9, 11, 3), "u8", between(0, 255)), Given((3,), "f32", unit), Given((3,), "f32", positive)),
        )
        for dtype in ("bf16", "f32")
    ),
    Posted(
        "tracks of 16 bits mixed",
        mixed,
        lambda x, y, gain: (x.float() + y.float() * gain).round().clamp(-32768, 32767).to(torch.int16),
        tuple(Given(("M", 2, 31), "i16", between(-32768, 32767)) for _ in range(2)),
        scalars=(0.625,),
        turns=True,
    ),
    Posted(
        "bytes blended", blended, blended_by_torch, tuple(Given(("M", 27), "u8", between(0, 255)) for _ in range(3))
    ),
    Posted("clock and week", calendar, calendar_by_torch, (Given(("M", 29), "i64", between(-(10**9), 2 * 10**9)),)),
    Posted(
        "buckets of positions", buckets, buckets_by_torch, (Given(("M", 25), "i64", between(-150, 150)),), turns=True
    ),
    Posted(
        "signs and roundings of f16",
        lambda f, x: (f.sign(x), f.floor(x * 4.0), f.ceil(x), f.trunc(x * 8.0), f.round(x * 2.0)),
        lambda x: (x.sign(), (x * 4).floor(), x.ceil(), (x * 8).trunc(), (x * 2).round()),
        (Given(ROWS, "f16"),),
    ),
    Posted(
        "products of rows",
        lambda f, x, n: (f.prod(x, (1,)), f.prod(n, (1,))),
        lambda x, n: (x.prod(1), n.prod(1)),
        (Given(("M", 12), "f32", positive), Given(("M", 12), "i16", between(-3, 3))),
        slack=2.0,
    ),
    Posted(
        "least places of i16",
        lambda f, x: (x.argmin(1), x.argmax(0), x.argmax()),
        lambda x: (x.argmin(1), x.argmax(0), x.argmax()),
        (Given((34, 26), "i16", between(-30000, 30000)),),
    ),
    Posted(
        "exponentials in base two of f64",
        lambda f, x: f.exp2(x) * f.cos(x) - f.expm1(x * 0.5),
        lambda x: x.exp2() * x.cos() - torch.expm1(x * 0.5),
        (Given((2, 3, "M", 5), "f64"),),
    ),
    Posted(
        "whole numbers of all widths",
        lambda f, a, b, c: (a.cast("i32") + b.cast("i32") * c, f.maximum(a, 3), f.bitwise_not(b)),
        lambda a, b, c: (a.int() + b.int() * c, a.clamp(min=3), ~b),
        (
            Given(ROWS, "i8", between(-128, 127)),
            Given(ROWS, "i16", between(-999, 999)),
            Given(ROWS, "i32", between(0, 99)),
        ),
    ),
    Posted(
        "outer differences",
        lambda f, x, y: f.exp(-f.abs(x.broadcast_to((x.shape[0], 33), (0,)) - y.broadcast_to((x.shape[0], 33), (1,)))),
        lambda x, y: (-(x[:, None] - y).abs()).exp(),
        (Given(("M",)), Given((33,))),
    ),
    Posted(
        "rows of f8e5m2 that are alike",
        lambda f, x, y: f.eq(x, y).all((1,)),
        lambda x, y: (x.float() == y.float()).all(1),
        tuple(Given(("M", 3), "f8e5m2", between(0, 1)) for _ in range(2)),
    ),
    Posted(
        "residual kept over a gate",
        lambda f, x, y, g: wide(x) + kept(f.sigmoid(g), x) * wide(y),
        lambda x, y, g: x.float() + g.sigmoid() * y.float(),
        (Given(("M", 6, 11), "bf16"), Given(("M", 6, 11), "f16"), Given(("M", 1, 11), "f32")),
    ),
)
