"""Elements at other places: pads, flips, strided slices, windows, pixels, outputs in layouts of their own; and random
masks, whose numbers torch has not: they are told to its functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch.nn import functional

from compiler.ir.ops.philox import uniform
from fusetune import FusionBuilder, Tensor
from fusetune.wire.fusion import DTypeName
from tests.search.user_fusions.norms import normal_over
from tests.search.user_fusions.posted import Given, Posted, Shape, between, unit
from tests.search.user_fusions.spelled import along, every, halves, joined, last, stacked, wide


def reflected(f: FusionBuilder, x: Tensor, low: int, high: int) -> Tensor:
    """Padding of the last dimension by its mirror image."""
    d, n = last(x), int(x.shape[-1])
    return joined([f.flip(x.slice(d, 1, low + 1), (d,)), x, f.flip(x.slice(d, n - 1 - high, n - 1), (d,))], d)


def wrapped(f: FusionBuilder, x: Tensor, by: int) -> Tensor:
    d, n = last(x), int(x.shape[-1])
    return joined([x.slice(d, n - by, n), x, x.slice(d, 0, by)], d)


def repeated_ends(f: FusionBuilder, x: Tensor, by: int) -> Tensor:
    d, n = last(x), int(x.shape[-1])
    shape = (*x.shape[:-1], by)
    ends = [x.slice(d, at, at + 1).broadcast_to(shape, range(d + 1)) for at in (0, n - 1)]
    return joined([ends[0], x, ends[1]], d)


def shifted_tokens(f: FusionBuilder, x: Tensor, mix: Tensor) -> Tensor:
    """RWKV's: each token mixed with the one before it."""
    n = int(x.shape[1])
    before = f.pad(x.slice(1, 0, n - 1), (0, 1, 0), (0, 0, 0))
    return x * along(mix, x, 2) + before * along(1.0 - mix, x, 2)


def shifted_tokens_by_torch(x: Any, mix: Any) -> Any:
    return x * mix + functional.pad(x[:, :-1], (0, 0, 1, 0)) * (1 - mix)


def convolved(f: FusionBuilder, x: Tensor, taps: Tensor) -> Tensor:
    """A causal convolution of four taps a channel, written out, and silu: [batch, channels, tokens]."""
    n = int(x.shape[2])
    padded = f.pad(wide(x), (0, 0, 3), (0, 0, 0))
    total = None
    for k in range(4):
        tap = along(taps.slice(1, k, k + 1).reshape((taps.shape[0],)), x, 1)
        term = padded.slice(2, k, k + n) * tap
        total = term if total is None else total + term
    assert total is not None
    return f.silu(total).cast(x.dtype)


def convolved_by_torch(x: Any, taps: Any) -> Any:
    n, padded = x.shape[2], functional.pad(x.float(), (3, 0))
    return functional.silu(sum(padded[..., k : k + n] * taps[:, k, None] for k in range(4))).to(x.dtype)


def pooled(f: FusionBuilder, x: Tensor, fold: str) -> Tensor:
    """Two by two, of [..., height, width]."""
    d = last(x)
    parts = [column for row in every(x, d - 1, 2) for column in every(row, d, 2)]
    if fold == "max":
        return f.maximum(f.maximum(parts[0], parts[1]), f.maximum(parts[2], parts[3]))
    return (parts[0] + parts[1] + parts[2] + parts[3]) * 0.25


def upsampled(f: FusionBuilder, x: Tensor) -> Tensor:
    """The nearest of [batch, channels, height, width], twice as large."""
    b, c, h, w = (int(n) for n in x.shape)
    return x.broadcast_to((b, c, h, 2, w, 2), (0, 1, 2, 4)).reshape((b, c, 2 * h, 2 * w))


