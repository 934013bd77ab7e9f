"""Cards as tests want them: few multiprocessors make small grids."""

from __future__ import annotations

from dataclasses import replace

from compiler.arch import Arch, Card, card_named

H200 = card_named("H200")


def card_of(arch: Arch, sm_count: int = H200.sm_count) -> Card:
    """An H200 of another architecture, with so many multiprocessors."""
    return replace(H200, arch=arch, sm_count=sm_count)
