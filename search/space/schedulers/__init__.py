"""Schedulers: one for each iteration structure."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.arch import Card
from compiler.ir.fusion import Fusion
from search.space.protocol import Scheduler
from search.space.schedulers.chunks import Chunks
from search.space.schedulers.column import Column
from search.space.schedulers.flat import Flat
from search.space.schedulers.inner_outer import InnerOuter
from search.space.schedulers.launches import launches_for, launches_refusal
from search.space.schedulers.product import Product
from search.space.schedulers.row import Row
from search.space.schedulers.scan import Scan
from search.space.schedulers.tensor_product import ProductByOneThread
from search.space.schedulers.thread_product import ThreadProduct
from search.space.schedulers.tile2d import Tile2d
from search.space.schedulers.warp_product import WarpProduct


def schedulers_for(fusion: Fusion, card: Card) -> tuple[Scheduler, ...]:
    """The schedulers that take the fusion, in a fixed order: of single kernels, then of several launches."""
    return (*singles_for(fusion, card), *launches_for(fusion, card, _every))


def singles_for(fusion: Fusion, card: Card) -> tuple[Scheduler, ...]:
    """Those of them that make single kernels: found at once, where cutting a fusion into launches may take a second."""
    return tuple(s for s in _every(card.sm_count) if s.refusal(fusion, card.arch) is None)


def refusals(fusion: Fusion, card: Card) -> dict[str, str]:
    """Why each scheduler that does not take the fusion does not, by its name."""
    every = _every(card.sm_count)
    reasons = {s.name: s.refusal(fusion, card.arch) for s in every}
    found = {name: reason for name, reason in reasons.items() if reason is not None}
    if not launches_for(fusion, card, _every):
        found["launches"] = launches_refusal(fusion, card.arch, every)
    return found


def told_together(reasons: Mapping[str, str]) -> str:
    """Reasons by scheduler in one line, each once: most schedulers refuse for the same."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason.rstrip("."), []).append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())


def _every(sm_count: int) -> tuple[Scheduler, ...]:
    return (
        Flat(sm_count),
        Tile2d(sm_count),
        Row(sm_count),
        Column(sm_count),
        InnerOuter(sm_count),
        Chunks(),
        Scan(),
        Product(sm_count),
        ProductByOneThread(sm_count),
        WarpProduct(),
        ThreadProduct(),
    )
