"""A graph with regions as a list of steps: regions and the units outside, as near as can be to the graph's order."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from torch import fx

from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.regions.units import Role, UnitGraph


class RegionsInACycle(Exception):
    """Regions that need each other: no pass may leave such, and none does."""


@dataclass(frozen=True)
class Step:
    """A region, or the operators of one unit; the nodes that it reads and those that it gives."""

    region: Region | None
    nodes: tuple[fx.Node, ...]
    reads: tuple[fx.Node, ...]
    gives: tuple[fx.Node, ...]


def steps_of(flow: UnitGraph, regions: Sequence[Region]) -> list[Step]:
    """All that has to run, in an order that is the same each time. Free units whose results nobody outside wants are
    left out. Raises RegionsInACycle."""
    steps = [Step(region, region.nodes, region.inputs, region.outputs) for region in regions]
    at = {unit.index: n for n, region in enumerate(regions) for unit in region.units}
    late = [region.units[-1].index for region in regions]
    for unit in flow.units:
        if unit.index not in at and unit.head.op == "call_function" and unit.role is not Role.FREE:
            at[unit.index] = len(steps)
            steps.append(Step(None, unit.nodes, flow.reads[unit.index], unit.nodes))
            late.append(unit.index)
    _add_free(flow, steps, at, late)
    return [steps[n] for n in _sorted(flow, steps, at, late)]


def _add_free(flow: UnitGraph, steps: list[Step], at: dict[int, int], late: list[int]) -> None:
    wanted = {node for step in steps for node in step.reads}
    wanted |= {node for unit in flow.units if unit.head.op == "output" for node in flow.reads[unit.index]}
    for unit in reversed(flow.units):
        if unit.role is Role.FREE and any(node in wanted for node in unit.nodes):
            nodes = tuple(node for node in unit.nodes if node is unit.head or node in wanted)
            at[unit.index] = len(steps)
            steps.append(Step(None, nodes, flow.reads[unit.index], nodes))
            late.append(unit.index)
            wanted.update(flow.reads[unit.index])


def _sorted(flow: UnitGraph, steps: Sequence[Step], at: dict[int, int], late: Sequence[int]) -> list[int]:
    """By what each needs, and among those that may run by the place of their last operator in the graph."""
    needs: list[set[int]] = [{at[u] for node in step.reads if (u := flow.unit_of[node]) in at} for step in steps]
    for unit, step in at.items():
        needs[step] |= {at[other] for other in flow.after[unit] if other in at}
    followers: list[list[int]] = [[] for _ in steps]
    for n, found in enumerate(needs):
        found.discard(n)
        for other in found:
            followers[other].append(n)
    open_needs = [len(found) for found in needs]
    ready = [(late[n], n) for n, count in enumerate(open_needs) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, n = heapq.heappop(ready)
        order.append(n)
        for other in followers[n]:
            open_needs[other] -= 1
            if not open_needs[other]:
                heapq.heappush(ready, (late[other], other))
    if len(order) != len(steps):
        raise RegionsInACycle
    return order
