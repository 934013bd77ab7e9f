"""Kernels that the search makes, compiled, and run in the emulator on the tensors of a call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from compiler.arch import card_or_default
from compiler.emulate.launch import Completion
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import launches_of, tensors_of, written_by
from compiler.ir.fusion import Fusion, Value
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from compiler.wire import bind
from fusetune.kernel import Kernel
from fusetune.torch import DTYPES
from fusetune.wire.binding import Binding
from fusetune.wire.scalars import with_numbers
from search.cost.predicting import predictor
from search.proof.emulated.check import EmulatedProof, verify
from search.proof.emulated.running import fault_of, options
from search.tuning.candidates.draft import Draft, draft
from search.tuning.candidates.plan import Plan

CARD = card_or_default("H200")
POINTS = 3
"""Points of each scheduler, of which the best predicted is taken: a search takes minutes and shows no more here."""


class EmulatedKernel:
    """Called like a kernel. `fusion` as bound, `generated` its launches."""

    def __init__(self, fusion: Fusion, generated: Generated, pool: CompilePool) -> None:
        self.fusion, self.generated = fusion, generated
        self.artifact = artifact(generated, pool.submit(generated.source, CARD.arch.name).result())
        self._module = parse(self.artifact.ptx)

    def proven(self, pool: CompilePool) -> EmulatedProof:
        """What the verification without a GPU says of it."""
        return verify(self.generated, self.artifact, pool)

    def __call__(self, *arguments: Any) -> torch.Tensor | tuple[torch.Tensor, ...]:
        fusion, count = self.fusion, len(self.fusion.inputs)
        numbers = [x.item() if isinstance(x, torch.Tensor) else x for x in arguments[count:]]
        storages = [_bytes(x, fusion.value(name)) for x, name in zip(arguments, fusion.inputs, strict=False)]
        tensors = tensors_of(fusion, storages)
        for launch in launches_of(with_numbers(self.artifact, numbers), tensors):
            outcome = emulate(self._module, launch, options(Completion.EAGER, races=True))
            assert fault_of(outcome) == ""
            written_by(launch, outcome)
        made = tensors[count:]
        into = {name: arguments[fusion.inputs.index(alias)] for name, alias in fusion.aliases}
        outputs = tuple(
            self._output(name, tensor.data, into.get(name)) for name, tensor in zip(fusion.outputs, made, strict=True)
        )
        return outputs[0] if len(outputs) == 1 else outputs

    def _output(self, name: str, data: Any, into: torch.Tensor | None) -> torch.Tensor:
        value, order = self.fusion.value(name), dict(self.fusion.orders).get(name)
        flat = torch.from_numpy(np.array(data)).view(DTYPES[value.dtype.value])
        found = flat.as_strided(value.shape, value.strides)
        if order is not None:
            found = found.permute([order.index(dim) for dim in range(found.dim())])
        return found if into is None else into.copy_(found)


def _bytes(x: torch.Tensor, value: Value) -> Any:
    """The memory of a tensor, from its first element on."""
    held = x.detach().as_strided((value.storage_elems,), (1,), x.storage_offset())
    return np.array(held.view(torch.uint8).numpy())


@dataclass
class EmulatedKernels:
    """A source of them, made when they are looked for."""

    pool: CompilePool

    def __post_init__(self) -> None:
        self.kernels: dict[tuple[str, str], EmulatedKernel] = {}
        self.asked: list[Any] = []

    def peek(self, fusion: Any, binding: Binding) -> Any:
        key = fusion.fingerprint, binding.to_json()
        if key not in self.kernels:
            bound = bind(fusion, binding)
            self.kernels[key] = EmulatedKernel(bound, generated(bound), self.pool)
        return self.kernels[key]

    def request(self, fusion: Any, binding: Binding, *, weight: float) -> None:
        self.asked.append(fusion)


def generated(fusion: Fusion, points: int = POINTS) -> Generated:
    """The best predicted of a few points."""
    plan = Plan.of(fusion, CARD)
    subject, predict = plan.subject(CARD), predictor(CARD)
    drafts = [draft(subject, candidate, predict) for candidate in plan.sample(points, seed=0)]
    if not any(isinstance(one, Draft) for one in drafts):
        drafts += [draft(subject, candidate, predict) for candidate in plan.sample(8 * points, seed=1)]
    found: Sequence[Draft] = [one for one in drafts if isinstance(one, Draft)]
    assert found, f"{fusion.fingerprint}: no point has a kernel: {drafts}"
    best = min(found, key=lambda one: one.predicted_us if one.predicted_us else math.inf).generated
    assert isinstance(best, Generated)
    return best


def kernel_of(fusion: Any, binding: Binding, pool: CompilePool) -> Kernel:
    """The same as a Kernel, to be run on a card."""
    made = generated(bind(fusion, binding))
    return Kernel(artifact(made, pool.submit(made.source, CARD.arch.name).result()))
