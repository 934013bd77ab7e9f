"""The least time that a fusion can take on a card: each input element read once, each output element written once."""

from __future__ import annotations

from compiler.arch import Card
from compiler.ir.fusion import Fusion
from compiler.ir.touched import read_bytes, written_bytes


def floor_us(fusion: Fusion, card: Card) -> float:
    """Bytes over the card's best copy rate, in microseconds; the operators of this version cost less than their bytes.

    Launch overhead is left out: small fusions stay above their floor.
    """
    return 1e6 * sum((written_bytes(fusion) | read_bytes(fusion)).values()) / card.dram.best_copy
