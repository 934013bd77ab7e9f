"""Tracing a torch function: functional, taken apart, cleaned, with what it closes over as inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Interpreter, Node
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from fusetune.errors import CannotConvert
from fusetune.graph.clean import attribute, clean, is_write, numbers_as_literals
from fusetune.graph.convert import Converted, to_fusion
from fusetune.graph.decompositions import decompositions
from fusetune.graph.device_guard import keep_device_guard
from fusetune.graph.effects import nothing_kept
from fusetune.graph.lines import CHANGES_CLOSED, PASS_IT, line_of_error, recorded_lines
from fusetune.graph.writing import cannot_convert
from fusetune.wire.fusion import NON_FINITE, is_identifier

aten = torch.ops.aten


@dataclass(frozen=True)
class Captured:
    """The graph of one function for tensors of certain sizes, and what it takes and gives.

    `placeholders`: its inputs, those of `arguments` first: the positions, among the flattened arguments, of the
    tensors; then `closed`, tensors that the function closes over. `outputs`: the flattened results, nodes or what is
    no tensor.
    """

    graph_module: GraphModule
    placeholders: tuple[Node, ...]
    arguments: tuple[int, ...]
    closed: tuple[torch.Tensor, ...]
    outputs: tuple[Any, ...]
    out_spec: Any
    names: Mapping[Node, str]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The operators, in order."""
        return tuple(n for n in self.graph_module.graph.nodes if n.op == "call_function")

    @property
    def writes(self) -> tuple[Node, ...]:
        """The copies at the end, into inputs that the function changes."""
        return tuple(n for n in self.nodes if n.target is aten.copy_.default)

    @property
    def returned(self) -> tuple[Node, ...]:
        """The nodes among the outputs, each once."""
        return tuple(dict.fromkeys(x for x in self.outputs if isinstance(x, Node)))

    def converted(self, *, each_output: bool = False) -> Converted:
        """The whole graph as one fusion. Raises CannotConvert."""
        inputs = [n for n in self.placeholders if isinstance(n.meta.get("val"), torch.Tensor)]
        outputs = [x for x in self.outputs if isinstance(x, Node)] if each_output else self.returned
        return to_fusion(self.nodes, outputs, inputs=inputs, names=self.names, each_output=each_output)

    def fusion(self) -> Any:
        """The whole graph as a fusion with an output for each tensor that is returned. Raises CannotConvert."""
        return self.converted(each_output=True).fusion

    def tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> tuple[torch.Tensor, ...]:
        """What a call passes for the placeholders, closed-over tensors included."""
        flat = pytree.tree_leaves((tuple(args), dict(kwargs or {})))
        return (*(flat[i] for i in self.arguments), *self.closed)

    def result(self, values: Mapping[Node, torch.Tensor]) -> Any:
        """The function's result, of the values of `returned`."""
        return pytree.tree_unflatten([values[x] if isinstance(x, Node) else x for x in self.outputs], self.out_spec)


def capture(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    symbolic: bool = False,
) -> Captured:
    """Trace `fn` for tensors like those of `args` and `kwargs`, which may be fake or meta tensors; nothing is computed.

    What is no tensor is burned in, as is every decision of Python; `symbolic` leaves sizes open where the function
    does. Raises CannotConvert where the trace needs data, with the line.
    """
    kwargs = dict(kwargs or {})
    flat, spec = pytree.tree_flatten((tuple(args), kwargs))
    positions = tuple(i for i, x in enumerate(flat) if isinstance(x, torch.Tensor))
    if (sparse := next((flat[i].layout for i in positions if flat[i].layout is not torch.strided), None)) is not None:
        raise CannotConvert("the arguments", f"a tensor of layout {sparse}", "Pass it dense: to_dense().")
    told: dict[str, Any] = {}
    # What a module holds goes in as arguments do, so that it may change its buffers.
    held = {**dict(fn.named_parameters()), **dict(fn.named_buffers())} if isinstance(fn, torch.nn.Module) else {}

    def called(own: Sequence[torch.Tensor], args: Any, kwargs: Any) -> Any:
        if not isinstance(fn, torch.nn.Module):
            with nothing_kept(fn):
                return fn(*args, **kwargs)
        named = {f"module.{name}": x for name, x in zip(held, own, strict=True)}
        return torch.func.functional_call(_KeepingNothing(fn), named, args, kwargs)

    def traced(*everything: torch.Tensor) -> Any:
        tensors, own = everything[: len(positions)], everything[len(positions) :]
        given = list(flat)
        for position, tensor in zip(positions, tensors, strict=True):
            given[position] = tensor
        call_args, call_kwargs = pytree.tree_unflatten(given, spec)
        with recorded_lines():
            found, told["spec"] = pytree.tree_flatten(called(own, call_args, call_kwargs))
        told["plain"] = {i: x for i, x in enumerate(found) if not isinstance(x, torch.Tensor)}
        return tuple(x for x in found if isinstance(x, torch.Tensor))

    gm = _traced(traced, [*(flat[i] for i in positions), *held.values()], symbolic)
    closed = (*_used(gm, held, len(positions)), *_lift_closed(gm))
    clean(gm)
    placeholders = tuple(n for n in gm.graph.nodes if n.op == "placeholder")
    results = iter(next(n for n in gm.graph.nodes if n.op == "output").args[0])
    count = len(told["plain"]) + len(next(n for n in gm.graph.nodes if n.op == "output").args[0])
    outputs = tuple(told["plain"][i] if i in told["plain"] else next(results) for i in range(count))
    names = _names(fn, flat, spec, positions)
    named = dict(zip(placeholders, (*names, *(f"closed{i}" for i in range(len(closed)))), strict=False))
    return Captured(gm, placeholders, positions, closed, outputs, told["spec"], named)


