"""Autograd for an operator of a function under jit with `grad=True`.

Called as it is, the operator is the function under jit, whose two kernels autograd sees. Where it is traced its joint
graph becomes two operators, `NAME_forward` and `NAME_backward`: the one gives the results and what it saves beside
inputs and results, the other gradients of what was saved. Sizes that the trace has open are open in both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fusetune.errors import NotCached
from fusetune.graph.precision import precision_of_f32
from fusetune.jitting.call_key import NoKey
from fusetune.jitting.joint import Joint
from fusetune.jitting.outside import Outside
from fusetune.torch_ops.forms import CallTensor, read
from fusetune.torch_ops.plans import JointPlan, cut, results_of, runner

Define = Callable[[str, str, Callable[..., Any], Callable[..., Any]], Any]
"""Of a suffix, a schema, what runs and what it gives where nothing runs: the operator."""


class Gradients:
    """The operator as autograd calls it."""

    def __init__(self, jitted: Any, operator: Any, define: Define) -> None:
        self.jitted, self.operator, self.function = jitted, operator, jitted.__wrapped__
        self._outside = Outside(self.function)
        self._plans: dict[object, list[JointPlan | None]] = {}
        self._by_text: dict[str, JointPlan] = {}
        self._lock = threading.RLock()
        self._ahead = define(
            "_forward", "(Tensor[] values, str plan) -> Tensor[]",
            lambda values, plan: self._planned(plan, values).forward(*values),
            lambda values, plan: runner(self._planned(plan, values).joint.forward)(*values),
        )  # fmt: skip
        self._back = define(
            "_backward", "(Tensor[] saved, SymInt[] sizes, Tensor[] gradients, str plan) -> Tensor[]",
            lambda saved, sizes, gradients, plan: self._known(plan).backward(*saved, *gradients, *sizes),
            lambda saved, sizes, gradients, plan: runner(self._known(plan).joint.backward)(*saved, *gradients, *sizes),
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
        plan = None if _has_unknown_sizes(tensors) else self._plan(leaves, spec)
        if plan is None or (plan.conditions is not None and not plan.conditions.demand(tensors)):
            return self.function(*args, **kwargs)
        return _saving(self, plan, tensors)

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
        forms = [CallTensor.of(x) if isinstance(x, torch.Tensor) else x for x in leaves]
        key = (outside, str(spec), str(autocast), torch.get_default_dtype(), precision_of_f32(), *map(_key_of, forms))
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        with self._lock:
            known = self._plans.setdefault(key, [])
            for found in known:
                if found is None or found.is_of(tensors):
                    return found
            known.append(self._cut(forms, spec))
            return known[-1]

    def _cut(self, forms: Sequence[Any], spec: Any) -> JointPlan | None:
        made = cut(self.jitted, forms, spec)
        return None if made is None else self._by_text.setdefault(made.text, made)

    def _known(self, text: str) -> JointPlan:
        if text not in self._by_text:
            raise NotCached(self.jitted.name, text.partition("/")[0], "its forward did not run in this process")
        return self._by_text[text]

    def _planned(self, text: str, values: Sequence[torch.Tensor]) -> JointPlan:
        """The plan of that text, made again in a process that has found compiled code of another. Raises NotCached."""
        _, is_told, told = text.partition("/")
        if text not in self._by_text and is_told:
            forms, _, spec = told.rpartition("]/")
            leaves = read(f"{forms}]")
            tensors = [x for x in leaves if isinstance(x, CallTensor)]
            if len(tensors) == len(values) and all(x.fits(y) for x, y in zip(tensors, values, strict=True)):
                self._cut(leaves, pytree.treespec_loads(spec))
        return self._known(text)


def _saving(owner: Gradients, plan: JointPlan, tensors: Sequence[torch.Tensor]) -> Any:
    """A call whose backward reads what the forward has saved."""
    joint, at = plan.joint, {node: n for n, node in enumerate(plan.made)}
    results = results_of(joint)
    inputs = {node: n for n, node in enumerate(joint.forward.inputs)}

    class Saving(torch.autograd.Function):
        """The two operators."""

        @staticmethod
        def forward(ctx: Any, *given: torch.Tensor) -> Any:
            made = owner._ahead(list(given), plan.text)
            ctx.save_for_backward(*(made[at[x]] if x in at else given[inputs[x]] for x in plan.saved))
            found = tuple(made[at[x]] for x in results)
            _mark(ctx, found, joint)
            ctx.strides, ctx.sizes = [x.stride() for x in found], plan.sizes_of(given)
            return found

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
            sides = zip(gradients, ctx.strides, joint.results.differentiable, strict=True)
            given = [_laid(x, strides) for x, strides, is_one in sides if is_one]
            saved = ctx.saved_tensors
            tensors_read = [x for x in joint.backward.inputs if isinstance(x.meta.get("val"), torch.Tensor)]
            known = dict(zip(tensors_read, [*saved, *given], strict=True))
            if plan.gradients:
                made = owner._back(list(saved), ctx.sizes, given, plan.text)
                known |= dict(zip(plan.gradients, made, strict=True))
            by_place = dict(zip(joint.needs, (known[x] for x in joint.backward.outputs), strict=True))
            return tuple(by_place.get(n) for n in range(len(tensors)))

    return joint.results.put_together(Saving.apply(*tensors))  # type: ignore[no-untyped-call]  # torch types no autograd.Function


def _mark(ctx: Any, results: Sequence[torch.Tensor], joint: Joint) -> None:
    sides = zip(results, joint.results.differentiable, strict=True)
    ctx.mark_non_differentiable(*(x for x, is_one in sides if not is_one))


def _is_traced(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether what is called stands for other calls, or somebody looks at what it dispatches."""
    plain = (torch.Tensor, torch.nn.Parameter)
    return torch._C._len_torch_dispatch_stack() > 0 or not all(type(x) in plain for x in tensors)


def _has_unknown_sizes(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether there are sizes of which the trace has no example, such as how many elements are chosen."""
    return any(isinstance(n, torch.SymInt) and not n.node.has_hint() for x in tensors for n in (*x.shape, *x.stride()))


def _key_of(x: Any) -> object:
    """What a trace burns in of an argument."""
    if isinstance(x, CallTensor):
        return x.key
    return (float, x.hex()) if isinstance(x, float) else (type(x), x)


def _laid(x: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """A tensor of these strides, which tracing says it has."""
    if x.stride() == tuple(strides):
        return x
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)
