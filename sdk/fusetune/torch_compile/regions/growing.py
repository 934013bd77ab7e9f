"""Growth along what is produced and consumed: the largest values are kept out of memory first."""

from __future__ import annotations

from fusetune.torch_compile.regions.limits import edges_of, fits, solid_reads, traffic_of
from fusetune.torch_compile.regions.operators import bytes_made
from fusetune.torch_compile.regions.reach import Reach, bits
from fusetune.torch_compile.regions.units import Role, UnitGraph

_MOST_TURNS = 4
"""What stood between two units may have been merged since; more turns have never found more."""

LEAST_SHARE = 0.1
"""Of what the smaller of two groups moves, what goes between them or is read by both is at least this."""


def grow(flow: UnitGraph, reach: Reach) -> None:
    """Merges producers with their consumers, in the order of the bytes between them, until nothing more merges."""
    edges = sorted(
        (-bytes_made(node), flow.unit_of[node], unit.index)
        for unit in flow.units
        if unit.role is Role.COMPUTE
        for node in solid_reads(flow, unit.index)
        if flow.units[flow.unit_of[node]].role is Role.COMPUTE
    )
    for _ in range(_MOST_TURNS):
        merged = [_merge(flow, reach, -size, producer, consumer) for size, producer, consumer in edges]
        if not any(merged):
            break


def _merge(flow: UnitGraph, reach: Reach, size: int, producer: int, consumer: int) -> bool:
    one, other = reach.group[producer], reach.group[consumer]
    if one == other or flow.units[producer].device != flow.units[consumer].device:
        return False
    if not reach.may_merge(one, other):
        return False
    first, second = (frozenset(bits(reach.members[group])) for group in (one, other))
    if not _belong_together(flow, size, first, second) or not fits(flow, first | second):
        return False
    reach.merge(one, other)
    return True


def _belong_together(flow: UnitGraph, size: int, first: frozenset[int], second: frozenset[int]) -> bool:
    """Whether two groups between which `size` bytes go are about the same data.

    A small value may come of much and go to much: two large groups that have nothing else in common would only wait for
    each other, and hold what they read meanwhile.
    """
    least = LEAST_SHARE * min(traffic_of(flow, first), traffic_of(flow, second))
    if size >= least:
        return True
    common = edges_of(flow, first).inputs & edges_of(flow, second).inputs
    return any(bytes_made(node) >= least for node in common)
