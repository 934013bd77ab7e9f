"""Whether the fields of a lock's entry belong together: what one of them says must follow from the others.

A hand, or a bad merge, may have put the point of one kernel beside the code of another. What follows from what only the
generator knows that made it, so an entry of another generator is not looked at: its kernel is rebuilt and compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from hashlib import sha256

from compiler.arch import READ_FACTS, Card, arch_named, card_like
from compiler.errors import IllegalSchedule, InvalidStep, Unsupported
from compiler.generator import GENERATOR
from compiler.wire import trace_to_json
from fusetune.wire.artifact import KernelArtifact
from search.cost.roofline import floor_us
from search.space.renamed import point_today
from search.space.schedulers import schedulers_for
from service.ci.folder import LockSubject
from service.ci.lock import CiEntry

_ROUNDING = 1e-9
"""Relative: a floor is the same sum wherever it is worked out."""


def strangers(subject: LockSubject, entry: CiEntry, built: KernelArtifact) -> tuple[str, ...]:
    """Every field that does not follow from the rest, by name; none for an entry of another generator.

    `built` is the kernel of the entry's schedule.
    """
    return tuple(_strangers(subject, entry, built)) if entry.generator == GENERATOR else ()


def _strangers(subject: LockSubject, entry: CiEntry, built: KernelArtifact) -> Iterator[str]:
    if entry.source_sha256 != sha256(built.source.encode()).hexdigest():
        yield "source_sha256: the locked schedule has another source, and the same generator made both"
    try:
        card = _card_of(entry)
    except Unsupported as error:
        yield f"card: {error}"
        return
    least_us = floor_us(subject.fusion, card)
    if not math.isclose(entry.floor_us, least_us, rel_tol=_ROUNDING):
        yield f"floor_us: the lock has {entry.floor_us:g}, of this fusion on the lock's card it is {least_us:g}"
    yield from _of_candidate(subject, entry, card)


def _of_candidate(subject: LockSubject, entry: CiEntry, card: Card) -> Iterator[str]:
    name = entry.candidate.scheduler
    scheduler = next((one for one in schedulers_for(subject.fusion, card) if one.name == name), None)
    if scheduler is None:
        yield f"candidate.scheduler: found {name}, which does not take this fusion on the lock's card"
        return
    try:
        trace = scheduler.trace(subject.fusion, point_today(entry.candidate.point))
    except (KeyError, TypeError, ValueError, InvalidStep, IllegalSchedule, Unsupported):
        yield f"candidate.point: it is no point of {name}"
        return
    if trace_to_json(trace) != trace_to_json(entry.schedule(subject.fusion)):
        yield f"candidate.point: {name} makes another schedule of it than the locked trace"


def _card_of(entry: CiEntry) -> Card:
    """The card with the facts of the lock. Raises Unsupported for one that nothing is compiled for."""
    facts = {name: getattr(entry.card, name) for name in READ_FACTS}
    return card_like(entry.card.name, arch_named(entry.card.arch).capability, facts)
