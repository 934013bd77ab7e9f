"""Kernels without a GPU: a source that gives, when it is told to, kernels worked out by the compiler's reference."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from fusetune.fusion import Fusion
from fusetune.running.source import Key, key_of
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
