"""Numbers of few bits: rows and blocks scaled to int8, uint8, int4 and fp8, and back; bits packed into words."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from fusetune import FusionBuilder, Tensor
from fusetune.functional import clamp
from fusetune.torch import DTYPES
from fusetune.wire.fusion import DTypeName
from tests.search.user_fusions.posted import Given, Posted, Shape, between, positive
from tests.search.user_fusions.spelled import along, every, halves, kept, last, stacked, wide


def rows_to_int8(f: FusionBuilder, x: Tensor) -> tuple[Tensor, Tensor]:
    x = wide(x)
    scale = f.maximum(f.abs(x).amax((last(x),), keepdim=True), 1e-6) / 127.0
    return clamp(f.round(x / kept(scale, x)), -127, 127).cast("i8"), scale


def rows_to_int8_by_torch(x: Any) -> Any:
    x = x.float()
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127.0
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


def from_int8(f: FusionBuilder, q: Tensor, scale: Tensor, dtype: DTypeName) -> Tensor:
    return (q.cast("f32") * kept(scale, q)).cast(dtype)


def rows_to_uint8(f: FusionBuilder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    low, high = (fold((last(x),), keepdim=True) for fold in (x.amin, x.amax))
    scale = f.maximum(high - low, 1e-6) / 255.0
    zero = f.round(-low / scale)
    return clamp(f.round(x / kept(scale, x)) + kept(zero, x), 0, 255).cast("u8"), scale, zero.cast("i16")


def rows_to_uint8_by_torch(x: Any) -> Any:
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    scale = (high - low).clamp(min=1e-6) / 255.0
    zero = (-low / scale).round()
    return ((x / scale).round() + zero).clamp(0, 255).to(torch.uint8), scale, zero.to(torch.int16)


def pack_nibbles(f: FusionBuilder, q: Tensor) -> Tensor:
    """Neighbours into one byte, the first in the low half."""
    low, high = (f.bitwise_and(part.cast("u8"), 15) for part in every(q, last(q), 2))
    return f.bitwise_or(low, f.bitwise_left_shift(high, 4))


def pack_nibbles_by_torch(q: Any) -> Any:
    q = q.to(torch.uint8) & 15
    return q[..., ::2] | (q[..., 1::2] << 4)


def unpack_nibbles(f: FusionBuilder, q: Tensor, scale: Tensor, group: int, dtype: DTypeName) -> Tensor:
    """Signed halves of bytes, each `group` of them with a scale."""
    pair = stacked([f.bitwise_and(q, 15), f.bitwise_right_shift(q, 4)])
    values = (pair.cast("i32") - 8).reshape((q.shape[0], -1, group)).cast("f32")
    return (values * along(scale.cast("f32"), values, 0, 1)).reshape((q.shape[0], -1)).cast(dtype)


def unpack_nibbles_by_torch(q: Any, scale: Any, group: int, dtype: DTypeName) -> Any:
    values = (torch.stack([q & 15, q >> 4], -1).to(torch.int32) - 8).reshape(q.shape[0], -1, group)
    return (values.float() * scale.float()[..., None]).reshape(q.shape[0], -1).to(DTYPES[dtype])


TOP = {"f8e4m3": 448.0, "f8e5m2": 57344.0}


def rows_to_fp8(f: FusionBuilder, x: Tensor, to: DTypeName) -> tuple[Tensor, Tensor]:
    x = wide(x)
    scale = f.maximum(f.abs(x).amax((last(x),), keepdim=True), 1e-12) / TOP[to]
    return (x / kept(scale, x)).cast(to), scale


def rows_to_fp8_by_torch(x: Any, to: DTypeName) -> Any:
    x = x.float()
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / TOP[to]
    return (x / scale).to(DTYPES[to]), scale


def blocks_to_fp8(f: FusionBuilder, x: Tensor, block: int, to: DTypeName) -> tuple[Tensor, Tensor]:
    """A scale, a power of two, for each block of a row."""
    parts = wide(x).reshape((x.shape[0], -1, block))
    top = f.maximum(f.abs(parts).amax((2,), keepdim=True), 1e-4)
    scale = f.exp2(f.ceil(f.log2(top / TOP[to])))
    return (parts / kept(scale, parts)).cast(to).reshape(x.shape), scale.reshape((x.shape[0], -1))


def blocks_to_fp8_by_torch(x: Any, block: int, to: DTypeName) -> Any:
    parts = x.float().reshape(x.shape[0], -1, block)
    scale = torch.exp2(torch.ceil(torch.log2(parts.abs().amax(2, keepdim=True).clamp(min=1e-4) / TOP[to])))
    return (parts / scale).to(DTYPES[to]).reshape(x.shape), scale.reshape(x.shape[0], -1)


def from_fp8(f: FusionBuilder, q: Tensor, scale: Tensor, dtype: DTypeName) -> Tensor:
    return (q.cast("f32") * kept(scale, q)).cast(dtype)


def activated_to_fp8(f: FusionBuilder, x: Tensor, scale: Any, to: DTypeName) -> Tensor:
    """The gated activation of two halves, by a scale that the call tells."""
    gate, up = halves(wide(x), last(x))
    return clamp(f.silu(gate) * up * scale, -TOP[to], TOP[to]).cast(to)


def activated_to_fp8_by_torch(x: Any, scale: float, to: DTypeName) -> Any:
    gate, up = x.float().chunk(2, -1)
    return (torch.nn.functional.silu(gate) * up * scale).clamp(-TOP[to], TOP[to]).to(DTYPES[to])


def fp8_both_ways(f: FusionBuilder, x: Tensor) -> tuple[Tensor, Tensor]:
    """A tensor and its transpose, for the products of a backward pass."""
    q = (wide(x) * 16.0).cast("f8e4m3")
    return f.copy(q), q.permute((1, 0))


def bits_to_bytes(f: FusionBuilder, x: Tensor) -> Tensor:
    """Eight bools a byte, the first in the lowest bit."""
    made = every(x.cast("u8"), last(x), 8)
    total = made[0]
    for place, bit in enumerate(made[1:], 1):
        total = f.bitwise_or(total, f.bitwise_left_shift(bit, place))
    return total


def bits_to_bytes_by_torch(x: Any) -> Any:
    weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], device=x.device)
    return (x.reshape(*x.shape[:-1], -1, 8).to(torch.int64) * weights).sum(-1).to(torch.uint8)


def bytes_to_bits(f: FusionBuilder, x: Tensor) -> Tensor:
    bits = [f.ne(f.bitwise_and(f.bitwise_right_shift(x, place), 1), 0) for place in range(8)]
    return stacked(bits).reshape((x.shape[0], -1))


def bytes_to_bits_by_torch(x: Any) -> Any:
    return ((x[..., None] >> torch.arange(8, device=x.device)) & 1).bool().reshape(x.shape[0], -1)


def masked_by_bits(f: FusionBuilder, x: Tensor, words: Tensor) -> Tensor:
    """A dropout mask of a bit an element, 32 of them a word."""
    place = f.iota((x.shape[0], words.shape[1], 32), 2, "i32")
    bits = f.bitwise_and(f.bitwise_right_shift(along(words, place, 0, 1), place), 1)
    return f.where(f.ne(bits, 0).reshape(x.shape), x, 0.0)


def masked_by_bits_by_torch(x: Any, words: Any) -> Any:
    bits = (words[..., None] >> torch.arange(32, device=x.device, dtype=torch.int32)) & 1
    return torch.where(bits.bool().reshape(x.shape), x, 0)


def population(f: FusionBuilder, x: Tensor) -> Tensor:
    """The number of set bits of a word without a sign."""
    x = x - f.bitwise_and(f.bitwise_right_shift(x, 1), 0x5555)
    x = f.bitwise_and(x, 0x3333) + f.bitwise_and(f.bitwise_right_shift(x, 2), 0x3333)
    x = f.bitwise_and(x + f.bitwise_right_shift(x, 4), 0x0F0F)
    return f.bitwise_and(x + f.bitwise_right_shift(x, 8), 0x1F).sum((1,), dtype="i64")


def population_by_torch(x: Any) -> Any:
    return ((x[..., None] >> torch.arange(15, device=x.device, dtype=x.dtype)) & 1).sum((1, 2))


def xorshift(f: FusionBuilder, x: Tensor) -> Tensor:
    for amount in (13, -7, 17):
        moved = f.bitwise_left_shift(x, amount) if amount > 0 else f.bitwise_right_shift(x, -amount)
        x = f.bitwise_xor(x, moved)
    return f.bitwise_xor(x * 0x2545F491, f.bitwise_not(x))


def xorshift_by_torch(x: Any) -> Any:
    for amount in (13, -7, 17):
        x = x ^ (x << amount if amount > 0 else x >> -amount)
    return (x * 0x2545F491) ^ ~x


def interleaved_bits(f: FusionBuilder, x: Tensor, y: Tensor) -> Tensor:
    """Morton's order of two bytes."""

    def spread(v: Tensor) -> Tensor:
        v = v.cast("i32")
        for amount, mask in ((4, 0x0F0F), (2, 0x3333), (1, 0x5555)):
            v = f.bitwise_and(f.bitwise_or(v, f.bitwise_left_shift(v, amount)), mask)
        return v

    return f.bitwise_or(spread(x), f.bitwise_left_shift(spread(y), 1))


