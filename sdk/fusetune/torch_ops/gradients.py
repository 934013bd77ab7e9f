"""Autograd for an operator of a function under jit with `grad=True`.

Called as it is, the operator is the function under jit, whose two kernels autograd sees. Where it is traced its joint
graph becomes two operators, `NAME_forward` and `NAME_backward`: the one gives the results and what it saves beside
inputs and results, the other gradients of what was saved. Where sizes are open in the trace nothing can be decided for
all of them: `NAME_again` has the gradients of the inputs, for the sizes of each call.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx import Node
from torch.utils import _pytree as pytree

from fusetune.errors import CannotConvert, NotCached
from fusetune.graph.ambient import on_a_thread
from fusetune.jitting.call_key import NoKey, Outside
from fusetune.jitting.joint import Joint, JointHalf, joint_of

Define = Callable[[str, str, Callable[..., Any], Callable[..., Any]], Any]
"""Of a suffix, a schema, what runs and what it gives where nothing runs: the operator."""


@dataclass(frozen=True, eq=False)
class JointPlan:
    """How a kind of call is cut in two; `text` says which in every process."""

    joint: Joint
    text: str
    forward: Callable[..., list[torch.Tensor]]
    backward: Callable[..., list[torch.Tensor]]

    @cached_property
    def made(self) -> tuple[Node, ...]:
        """What the forward makes: results, then what is saved beside them."""
        return _made(self.joint.forward)

    @cached_property
    def gradients(self) -> tuple[Node, ...]:
        """What the backward makes."""
        return _made(self.joint.backward)


class Gradients:
    """The operator as autograd calls it."""

    def __init__(self, jitted: Any, operator: Any, define: Define) -> None:
        self.jitted, self.operator, self.function = jitted, operator, jitted.__wrapped__
        self._outside = Outside(self.function)
        self._plans: dict[object, JointPlan | None] = {}
        self._by_text: dict[str, JointPlan] = {}
        self._lock = threading.RLock()
        self._ahead = define(
            "_forward", "(Tensor[] values, str plan) -> Tensor[]",
            lambda values, plan: self._planned(plan, values).forward(*values),
            lambda values, plan: _own(self._planned(plan, values).joint.forward, values),
        )  # fmt: skip
        self._back = define(
            "_backward", "(Tensor[] saved, Tensor[] gradients, str plan) -> Tensor[]",
            lambda saved, gradients, plan: self._known(plan).backward(*saved, *gradients),
            lambda saved, gradients, plan: _own(self._known(plan).joint.backward, [*saved, *gradients]),
        )  # fmt: skip
        again = torch.no_grad()(jitted.part("again", _pulled(self.function), is_inside=True))
        self._again = define(
            "_again", "(Tensor[] values, Tensor[] gradients) -> Tensor[]",
            lambda values, gradients: [
                _laid(x, like.stride())
                for x, like in zip(again(values, gradients), map(_like, values), strict=True)
            ],
            lambda values, gradients: [torch.empty_like(x) for x in values],
        )  # fmt: skip

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A call of the operator, above autograd."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        if not torch.is_grad_enabled() or not any(x.requires_grad for x in tensors):
            return self._below(args, kwargs)
        if torch._C._functorch.peek_interpreter_stack() is not None:
            return self.function(*args, **kwargs)
        if not _is_traced(tensors):
            return self.jitted(*args, **kwargs)
        if any(isinstance(x, torch.SymInt | torch.SymFloat | torch.SymBool) for x in leaves):
            return self.function(*args, **kwargs)
        plan = self._plan(leaves, spec)
        if plan is None:
            return self.function(*args, **kwargs)
        if not any(isinstance(n, torch.SymInt) for x in tensors for n in (*x.shape, *x.stride())):
            return _saving(self, plan, tensors)
        # Numbers would have to be saved beside tensors.
        is_by_tensors = len(tensors) == len(leaves)
        return (
            _recomputing(self, plan.joint, args, kwargs, tensors) if is_by_tensors else self.function(*args, **kwargs)
        )

    def _below(self, args: Any, kwargs: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return self.operator(*args, **kwargs)

    def _plan(self, leaves: Sequence[Any], spec: Any) -> JointPlan | None:
        """How a call is cut; None for one that cannot be, or whose function reads tensors beside its arguments."""
        autocast = [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cuda", "cpu")]
        try:
            outside = self._outside.key()
        except NoKey:  # it reads a tensor that is traced, too
            return None
        key = (outside, str(spec), str(autocast), torch.get_default_dtype(), *map(_form, leaves))
        with self._lock:
            if key not in self._plans:
                made = self._plans[key] = self._cut(leaves, spec)
                if made is not None:
                    self._by_text.setdefault(made.text, made)
            return self._plans[key]

    def _cut(self, leaves: Sequence[Any], spec: Any) -> JointPlan | None:
        """Cut on a thread of its own, where no mode of the trace that is under way sees it."""
        needs = "".join(str(int(x.requires_grad)) for x in leaves if isinstance(x, torch.Tensor))
        try:
            joint = on_a_thread(lambda: joint_of(self.function, _stand_ins(leaves), spec, symbolic=False))
        except CannotConvert:
            return None  # such as an autograd.Function's own backward
        # An operator gives no input as a result, and takes no sizes beside tensors.
        if joint is None or joint.closed or not set(_results(joint)) <= set(_made(joint.forward)) or _has_sizes(joint):
            return None
        ahead, back = (
            torch.no_grad()(self.jitted.part(which, on_a_thread(partial(_runner, half)), is_inside=True))
            for which, half in (("forward", joint.forward), ("backward", joint.backward))
        )
        return JointPlan(joint, f"{needs}/{_digest(joint)}", ahead, back)

    def _known(self, text: str) -> JointPlan:
        if text not in self._by_text:
            raise NotCached(self.jitted.name, text, "its forward did not run in this process")
        return self._by_text[text]

    def _planned(self, text: str, values: Sequence[torch.Tensor]) -> JointPlan:
        """The plan of that text, made again in a process that has found compiled code of another. Raises NotCached."""
        if text not in self._by_text:
            needs = [n == "1" for n in text.partition("/")[0]]
            leaves = [x.detach().requires_grad_(one) for x, one in zip(values, needs, strict=True)]
            with suppress(TypeError):  # where it takes numbers too, which the code has forgotten
                self._plan(leaves, pytree.tree_flatten((tuple(leaves), {}))[1])
        return self._known(text)


def _saving(owner: Gradients, plan: JointPlan, tensors: Sequence[torch.Tensor]) -> Any:
    """A call whose backward reads what the forward has saved."""
    joint, at = plan.joint, {node: n for n, node in enumerate(plan.made)}
    results, count = _results(joint), len(joint.results.differentiable)
    saved = joint.forward.outputs[count:]
    inputs = {node: n for n, node in enumerate(joint.forward.inputs)}

    class Saving(torch.autograd.Function):
        """The two operators."""

        @staticmethod
        def forward(ctx: Any, *given: torch.Tensor) -> Any:
            made = owner._ahead(list(given), plan.text)
            ctx.save_for_backward(*(made[at[x]] if x in at else given[inputs[x]] for x in saved))
            found = tuple(made[at[x]] for x in results)
            _mark(ctx, found, joint)
            ctx.strides = [x.stride() for x in found]
            return found

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
            sides = zip(gradients, ctx.strides, joint.results.differentiable, strict=True)
            given = [_laid(x, strides) for x, strides, is_one in sides if is_one]
            read = [*ctx.saved_tensors, *given]
            made = owner._back(read[: len(ctx.saved_tensors)], given, plan.text) if plan.gradients else []
            values = dict(zip(joint.backward.inputs, read, strict=True)) | dict(zip(plan.gradients, made, strict=True))
            by_place = dict(zip(joint.needs, (values[x] for x in joint.backward.outputs), strict=True))
            return tuple(by_place.get(n) for n in range(len(tensors)))

    return joint.results.put_together(Saving.apply(*tensors))  # type: ignore[no-untyped-call]  # torch types no autograd.Function


def _recomputing(owner: Gradients, joint: Joint, args: Any, kwargs: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """A call whose backward makes the forward's values again."""

    class Recomputing(torch.autograd.Function):
        """The operator, and `_again`."""

        @staticmethod
        def forward(ctx: Any, *given: torch.Tensor) -> Any:
            found = [x for x in pytree.tree_leaves(owner._below(args, kwargs)) if isinstance(x, torch.Tensor)]
            ctx.save_for_backward(*given)
            _mark(ctx, found, joint)
            return tuple(found)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
            found = owner._again(list(ctx.saved_tensors), [x.contiguous() for x in gradients])
            return tuple(x if n in joint.needs else None for n, x in enumerate(found))

    return joint.results.put_together(Recomputing.apply(*tensors))  # type: ignore[no-untyped-call]  # torch types no autograd.Function


