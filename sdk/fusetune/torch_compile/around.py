"""What stands for a region with products in it while it has no kernel: the products by eager, and the calls of the
regions that it covers, with their own kernels."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from fusetune.errors import CannotConvert
from fusetune.torch_compile.program import Boxed, Call, calls_of, program
from fusetune.torch_compile.regions.region import Region


def around(whole: Region, covered: Sequence[tuple[Region, Boxed]], name: str) -> Boxed:
    """A function of the inputs of `whole`. `covered`: the regions in it, each with what computes it. Raises
    CannotConvert where those read what it does not have."""
    makers = {node: call for call in map(_call, covered) for node in call.gives}
    inside = {node for region, _ in covered for unit in region.units for node in unit.nodes}
    for node in whole.nodes:
        if node not in inside:
            makers[node] = calls_of([node])[0]
    ordered: dict[int, Call] = {}
    for node in whole.outputs:
        _add(node, {*whole.inputs}, makers, ordered)
    return program(whole.inputs, [*ordered.values()], tuple(whole.outputs), name)


def _call(one: tuple[Region, Boxed]) -> Call:
    region, call = one
    return Call(region.outputs, call, region.inputs, {}, is_boxed=True)


def _add(node: fx.Node, given: set[fx.Node], makers: dict[fx.Node, Call], ordered: dict[int, Call]) -> None:
    """What makes the node, behind what makes all that it reads."""
    if node in given:
        return
    call = makers.get(node)
    if call is None:
        raise CannotConvert("the region", "with its product it reads otherwise than by itself")
    if id(call) in ordered:
        return
    reads: list[fx.Node] = []
    fx.node.map_arg((call.args, call.kwargs), reads.append)
    for other in reads:
        _add(other, given, makers, ordered)
    ordered[id(call)] = call