class _KeepingNothing(torch.nn.Module):
    """A module that may write into its buffers, and put nothing else in their places."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives. Raises CannotConvert."""
        with nothing_kept(self.module):
            return self.module(*args, **kwargs)


def from_torch(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`from_torch(fn)(*tensors)` is the fusion that computes `fn` on tensors like these, on whatever device: its
    inputs are the tensors in order, then those that `fn` closes over, its outputs what `fn` returns and the inputs
    that it changes. Raises CannotConvert, which names the operator and the line."""

    def lower(*args: Any, **kwargs: Any) -> Any:
        return capture(fn, args, kwargs).fusion()

    return lower


def _used(gm: GraphModule, held: Mapping[str, torch.Tensor], arguments: int) -> Iterator[torch.Tensor]:
    """The tensors of a module that its graph reads or changes; placeholders of others go."""
    own = [n for n in gm.graph.nodes if n.op == "placeholder"][arguments:]
    for node, tensor in zip(own, held.values(), strict=True):
        if node.users:
            yield tensor
        else:
            gm.graph.erase_node(node)


def _traced(traced: Callable[..., Any], tensors: Sequence[torch.Tensor], symbolic: bool) -> GraphModule:
    keep_device_guard()
    mode: Any = "symbolic" if symbolic else "fake"
    make = make_fx(
        torch.func.functionalize(traced),
        decomposition_table=decompositions(),
        tracing_mode=mode,
        _allow_non_fake_inputs=True,
    )
    try:
        return _functional(make(*(x.detach() for x in tensors)))
    except CannotConvert:
        raise
    except Exception as error:
        if "mutating a non-functional tensor" in str(error):
            raise CannotConvert("the trace", CHANGES_CLOSED, PASS_IT, line_of_error(error)) from error
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        fix = "A fusion cannot decide by what a tensor holds: choose by torch.where." if _asks_data(error) else ""
        raise CannotConvert("the trace", reason, fix, line_of_error(error)) from error


def _functional(gm: GraphModule) -> GraphModule:
    """The graph without writes but those at its end: what decompositions write is made functional in a second trace."""
    writes = [n for n in gm.graph.nodes if is_write(n) and not _writes_input(n)]
    for node in writes:
        if any(x.op == "get_attr" for x in node.all_input_nodes):
            raise cannot_convert(node, CHANGES_CLOSED, PASS_IT)
    if not writes:
        return gm
    values = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]

    def again(*tensors: torch.Tensor) -> Any:
        with fx_traceback.preserve_node_meta():
            return Interpreter(gm).run(*tensors)

    mode = detect_fake_mode(values)
    with mode if mode is not None else nullcontext():
        return make_fx(torch.func.functionalize(again), _allow_non_fake_inputs=True)(*values)


def _writes_input(node: Node) -> bool:
    return node.target is aten.copy_.default and isinstance(node.args[0], Node) and node.args[0].op != "call_function"


def _asks_data(error: Exception) -> bool:
    return type(error).__name__ in ("GuardOnDataDependentSymNode", "DataDependentOutputException") or (
        "data-dependent" in str(error) or "aten._local_scalar_dense" in str(error)
    )


def _lift_closed(gm: GraphModule) -> tuple[torch.Tensor, ...]:
    """Tensors that the graph holds become placeholders, one a tensor; numbers made in the function become literals."""
    numbers_as_literals(gm)
    graph = gm.graph
    lifted: dict[int, tuple[Node, torch.Tensor]] = {}
    last = [n for n in graph.nodes if n.op == "placeholder"]
    for node in [n for n in graph.nodes if n.op == "get_attr"]:
        held = attribute(gm, node)
        if not isinstance(held, torch.Tensor):
            continue
        if id(held) not in lifted:
            anchor = last[-1] if last else next(iter(graph.nodes))
            with graph.inserting_after(anchor) if last else graph.inserting_before(anchor):
                made = graph.placeholder(f"closed{len(lifted)}")
            made.meta["val"] = node.meta.get("val", held)
            last.append(made)
            lifted[id(held)] = (made, held)
        node.replace_all_uses_with(lifted[id(held)][0])
        graph.erase_node(node)
    return tuple(held for _, held in lifted.values())


def _names(fn: Callable[..., Any], flat: Sequence[Any], spec: Any, positions: Sequence[int]) -> list[str]:
    """What the tensors are called: the parameters that they are passed as, or a number where one holds several."""
    args, kwargs = pytree.tree_unflatten(list(range(len(flat))), spec)
    try:
        bound = inspect.signature(fn).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return [f"i{n}" for n in range(len(positions))]
    named: dict[int, str] = {}
    for parameter, leaves in bound.items():
        found = pytree.tree_leaves(leaves)
        named |= {leaf: parameter if len(found) == 1 else f"{parameter}{n}" for n, leaf in enumerate(found)}
    names = [named.get(i, f"i{i}") for i in positions]
    fits = len(set(names)) == len(names) and all(is_identifier(n) and n not in NON_FINITE for n in names)
    return names if fits else [f"i{n}" for n in range(len(positions))]
