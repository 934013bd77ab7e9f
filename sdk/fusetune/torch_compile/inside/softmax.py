"""Inductor's maximum and sum of a softmax in one sweep (`prepare_softmax_online`), taken apart for regions.

On CUDA Inductor puts this operator in place of a maximum, exponentials and their sum before any pass of ours sees the
graph. A fusion says them one by one, and a kernel that has them all reads its input as few times. Left as it is the
operator would part a loss from its logits, with what lies between written as f32. What no kernel takes is put together
again: Inductor's own code is then as it was.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fusetune.torch_compile.regions.operators import name_of

aten = torch.ops.aten

ONLINE = "prepare_softmax_online"


@dataclass(frozen=True)
class TakenApart:
    """The operator, what it read, and the nodes that stand for it in the graph. `made`: those that were not there
    before, the last first."""

    target: Any
    source: fx.Node
    dim: int
    largest: fx.Node
    total: fx.Node
    made: tuple[fx.Node, ...]


def take_apart(graph: fx.Graph) -> list[TakenApart]:
    """Rewrites every such operator of the graph, in place. Called under the graph's fake mode."""
    return [_taken_apart(graph, node) for node in list(graph.nodes) if name_of(node) == ONLINE]


def put_together(graph: fx.Graph, before: Sequence[TakenApart]) -> None:
    """Rewrites those back whose results are still in the graph: no kernel has them."""
    there = set(graph.nodes) if before else set()
    for one in before:
        if {one.source, one.largest, one.total} <= there:
            _put_together(graph, one)


def _taken_apart(graph: fx.Graph, node: fx.Node) -> TakenApart:
    source, dim = node.args
    assert isinstance(source, fx.Node)
    assert isinstance(dim, int)
    made: list[fx.Node] = []
    head = node

    def following(target: Any, *args: Any) -> fx.Node:
        """The operator on these, right behind `head`: the graph's own if it has one, since it reads nothing later."""
        nonlocal head
        reads = [arg for arg in args if isinstance(arg, fx.Node)]
        found = next((user for user in reads[-1].users if user.target is target and user.args == args), None)
        if found is None:
            with graph.inserting_after(head):
                found = graph.call_function(target, args)
            found.meta = {**node.meta, "val": target(*fx.node.map_arg(args, lambda x: x.meta["val"]))}
            made.insert(0, found)
        elif found is not head:
            head.append(found)
        head = found
        return found

    largest = following(aten.amax.default, source, [dim], True)
    _replace_part(node, 0, largest)
    apart = following(aten.exp.default, following(aten.sub.Tensor, source, largest))
    total = following(aten.sum.dim_IntList, apart, [dim], True)
    _replace_part(node, 1, total)
    graph.erase_node(node)
    return TakenApart(node.target, source, dim, largest, total, tuple(made))


def _replace_part(node: fx.Node, number: int, by: fx.Node) -> None:
    for user in list(node.users):
        if user.target is operator.getitem and user.args[1] == number:
            user.replace_all_uses_with(by)
            user.graph.erase_node(user)


def _put_together(graph: fx.Graph, one: TakenApart) -> None:
    values = one.largest.meta["val"], one.total.meta["val"]
    with graph.inserting_before(one.largest):
        node = graph.call_function(one.target, (one.source, one.dim))
        parts = [graph.call_function(operator.getitem, (node, n)) for n in range(2)]
    for made, value in zip((node, *parts), (values, *values), strict=True):
        made.meta = {**one.largest.meta, "val": value}
    one.largest.replace_all_uses_with(parts[0])
    one.total.replace_all_uses_with(parts[1])
    for made in one.made:
        if not made.users:
            graph.erase_node(made)
