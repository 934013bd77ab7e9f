"""Gradients of a jit function: forward and backward are two functions under `jit`, joined for autograd.

The backward one is the vector-Jacobian product of the function: it reads the inputs again and computes the forward
values anew, which for memory-bound work is as much traffic as reading saved ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.utils import _pytree as pytree


def gradient_of(owner: Any, args: Any, kwargs: Any) -> Callable[[Any, Any], Any]:
    """How to run a call of the kind of `args`, whose tensors need gradients, on `owner`'s terms."""
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    needs = [i for i in places if leaves[i].requires_grad]
    told: dict[str, Any] = {}

    def flat(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        call_args, call_kwargs = pytree.tree_unflatten(given, spec)
        found, told["spec"] = pytree.tree_flatten(owner.__wrapped__(*call_args, **call_kwargs))
        return tuple(found)

    def back(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inputs, tangents = tensors[: len(places)], tensors[len(places) :]

        def of_needed(*needed: torch.Tensor) -> tuple[torch.Tensor, ...]:
            given = dict(zip(places, inputs, strict=True)) | dict(zip(needs, needed, strict=True))
            return flat(*(given[i] for i in places))

        at = dict(zip(places, inputs, strict=True))
        _, pull = torch.func.vjp(of_needed, *(at[i] for i in needs))
        return tuple(pull(tangents))

    forward_part, backward_part = owner.part("forward", flat), owner.part("backward", back)

    class Joined(torch.autograd.Function):
        """The call as autograd sees it."""

        @staticmethod
        def forward(ctx: Any, *tensors: torch.Tensor) -> Any:
            ctx.save_for_backward(*tensors)
            return forward_part(*(x.detach() for x in tensors))

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *tangents: torch.Tensor) -> Any:
            found = backward_part(*(x.detach() for x in ctx.saved_tensors), *tangents)
            by_place = dict(zip(needs, found, strict=True))
            return tuple(by_place.get(i) for i in places)

    def run(call_args: Any, call_kwargs: Any) -> Any:
        given = pytree.tree_leaves((tuple(call_args), dict(call_kwargs)))
        found = Joined.apply(*(given[i] for i in places))
        if "spec" not in told:
            flat(*(given[i].detach() for i in places))
        return pytree.tree_unflatten(list(found), told["spec"])

    return run
