"""Never more memory than eager: what is alive at once, and which regions go until it is no more than without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from fusetune.torch_compile.regions.operators import bytes_of
from fusetune.torch_compile.regions.order import Step, steps_of
from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.regions.units import UnitGraph

Parts = Callable[[Region], Sequence[Region]]

_NEAREST = 4
"""So many regions around the peak are looked at: the cause is among what runs there."""

SLACK = 0.02
"""Of eager's peak: an allocator's rounding is more."""


@dataclass(frozen=True)
class Peak:
    """The most bytes that are alive at once, and after which step."""

    bytes: int
    step: int


def within_eager(flow: UnitGraph, regions: Sequence[Region], parts: Parts) -> tuple[Region, ...]:
    """The regions, some of them in `parts` and some gone, so that the peak is what the graph has without any.

    `parts` cuts a region in several that need less at once; none if it cannot.
    """
    limit = (1 + SLACK) * peak_of(flow, steps_of(flow, ())).bytes
    kept = list(regions)
    while kept:
        steps = steps_of(flow, kept)
        peak = peak_of(flow, steps)
        if peak.bytes <= limit:
            break
        kept = min(_changes(steps, peak, kept, parts), key=lambda change: _cost(flow, change, limit))
    return tuple(kept)


def _cost(flow: UnitGraph, regions: Sequence[Region], limit: float) -> tuple[float, int, int]:
    """Memory above the limit first, then what is left to eager, then how many regions there are."""
    peak = peak_of(flow, steps_of(flow, regions)).bytes
    return max(peak, limit), -sum(len(region.units) for region in regions), len(regions)


def _changes(steps: Sequence[Step], peak: Peak, regions: Sequence[Region], parts: Parts) -> list[list[Region]]:
    """What the regions may be instead: one of those nearest the peak in parts, or gone."""
    places = {id(step.region): n for n, step in enumerate(steps) if step.region is not None}
    near = sorted(range(len(regions)), key=lambda n: abs(places[id(regions[n])] - peak.step))[:_NEAREST]
    found = []
    for n in near:
        rest = [*regions[:n], *regions[n + 1 :]]
        found.append(rest)
        if cut := parts(regions[n]):
            found.append(sorted([*rest, *cut], key=lambda region: region.units[0].index))
    return found


def peak_of(flow: UnitGraph, steps: Sequence[Step]) -> Peak:
    """What lives when the steps run in order. Inputs of a function live as long as its caller holds them, so they do
    not count; what a forward graph has saved for its backward one goes with its last use. Views keep what they view."""
    base = _bases(flow)
    last: dict[fx.Node, int] = {}
    for n, step in enumerate(steps):
        for node in (*step.reads, *step.gives):
            last[base[node]] = n
    for unit in flow.units:
        if unit.head.op == "output":
            last |= {base[node]: len(steps) for node in flow.reads[unit.index]}
    ends: dict[int, list[fx.Node]] = {}
    for node, n in last.items():
        ends.setdefault(n, []).append(node)
    alive = {node: bytes_of(node.meta["val"]) for unit in flow.units for node in unit.makes if _is_saved(node)}
    peak = Peak(0, 0)
    for n, step in enumerate(steps):
        for node in step.gives:
            value = node.meta.get("val")
            if base[node] is node and isinstance(value, torch.Tensor):
                alive[node] = bytes_of(value)
        total = sum(alive.values())
        if total > peak.bytes:
            peak = Peak(total, n)
        for node in ends.get(n, ()):
            alive.pop(node, None)
    return peak


def _is_saved(node: fx.Node) -> bool:
    """Whether AOTAutograd handed the node from the forward graph on: what is the caller's it calls `primals`."""
    return node.op == "placeholder" and not node.name.startswith(("primals", "arg"))


def _bases(flow: UnitGraph) -> dict[fx.Node, fx.Node]:
    """For each node the one in whose memory it lies."""
    found: dict[fx.Node, fx.Node] = {}
    for unit in flow.units:
        sources = flow.reads[unit.index]
        for node in unit.nodes:
            found[node] = found[sources[0]] if unit.is_view and sources else node
    return found
