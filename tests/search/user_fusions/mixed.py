"""Whole quotients and powers, tables of few entries, statistics in place, images, masks of positions, scans turned."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from fusetune import FusionBuilder, Tensor
from fusetune.functional import clamp, softmax
from tests.search.user_fusions.posted import Given, Posted, between, normal, positive, seldom
from tests.search.user_fusions.spelled import along, every, halves, joined, kept, last, stacked, wide


def from_table(f: FusionBuilder, q: Tensor, table: Tensor, scale: Tensor) -> Tensor:
    """4-bit floats by a table of 16 (NF4), two in a byte, the first in the low half."""
    pair = stacked([f.bitwise_and(q, 15), f.bitwise_right_shift(q, 4)])
    values = f.take(table, pair.cast("i32")).reshape((q.shape[0], -1))
    return (values.cast("f32") * kept(scale, values)).cast("bf16")


def from_table_by_torch(q: Any, table: Any, scale: Any) -> Any:
    values = table[torch.stack([q & 15, q >> 4], -1).long()].reshape(q.shape[0], -1)
    return (values.float() * scale).bfloat16()


def words_of_masks(f: FusionBuilder, mask: Tensor) -> Tensor:
    """Eight bools in a byte, by powers of two."""
    groups = mask.reshape((mask.shape[0], -1, 8)).cast("i32")
    place = f.iota(groups.shape, 2, "i32")
    return (groups * f.pow(f.full(groups.shape, 2, "i32"), place)).sum((2,)).cast("u8")


def words_of_masks_by_torch(mask: Any) -> Any:
    groups = mask.reshape(len(mask), -1, 8).int()
    return (groups << torch.arange(8, device=mask.device)).sum(2).to(torch.uint8)


def clock(f: FusionBuilder, seconds: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Days, and where in the day a time stands, as an angle; before the first day too."""
    part = seconds % 86400.0
    return (seconds // 86400.0).cast("i32"), f.sin(part * (2 * math.pi / 86400)), f.cos(part * (2 * math.pi / 86400))


def clock_by_torch(seconds: Any) -> Any:
    part = seconds % 86400.0
    angle = part * (2 * math.pi / 86400)
    return (seconds // 86400.0).int(), angle.sin(), angle.cos()


def batch_norm_in_training(
    f: FusionBuilder, x: Tensor, mean: Tensor, spread: Tensor, count: Tensor, gain: Tensor, momentum: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The result, and the three buffers of the module."""
    dims = tuple(d for d in range(len(x.shape)) if d != 1)
    size = math.prod(int(x.shape[d]) for d in dims)
    values = wide(x)
    centre = values.mean(dims)
    apart = values - along(centre, values, 1)
    own = f.square(apart).mean(dims)
    made = apart * along(f.rsqrt(own + 1e-5) * gain, values, 1)
    moved = (own * (size / (size - 1)) - spread) * momentum
    return made.cast(x.dtype), mean + (centre - mean) * momentum, spread + moved, count + 1


def batch_norm_in_training_by_torch(x: Any, mean: Any, spread: Any, count: Any, gain: Any, momentum: float) -> Any:
    made = functional.batch_norm(x.float(), mean, spread, gain, None, training=True, momentum=momentum)
    return made.to(x.dtype), mean, spread, count + 1


def rows_by_their_running_scale(f: FusionBuilder, top: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The largest magnitude so far, which fades, and the row in its units."""
    now = f.maximum(top * 0.9, f.abs(wide(x)).amax((1,), keepdim=True))
    return now, clamp(f.round(wide(x) / kept(now / 127.0, x)), -127, 127).cast("i8")


def rows_by_their_running_scale_by_torch(top: Any, x: Any) -> Any:
    now = torch.maximum(top * 0.9, x.float().abs().amax(1, keepdim=True))
    return now, (x.float() / (now / 127)).round().clamp(-127, 127).to(torch.int8)


def grey(f: FusionBuilder, x: Tensor, weights: Tensor) -> Tensor:
    return clamp(f.round((x.cast("f32") * along(weights, x, 3)).sum((3,))), 0, 255).cast("u8")


def biased_by_distance(f: FusionBuilder, x: Tensor, slope: Tensor) -> Tensor:
    """Causal weights of [heads, queries, keys] with a slope a head (ALiBi)."""
    queries, keys = (f.iota(x.shape, d, "f32") for d in (1, 2))
    apart = queries - keys
    return softmax(f.where(f.ge(apart, 0.0), wide(x) - apart * along(slope, x, 0), -math.inf), (2,)).cast(x.dtype)


def biased_by_distance_by_torch(x: Any, slope: Any) -> Any:
    size = torch.arange(x.shape[1], device=x.device)
    apart = (size[:, None] - size[None]).float()
    return torch.where(apart >= 0, x.float() - apart * slope[:, None, None], -math.inf).softmax(2).to(x.dtype)


def returns(f: FusionBuilder, reward: Tensor) -> Tensor:
    """What is still to come, at each step."""
    return f.flip(f.flip(reward, (1,)).cumsum(1), (1,))


def turned(f: FusionBuilder, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = halves(x, last(x))
    c, s = along(cos, a, 1, 3), along(sin, a, 1, 3)
    return joined([a * c - b * s, b * c + a * s], 3)


def words_with_positions(f: FusionBuilder, table: Tensor, words: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Embedded words, cut in heads and turned by their positions."""
    rows = wide(f.take(table, words))
    return turned(f, rows.reshape((*words.shape, 3, 16)), cos, sin).cast(table.dtype)


def words_with_positions_by_torch(table: Any, words: Any, cos: Any, sin: Any) -> Any:
    a, b = table[words].float().reshape(*words.shape, 3, 16).chunk(2, -1)
    c, s = cos[:, None], sin[:, None]
    return torch.cat([a * c - b * s, b * c + a * s], -1).to(table.dtype)


def taken_twice(f: FusionBuilder, x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Rows that another list of rows chooses, beside some more, with room before them."""
    return f.pad(joined([f.take(x, f.take(first, second)), f.take(x, first.slice(0, 0, 3))], 0), (2, 0), (0, 1), 1.0)


def taken_twice_by_torch(x: Any, first: Any, second: Any) -> Any:
    return functional.pad(torch.cat([x[first[second].long()], x[first[:3].long()]]), (0, 1, 2, 0), value=1.0)


def shuffled(x: Any, groups: int) -> Any:
    shape = x.shape
    return functional.relu(x.reshape(shape[0], groups, -1, *shape[2:]).transpose(1, 2).reshape(shape) * 2)


def noisy(f: FusionBuilder, x: Tensor, y: Tensor, seed: Tensor, offset: Tensor) -> Tensor:
    """Two parts of a row, each kept by comparisons of drawn numbers that hold for all of them."""
    drawn = f.rand(x.shape, seed, offset)
    return joined([f.where(f.lt(drawn, 2.0), x, 0.0), f.where(f.ge(drawn.slice(1, 1, 8), 0.0), y, 0.0)], 1)


def digits(f: FusionBuilder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Decimal digits of integers, the last first, and a sum of their third powers."""
    parts = [(abs(x) // 10**n) % 10 for n in range(3)]
    cubes = [f.pow(part, 3) for part in parts]
    return parts[0], stacked(parts), cubes[0] + cubes[1] + cubes[2]


def digits_by_torch(x: Any) -> Any:
    parts = [x.abs() // 10**n % 10 for n in range(3)]
    return parts[0], torch.stack(parts, -1), sum(part**3 for part in parts)


MIXED = (
    Posted(
        "4-bit floats by a table",
        from_table,
        from_table_by_torch,
        (Given(("M", 24), "u8", between(0, 255)), Given((16,), "f16"), Given(("M", 1), "f32", positive)),
    ),
    Posted("bytes of masks", words_of_masks, words_of_masks_by_torch, (Given(("M", 56), "bool", between(0, 1)),)),
    Posted(
        "days and angles",
        clock,
        clock_by_torch,
        (Given(("M", 9), "f32", lambda rng, shape: rng.integers(-400_000, 400_000, shape)),),
        slack=4.0,
    ),
    *(
        Posted(
            f"batch norm in training, {dtype} of rank {len(shape)}",
            batch_norm_in_training,
            batch_norm_in_training_by_torch,
            (
                Given(shape, dtype),
                Given(shape[1:2]),
                Given(shape[1:2], "f32", positive),
                Given((), "i64", between(0, 9)),
                Given(shape[1:2], "f32", positive),
            ),
            scalars=(0.1,),
            into={1: 1, 2: 2, 3: 3},
            slack=4.0,
        )
        for dtype, shape in (("f32", (6, 11, 5, 7)), ("bf16", (700, 19)))
    ),
    Posted(
        "rows by their running scale",
        rows_by_their_running_scale,
        rows_by_their_running_scale_by_torch,
        (Given(("M", 1), "f32", positive), Given(("M", 45), "bf16")),
        into={0: 0},
        turns=True,
    ),
    Posted(
        "grey images",
        grey,
        lambda x, weights: (x.float() * weights).sum(3).round().clamp(0, 255).to(torch.uint8),
        (Given((2, 13, 17, 3), "u8", between(0, 255)), Given((3,), "f32", positive)),
        turns=True,
    ),
    *(
        Posted(
            f"weights biased by distance, {dtype}",
            biased_by_distance,
            biased_by_distance_by_torch,
            (Given((3, size, size), dtype), Given((3,), "f32", positive)),
            slack=2.0,
        )
        for dtype, size in (("f32", 23), ("bf16", 32))
    ),
    Posted("what is still to come", returns, lambda x: x.flip(1).cumsum(1).flip(1), (Given(("M", 37)),), slack=2.0),
    Posted(
        "words turned by their positions",
        words_with_positions,
        words_with_positions_by_torch,
        (Given((31, 48), "bf16"), Given((2, 9), "i64", between(0, 30)), Given((9, 8)), Given((9, 8))),
    ),
    Posted(
        "rows chosen by rows",
        taken_twice,
        taken_twice_by_torch,
        (Given((23, 7)), Given((15,), "i32", between(0, 22)), Given(("M",), "i64", between(0, 14))),
    ),
    Posted(
        "channels shuffled",
        lambda f, x: f.relu(x.reshape((2, 3, 4, 5, 7)).permute((0, 2, 1, 3, 4)).reshape((2, 12, 5, 7)) * 2.0),
        partial(shuffled, groups=3),
        (Given((2, 12, 5, 7), "f16"),),
    ),
    Posted(
        "parts kept by what is drawn",
        noisy,
        lambda x, y, seed, offset: torch.cat([x, y], 1),
        (Given(("M", 9)), Given(("M", 7)), Given((), "i64", between(-9, 9)), Given((), "i64", between(0, 9))),
    ),
    Posted("decimal digits", digits, digits_by_torch, (Given(("M", 5), "i32", between(-99_999, 99_999)),)),
    Posted(
        "every other one by the one beside",
        lambda f, x: (every(x, 1, 2)[0] % every(x, 1, 2)[1], every(x, 1, 2)[0] // every(x, 1, 2)[1]),
        lambda x: (x[:, ::2] % x[:, 1::2], torch.floor_divide(x[:, ::2], x[:, 1::2])),
        (Given(("M", 22), "f64", normal),),
    ),
    Posted(
        "tokens without padding",
        lambda f, x: (f.ne(x, 0).sum((1,), dtype="i64"), f.ne(x, 0).cast("i32").argmin(1), f.ne(x, 0).all((1,))),
        lambda x: ((x != 0).sum(1), (x != 0).int().argmin(1), (x != 0).all(1)),
        (Given(("M", 30), "i32", seldom(0, 9)),),
    ),
)
