"""Regions over lists: operators over lists of one length that hand lists to each other, found before all others."""

from __future__ import annotations

from dataclasses import replace

from fusetune.torch_compile.regions.columns import candidates, columns_of, count_of
from fusetune.torch_compile.regions.limits import solid_reads, solid_users
from fusetune.torch_compile.regions.reach import Reach, bits
from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.regions.units import Role, UnitGraph


def over_lists(flow: UnitGraph, reach: Reach) -> tuple[Region, ...]:
    """The regions over lists of a graph, in its order; the groups of `reach` are merged as they are."""
    tried, own = Reach(flow), candidates(flow)
    merges = [merge for merge in _edges(flow, own) if _merge(flow, tried, merge)]
    found = []
    for name in sorted({tried.group[n] for n in own}):
        members = tuple(bits(tried.members[name]))
        region = _region(flow, members) if len(members) > 1 else None
        inner = [merge for merge in merges if merge[0] in members]
        if region is not None and all(_merge(flow, reach, merge) for merge in inner):
            found.append(region)
    return tuple(found)


def without(flow: UnitGraph, regions: tuple[Region, ...]) -> UnitGraph:
    """The graph as other passes see it: what is over lists is not theirs."""
    taken = {unit.index for region in regions for unit in region.units}
    units = tuple(replace(unit, role=Role.FOREIGN) if unit.index in taken else unit for unit in flow.units)
    return replace(flow, units=units) if taken else flow


def _edges(flow: UnitGraph, own: frozenset[int]) -> list[tuple[int, int]]:
    """Producers with their consumers, in the order of the graph."""
    return [
        (producer, consumer)
        for consumer in sorted(own)
        for producer in sorted({flow.unit_of[node] for node in solid_reads(flow, consumer)} & own)
    ]


def _merge(flow: UnitGraph, reach: Reach, merge: tuple[int, int]) -> bool:
    producer, consumer = (flow.units[n] for n in merge)
    if count_of(producer) != count_of(consumer) or producer.device != consumer.device:
        return False
    one, other = reach.group[producer.index], reach.group[consumer.index]
    if one != other:
        if not reach.may_merge(one, other):
            return False
        reach.merge(one, other)
    return True


def _region(flow: UnitGraph, members: tuple[int, ...]) -> Region | None:
    columns = columns_of(flow, members)
    if columns is None or not columns.gives:
        return None
    nodes = {node for n in members for node in flow.units[n].nodes} | set(columns.free)
    units = sorted({flow.unit_of[node] for node in nodes})
    ordered = tuple(node for n in units for node in flow.units[n].nodes if node in nodes)
    given = (part for one in columns.gives for part in one.parts if part is not None)
    outputs = tuple(part for part in given if any(user not in members for user in solid_users(flow, part)))
    return Region(tuple(flow.units[n] for n in members), ordered, columns.read, outputs, columns=columns)
