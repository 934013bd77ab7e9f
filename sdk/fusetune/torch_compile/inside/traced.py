"""What Dynamo traced, kept so that it can be compiled again when it is no longer traced."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from fusetune.graph.ambient import Ambient

_OF_DYNAMO = ("_param_name_to_source", "_source_to_user_stacks")
"""What AOTAutograd reads off a graph of Dynamo's beside its nodes."""


class TracedGraph:
    """A graph of Dynamo's with what was ambient. A compilation takes its graph over: each gets a copy."""

    def __init__(self, gm: fx.GraphModule) -> None:
        self._kept = copied(gm)
        self.ambient = Ambient.now()

    def copy(self) -> fx.GraphModule:
        """The graph, to be taken over."""
        return copied(self._kept)

    def key(self, inputs: Sequence[Any], *facts: str) -> str:
        """A hash of the graph, the forms of its inputs, what was ambient and `facts`. The same in every process; that
        two graphs share one does no harm, as it only says which kernels to look for."""
        text = self._kept.print_readable(print_output=False, include_stride=False, include_device=False)
        said = (text, [_form(x) for x in inputs], str(self.ambient), torch.__version__, facts)
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def fakes_of(inputs: Sequence[Any]) -> list[Any]:
    """Stand-ins of the same sizes, strides, memory shared and gradients needed, in a mode of their own."""
    mode = FakeTensorMode()
    return [mode.from_tensor(x, static_shapes=True) if isinstance(x, torch.Tensor) else x for x in inputs]


def may_be_compiled_again(inputs: Sequence[Any]) -> bool:
    """Whether stand-ins can be made: not of tensors that are fake, or made of several."""
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    return not any(isinstance(x, FakeTensor) or is_traceable_wrapper_subclass(x) for x in tensors)


def open_positions(inputs: Sequence[Any], gm: fx.GraphModule) -> tuple[int, ...] | None:
    """The inputs whose sizes are open in the graph, numbers among them; None if no size is."""
    nodes = [node for node in gm.graph.nodes if node.op == "placeholder"]
    values = [node.meta.get("example_value", given) for node, given in zip(nodes, inputs, strict=False)]
    found = tuple(n for n, value in enumerate(values) if _is_open(value))
    return found or None


def sizes_at(inputs: Sequence[Any], positions: Sequence[int]) -> tuple[Any, ...]:
    """What settles the sizes that are open."""
    return tuple(
        (tuple(x.shape), x.stride(), x.storage_offset()) if isinstance(x := inputs[n], torch.Tensor) else x
        for n in positions
    )


def copied(gm: fx.GraphModule) -> fx.GraphModule:
    """Another module with the same graph. What it holds is shared."""
    graph = fx.Graph()
    places: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(gm.graph, places))
    for old, new in places.items():
        new.meta = dict(old.meta)
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    found = fx.GraphModule(gm, graph)
    found.meta = dict(gm.meta)
    for name in _OF_DYNAMO:
        if hasattr(gm, name):
            setattr(found, name, getattr(gm, name))
    return found


def _is_open(value: Any) -> bool:
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return True
    if not isinstance(value, torch.Tensor):
        return False
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    return any(isinstance(n, torch.SymInt) for n in numbers)


def _form(x: Any) -> object:
    if not isinstance(x, torch.Tensor):
        return repr(x)
    return [str(x.dtype), list(x.shape), list(x.stride()), x.device.type, x.requires_grad]
