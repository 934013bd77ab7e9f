"""The least time that a fusion can take on a card: one launch, each input element read once, each output element
written once."""

from __future__ import annotations

from compiler.arch import Card
from compiler.ir.fusion import Fusion
from compiler.ir.touched import read_bytes, written_bytes


def floor_us(fusion: Fusion, card: Card) -> float:
    """An empty launch, and the bytes over the card's best copy rate, in microseconds; the operators of this version
    cost less than their bytes."""
    moved_bytes = sum((written_bytes(fusion) | read_bytes(fusion)).values())
    return card.least_launch_us + 1e6 * moved_bytes / card.dram.best_copy
