"""Kernels that write into their inputs, on a GPU: checked and timed there, and judged by torch's own optimizer."""

from __future__ import annotations

import pytest
import torch

from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.fusion import Tensor
from fusetune.kernel import Kernel
from fusetune.wire.binding import Binding
from search.measure.cuda import CudaDevice
from search.measure.device import Effort
from search.tuning.trial import TrialState
from tests.search.proof.emulated.kernels import kernels_of
from tests.search.proof.emulated.test_aliases import FUSIONS

pytestmark = pytest.mark.gpu

LR, DECAY, BETA1, BETA2, EPS = 1e-2, 1e-1, 0.9, 0.999, 1e-8
SHAPE = (1000, 1024)
STEPS = 4


def adamw() -> Fusion:
    """torch's AdamW; what depends on the step comes as tensors without dimensions."""
    f = FusionBuilder()
    p, g, m, v = (f.input(name, SHAPE, "f32") for name in ("p", "g", "m", "v"))
    rate, root = (f.input(name, (), "f32") for name in ("rate", "root"))

    def everywhere(x: Tensor) -> Tensor:
        return x.broadcast_to(SHAPE, dims=())

    m1 = m + (g - m) * (1 - BETA1)
    v1 = v * BETA2 + g * g * (1 - BETA2)
    step = everywhere(rate) * m1 / (f.sqrt(v1) / everywhere(root) + EPS)
    f.output(p * (1 - LR * DECAY) - step, "p1", alias=p)
    f.output(m1, "m1", alias=m)
    f.output(v1, "v1", alias=v)
    return bind(f.build(), Binding())


def test_an_optimizer_in_place_goes_the_way_of_torch(pool: CompilePool) -> None:
    for made in kernels_of(adamw(), 7, count=3):
        kernel = Kernel(artifact(made, pool.submit(made.source, made.arch.name).result()))
        start = torch.randn(SHAPE, device="cuda")
        p, m, v = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
        other = torch.nn.Parameter(start.clone())
        theirs = torch.optim.AdamW([other], lr=LR, weight_decay=DECAY, betas=(BETA1, BETA2), eps=EPS)
        for step in range(1, STEPS + 1):
            g = torch.randn(SHAPE, device="cuda")
            rate = torch.tensor(LR / (1 - BETA1**step), device="cuda")
            root = torch.tensor((1 - BETA2**step) ** 0.5, device="cuda")
            found = kernel(p, g, m, v, rate, root)
            assert isinstance(found, tuple)
            assert all(mine is given for mine, given in zip(found, (p, m, v), strict=True))
            other.grad = g
            theirs.step()
        torch.testing.assert_close(p, other.detach(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(v, theirs.state[other]["exp_avg_sq"], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", FUSIONS)
def test_kernels_in_place_pass_all_input_sets_and_are_timed(name: str, pool: CompilePool) -> None:
    """Inputs are restored before every run that is compared: the last set finds them as the first did."""
    fusion = FUSIONS[name]()
    with CudaDevice() as device:
        device.open(fusion)
        for made in kernels_of(fusion, 11, count=2):
            compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
            for effort in (Effort.SCREEN, Effort.ALL_SETS, Effort.LEADER):
                result = device.measure(compiled, effort)
                assert result.state is TrialState.MEASURED, result.reason
        baseline = device.baseline()
        assert baseline.timing is not None, baseline.why
