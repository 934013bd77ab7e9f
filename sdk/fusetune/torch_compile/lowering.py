"""A region as a fusion: traced again with operators taken apart, once for all regions that are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fusetune.errors import CannotConvert, FusetuneError
from fusetune.graph import Captured, Converted, capture, decompositions, to_fusion, why_not
from fusetune.graph.sizes import is_open, worked_out
from fusetune.torch_compile.drawing import drawing_calls, drawing_nodes
from fusetune.torch_compile.program import Boxed, calls_of, program
from fusetune.torch_compile.regions.columns import POINTWISE
from fusetune.torch_compile.regions.operators import VIEWS, name_of, values_of
from fusetune.torch_compile.regions.region import Region

MOST_TRACED = 15
"""Of an operator over more tensors the rule for one says whether it can be said: none of it is traced."""

NEVER = frozenset({
    "mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward", "embedding_dense_backward",
})  # fmt: skip
"""What tracing again would take apart, and what its own library does better."""


@dataclass(frozen=True)
class Lowered:
    """A region's fusion. `captured` is the trace that it is of; its placeholders are the region's tensors, in order."""

    captured: Captured
    converted: Converted


def eager_of(region: Region, name: str) -> Boxed:
    """The region's own operators, one after another."""
    return program(region.inputs, calls_of(region.nodes), tuple(region.outputs), name)


def drawing_eager_of(region: Region, name: str) -> Boxed:
    """The same, drawing a kernel's numbers: seed and offset come behind the region's inputs."""
    graph = fx.Graph()
    seed, offset = graph.placeholder("seed"), graph.placeholder("offset")
    calls = drawing_calls(region.nodes, seed, offset)
    return program((*region.inputs, seed, offset), calls, tuple(region.outputs), name)


def lowered(region: Region, eager: Boxed) -> Lowered:
    """The fusion of the region. Raises CannotConvert, InvalidFusion."""
    arguments = [node.meta["val"] for node in region.inputs]
    captured = capture(lambda *args: eager(_with_sizes(arguments, args)), arguments)
    if captured.closed:
        raise CannotConvert("the region", "tracing it again found tensors beside its inputs")
    # Functional operators taken apart may end in writes; what they write is among the outputs, if it is wanted.
    at = dict(zip(captured.placeholders, captured.arguments, strict=True))
    written = {n for n, node in enumerate(region.inputs) if node in region.written}
    nodes = [x for x in captured.nodes if x not in captured.writes or at.get(x.all_input_nodes[0]) in written]
    inputs = [node for node in captured.placeholders if isinstance(node.meta.get("val"), torch.Tensor)]
    converted = to_fusion(nodes, captured.returned, inputs=inputs, names=captured.names)
    if converted.draws != len(drawing_nodes(region.nodes)):
        raise CannotConvert("the region", "eager could not draw its random numbers in a kernel's order")
    return Lowered(captured, converted)


def _with_sizes(arguments: Sequence[Any], traced: Sequence[Any]) -> list[Any]:
    """What is traced, with numbers that follow from the sizes of its tensors worked out of those."""
    sizes = {
        getattr(getattr(size, "node", None), "expr", None): found
        for value, x in zip(arguments, traced, strict=True)
        if isinstance(value, torch.Tensor)
        for size, found in zip((*value.shape, *value.stride()), (*x.shape, *x.stride()), strict=True)
    }
    for value in filter(is_open, arguments):
        if value.node.expr not in sizes and not value.node.expr.free_symbols <= sizes.keys():
            raise CannotConvert("the region", f"its number {value} follows from no size of its tensors")
    return [worked_out(x, sizes) if is_open(value) else x for value, x in zip(arguments, traced, strict=True)]


def positions_of(lowered: Lowered) -> list[int | None]:
    """For each tensor of the fusion the region's input that it is; None for what random numbers start from."""
    at = dict(zip(lowered.captured.placeholders, lowered.captured.arguments, strict=True))
    return [None if isinstance(x, str) else at[x] for x in lowered.converted.inputs]


class Sayable:
    """Whether fusions can say a node, as it is or taken apart; nodes of one kind are asked once."""

    def __init__(self, rng: str) -> None:
        self.rng = rng
        self._known: dict[object, bool] = {}

    def __call__(self, node: fx.Node) -> bool:
        """For the partitioner."""
        if self.rng == "eager" and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            return False
        if name_of(node) in NEVER or _is_told_otherwise(node):
            return False
        if name_of(node) in VIEWS or why_not(node) is None:
            return name_of(node) != "unfold" or why_not(node) is None
        if node.target not in decompositions():
            return False
        if name_of(node) in POINTWISE and len(values_of(node)) > MOST_TRACED:
            return True  # said at one place, or not at all
        key = alike((node,), node.all_input_nodes, (node,))
        if key not in self._known:
            self._known[key] = _can_be_taken_apart(node)
        return self._known[key]


def _is_told_otherwise(node: fx.Node) -> bool:
    """Whether torch traces a norm with other types than it has: on the CPU, of elements and weights of two types (as
    under autocast), statistics are f32 and traced as the elements' type. Eager makes them, and reads them."""
    if name_of(node) not in ("native_layer_norm", "native_layer_norm_backward"):
        return False
    read = [x for source in node.all_input_nodes for x in values_of(source)]
    return any(x.device.type == "cpu" for x in read) and len({x.dtype for x in read}) > 1


def _can_be_taken_apart(node: fx.Node) -> bool:
    inputs = node.all_input_nodes
    run: Boxed = program(inputs, calls_of((node,)), (node,), "one")
    is_tuple = not isinstance(node.meta.get("val"), torch.Tensor)

    def made(*args: Any) -> Any:
        (found,) = run(list(args))
        return tuple(x for x in found if isinstance(x, torch.Tensor)) if is_tuple else found

    try:
        captured = capture(made, [x.meta["val"] for x in inputs])
        return all(name_of(n) not in NEVER and why_not(n) is None for n in captured.nodes)
    except (FusetuneError, RuntimeError, TypeError, ValueError, AssertionError, KeyError):
        return False


def alike(nodes: Sequence[fx.Node], inputs: Sequence[fx.Node], outputs: Sequence[fx.Node]) -> object:
    """A value that is the same for parts of graphs that compute the same on tensors of the same form."""
    number: dict[fx.Node, int] = {node: n for n, node in enumerate((*inputs, *nodes))}
    return (
        tuple(_form(node) for node in inputs),
        tuple((str(n.target), _said((n.args, n.kwargs), lambda x: number.get(x, -1))) for n in nodes),
        tuple(number[node] for node in outputs),
    )


def _said(argument: Any, place: Callable[[fx.Node], int]) -> str:
    return str(fx.node.map_arg(argument, lambda node: f"%{place(node)}"))


def _form(node: fx.Node) -> object:
    value = node.meta.get("val")
    forms = tuple(
        (str(tuple(x.shape)), str(tuple(x.stride())), x.dtype, str(x.device), str(x.storage_offset()))
        for x in values_of(node)
    )
    return forms or str(value)
