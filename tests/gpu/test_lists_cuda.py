"""Kernels over lists on a GPU: an optimizer over many tensors, judged by torch's own."""

from __future__ import annotations

from typing import Any

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
from tests.gpu.test_aliases_cuda import BETA1, BETA2, DECAY, EPS, LR
from tests.search.proof.emulated.kernels import kernels_of

pytestmark = pytest.mark.gpu

STEPS = 3


def adamw() -> Fusion:
    """torch's AdamW over lists; what depends on the step comes as tensors without dimensions."""
    f = FusionBuilder()
    p, g, m, v = (f.input(name, ("N",), "f32", is_list=True) for name in "pgmv")
    rate, root = (f.input(name, (), "f32") for name in ("rate", "root"))

    def everywhere(x: Tensor) -> Tensor:
        return x.broadcast_to(p.shape, dims=())

    m1 = m + (g - m) * (1 - BETA1)
    v1 = v * BETA2 + g * g * (1 - BETA2)
    step = everywhere(rate) * m1 / (f.sqrt(v1) / everywhere(root) + EPS)
    f.output(p * (1 - LR * DECAY) - step, "p1", alias=p)
    f.output(m1, "m1", alias=m)
    f.output(v1, "v1", alias=v)
    return bind(f.build(), Binding())


def _sizes() -> list[tuple[int, ...]]:
    """A hundred tensors: matrices, vectors of odd lengths, and one without elements."""
    many: list[tuple[int, ...]] = [(257 * (n + 1), 33) if n % 3 else (n * n + 1,) for n in range(99)]
    return [*many, (0, 5)]


def test_an_optimizer_over_a_hundred_tensors_goes_the_way_of_torch(pool: CompilePool) -> None:
    for made in kernels_of(adamw(), 7, count=2):
        kernel = Kernel(artifact(made, pool.submit(made.source, made.arch.name).result()))
        start = [torch.randn(size, device="cuda") for size in _sizes()]
        p = [x.clone() for x in start]
        m, v = ([torch.zeros_like(x) for x in start] for _ in range(2))
        theirs = [torch.nn.Parameter(x.clone()) for x in start]
        optimizer = torch.optim.AdamW(theirs, lr=LR, weight_decay=DECAY, betas=(BETA1, BETA2), eps=EPS, foreach=True)
        for step in range(1, STEPS + 1):
            g = [torch.randn_like(x) for x in start]
            rate = torch.tensor(LR / (1 - BETA1**step), device="cuda")
            root = torch.tensor((1 - BETA2**step) ** 0.5, device="cuda")
            found: Any = kernel(p, g, m, v, rate, root)
            assert all(mine is given for mine, given in zip(found[0], p, strict=True))
            for parameter, gradient in zip(theirs, g, strict=True):
                parameter.grad = gradient
            optimizer.step()
        for mine, other in zip(p, theirs, strict=True):
            torch.testing.assert_close(mine, other.detach(), rtol=1e-5, atol=1e-6)


def test_lists_in_a_graph_are_replayed(pool: CompilePool) -> None:
    made = next(kernels_of(adamw(), 7))
    kernel = Kernel(artifact(made, pool.submit(made.source, made.arch.name).result()))
    p, g, m, v = ([torch.randn(size, device="cuda").abs() for size in _sizes()] for _ in range(4))
    rate, root = (torch.ones((), device="cuda") for _ in range(2))
    again = [x.clone() for x in p], [x.clone() for x in m], [x.clone() for x in v]
    kernel(p, g, m, v, rate, root)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(again[0], g, again[1], again[2], rate, root)  # captured, not run
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(p, again[0], strict=True))


def test_kernels_pass_all_input_sets_and_are_timed(pool: CompilePool) -> None:
    fusion = adamw()
    with CudaDevice() as device:
        device.open(fusion)
        for made in kernels_of(fusion, 11, count=2):
            compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
            result = device.measure(compiled, Effort.ALL_SETS)
            assert result.state is TrialState.MEASURED, result.reason
