"""The passes in their order."""

from __future__ import annotations

from bisect import bisect

from torch import fx

from fusetune.torch_compile.regions.growing import grow
from fusetune.torch_compile.regions.in_place import in_place
from fusetune.torch_compile.regions.memory import within_eager
from fusetune.torch_compile.regions.over_lists import over_lists, without
from fusetune.torch_compile.regions.reach import Reach, bits
from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.regions.siblings import join
from fusetune.torch_compile.regions.trimming import region_of
from fusetune.torch_compile.regions.units import CanSay, Role, UnitGraph, flow_of
from fusetune.torch_compile.regions.worth import is_worth_it


def propose(
    graph: fx.Graph, can_say: CanSay, *, least_bytes: int = 0, writes: bool = True
) -> tuple[UnitGraph, tuple[Region, ...]]:
    """The regions of a graph, in its order, and the graph as the partitioner sees it. The same graph gives the same
    regions. `writes`: they may write into inputs of the graph, and be over lists."""
    whole = flow_of(graph, can_say)
    reach = Reach(whole)
    listed = over_lists(whole, reach) if writes else ()
    listed = tuple(region for region in listed if is_worth_it(region, least_bytes))
    flow = without(whole, listed)
    grow(flow, reach)
    vertical = _groups(flow, reach)
    join(flow, reach)
    grow(flow, reach)

    def regions(groups: list[int]) -> list[Region]:
        found = (region_of(flow, frozenset(bits(members))) for members in groups)
        return [region for region in found if is_worth_it(region, least_bytes)]

    def parts(region: Region) -> list[Region]:
        if region.columns is not None:
            return []
        own = sum(1 << unit.index for unit in region.units)
        inner = [members for members in vertical if not members & ~own]
        return regions(inner if len(inner) > 1 else _between_others(flow, region))

    every = sorted([*listed, *regions(_groups(flow, reach))], key=lambda region: region.units[0].index)
    found = within_eager(whole, every, parts)
    return whole, in_place(whole, found) if writes else found


def _between_others(flow: UnitGraph, region: Region) -> list[int]:
    """A region's units in the pieces between which something else stands in the graph: each waits for no more than it
    needs. One that is in one piece has no parts."""
    others = [unit.index for unit in flow.units if unit.role is Role.FOREIGN and unit.head.op == "call_function"]
    pieces: dict[int, int] = {}
    for unit in region.units:
        before = bisect(others, unit.index)
        pieces[before] = pieces.get(before, 0) | 1 << unit.index
    return list(pieces.values()) if len(pieces) > 1 else []


def _groups(flow: UnitGraph, reach: Reach) -> list[int]:
    """The members of each group, in the order of the graph."""
    names = sorted({reach.group[unit.index] for unit in flow.units if unit.role is Role.COMPUTE})
    return [reach.members[name] for name in names]
