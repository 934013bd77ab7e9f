"""Points of a scheduler's space by the knobs that matter; the others stand at their first value."""

from __future__ import annotations

from compiler.arch import arch_named
from compiler.ir.fusion import Fusion
from compiler.pipeline import Generated, generate
from search.space.knobs import KnobValue
from search.space.protocol import Scheduler
from search.space.schedulers import schedulers_for, singles_for
from tests.cards import card_of

SM_COUNT = 132


def scheduler_named(name: str, fusion: Fusion, arch: str = "sm_90a", sm_count: int = SM_COUNT) -> Scheduler:
    found = schedulers_for if name.startswith("launches") else singles_for
    return next(s for s in found(fusion, card_of(arch_named(arch), sm_count)) if s.name == name)


def point_of(scheduler: Scheduler, fusion: Fusion, arch: str = "sm_90a", **chosen: KnobValue) -> dict[str, KnobValue]:
    """A point of knobs and values that the space has; the search may leave it out as slow, the compiler takes it."""
    space = scheduler.space(fusion, arch_named(arch))
    point = {knob.name: knob.values[0] for knob in space.knobs} | chosen
    space.positions(point)
    return point


def generated(
    name: str, fusion: Fusion, arch: str = "sm_90a", sm_count: int = SM_COUNT, **chosen: KnobValue
) -> Generated:
    """The kernel of a point of the scheduler of that name."""
    scheduler = scheduler_named(name, fusion, arch, sm_count)
    return generate(scheduler.trace(fusion, point_of(scheduler, fusion, arch, **chosen)), arch_named(arch))
