"""Kernels without a GPU: a source that gives, when it is told to, kernels worked out by the compiler's reference."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fusetune.fusion import Fusion
from fusetune.running.source import Key, key_of
from fusetune.torch import _check_no_grad
from fusetune.wire.binding import Binding
from tests.sdk.graph.against_eager import kernels_outputs


class ReferenceKernel:
    """A fusion at a binding, called as a Kernel is."""

    origin = "reference"

    def __init__(self, fusion: Fusion, binding: Binding) -> None:
        self.calls = 0
        self._as_converted: Any = SimpleNamespace(inputs=fusion.inputs, fusion=fusion, binding=lambda _: binding)

    def __call__(self, *given: Any) -> Any:
        self.calls += 1
        _check_no_grad([x for x in given if isinstance(x, torch.Tensor)])  # as a Kernel does
        count = len(self._as_converted.inputs)
        numbers = [x.item() if isinstance(x, torch.Tensor) else x for x in given[count:]]
        made = kernels_outputs(self._as_converted, [x.detach() for x in given[:count]], numbers)
        return made[0] if len(made) == 1 else made


class ReferenceSource:
    """Requests in order with their weights; `deliver` makes their kernels."""

    any_device = True

    def __init__(self, is_prompt: bool = False) -> None:
        self.asked: list[tuple[Fusion, Binding, float]] = []
        self.kernels: dict[Key, ReferenceKernel] = {}
        self.is_prompt = is_prompt

    def peek(self, fusion: Fusion, binding: Binding) -> ReferenceKernel | None:
        return self.kernels.get(key_of(fusion, binding))

    def request(self, fusion: Fusion, binding: Binding, *, weight: float) -> None:
        self.asked.append((fusion, binding, weight))
        if self.is_prompt:
            self.deliver()

    def deliver(self) -> None:
        for fusion, binding, _ in self.asked:
            self.kernels.setdefault(key_of(fusion, binding), ReferenceKernel(fusion, binding))


TOLERANCES = {torch.float16: 4e-3, torch.bfloat16: 4e-2, torch.float32: 2e-5}
"""Relative errors that other orders of sums and other libraries' functions come to."""


def same(found: Any, expected: Any, tolerance: float = 1.0) -> None:
    """Two results of one form: dtypes, sizes, strides, and values up to rounding."""
    left, right = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    assert len(left) == len(right)
    for x, y in zip(left, right, strict=True):
        if not isinstance(y, torch.Tensor):
            assert x == y
            continue
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        steps = [(n, m) for size, n, m in zip(y.shape, x.stride(), y.stride(), strict=True) if size > 1]
        assert all(n == m for n, m in steps), f"strides {x.stride()}, eager has {y.stride()}"
        rtol = tolerance * TOLERANCES.get(y.dtype, 0.0)
        torch.testing.assert_close(x, y, rtol=rtol, atol=rtol, equal_nan=True)