def interleaved_bits_by_torch(x: Any, y: Any) -> Any:
    total = torch.zeros_like(x, dtype=torch.int32)
    for place in range(8):
        total |= ((x.int() >> place) & 1) << (2 * place) | ((y.int() >> place) & 1) << (2 * place + 1)
    return total


def q8_add(f: FusionBuilder, x: Tensor, y: Tensor) -> Tensor:
    """Two int8 tensors of one scale, added without an overflow."""
    return clamp(x.cast("i16") + y.cast("i16"), -128, 127).cast("i8")


def _rows(name: str, shape: Shape, dtype: DTypeName) -> Posted:
    return Posted(f"int8 rows, {name}", rows_to_int8, rows_to_int8_by_torch, (Given(shape, dtype),), turns=True)


def _to_fp8(name: str, shape: Shape, dtype: DTypeName, to: DTypeName) -> Posted:
    return Posted(
        f"{to} rows, {name}", partial(rows_to_fp8, to=to), partial(rows_to_fp8_by_torch, to=to), (Given(shape, dtype),)
    )


def _from_fp8(shape: Shape, of: DTypeName, dtype: DTypeName) -> Posted:
    return Posted(
        f"{of} to {dtype}, rank {len(shape)}",
        partial(from_fp8, dtype=dtype),
        lambda q, scale: (q.float() * scale).to(DTYPES[dtype]),
        (Given(shape, of), Given((*shape[:-1], 1), "f32", positive)),
    )


