"""Operators over lists of tensors of several types become one for each type: what is alike at all places is a region.

Those that hand lists to each other are cut at the same places, so that what is done to the tensors of one type stays
together. To cut is right anywhere: an operator over lists does to each tensor what it does to one alone.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from fusetune.torch_compile.regions.columns import POINTWISE
from fusetune.torch_compile.regions.operators import CASTS, is_part, name_of, values_of


def split_by_types(graph: fx.Graph) -> None:
    """In place. `_foreach_mul([f32, bf16, f32], 2)` becomes one of two tensors and one of one, whose results have the
    places of the old one's."""
    for chain in _chains(graph):
        groups = _groups(chain)
        if len(groups) > 1 and all(is_part(user) for node in chain for user in node.users):
            for node in chain:
                _split(graph, node, groups)


def _chains(graph: fx.Graph) -> list[list[fx.Node]]:
    """The operators over lists, those together that have lists of one length and read of each other, in order."""
    chain_of: dict[fx.Node, list[fx.Node]] = {}
    for node in graph.nodes:
        if node.op != "call_function" or name_of(node) not in POINTWISE:
            continue
        own = [node]
        for read in node.all_input_nodes:
            made = _maker(read)
            earlier = chain_of.get(made) if made is not None else None
            if earlier is not None and earlier is not own and _count(earlier[0]) == _count(node):
                own = [*earlier, *own]
                chain_of.update(dict.fromkeys(own, own))
        chain_of[node] = own
    return list({id(chain): chain for chain in chain_of.values()}.values())


def _maker(node: fx.Node) -> fx.Node | None:
    """The operator over lists that makes a tensor, before its casts."""
    while name_of(node) in CASTS and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node.all_input_nodes[0] if is_part(node) else None


def _count(node: fx.Node) -> int:
    return len(values_of(node))


def _groups(chain: Sequence[fx.Node]) -> list[list[int]]:
    """The places of the lists by the types of what is there, and by what is cast; in the order in which they come."""
    found: dict[object, list[int]] = {}
    for place in range(_count(chain[0])):
        types = tuple(_type_at(node, place) for node in chain)
        found.setdefault(types, []).append(place)
    return list(found.values())


def _type_at(node: fx.Node, place: int) -> object:
    lists: list[Any] = [x for x in (*node.args, *node.kwargs.values()) if _is_list(x)]
    read: list[fx.Node] = [x[place] for x in lists if len(x) > place and isinstance(x[place], fx.Node)]
    cast_of = [x.all_input_nodes[0] for x in read if name_of(x) in CASTS and x.all_input_nodes]
    values = (values_of(node)[place], *(x.meta.get("val") for x in (*read, *cast_of)))
    return tuple((x.dtype, x.device) for x in values if isinstance(x, torch.Tensor)), len(cast_of)


def _split(graph: fx.Graph, node: fx.Node, groups: list[list[int]]) -> None:
    parts: dict[int, list[fx.Node]] = {}
    for user in node.users:
        parts.setdefault(user.args[1], []).append(user)  # type: ignore[arg-type]  # a part has its place there
    values = node.meta["val"]
    for places in groups:
        with graph.inserting_before(node):
            args = tuple(_of(x, places) for x in node.args)
            made = graph.call_function(node.target, args, {key: _of(x, places) for key, x in node.kwargs.items()})  # type: ignore[arg-type]  # an operator
        made.meta = {**node.meta, "val": type(values)(values[n] for n in places)}
        for at, place in enumerate(places):
            for old in parts.get(place, ()):
                with graph.inserting_before(old):
                    new = graph.call_function(operator.getitem, (made, at))
                new.meta = dict(old.meta)
                old.replace_all_uses_with(new)
                graph.erase_node(old)
    graph.erase_node(node)


def _of(argument: Any, places: list[int]) -> Any:
    return [argument[n] for n in places] if _is_list(argument) else argument


def _is_list(argument: Any) -> bool:
    return isinstance(argument, list | tuple)
