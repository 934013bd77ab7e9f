"""Puts calls of kernels into a graph, in the places of regions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

import fusetune.torch_ops  # noqa: F401 (registers fusetune::run)
from fusetune.torch_compile.inside.regions import PortableRegion
from fusetune.torch_compile.regions.order import steps_of
from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.regions.units import UnitGraph

RUN = torch.ops.fusetune.run.default


@dataclass(frozen=True)
class Replacement:
    """A region, what it is elsewhere, and the key of the kernel that runs it (`fusetune::run`)."""

    region: Region
    portable: PortableRegion
    key: str


def replace(flow: UnitGraph, replacements: Sequence[Replacement]) -> list[Replacement]:
    """Rewrites the graph that `flow` is of, in place; returns those that are in it now: all whose results lie as the
    region's do. Called under the graph's fake mode.

    The graph is put into an order in which regions are whole: what writes into an input stays behind what reads it.
    """
    done = [x for x in replacements if _gives_alike(x)]
    of_region = {id(x.region): x for x in done}
    graph = flow.units[0].head.graph
    before = list(graph.nodes)
    head = _last_source(graph)
    kept: set[fx.Node] = {node for node in before if node.op != "call_function"}
    made: dict[fx.Node, fx.Node] = {}
    for step in steps_of(flow, [x.region for x in done]):
        if step.region is None:
            head = _move(head, step.nodes)
            kept.update(step.nodes)
        else:
            head = _put(head, of_region[id(step.region)], made)
    for old, new in made.items():
        old.replace_all_uses_with(new, delete_user_cb=lambda user: user in kept)
    for node in reversed(before):
        if node not in kept:
            graph.erase_node(node)
    graph.lint()
    return done


def _gives_alike(x: Replacement) -> bool:
    outputs = RUN([node.meta["val"] for node in _read(x)], x.key)
    found = [place.of(outputs) for place in x.portable.places]
    return all(_is_alike(mine, node.meta["val"]) for mine, node in zip(found, x.region.outputs, strict=True))


def _read(x: Replacement) -> list[fx.Node]:
    """What the kernel reads, in its order."""
    return [x.region.inputs[n] for n in x.portable.reads]


def _put(head: fx.Node, x: Replacement, results: dict[fx.Node, fx.Node]) -> fx.Node:
    """The call behind `head`, which reads the `results` of those before it and adds its own; the last node."""
    graph = head.graph
    inputs = [results.get(node, node) for node in _read(x)]
    values = [node.meta["val"] for node in inputs]
    stack = x.region.nodes[-1].meta.get("stack_trace")

    def made(target: Any, args: tuple[Any, ...], value: Any) -> fx.Node:
        nonlocal head
        with graph.inserting_after(head):
            head = graph.call_function(target, args)
        head.meta["val"] = value
        if stack is not None:
            head.meta["stack_trace"] = stack
        return head

    outputs = RUN(values, x.key)
    run = made(RUN, (inputs, x.key), outputs)
    run.meta["eager_input_vals"] = ((values, x.key), {})  # Inductor brings inputs into these strides, or leaves them so
    parts = [made(operator.getitem, (run, n), value) for n, value in enumerate(outputs)]
    for place, old in zip(x.portable.places, x.region.outputs, strict=True):
        results[old] = parts[place.position]
        if place.size is not None:
            view = (list(place.size), list(place.strides), place.offset)
            results[old] = made(torch.ops.aten.as_strided.default, (results[old], *view), place.of(outputs))
    return head


def _is_alike(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether two tensors are of one type and lie alike; strides of dimensions of size 1 say nothing."""
    if mine.dtype != theirs.dtype or tuple(mine.shape) != tuple(theirs.shape):
        return False
    strides = zip(mine.shape, mine.stride(), theirs.stride(), strict=True)
    return all(size == 1 or one == other for size, one, other in strides)


def _last_source(graph: fx.Graph) -> fx.Node:
    """The last of what comes from outside; the operators are put behind it."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    head = placeholders[-1] if placeholders else graph._root
    return _move(head, [node for node in graph.nodes if node.op == "get_attr"])


def _move(head: fx.Node, nodes: Sequence[fx.Node]) -> fx.Node:
    for node in nodes:
        head.append(node)
        head = node
    return head
