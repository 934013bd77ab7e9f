"""Never more memory than eager: what is alive at once, and which regions go until it is no more than without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx

from fusetune.torch_compile.regions.operators import bytes_of
from fusetune.torch_compile.regions.order import Step, steps_of
from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.regions.units import Flow


@dataclass(frozen=True)
class Peak:
    """The most bytes that are alive at once, and after which step."""

    bytes: int
    step: int


def within_eager(flow: Flow, regions: Sequence[Region]) -> tuple[Region, ...]:
    """The regions, less those whose going keeps the peak at what the graph has without any."""
    limit = peak_of(flow, steps_of(flow, ())).bytes
    kept = list(regions)
    while kept:
        steps = steps_of(flow, kept)
        peak = peak_of(flow, steps)
        if peak.bytes <= limit:
            break
        kept.remove(_cause(flow, steps, peak, kept))
    return tuple(kept)


def _cause(flow: Flow, steps: Sequence[Step], peak: Peak, regions: Sequence[Region]) -> Region:
    """Of the regions nearest the peak the one that spans most of the graph."""
    places = {id(step.region): n for n, step in enumerate(steps) if step.region is not None}

    def blame(region: Region) -> tuple[int, int]:
        first, last = region.units[0].index, region.units[-1].index
        return abs(places[id(region)] - peak.step) // 4, first - last

    return min(regions, key=blame)


def peak_of(flow: Flow, steps: Sequence[Step]) -> Peak:
    """What lives when the steps run in order. Inputs of a function live as long as its caller holds them, so they do not
    count; what a forward graph has saved for its backward one goes with its last use. A view keeps what it views."""
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


def _bases(flow: Flow) -> dict[fx.Node, fx.Node]:
    """For each node the one in whose memory it lies."""
    found: dict[fx.Node, fx.Node] = {}
    for unit in flow.units:
        sources = flow.reads[unit.index]
        for node in unit.nodes:
            found[node] = found[sources[0]] if unit.is_view and sources else node
    return found
