"""Schedulers: one for each iteration structure."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from search.space.protocol import Scheduler
from search.space.schedulers.chunks import Chunks
from search.space.schedulers.column import Column
from search.space.schedulers.flat import Flat
from search.space.schedulers.inner_outer import InnerOuter
from search.space.schedulers.launches import launches_for, launches_refusal
from search.space.schedulers.row import Row
from search.space.schedulers.tile2d import Tile2d

HOPPER_SMS = 132
"""Multiprocessors of H100 SXM and H200, the cards that schedules are sized for when none is named."""


def schedulers_for(fusion: Fusion, arch: Arch, sm_count: int = HOPPER_SMS) -> tuple[Scheduler, ...]:
    """The schedulers that take the fusion, in a fixed order: of single kernels, then of several launches."""
    singles = tuple(s for s in _every(sm_count) if s.refusal(fusion, arch) is None)
    return (*singles, *launches_for(fusion, arch, sm_count, _every))


def refusals(fusion: Fusion, arch: Arch) -> dict[str, str]:
    """Why each scheduler that does not take the fusion does not, by its name."""
    reasons = {s.name: s.refusal(fusion, arch) for s in _every(HOPPER_SMS)}
    found = {name: reason for name, reason in reasons.items() if reason is not None}
    if not launches_for(fusion, arch, HOPPER_SMS, _every):
        found["launches"] = launches_refusal(fusion, arch, _every(HOPPER_SMS))
    return found


def told_together(reasons: Mapping[str, str]) -> str:
    """Reasons by scheduler in one line, each once: most schedulers refuse for the same."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason.rstrip("."), []).append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())


def _every(sm_count: int) -> tuple[Scheduler, ...]:
    return Flat(sm_count), Tile2d(sm_count), Row(sm_count), Column(sm_count), InnerOuter(sm_count), Chunks()
