"""Which forwards wait for their backward. What a step began with it ends with: no kernel changes in between."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree


class Steps:
    """The steps of one traced function. A forward that has saved something waits until that is freed: by its backward,
    or by whoever drops its results."""

    def __init__(self) -> None:
        self._kept: tuple[int, ...] = ()
        self._saved: list[weakref.ref[torch.Tensor]] = []

    @property
    def is_open(self) -> bool:
        """Whether a forward waits for its backward."""
        self._saved = [saved for saved in self._saved if saved() is not None]
        return bool(self._saved)

    def begin(self, outputs: Sequence[Any]) -> None:
        """A forward has returned: a graph's outputs, what it has saved among them."""
        self._saved += [weakref.ref(outputs[n]) for n in self._kept]

    def noting(self, partition: Callable[..., Any]) -> Callable[..., Any]:
        """A partitioner of joint graphs that tells which outputs of the forward graph are kept for the backward one.

        Inputs are not looked at, which live as long as their owner likes.
        """

        def cut(joint: Any, *args: Any, num_fwd_outputs: int, **options: Any) -> Any:
            forward, backward = partition(joint, *args, num_fwd_outputs=num_fwd_outputs, **options)
            outputs = pytree.tree_leaves(next(n for n in forward.graph.nodes if n.op == "output").args)
            self._kept = tuple(
                place
                for place, node in enumerate(outputs)
                if place >= num_fwd_outputs
                and node.op == "call_function"
                and isinstance(node.meta.get("val"), torch.Tensor)
                and node not in outputs[:num_fwd_outputs]
            )
            return forward, backward

        return cut
