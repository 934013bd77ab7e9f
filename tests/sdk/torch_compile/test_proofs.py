"""Regions of models, proven without a GPU: the search's kernels in the emulator, against eager and the reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks.models.catalogue import MODELS, Setting, seed
from compiler.nvrtc import CompilePool
from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.calls import RegionCall
from tests.sdk.torch_compile.emulated_kernels import EmulatedKernels
from tests.sdk.torch_compile.reference_kernels import FixedClock

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")
TOLERANCE = 2.0**-6
"""Relative to the largest of a result: of bf16, four units in the last place."""


def held_against_eager(call: RegionCall, kernel: Any, args: list[Any], wrong: list[str]) -> Any:
    """The kernel's results, held against those of eager on the same tensors."""
    again = [x.clone() if n in call._written else x for n, x in enumerate(args)]
    found, expected = call.launch_(kernel, args), call.eager(list(again))  # type: ignore[attr-defined]  # below, for this test
    for n, (x, y) in enumerate(zip(found, expected, strict=True)):
        largest = float(y.double().abs().max()) if y.numel() else 0.0
        error = float((x.double() - y.double()).abs().max()) if y.numel() else 0.0
        if not error <= TOLERANCE * largest or (x.dtype, x.stride()) != (y.dtype, y.stride()):
            wrong.append(f"{call.lowered.converted.fusion}\noutput {n}: off by {error} of {largest}")
    return found


def prove(name: str, pool: CompilePool, monkeypatch: pytest.MonkeyPatch, *, gradients: bool = True) -> int:
    """Runs a model's step with all its regions by emulated kernels, each held against eager; and proves them."""
    torch._dynamo.reset()
    seed()
    module, inputs = MODELS[name].make(Setting(torch.device("cpu"), is_small=True))
    source, wrong = EmulatedKernels(pool), list[str]()
    monkeypatch.setattr(RegionCall, "launch_", RegionCall.launch, raising=False)
    monkeypatch.setattr(RegionCall, "launch", lambda call, kernel, args: held_against_eager(call, kernel, args, wrong))
    backend = CompileBackend(source, FixedClock())
    compiled = torch.compile(module, backend=backend, options={"least_bytes": 0, "strict": True})
    for _ in range(3):  # looked for, timed, taken
        with torch.set_grad_enabled(gradients):
            given = [x.clone().requires_grad_(gradients) if x.is_floating_point() else x for x in inputs]
            loss = compiled(*given).float().square().mean()
        if gradients:
            loss.backward()
    assert wrong == []
    proofs = [(kernel.fusion.fingerprint, kernel.proven(pool)) for kernel in source.kernels.values()]
    assert [(key, proof.fault, proof.undone) for key, proof in proofs if proof.verdict != "right"] == []
    assert source.kernels
    return len(proofs)


def test_regions_of_a_layer_are_proven(pool: CompilePool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prove("llama", pool, monkeypatch, gradients=False) == 10  # five with their products


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_every_region_of_every_model_is_proven(name: str, pool: CompilePool, monkeypatch: pytest.MonkeyPatch) -> None:
    prove(name, pool, monkeypatch)
