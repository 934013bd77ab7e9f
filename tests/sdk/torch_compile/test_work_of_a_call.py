"""What the host does for a region in a step that is like the last: counted in calls of Python functions, not timed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fusetune.torch
from fusetune import torch_ops
from fusetune.kernel import Kernel
from fusetune.torch import DTYPES
from fusetune.torch_compile import CompileBackend
from tests.sdk.test_torch_calls import on_the_host, spec
from tests.sdk.test_torch_kernel import artifact
from tests.sdk.torch_compile.reference_kernels import FakeKernels, FixedClock, ReferenceKernel

__all__ = ["on_the_host"]

A_REGION = 7
"""The call, kernel or eager, the launch, its tensors, whether they are like the last, and the kernel."""

A_STEP = 6
"""Looking whether anything has come, and what a forward keeps."""

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")


def counted(run: Callable[[], Any]) -> Counter[str]:
    """How often each Python function of the client's was called."""
    found: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and "/fusetune/" in code.co_filename and "site-packages" not in code.co_filename:
            found[code.co_qualname] += 1

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


class Known(ReferenceKernel):
    """One that gives tensors with nothing in them, and takes what is known."""

    def __call__(self, *given: Any, out: Any = None) -> Any:
        return self.known(given)

    @property
    def known(self) -> Any:
        """As Kernel has it."""
        specs, dtypes = self.artifact.outputs, DTYPES

        def made(tensors: Any) -> Any:
            found = [torch.empty_strided(x.shape, x.strides, dtype=dtypes[x.dtype]) for x in specs]
            return found[0] if len(found) == 1 else tuple(found)

        return made


class KnownKernels(FakeKernels):
    """Of these."""

    def peek(self, fusion: Any, binding: Any) -> Any:
        found = super().peek(fusion, binding)
        if found is not None:
            found.__class__ = Known
        return found


class Part(nn.Module):
    """A norm, a product, an activation, a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.gelu(self.mix(self.norm(x)))


def test_a_step_does_little_beside_its_launches() -> None:
    torch._dynamo.reset()
    model = nn.Sequential(*(Part() for _ in range(3)))
    backend = CompileBackend(KnownKernels(), FixedClock())
    x = torch.randn(16, 32)

    def loss(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = model(x).square().mean()
        return found

    run: Any = torch.compile(loss, backend=backend, options={"least_bytes": 0})

    def step() -> None:
        run(x).backward()

    for _ in range(5):
        step()
    assert all(choice.is_taken for choice in backend.choices.known.values())
    found = counted(step)
    assert 0 < found.total() <= A_REGION * len(backend.proposed) + A_STEP, found


@pytest.mark.parametrize("outputs", [1, 2])
def test_an_operator_of_a_graph_looks_at_its_tensors_once(monkeypatch: pytest.MonkeyPatch, outputs: int) -> None:
    one = spec("f32", 4, 6).model_copy(update={"align": 4})
    kernel = Kernel(artifact(inputs=(one, one), outputs=(one,) * outputs, code_hash=f"work{outputs}"))
    key = torch_ops.hold(kernel)
    assert torch_ops.hold(kernel) == key
    x, y = torch.ones(4, 6), torch.ones(4, 6)
    first = torch_ops.run([x, y], key)
    monkeypatch.setattr(fusetune.torch, "_check_all", lambda *_, **__: pytest.fail("they were looked at"))
    found = counted(lambda: torch_ops.run([x.clone(), y], key))
    assert len(first) == outputs
    assert found["Runner.of_known"] == 1
    assert "Runner.__call__" not in found
    monkeypatch.undo()
    with pytest.raises(fusetune.FusetuneError):  # other tensors are looked at
        torch_ops.run([x.double(), y], key)
