"""Gradients of a jit function: forward and backward are two kernels of one joint graph, joined for autograd.

Both are taken at once: until both are there, eager runs as a whole, with autograd's own backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import ref

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from fusetune.errors import CannotConvert, FusetuneError
from fusetune.graph import to_fusion
from fusetune.graph.convert import COMPUTES_NOTHING
from fusetune.graph.sizes import settled
from fusetune.jitting.call_key import MAX_ALIGN
from fusetune.jitting.calling import checked_once
from fusetune.jitting.joint import Joint, JointHalf, joint_of
from fusetune.jitting.specialized import DRAWS, NEEDS_ITS_OWN, Specialized

TWICE = "its gradients were asked for with create_graph=True, and its inputs were changed or are gone"


def gradient_of(owner: Any, args: Any, kwargs: Any) -> Specialized:
    """A kind of call whose tensors need gradients, on `owner`'s terms. Raises CannotConvert."""
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    joint = joint_of(owner.__wrapped__, leaves, spec, symbolic=owner.dynamic)
    if joint is None:
        return replace(Specialized.traced(owner.__wrapped__, args, kwargs, owner.dynamic), wrap=torch.no_grad())
    if any(x.requires_grad for x in joint.closed):
        raise CannotConvert("the function", NEEDS_ITS_OWN)
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    tensors = [*(leaves[i] for i in places), *joint.closed]

    def on_tensors(*given: torch.Tensor) -> Any:
        every = dict(enumerate(leaves)) | dict(zip(places, given, strict=True))
        args, kwargs = pytree.tree_unflatten([every[i] for i in range(len(leaves))], spec)
        return owner.__wrapped__(*args, **kwargs)

    forward = _half(joint.forward, tensors)
    known = dict(zip((n.name for n in joint.forward.inputs), tensors, strict=True))
    backward = _backward(joint.backward, [known.get(n.name) for n in joint.backward.inputs], forward)
    join = _Join(joint, on_tensors, places, forward, backward, owner.kernel_of)
    return Specialized.of_halves((forward,) if backward is None else (forward, backward), join)


def _backward(half: JointHalf, tensors: Sequence[torch.Tensor | None], sized: Specialized) -> Specialized | None:
    """The backward of a call; None if it passes gradients on, as a sum's does, which takes no kernel."""
    try:
        return _half(half, tensors, sized)
    except CannotConvert as error:
        if COMPUTES_NOTHING in str(error):
            return None
        raise


def _half(half: JointHalf, tensors: Sequence[torch.Tensor | None], sized: Specialized | None = None) -> Specialized:
    """The fusion of a half for a call, whose inputs are `tensors`; of those that no call has yet stand-ins are made,
    in the sizes of the half `sized`."""
    wanted = tuple(dict.fromkeys(half.outputs))
    inputs = [x for x in half.inputs if isinstance(x.meta.get("val"), torch.Tensor)]
    converted = to_fusion(half.nodes, [x for x in wanted if isinstance(x.meta.get("val"), torch.Tensor)], inputs=inputs)
    if converted.draws:
        raise CannotConvert("the function", DRAWS)
    given = {x: _stand_in(x, sized) if t is None else t for x, t in zip(half.inputs, tensors, strict=True)}
    binding = converted.binding([given[x] for x in converted.nodes])
    return Specialized.of_fusion(converted, binding, size=half.moved_bytes)


def _stand_in(node: Node, sized: Specialized | None) -> Any:
    """A tensor without memory, as the trace has it, in the sizes of a call."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or sized is None or sized.converted is None:
        return value
    symbols, sizes = sized.converted.symbols, sized.binding.sizes
    shape, strides = ([settled(n, symbols, sizes) for n in side] for side in (value.shape, value.stride()))
    return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")


class _Part:
    """A half as a call: tensors in, tensors out, in the order of its graph."""

    def __init__(self, half: JointHalf, of: Specialized, kernel: Any) -> None:
        assert of.converted is not None
        self.of, self.converted, self.sizes, self.kernel = of, of.converted, of.binding.sizes, kernel
        self.call, self.nodes = checked_once(kernel), of.converted.nodes
        self.inputs = [x for x in half.inputs if isinstance(x.meta.get("val"), torch.Tensor)]
        self.outputs = [x for x in half.outputs if isinstance(x.meta.get("val"), torch.Tensor)]

    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Raises KernelError."""
        converted, given = self.converted, dict(zip(self.inputs, tensors, strict=True))
        taken = [given[x] for x in self.nodes]
        numbers = converted.numbers(given, self.sizes)
        made = self.kernel(*taken, *numbers) if numbers else self.call(taken)
        values = converted.values(taken, made if isinstance(made, tuple) else (made,), self.sizes)
        by_node = {form.node: value for form, value in zip(converted.outputs, values, strict=True)}
        return [by_node[x] for x in self.outputs]


