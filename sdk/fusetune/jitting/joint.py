"""A function's forward and backward as two graphs, cut from one: what the one saves for the other is decided on both.

The cut is that of torch's min-cut partitioner: as few bytes as can be go from the one to the other, and what costs
little is made again. Where to make everything again from the inputs moves clearly less, that is done, unless a decision
would read what is made again (`torch_compile.regions.bits`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fusetune.errors import CannotConvert
from fusetune.graph import Captured, capture
from fusetune.graph.device_guard import keep_device_guard
from fusetune.graph.effects import nothing_kept
from fusetune.graph.lines import CHANGES_CLOSED, PASS_IT

CLEARLY_LESS = 0.95
"""What the cut saves beside inputs and results is mostly one number a row, less than folding the rows again costs."""


@dataclass(frozen=True)
class Results:
    """What a call returns: `spec` of its structure; `plain`: what is no tensor, by place; for each tensor whether
    gradients go through it."""

    spec: Any
    plain: dict[int, Any]
    differentiable: tuple[bool, ...]

    def put_together(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The result, of its tensors in order."""
        rest, count = iter(tensors), len(self.plain) + len(self.differentiable)
        return pytree.tree_unflatten(
            [self.plain[i] if i in self.plain else next(rest) for i in range(count)], self.spec
        )


@dataclass(frozen=True)
class JointHalf:
    """A graph, with its inputs and outputs in order. Inputs that are no tensors are sizes."""

    graph_module: GraphModule
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Its operators, in order."""
        return tuple(n for n in self.graph_module.graph.nodes if n.op == "call_function")

    @property
    def moved_bytes(self) -> int:
        """What a kernel of it reads and writes at least."""
        from fusetune.torch_compile.regions.operators import bytes_of

        ends = {*(x for x in self.inputs if x.users), *self.outputs}
        return sum(bytes_of(x.meta["val"]) for x in ends if isinstance(x.meta.get("val"), torch.Tensor))

    def again(self) -> JointHalf:
        """The half of its graph as that is now."""
        return _half(self.graph_module)


@dataclass(frozen=True)
class Joint:
    """`forward` takes the call's tensors and then `closed`, what the function closes over, and gives its results and
    then what it saves: the inputs of `backward`, whose last ones are gradients of the results that have one. That gives
    the gradients of the tensors at `needs`."""

    results: Results
    needs: tuple[int, ...]
    closed: tuple[torch.Tensor, ...]
    forward: JointHalf
    backward: JointHalf

    @property
    def saved(self) -> int:
        """How many tensors the forward saves."""
        tensors = [x for x in self.backward.inputs if isinstance(x.meta.get("val"), torch.Tensor)]
        return len(tensors) - sum(self.results.differentiable)

    def with_backward(self, backward: JointHalf) -> Joint:
        """The same, its backward said otherwise."""
        return replace(self, backward=backward)


def joint_of(fn: Callable[..., Any], leaves: Sequence[Any], spec: Any, *, symbolic: bool) -> Joint | None:
    """The joint graph of a call, whose arguments are `leaves` in the structure `spec`; None if no gradients go through
    its results. Raises CannotConvert."""
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    needs = tuple(n for n, i in enumerate(places) if leaves[i].requires_grad)

    def called(*given: torch.Tensor) -> tuple[list[Any], Any]:
        every = list(leaves)
        for place, tensor in zip(places, given, strict=True):
            every[place] = tensor
        args, kwargs = pytree.tree_unflatten(every, spec)
        return pytree.tree_flatten(fn(*args, **kwargs))

    keep_device_guard()
    mode = detect_fake_mode(leaves) or FakeTensorMode(
        allow_non_fake_inputs=True, shape_env=ShapeEnv() if symbolic else None
    )
    tensors = [_as_fake(leaves[i], mode) for i in places]
    with nothing_kept(fn):
        results, tangents = _results(called, tensors, mode)
    if not tangents:
        return None
    count = len(tensors)

    def both(*given: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        inputs = list(given[:count])

        def of_needed(*needed: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
            for n, x in zip(needs, needed, strict=True):
                inputs[n] = x
            made = [x for x in called(*inputs)[0] if isinstance(x, torch.Tensor)]
            return tuple(x for x, is_one in zip(made, results.differentiable, strict=True) if is_one), tuple(made)

        pulled: Any = torch.func.vjp(of_needed, *(given[n] for n in needs), has_aux=True)
        _, pull, made = pulled
        with torch._C._DisableAutocast():  # as autograd does: what a backward reads has its type already
            return list(made), list(pull(given[count:]))

    with nothing_kept(fn):
        captured = capture(both, [*tensors, *tangents], symbolic=symbolic)
    if captured.writes:
        raise CannotConvert("the function", "it changes an input, and needs gradients", "Return what is new.")
    return _joint(captured, results, needs, range(count, count + len(tangents)))


def _results(
    called: Callable[..., tuple[list[Any], Any]], tensors: Sequence[torch.Tensor], mode: FakeTensorMode
) -> tuple[Results, list[torch.Tensor]]:
    """What a call returns, and stand-ins for the gradients of its results. Nothing is computed."""
    try:
        with mode, _OutsideStays():  # type: ignore[no-untyped-call]  # torch's mode has no types
            found, spec = called(*tensors)
            made = [x for x in found if isinstance(x, torch.Tensor)]
            tangents = [_new_like(x) for x in made if x.requires_grad]
    except CannotConvert:
        raise
    except Exception as error:
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        raise CannotConvert("the trace", reason) from error
    plain = {i: x for i, x in enumerate(found) if not isinstance(x, torch.Tensor)}
    return Results(spec, plain, tuple(x.requires_grad for x in made)), tangents


class _OutsideStays(TorchDispatchMode):
    """Refuses a write into a tensor of the program's own: it would be done, and not for a call."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for stated, given in zip(func._schema.arguments, args, strict=False):
            is_written = stated.alias_info is not None and stated.alias_info.is_write
            if is_written and any(not isinstance(x, FakeTensor) for x in pytree.tree_leaves(given)):
                raise CannotConvert("the function", CHANGES_CLOSED, PASS_IT)
        return func(*args, **(kwargs or {}))


