"""Schedulers: one for each iteration structure."""

from __future__ import annotations

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from search.space.protocol import Scheduler
from search.space.schedulers.flat import Flat
from search.space.schedulers.tile2d import Tile2d

HOPPER_SMS = 132
"""Multiprocessors of H100 SXM and H200, the cards that schedules are sized for when none is named."""


def schedulers_for(fusion: Fusion, arch: Arch, sm_count: int = HOPPER_SMS) -> tuple[Scheduler, ...]:
    """The schedulers that take the fusion, in a fixed order."""
    return tuple(s for s in _every(sm_count) if s.refusal(fusion, arch) is None)


def refusals(fusion: Fusion, arch: Arch) -> dict[str, str]:
    """Why each scheduler that does not take the fusion does not, by its name."""
    reasons = {s.name: s.refusal(fusion, arch) for s in _every(HOPPER_SMS)}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _every(sm_count: int) -> tuple[Scheduler, ...]:
    return Flat(sm_count), Tile2d(sm_count)