def shuffled(f: FusionBuilder, x: Tensor, by: int) -> Tensor:
    b, c, h, w = (int(n) for n in x.shape)
    parts = x.reshape((b, c // by**2, by, by, h, w)).permute((0, 1, 4, 2, 5, 3))
    return parts.reshape((b, c // by**2, h * by, w * by))


def unshuffled(f: FusionBuilder, x: Tensor, by: int) -> Tensor:
    b, c, h, w = (int(n) for n in x.shape)
    parts = x.reshape((b, c, h // by, by, w // by, by)).permute((0, 1, 3, 5, 2, 4))
    return parts.reshape((b, c * by**2, h // by, w // by))


def patches(f: FusionBuilder, x: Tensor, size: int) -> Tensor:
    b, c, h, w = (int(n) for n in x.shape)
    parts = x.reshape((b, c, h // size, size, w // size, size)).permute((0, 2, 4, 3, 5, 1))
    return parts.reshape((b, (h // size) * (w // size), size * size * c))


def patches_by_torch(x: Any, size: int) -> Any:
    b, c, h, w = x.shape
    parts = x.reshape(b, c, h // size, size, w // size, size).permute(0, 2, 4, 3, 5, 1)
    return parts.reshape(b, -1, size * size * c)


def haar(f: FusionBuilder, x: Tensor) -> tuple[Tensor, Tensor]:
    even, odd = every(x, last(x), 2)
    return (even + odd) * 0.5**0.5, (even - odd) * 0.5**0.5


def blended_flips(f: FusionBuilder, x: Tensor) -> Tensor:
    """The mean over an image and its three mirror images."""
    d = last(x)
    return (x + f.flip(x, (d,)) + f.flip(x, (d - 1,)) + f.flip(x, (d - 1, d))) * 0.25


def heads_apart(f: FusionBuilder, x: Tensor, bias: Tensor, heads: int) -> tuple[Tensor, ...]:
    """One product's queries, keys and values, a head each: [tokens, 3 * size] to [heads, tokens, size / heads]."""
    made = (wide(x) + along(wide(bias), x, 1)).cast(x.dtype)
    size = int(x.shape[1]) // 3
    parts = [made.slice(1, n * size, (n + 1) * size) for n in range(3)]
    return tuple(part.reshape((x.shape[0], heads, size // heads)).permute((1, 0, 2)) for part in parts)


def heads_apart_by_torch(x: Any, bias: Any, heads: int) -> Any:
    made = (x.float() + bias.float()).to(x.dtype).reshape(len(x), 3, heads, -1)
    return tuple(made.permute(1, 2, 0, 3).contiguous())


def differences_along(f: FusionBuilder, x: Tensor) -> tuple[Tensor, Tensor]:
    d, n = last(x), int(x.shape[-1])
    apart = x.slice(d, 1, n) - x.slice(d, 0, n - 1)
    return apart, f.pad(apart, [0] * (d + 1), [*[0] * d, 1])


def striped(f: FusionBuilder, x: Tensor, y: Tensor) -> Tensor:
    """Two tensors' rows in turns."""
    return stacked([x.permute((1, 0)), y.permute((1, 0))]).permute((1, 2, 0)).reshape((-1, x.shape[1]))


def striped_by_torch(x: Any, y: Any) -> Any:
    return torch.stack([x, y], 1).reshape(-1, x.shape[1])


def framed(f: FusionBuilder, x: Tensor, size: int, hop: int) -> Tensor:
    """Overlapping frames of a signal, under a window: by an index, as no view says it."""
    count = (int(x.shape[0]) - size) // hop + 1
    shape = (count, size)
    place = f.iota(shape, 0, "i64") * hop + f.iota(shape, 1, "i64")
    window = 0.5 - f.cos(f.iota(shape, 1, "f32") * (2 * torch.pi / size)) * 0.5
    return f.take(x, place) * window


def framed_by_torch(x: Any, size: int, hop: int) -> Any:
    return x.unfold(0, size, hop) * torch.hann_window(size, device=x.device)


def biased_channels(f: FusionBuilder, x: Tensor, bias: Tensor) -> Tensor:
    return f.relu(x + along(bias, x, 1))


def biased_channels_by_torch(x: Any, bias: Any) -> Any:
    return torch.relu(x + bias.reshape(-1, *[1] * (x.dim() - 2))).to(x.dtype)


def numbers(seed: Any, offset: Any, shape: Sequence[int]) -> Any:
    """What `rand` draws (docs/contracts.md, "Random numbers"), on the device of `seed`."""
    element = torch.arange(prod(shape), device=seed.device)
    return uniform(_OnDevice(seed.device), seed, offset, element).reshape(tuple(shape)).float()


class _OnDevice:
    """As much of torch as the generator asks of an array module."""

    float64 = torch.float64
    where = staticmethod(torch.where)

    def __init__(self, device: Any) -> None:
        self.device = device

    def asarray(self, x: Any, dtype: Any) -> Any:
        return torch.as_tensor(x, dtype=dtype, device=self.device)


def dropped(f: FusionBuilder, x: Tensor, seed: Tensor, offset: Tensor, p: float) -> Tensor:
    return f.dropout(wide(x), p, seed, offset).cast(x.dtype)


def dropped_by_torch(x: Any, seed: Any, offset: Any, p: float) -> Any:
    mask = numbers(seed, offset, x.shape) >= p
    return torch.where(mask, x.float() * (1 / (1 - p)), 0).to(x.dtype)


def dropped_and_normal(
    f: FusionBuilder, x: Tensor, residual: Tensor, seed: Tensor, offset: Tensor
) -> tuple[Tensor, Tensor]:
    total = f.dropout(wide(x), 0.25, seed, offset) + wide(residual)
    return normal_over(f, total, (last(x),)).cast(x.dtype), total.cast(x.dtype)


def dropped_and_normal_by_torch(x: Any, residual: Any, seed: Any, offset: Any) -> Any:
    total = torch.where(numbers(seed, offset, x.shape) >= 0.25, x.float() / 0.75, 0) + residual.float()
    return functional.layer_norm(total, total.shape[-1:]).to(x.dtype), total.to(x.dtype)


def paths_dropped(f: FusionBuilder, x: Tensor, residual: Tensor, seed: Tensor, offset: Tensor) -> Tensor:
    """Stochastic depth: whole samples are left out."""
    kept_ones = f.ge(f.rand((x.shape[0],), seed, offset), 0.2)
    return residual + f.where(along(kept_ones, x, 0), x / 0.8, 0.0)


def paths_dropped_by_torch(x: Any, residual: Any, seed: Any, offset: Any) -> Any:
    kept_ones = numbers(seed, offset, x.shape[:1]) >= 0.2
    return residual + torch.where(kept_ones.reshape(-1, *[1] * (x.dim() - 1)), x / 0.8, 0)


def gumbel(f: FusionBuilder, x: Tensor, seed: Tensor, offset: Tensor) -> Tensor:
    """A draw of a class by its probability: which is greatest with noise added."""
    noise = -f.log(-f.log(f.rand(x.shape, seed, offset) * 0.999 + 0.0005))
    return (x + noise).argmax(1)


def gumbel_by_torch(x: Any, seed: Any, offset: Any) -> Any:
    return (x - (-(numbers(seed, offset, x.shape) * 0.999 + 0.0005).log()).log()).argmax(1)


STATE = (Given((), "i64", between(0, 2**40)), Given((), "i64", between(0, 99)))


def _pad(
    name: str, shape: Shape, low: tuple[int, ...], high: tuple[int, ...], value: float, dtype: DTypeName
) -> Posted:
    sizes = [n for pair in zip(reversed(low), reversed(high), strict=True) for n in pair]
    numbers_of = between(-99, 99) if dtype[0] in "iu" else None
    given = Given(shape, dtype) if numbers_of is None else Given(shape, dtype, numbers_of)
    return Posted(
        f"padded {name}",
        lambda f, x: f.pad(x, low, high, value),
        lambda x: functional.pad(x, sizes, value=value),
        (given,),
    )


def _channels_last(
    name: str, shape: tuple[int, ...], dtype: DTypeName, strides: tuple[int, ...], is_read_so: bool
) -> Posted:
    given = Given(shape, dtype, strides=strides if is_read_so else None)
    return Posted(
        f"channels last, {name}",
        biased_channels,
        biased_channels_by_torch,
        (given, Given(shape[1:2], dtype)),
        strides={0: strides},
    )


VIEWS = (
    _pad("rows of i16", ("M", 45), (0, 3), (0, 8), -7, "i16"),
    _pad("images of bf16", (2, 3, 9, 11), (0, 0, 1, 1), (0, 0, 2, 1), 0.5, "bf16"),
    _pad("volumes of rank 6", (2, 2, 3, 2, 5, 3), (0, 1, 0, 0, 1, 0), (0, 0, 2, 0, 0, 3), 0.0, "f32"),
    _pad("i64 in front", (301,), (11,), (0,), 1, "i64"),
    Posted(
        "reflected rows",
        partial(reflected, low=5, high=3),
        lambda x: functional.pad(x, (5, 3), mode="reflect"),
        (Given(("M", 29)),),
    ),
    Posted(
        "reflected images of f16",
        partial(reflected, low=2, high=2),
        lambda x: functional.pad(x, (2, 2, 0, 0), mode="reflect"),
        (Given((2, 3, 8, 15), "f16"),),
    ),
    Posted(
        "rows around a ring",
        partial(wrapped, by=4),
        lambda x: functional.pad(x, (4, 4), mode="circular"),
        (Given(("M", 31)),),
    ),
    Posted(
        "rows with their ends repeated",
        partial(repeated_ends, by=3),
        lambda x: functional.pad(x, (3, 3), mode="replicate"),
        (Given(("M", 26)),),
    ),
    Posted(
        "tokens mixed with those before",
        shifted_tokens,
        shifted_tokens_by_torch,
        (Given((3, 14, 20)), Given((20,), "f32", unit)),
    ),
    *(
        Posted(
            f"causal taps of {dtype}",
            convolved,
            convolved_by_torch,
            (Given((2, 6, n), dtype), Given((6, 4))),
            slack=2.0,
        )
        for dtype, n in (("bf16", 40), ("f32", 33))
    ),
    Posted(
        "the greatest of two by two",
        partial(pooled, fold="max"),
        lambda x: functional.max_pool2d(x, 2),
        (Given((2, 3, 10, 14), "f16"),),
    ),
    Posted(
        "the mean of two by two",
        partial(pooled, fold="mean"),
        lambda x: functional.avg_pool2d(x, 2),
        (Given((2, 3, 8, 18)),),
    ),
    Posted(
        "images twice as large",
        upsampled,
        lambda x: functional.interpolate(x, scale_factor=2.0),
        (Given((2, 3, 7, 9), "bf16"),),
    ),
    Posted(
        "pixels shuffled",
        partial(shuffled, by=2),
        lambda x: functional.pixel_shuffle(x, 2),
        (Given((2, 12, 5, 7), "f16"),),
    ),
    Posted(
        "pixels of u8 shuffled by 3",
        partial(shuffled, by=3),
        lambda x: functional.pixel_shuffle(x, 3),
        (Given((2, 9, 4, 5), "u8", between(0, 255)),),
    ),
    Posted(
        "pixels put back",
        partial(unshuffled, by=2),
        lambda x: functional.pixel_unshuffle(x, 2),
        (Given((2, 3, 6, 10)),),
    ),
    Posted("patches", partial(patches, size=4), partial(patches_by_torch, size=4), (Given((2, 3, 12, 16), "bf16"),)),
    Posted(
        "Haar's transform",
        haar,
        lambda x: ((x[..., ::2] + x[..., 1::2]) * 0.5**0.5, (x[..., ::2] - x[..., 1::2]) * 0.5**0.5),
        (Given(("M", 46)),),
    ),
    Posted(
        "images and their mirrors",
        blended_flips,
        lambda x: (x + x.flip(-1) + x.flip(-2) + x.flip(-1, -2)) * 0.25,
        (Given((2, 3, 7, 9)),),
    ),
    *(
        Posted(
            f"heads apart in {dtype}",
            partial(heads_apart, heads=heads),
            partial(heads_apart_by_torch, heads=heads),
            (Given(("M", 3 * heads * size), dtype), Given((3 * heads * size,), dtype)),
        )
        for dtype, heads, size in (("bf16", 4, 8), ("f32", 3, 5))
    ),
    Posted(
        "differences of neighbours",
        differences_along,
        lambda x: (x.diff(dim=-1), functional.pad(x.diff(dim=-1), (0, 1))),
        (Given(("M", 38), "f64"),),
    ),
    Posted(
        "rows in turns",
        striped,
        striped_by_torch,
        (Given((17, 24), "i8", between(-99, 99)), Given((17, 24), "i8", between(-99, 99))),
    ),
    Posted(
        "frames of a signal",
        partial(framed, size=16, hop=5),
        partial(framed_by_torch, size=16, hop=5),
        (Given((403,)),),
    ),
    Posted(
        "from the last to the first",
        lambda f, x: f.flip(x, (0, 1)),
        lambda x: x.flip(0, 1),
        (Given(("M", 53), "bf16"),),
    ),
    Posted(
        "gated halves, the second from its end",
        lambda f, x: halves(x, 1)[0] * f.flip(f.sigmoid(halves(x, 1)[1]), (1,)),
        lambda x: x.chunk(2, 1)[0] * x.chunk(2, 1)[1].sigmoid().flip(1),
        (Given(("M", 54)),),
    ),
    Posted(
        "every third of every second",
        lambda f, x: f.square(x.slice(0, 1, 40, 2).slice(1, 2, 35, 3)),
        lambda x: x[1:40:2, 2:35:3].square(),
        (Given((40, 36), "f16"),),
    ),
    _channels_last("read so", (2, 6, 7, 9), "f32", (378, 1, 54, 6), True),
    _channels_last("read dense", (2, 5, 6, 11), "bf16", (330, 1, 55, 5), False),
    _channels_last("of volumes", (2, 4, 3, 5, 6), "f16", (360, 1, 120, 24, 4), False),
    Posted(
        "rows with a pitch",
        lambda f, x: f.tanh(x),
        torch.tanh,
        (Given((29, 40)),),
        strides={0: (48, 1)},
    ),
    Posted(
        "a transpose by strides",
        lambda f, x: f.neg(x),
        torch.neg,
        (Given((33, 46), "i16", between(-99, 99)),),
        strides={0: (1, 33)},
    ),
    *(
        Posted(
            f"dropout of {dtype}, {p}",
            partial(dropped, p=p),
            partial(dropped_by_torch, p=p),
            (Given(shape, dtype), *STATE),
        )
        for dtype, p, shape in (("bf16", 0.1, ("M", 57)), ("f32", 0.5, (3, "M", 5)))
    ),
    Posted(
        "dropout, residual, layernorm",
        dropped_and_normal,
        dropped_and_normal_by_torch,
        (Given(("M", 72), "bf16"), Given(("M", 72), "bf16"), *STATE),
    ),
    Posted(
        "whole samples dropped", paths_dropped, paths_dropped_by_torch, (Given((7, 4, 33)), Given((7, 4, 33)), *STATE)
    ),
    Posted("classes drawn", gumbel, gumbel_by_torch, (Given(("M", 19)), *STATE)),
)