def _as_fake(x: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    own = x.detach().requires_grad_(x.requires_grad)
    return own if isinstance(own, FakeTensor) else mode.from_tensor(own)


def _new_like(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)


def _joint(captured: Captured, results: Results, needs: tuple[int, ...], tangents: range) -> Joint:
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    from fusetune.torch_compile.regions.bits import is_kept, keeping_decisions

    for n, node in enumerate(captured.placeholders):  # the partitioner tells by names what is whose
        node.target = f"tangents_{n}" if n in tangents else f"primals_{n}"
    joint, count = captured.graph_module, len(results.differentiable)
    needs = _without_zeros(joint.graph, needs, count, {captured.placeholders[n] for n in tangents})
    halves = keeping_decisions(min_cut_rematerialization_partition)(joint, (), num_fwd_outputs=count)
    forward, backward = (_half(half) for half in halves)
    if not any(map(is_kept, joint.graph.nodes)):
        anew, again = _without_saving(joint.graph, count, tangents)
        if anew.moved_bytes + again.moved_bytes < CLEARLY_LESS * (forward.moved_bytes + backward.moved_bytes):
            forward, backward = anew, again
    return Joint(results, needs, captured.closed, forward, backward)


def _without_zeros(graph: Graph, needs: tuple[int, ...], count: int, tangents: set[Node]) -> tuple[int, ...]:
    """The needs that have a gradient: one that is made of no other is zero, and autograd has none for it."""
    end = next(n for n in graph.nodes if n.op == "output")
    results, gradients = _outputs(graph)[:count], _outputs(graph)[count:]
    kept = [(n, x) for n, x in zip(needs, gradients, strict=True) if tangents & _above(graph, [x])]
    end.args = ((*results, *(x for _, x in kept)),)
    return tuple(n for n, _ in kept)


def _without_saving(graph: Graph, count: int, tangents: range) -> tuple[JointHalf, JointHalf]:
    """The halves where the backward has inputs alone; the first `count` outputs are the forward's."""
    outputs, inputs = _outputs(graph), [n for n in graph.nodes if n.op == "placeholder"]
    needed = _above(graph, outputs[count:])
    primals = [node for n, node in enumerate(inputs) if n not in tangents]
    saved = [node for node in primals if node in needed]
    forward = part_of(graph, primals, [*outputs[:count], *saved])
    return forward, part_of(graph, [*saved, *inputs[tangents.start : tangents.stop]], outputs[count:])


def part_of(graph: Graph, inputs: Sequence[Node], outputs: Sequence[Node]) -> JointHalf:
    """The part of a graph that gives `outputs` of `inputs`."""
    made, wanted = Graph(), _above(graph, outputs)
    of = {node: made.node_copy(node) for node in inputs}
    for node in graph.nodes:
        if node in wanted and node not in of:
            of[node] = made.node_copy(node, of.__getitem__)
    made.output(tuple(of[node] for node in outputs))
    return _half(GraphModule({}, made))


def _above(graph: Graph, nodes: Sequence[Node]) -> set[Node]:
    found = set(nodes)
    for node in reversed(graph.nodes):
        if node in found:
            found.update(node.all_input_nodes)
    return found


def _half(gm: GraphModule) -> JointHalf:
    inputs = tuple(n for n in gm.graph.nodes if n.op == "placeholder")
    return JointHalf(gm, inputs, tuple(_outputs(gm.graph)))


def _outputs(graph: Graph) -> list[Node]:
    return pytree.tree_leaves(next(n for n in graph.nodes if n.op == "output").args)
