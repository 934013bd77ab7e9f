"""The least time that a fusion can take on a card: each input element read once, each output element written once."""

from __future__ import annotations

from math import prod

from compiler.arch import Card
from compiler.ir.fusion import Fusion, Value


def floor_us(fusion: Fusion, card: Card) -> float:
    """Bytes over the card's best copy rate, in microseconds; the operators of this version cost less than their bytes.

    Launch overhead is left out: small fusions stay above their floor.
    """
    names = dict.fromkeys((*fusion.inputs, *fusion.outputs))
    return 1e6 * sum(distinct_bytes(fusion.value(name)) for name in names) / card.dram.best_copy


def distinct_bytes(value: Value) -> int:
    """Bytes of distinct elements: a stride of 0 repeats one."""
    sizes = (size for size, stride in zip(value.shape, value.strides, strict=True) if stride)
    return prod(sizes) * value.dtype.nbytes