def _mark(ctx: Any, results: Sequence[torch.Tensor], joint: Joint) -> None:
    sides = zip(results, joint.results.differentiable, strict=True)
    ctx.mark_non_differentiable(*(x for x, is_one in sides if not is_one))


def _results(joint: Joint) -> tuple[Node, ...]:
    return joint.forward.outputs[: len(joint.results.differentiable)]


def _made(half: JointHalf) -> tuple[Node, ...]:
    """The outputs that are no inputs, each once."""
    return tuple(dict.fromkeys(x for x in half.outputs if x.op != "placeholder"))


def _has_sizes(joint: Joint) -> bool:
    nodes = (*joint.forward.inputs, *joint.forward.outputs, *joint.backward.inputs)
    return not all(isinstance(x.meta.get("val"), torch.Tensor) for x in nodes)


def _own(half: JointHalf, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What the half makes, by its graph's own operators, each in memory of its own."""
    return _runner(half)(*tensors)


def _runner(half: JointHalf) -> Callable[..., list[torch.Tensor]]:
    graph_module, wanted = half.graph_module, [half.outputs.index(x) for x in _made(half)]
    sharing = _sharing(half, wanted)

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        found = graph_module(*tensors)
        return [found[n].clone() if n in sharing else found[n] for n in wanted]

    return run


def _sharing(half: JointHalf, wanted: Sequence[int]) -> frozenset[int]:
    """Which of these outputs lie in the memory of an input, or of another output before."""
    with FakeTensorMode():
        given = [_new(*_described(x.meta["val"])) for x in half.inputs]
        found = half.graph_module(*given)
        taken, sharing = {_memory(x) for x in given}, set()
        for n in wanted:
            if _memory(found[n]) in taken:
                sharing.add(n)
            taken.add(_memory(found[n]))
    return frozenset(sharing)


def _memory(x: torch.Tensor) -> object:
    return x.untyped_storage()._cdata


def _digest(joint: Joint) -> str:
    """A hash of both halves, the same in every process."""
    forms = [str(_described(x.meta["val"])) for half in (joint.forward, joint.backward) for x in half.inputs]
    text = (joint.forward.graph_module.code, joint.backward.graph_module.code, *forms)
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:24]


