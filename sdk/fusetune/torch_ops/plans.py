"""How a kind of call is cut into the two operators of its joint graph, in every process alike."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from fusetune.errors import CannotConvert
from fusetune.graph.ambient import on_a_thread
from fusetune.jitting.joint import Joint, JointHalf, joint_of, part_of
from fusetune.torch_ops.forms import CallTensor, SizeConditions, StandIns, example, is_open, said, stand_ins, written

Runner = Callable[..., list[torch.Tensor]]


@dataclass(frozen=True, eq=False)
class JointPlan:
    """How a kind of call is cut in two; `text` says which in every process. Where sizes are open in it `conditions` say
    of which calls it is. `sizes`: of a call's tensors, the numbers that the backward takes beside tensors."""

    joint: Joint
    text: str
    forward: Runner
    backward: Runner
    sizes: GraphModule | None = None
    conditions: SizeConditions | None = None

    @cached_property
    def made(self) -> tuple[Node, ...]:
        """What the forward makes: results, then what is saved beside them."""
        return made_by(self.joint.forward)

    @cached_property
    def gradients(self) -> tuple[Node, ...]:
        """What the backward makes."""
        return made_by(self.joint.backward)

    @cached_property
    def saved(self) -> tuple[Node, ...]:
        """The tensors that the backward reads beside gradients, as the forward has them."""
        named = {x.name: x for x in self.joint.forward.outputs}
        tensors = [x for x in self.joint.backward.inputs if _is_tensor(x)]
        return tuple(named[x.name] for x in tensors[: len(tensors) - sum(self.joint.results.differentiable)])

    def is_of(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether it is how to cut a call of this form, with these sizes in the place of open ones."""
        return self.conditions is None or self.conditions.hold_by_example(tensors)

    def sizes_of(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """Numbers, open as the sizes are."""
        return [] if self.sizes is None else list(self.sizes(*tensors))


def cut(jitted: Any, leaves: Sequence[Any], spec: Any) -> JointPlan | None:
    """The plan of a call with these arguments, tensors as forms; None for one that cannot be cut. It is traced on a
    thread of its own, where no mode of the trace that is under way sees it."""

    def traced() -> tuple[Joint | None, StandIns]:
        given = stand_ins(leaves)
        return joint_of(jitted.__wrapped__, given.leaves, spec, symbolic=given.env is not None), given

    try:
        joint, given = on_a_thread(traced)
    except CannotConvert:
        return None  # such as an autograd.Function's own backward
    # An operator gives no input as a result.
    if joint is None or joint.closed or not all(map(_is_tensor, joint.forward.inputs)):
        return None
    if not set(results_of(joint)) <= set(made_by(joint.forward)):
        return None
    if given.env is not None and given.env.deferred_runtime_asserts:
        return None
    joint = joint.with_backward(_with_sizes_of_tensors(joint.backward))
    taken = [x for x in joint.backward.inputs if not _is_tensor(x)]
    named = {x.name: x for x in joint.forward.outputs}
    if not {x.name for x in taken} <= named.keys():
        return None
    forward = joint.forward
    sizes = None
    if taken:
        sizes = part_of(forward.graph_module.graph, forward.inputs, [named[x.name] for x in taken]).graph_module
    ahead, back = (
        torch.no_grad()(jitted.part(which, on_a_thread(partial(runner, half)), is_inside=True))
        for which, half in (("forward", joint.forward), ("backward", joint.backward))
    )
    conditions = None if given.env is None else SizeConditions(given.env, given.symbols)
    return JointPlan(joint, _text(joint, leaves, spec), ahead, back, sizes, conditions)


def runner(half: JointHalf) -> Runner:
    """What runs the half's own operators: of its tensors in order, and then its numbers, what it makes, each in memory
    of its own."""
    graph_module, wanted = half.graph_module, [half.outputs.index(x) for x in made_by(half)]
    sharing, tensors = _sharing(half, wanted), sum(map(_is_tensor, half.inputs))

    def run(*values: Any) -> list[torch.Tensor]:
        rest, numbers = iter(values[:tensors]), iter(values[tensors:])
        found = graph_module(*(next(rest if _is_tensor(x) else numbers) for x in half.inputs))
        return [found[n].clone() if n in sharing else found[n] for n in wanted]

    return run


def results_of(joint: Joint) -> tuple[Node, ...]:
    """The nodes of what a call returns."""
    return joint.forward.outputs[: len(joint.results.differentiable)]


def made_by(half: JointHalf) -> tuple[Node, ...]:
    """The tensors among its outputs that are no inputs, each once."""
    return tuple(dict.fromkeys(x for x in half.outputs if x.op != "placeholder" and _is_tensor(x)))


def _is_tensor(x: Node) -> bool:
    return isinstance(x.meta.get("val"), torch.Tensor)


def _with_sizes_of_tensors(half: JointHalf) -> JointHalf:
    """The half with numbers that a tensor of it has for a size read there: its fusion then has them open."""
    graph = half.graph_module.graph
    tensors = [x for x in half.inputs if _is_tensor(x)]
    places = [(n, (x, d)) for x in reversed(tensors) for d, n in enumerate(x.meta["val"].shape)]
    by_expression = {said(n): place for n, place in places if is_open(n)}
    last = half.inputs[-1] if half.inputs else None
    for node in [x for x in half.inputs if not _is_tensor(x)]:
        number = node.meta.get("val")
        place = by_expression.get(said(number)) if is_open(number) else None
        if place is None:
            continue
        with graph.inserting_after(last):
            read = graph.call_function(torch.ops.aten.sym_size.int, place)
        read.meta["val"] = number
        node.replace_all_uses_with(read)
        graph.erase_node(node)
    half.graph_module.recompile()
    return half.again()


def _sharing(half: JointHalf, wanted: Sequence[int]) -> frozenset[int]:
    """Which of these outputs lie in the memory of an input, or of another output before."""
    with FakeTensorMode():
        given = [_example_of(x.meta["val"]) for x in half.inputs]
        found = half.graph_module(*given)
        taken, sharing = {_memory(x) for x in given if isinstance(x, torch.Tensor)}, set()
        for n in wanted:
            if _memory(found[n]) in taken:
                sharing.add(n)
            taken.add(_memory(found[n]))
    return frozenset(sharing)


def _example_of(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return example(x)
    form = CallTensor.of(x)
    return torch.empty_strided(form.shape, form.strides, dtype=form.dtype, device=form.device)


def _memory(x: torch.Tensor) -> object:
    return x.untyped_storage()._cdata


def _text(joint: Joint, leaves: Sequence[Any], spec: Any) -> str:
    """A hash of both halves, the same in every process, and how to come by them there, where that can be written."""
    values = [x.meta["val"] for half in (joint.forward, joint.backward) for x in half.inputs]
    forms = [str(CallTensor.of(x)) if isinstance(x, torch.Tensor) else str(example(x)) for x in values]
    text = (joint.forward.graph_module.code, joint.backward.graph_module.code, *forms)
    digest = hashlib.sha256("\n".join(text).encode()).hexdigest()[:24]
    told = written(leaves)
    return digest if told is None else f"{digest}/{told}/{pytree.treespec_dumps(spec)}"
