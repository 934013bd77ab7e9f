"""What is copied into an input at the end of a graph is written there by the region that makes it.

That is legal where nothing is read that was written over: all else that reads the input runs before, and the region
reads it element by element, each where it is written. What the compiler refuses beyond that stays with eager.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import fx

from fusetune.torch_compile.regions.columns import POINTWISE
from fusetune.torch_compile.regions.operators import CASTS, CONSTANTS, is_part, name_of
from fusetune.torch_compile.regions.order import RegionsInACycle, steps_of
from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.regions.units import Unit, UnitGraph


def in_place(flow: UnitGraph, regions: Sequence[Region]) -> tuple[Region, ...]:
    """The regions, with the copies into inputs that they can make themselves."""
    written = list(regions)
    found = [(n, copies) for n, region in enumerate(regions) for copies in _copies(flow, region)]
    for n, copies in found:
        written[n] = _with(written[n], copies)
    if _may_run(flow, written):
        return tuple(written)
    written = list(regions)
    for n, copies in found:  # some of them would wait for each other
        tried = [*written[:n], _with(written[n], copies), *written[n + 1 :]]
        written = tried if _may_run(flow, tried) else written
    return tuple(written)


def _copies(flow: UnitGraph, region: Region) -> list[tuple[Unit, ...]]:
    """The units that copy an output of the region, which nobody else wants, into an input: those of a list together."""
    nodes = set(region.nodes)

    def copy_of(node: fx.Node | None) -> fx.Node | None:
        users = [user for user in node.users if user not in nodes] if node is not None else []
        return users[0] if len(users) == 1 and _is_plain_copy(users[0]) else None

    if region.columns is None:
        copies = [copy for node in region.outputs if (copy := copy_of(node)) is not None]
        return [(flow.units[flow.unit_of[copy]],) for copy in copies if _reads_own(region, copy)]
    found = []
    for given in region.columns.gives:
        lists = [copy_of(part) for part in given.parts]
        into = tuple(copy.all_input_nodes[0] for copy in lists if copy is not None)
        if len(into) == len(lists) and region.columns.place_of(into) is not None:
            found.append(tuple(flow.units[flow.unit_of[copy]] for copy in lists if copy is not None))
    return found


def _is_plain_copy(copy: fx.Node) -> bool:
    """Whether the node copies all of one tensor into an input of the graph, element by element of one type."""
    if copy.target is not torch.ops.aten.copy_.default or copy.users or len(copy.all_input_nodes) != 2:
        return False
    into, made = copy.all_input_nodes
    if into.op != "placeholder":
        return False
    x, y = (node.meta.get("val") for node in (into, made))
    return (
        isinstance(x, torch.Tensor)
        and isinstance(y, torch.Tensor)
        and (x.dtype, x.device) == (y.dtype, y.device)
        and tuple(map(str, (*x.shape, *x.stride()))) == tuple(map(str, (*y.shape, *y.stride())))
        and sum(user.target is torch.ops.aten.copy_.default for user in into.users) == 1
    )


def _reads_own(region: Region, copy: fx.Node) -> bool:
    """Whether all that the region makes of the input is pointwise and of its shape."""
    into = copy.all_input_nodes[0]
    shape, of_it = into.meta["val"].shape, {into}
    places: dict[fx.Node, int] = {}
    for node in region.nodes:
        if name_of(node) in CONSTANTS:
            continue
        if not of_it.intersection(node.all_input_nodes):
            if not is_part(node) or places.get(node.all_input_nodes[0]) != node.args[1]:
                continue
        elif name_of(node) in POINTWISE:
            found = _places(node, of_it)
            if len(found) != 1:
                return False
            places[node] = found.pop()
            continue
        elif not (torch.Tag.pointwise in getattr(node.target, "tags", ()) or name_of(node) in (*CASTS, "copy")):
            return False
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.shape != shape:
            return False
        of_it.add(node)
    return True


def _places(node: fx.Node, of_it: set[fx.Node]) -> set[int]:
    """Where in an operator's lists one of some nodes stands; -1 for what it reads beside lists."""
    found = {-1} if of_it.intersection(x for x in node.args if isinstance(x, fx.Node)) else set()
    lists = (x for x in node.args if isinstance(x, list | tuple))
    return found | {n for x in lists for n, one in enumerate(x) if isinstance(one, fx.Node) and one in of_it}


def _with(region: Region, copies: tuple[Unit, ...]) -> Region:
    pairs = [copy.head.all_input_nodes for copy in copies]
    into, made = (tuple(pair[n] for pair in pairs) for n in (0, 1))
    columns = region.columns
    if columns is not None:
        given, place = next(x for x in columns.gives if x.parts == made), columns.place_of(into)
        assert place is not None
        columns = columns.with_written(given, place)
    return replace(
        region,
        units=(*region.units, *copies),
        nodes=(*region.nodes, *(copy.head for copy in copies)),
        inputs=tuple(dict.fromkeys((*region.inputs, *into))),
        outputs=tuple(node for node in region.outputs if node not in made),
        written=(*region.written, *into),
        columns=columns,
    )


def _may_run(flow: UnitGraph, regions: Sequence[Region]) -> bool:
    try:
        steps_of(flow, regions)
    except RegionsInACycle:
        return False
    return True
