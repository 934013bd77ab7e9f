"""What memory alone says of a kernel's time: the floor of a fusion, and what a launch among others takes."""

from __future__ import annotations

from compiler.arch import Card
from compiler.ir.fusion import Fusion
from compiler.ir.touched import moved_bytes

NEXT_LAUNCH_US = 1.5
"""A launch after another on the same stream, over data that lies in L2 (measured on an H200: 1.25 us to 1.9 us)."""


def floor_us(fusion: Fusion, card: Card) -> float:
    """The least time of a fusion: an empty launch, and each input element read once and each output element written
    once at the card's best copy rate. The operators of this version cost less than their bytes."""
    return card.least_launch_us + _copy_us(moved_bytes(fusion), card)


def launch_us(nbytes: int, card: Card) -> float:
    """Microseconds of one of several launches that reads and writes `nbytes`: enough to compare places to cut."""
    return NEXT_LAUNCH_US + _copy_us(nbytes, card)


def _copy_us(nbytes: int, card: Card) -> float:
    return 1e6 * nbytes / card.dram.best_copy