def _is_traced(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether what is called stands for other calls, or somebody looks at what it dispatches."""
    plain = (torch.Tensor, torch.nn.Parameter)
    return torch._C._len_torch_dispatch_stack() > 0 or not all(type(x) in plain for x in tensors)


def _form(x: Any) -> object:
    """What a trace burns in of an argument."""
    if isinstance(x, torch.Tensor):
        return (*_described(x), x.requires_grad)
    return (float, x.hex()) if isinstance(x, float) else (type(x), x)


def _stand_ins(leaves: Sequence[Any]) -> list[Any]:
    with FakeTensorMode():
        return [
            _new(*_described(x)).requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in leaves
        ]


def _described(x: torch.Tensor) -> tuple[Any, ...]:
    """Sizes and strides, where they are open those of the call that is traced, dtype and device."""
    return tuple(map(_settled, x.shape)), tuple(map(_settled, x.stride())), x.dtype, x.device


def _settled(n: Any) -> Any:
    return n.node.hint if isinstance(n, torch.SymInt) else n


def _new(shape: Any, strides: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype, device=device)


def _like(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x, device="meta")


def _laid(x: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """A tensor of these strides, which tracing says it has."""
    if x.stride() == tuple(strides):
        return x
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)


def _pulled(function: Callable[..., Any]) -> Callable[..., list[torch.Tensor]]:
    """The gradients of all inputs, for those of the outputs; the forward is made again."""

    def of_floats(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x for x in pytree.tree_leaves(function(*values)) if _is_float(x))

    def pulled(values: list[torch.Tensor], gradients: list[torch.Tensor]) -> list[torch.Tensor]:
        pull = torch.func.vjp(of_floats, *values)[1]
        return [x.clone() for x in pull(tuple(x for x in gradients if _is_float(x)))]

    return pulled


def _is_float(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())
