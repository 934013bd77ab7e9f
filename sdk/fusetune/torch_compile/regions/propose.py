"""The passes in their order."""

from __future__ import annotations

from torch import fx

from fusetune.torch_compile.regions.growing import grow
from fusetune.torch_compile.regions.memory import within_eager
from fusetune.torch_compile.regions.reach import Reach, bits
from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.regions.siblings import join
from fusetune.torch_compile.regions.trimming import region_of
from fusetune.torch_compile.regions.units import CanSay, Flow, Role, flow_of
from fusetune.torch_compile.regions.worth import is_worth_it


def propose(graph: fx.Graph, can_say: CanSay, *, least_bytes: int = 0) -> tuple[Flow, tuple[Region, ...]]:
    """The regions of a graph, in its order, and the graph as the partitioner sees it. The same graph gives the same
    regions."""
    flow = flow_of(graph, can_say)
    reach = Reach(flow)
    grow(flow, reach)
    join(flow, reach)
    grow(flow, reach)
    names = sorted({reach.group[unit.index] for unit in flow.units if unit.role is Role.COMPUTE})
    found = [region_of(flow, frozenset(bits(reach.members[name]))) for name in names]
    worth = [region for region in found if is_worth_it(region, least_bytes)]
    return flow, within_eager(flow, worth)
