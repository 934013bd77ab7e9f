"""Growth along what is produced and consumed: the largest values are kept out of memory first."""

from __future__ import annotations

from fusetune.torch_compile.regions.limits import fits, solid_reads
from fusetune.torch_compile.regions.operators import bytes_of
from fusetune.torch_compile.regions.reach import Reach, bits
from fusetune.torch_compile.regions.units import Flow, Role

_MOST_TURNS = 4
"""What stood between two units may have been merged since; more turns have never found more."""


def grow(flow: Flow, reach: Reach) -> None:
    """Merges producers with their consumers, in the order of the bytes between them, until nothing more merges."""
    edges = sorted(
        (-bytes_of(node.meta["val"]), flow.unit_of[node], unit.index)
        for unit in flow.units
        if unit.role is Role.COMPUTE
        for node in solid_reads(flow, unit.index)
        if flow.units[flow.unit_of[node]].role is Role.COMPUTE
    )
    for _ in range(_MOST_TURNS):
        merged = [_merge(flow, reach, producer, consumer) for _, producer, consumer in edges]
        if not any(merged):
            break


def _merge(flow: Flow, reach: Reach, producer: int, consumer: int) -> bool:
    one, other = reach.group[producer], reach.group[consumer]
    if one == other or flow.units[producer].device != flow.units[consumer].device:
        return False
    if not reach.may_merge(one, other):
        return False
    if not fits(flow, frozenset(bits(reach.members[one] | reach.members[other]))):
        return False
    reach.merge(one, other)
    return True