def _blocks(shape: Shape, block: int, dtype: DTypeName, to: DTypeName) -> Posted:
    return Posted(
        f"{to} blocks of {block} of {dtype}",
        partial(blocks_to_fp8, block=block, to=to),
        partial(blocks_to_fp8_by_torch, block=block, to=to),
        (Given(shape, dtype),),
    )


def _unpacked(columns: int, group: int, dtype: DTypeName, scale: DTypeName) -> Posted:
    return Posted(
        f"int4 to {dtype}, groups of {group}",
        partial(unpack_nibbles, group=group, dtype=dtype),
        partial(unpack_nibbles_by_torch, group=group, dtype=dtype),
        (Given(("M", columns), "u8", between(0, 255)), Given(("M", 2 * columns // group), scale, positive)),
    )


QUANTISED = (
    _rows("f32", ("M", 129), "f32"),
    _rows("bf16", ("M", 96), "bf16"),
    _rows("rank 3 of f16", ("M", 3, 65), "f16"),
    _rows("rank 1", (1031,), "f32"),
    *(
        Posted(
            f"int8 to {dtype}",
            partial(from_int8, dtype=dtype),
            lambda q, scale, dtype=dtype: (q.float() * scale).to(DTYPES[dtype]),
            (Given(("M", 77), "i8", between(-128, 127)), Given(("M", 1), "f32", positive)),
        )
        for dtype in ("f32", "bf16", "f16")
    ),
    Posted("uint8 rows with zero points", rows_to_uint8, rows_to_uint8_by_torch, (Given(("M", 101)),), turns=True),
    Posted("int4 pairs into bytes", pack_nibbles, pack_nibbles_by_torch, (Given(("M", 66), "i8", between(-8, 7)),)),
    Posted("int4 pairs of i32", pack_nibbles, pack_nibbles_by_torch, (Given(("M", 3, 14), "i32", between(0, 15)),)),
    _unpacked(32, 16, "bf16", "f16"),
    _unpacked(48, 32, "f16", "f32"),
    _unpacked(60, 24, "f32", "bf16"),
    _to_fp8("f32", ("M", 127), "f32", "f8e4m3"),
    _to_fp8("bf16", ("M", 128), "bf16", "f8e4m3"),
    _to_fp8("rank 3", (2, "M", 45), "bf16", "f8e5m2"),
    _to_fp8("f16", ("M", 80), "f16", "f8e5m2"),
    _from_fp8(("M", 144), "f8e4m3", "bf16"),
    _from_fp8(("M", 5, 33), "f8e5m2", "f16"),
    _from_fp8(("M", 21), "f8e4m3", "f64"),
    _blocks(("M", 256), 128, "bf16", "f8e4m3"),
    _blocks(("M", 96), 32, "f32", "f8e5m2"),
    Posted(
        "silu gate to f8e4m3 by a scale of the call",
        partial(activated_to_fp8, to="f8e4m3"),
        partial(activated_to_fp8_by_torch, to="f8e4m3"),
        (Given(("M", 2, 34), "bf16"),),
        scalars=(3.7,),
    ),
    Posted(
        "silu gate to f8e5m2 by a whole scale",
        partial(activated_to_fp8, to="f8e5m2"),
        partial(activated_to_fp8_by_torch, to="f8e5m2"),
        (Given(("M", 130), "f16"),),
        scalars=(64,),
    ),
    Posted(
        "f8e4m3 and its transpose",
        fp8_both_ways,
        lambda x: ((x.float() * 16).to(torch.float8_e4m3fn), (x.float() * 16).to(torch.float8_e4m3fn).T.contiguous()),
        (Given(("M", 67), "bf16"),),
    ),
    Posted("bools into bytes", bits_to_bytes, bits_to_bytes_by_torch, (Given(("M", 72), "bool", between(0, 1)),)),
    Posted("bytes into bools", bytes_to_bits, bytes_to_bits_by_torch, (Given(("M", 13), "u8", between(0, 255)),)),
    *(
        Posted(
            f"{dtype} masked by bits",
            masked_by_bits,
            masked_by_bits_by_torch,
            (Given(("M", 96), dtype), Given(("M", 3), "i32", between(-(2**31), 2**31 - 1))),
        )
        for dtype in ("bf16", "f64")
    ),
    Posted("set bits a row", population, population_by_torch, (Given(("M", 19), "i16", between(0, 2**15 - 1)),)),
    Posted("xorshift of i64", xorshift, xorshift_by_torch, (Given(("M", 5, 7), "i64", between(-(2**62), 2**62)),)),
    Posted("xorshift of i32", xorshift, xorshift_by_torch, (Given(("M", 40), "i32", between(-(2**31), 2**31 - 1)),)),
    Posted(
        "Morton order",
        interleaved_bits,
        interleaved_bits_by_torch,
        (Given(("M", 31), "u8", between(0, 255)), Given(("M", 31), "u8", between(0, 255))),
    ),
    Posted(
        "saturating sums of int8",
        q8_add,
        lambda x, y: (x.short() + y.short()).clamp(-128, 127).to(torch.int8),
        (Given(("M", 3, 5, 7), "i8", between(-128, 127)), Given(("M", 3, 5, 7), "i8", between(-128, 127))),
    ),
)