class _Join:
    """Makes one call of two kernels. `kernel_of`: the backward's kernel for gradients that lie otherwise in memory, if
    it is there."""

    def __init__(
        self, joint: Joint, function: Callable[..., Any], places: Sequence[int], forward: Specialized,
        backward: Specialized | None, kernel_of: Callable[[Specialized], Any],
    ) -> None:  # fmt: skip
        self.joint, self.function, self.places = joint, function, places
        self.forward, self.backward = forward, backward
        self.kernel_of = kernel_of
        self.strides = [_stand_in(x, forward).stride() for x in self._tangents()]
        self._others: dict[tuple[tuple[int, ...], ...], Specialized] = {}

    def __call__(self, forward_kernel: Any, backward_kernel: Any = None) -> Callable[[Any, Any], Any]:
        """How to run a call."""
        joint, count = self.joint, len(self.joint.results.differentiable)
        ahead = _Part(joint.forward, self.forward, forward_kernel)
        back = None if self.backward is None else _Part(joint.backward, self.backward, backward_kernel)

        class Joined(torch.autograd.Function):
            """The call as autograd sees it."""

            @staticmethod
            def forward(ctx: Any, *tensors: torch.Tensor) -> Any:
                found = ahead([*tensors, *joint.closed])
                results, saved = found[:count], found[count:]
                ctx.save_for_backward(*saved)
                ctx.given = [(ref(x), x._version) for x in tensors]
                results = [x.detach() if any(x is y for y in tensors) else x for x in results]
                sides = zip(results, joint.results.differentiable, strict=True)
                ctx.mark_non_differentiable(*(x for x, is_one in sides if not is_one))
                return tuple(results)

            @staticmethod
            def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
                if torch.is_grad_enabled():
                    return self._twice(ctx.given, gradients)
                given = [g for g, is_one in zip(gradients, joint.results.differentiable, strict=True) if is_one]
                found = self._pulled(back, list(ctx.saved_tensors), given)
                by_place = dict(zip(joint.needs, found, strict=True))
                return tuple(by_place.get(n) for n in range(len(self.places)))

        def run(args: Any, kwargs: Any) -> Any:
            leaves = pytree.tree_leaves((tuple(args), dict(kwargs)))
            found = Joined.apply(*(leaves[i] for i in self.places))  # type: ignore[no-untyped-call]  # torch types no autograd.Function
            return joint.results.put_together(found)

        return run

    def _tangents(self) -> list[Node]:
        count = sum(self.joint.results.differentiable)
        return list(self.joint.backward.inputs[len(self.joint.backward.inputs) - count :])

    def _pulled(self, back: _Part | None, saved: list[torch.Tensor], gradients: list[torch.Tensor]) -> Any:
        """The gradients of what needs them, of those of the results."""
        if back is None:
            return self._in_eager(saved, gradients)
        try:
            if (other := self._laid_otherwise(back, saved, gradients)) is not None:
                return other
            laid = [_laid(x, strides) for x, strides in zip(gradients, self.strides, strict=True)]
            return back([*saved, *laid])
        except FusetuneError:
            return self._in_eager(saved, gradients)

    def _twice(self, given: Sequence[tuple[ref[torch.Tensor], int]], gradients: Sequence[torch.Tensor]) -> Any:
        """With create_graph=True: the function itself is run again, whose gradients have gradients."""
        inputs: list[Any] = [x() for x, _ in given]
        if any(x is None or x._version != version for x, (_, version) in zip(inputs, given, strict=True)):
            raise CannotConvert("the function", TWICE, "Keep its inputs, or call the function itself: __wrapped__.")
        results = [x for x in pytree.tree_leaves(self.function(*inputs)) if isinstance(x, torch.Tensor)]
        sides = zip(results, gradients, self.joint.results.differentiable, strict=True)
        ends = [(x, g) for x, g, is_one in sides if is_one]
        needed = [inputs[n] for n in self.joint.needs]
        found = torch.autograd.grad([x for x, _ in ends], needed, [g for _, g in ends], create_graph=True)
        by_place = dict(zip(self.joint.needs, found, strict=True))
        return tuple(by_place.get(n) for n in range(len(self.places)))

    def _laid_otherwise(self, back: _Part, saved: list[torch.Tensor], gradients: list[torch.Tensor]) -> Any:
        """The same by a kernel for the strides that the gradients have, such as a sum's, which are all one element."""
        strides = tuple(x.stride() for x in gradients)
        if all(_lies(x, wanted) for x, wanted in zip(gradients, self.strides, strict=True)):
            return None
        if strides not in self._others:
            given = dict(zip(back.inputs, [*saved, *gradients], strict=True))
            binding = back.converted.binding([given[x] for x in back.nodes])
            self._others[strides] = replace(back.of, binding=binding, kernel=None)
        other = self._others[strides]
        kernel = self.kernel_of(other)
        return None if kernel is None else _Part(self.joint.backward, other, kernel)([*saved, *gradients])

    def _in_eager(self, saved: list[torch.Tensor], gradients: list[torch.Tensor]) -> Any:
        """By the graph's own operators."""
        assert self.forward.converted is not None
        symbols, sizes = self.forward.converted.symbols, self.forward.binding.sizes
        tensors = iter([*saved, *gradients])
        given = [
            next(tensors) if isinstance(x.meta["val"], torch.Tensor) else settled(x.meta["val"], symbols, sizes)
            for x in self.joint.backward.inputs
        ]
        return self.joint.backward.graph_module(*given)


def _lies(x: torch.Tensor, strides: tuple[int, ...]) -> bool:
    return all(n == m for size, n, m in zip(x.shape, x.stride(), strides, strict=True) if size > 1)


def _laid(x: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The gradient as the trace has it: in memory of its own, at an address as new tensors have."""
    if _lies(x, strides) and (x.device.type != "cuda" or x.data_ptr() % MAX_ALIGN == 0):
        return x
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)
