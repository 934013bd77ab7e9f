"""Numbers by value on a card: what torch makes of them, told by every call, kept by a graph, right on every set."""

from __future__ import annotations

import math
from typing import Any

import pytest

from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.launch import Launcher
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import DTypeName, ScalarName
from search.measure.cuda_check import CheckBench
from search.proof.verify.arrays import TorchArrays
from search.proof.verify.inputs import input_sets
from tests.gpu.kernels_of_points import kernels
from tests.search.scalars import adamw

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

ELEMS = 1 << 20
POINTS = 4


def told(step: int, lr: float) -> tuple[float, ...]:
    """The scalars of an AdamW step, in the order of a call."""
    beta1, beta2, eps, decay = 0.9, 0.999, 1e-8, 0.01
    return lr, beta1, beta2, eps, decay, 1 - beta1**step, math.sqrt(1 - beta2**step)


def test_steps_are_those_of_torch() -> None:
    """Three steps, each with numbers of its own and none with a kernel of its own."""
    with CompilePool(8) as pool:
        for kernel in kernels(adamw(ELEMS), pool, POINTS):
            weight = torch.nn.Parameter(torch.randn(ELEMS, device="cuda"))
            optimizer = torch.optim.AdamW([weight], lr=1e-3)
            p, m, v = weight.detach().clone(), torch.zeros_like(weight), torch.zeros_like(weight)
            for step, lr in enumerate((1e-3, 5e-4, 2e-2), 1):
                optimizer.param_groups[0]["lr"] = lr
                weight.grad = torch.randn(ELEMS, device="cuda")
                optimizer.step()
                with torch.no_grad():
                    p, m, v = kernel(p, weight.grad, m, v, *told(step, lr))
                assert torch.allclose(p, weight, rtol=1e-5, atol=2e-6)


def test_a_graph_keeps_the_numbers_of_the_call_that_it_captured() -> None:
    f = FusionBuilder()
    f.output(f.input("x", (ELEMS,), "f32") * f.scalar("scale"), "y")
    x = torch.randn(ELEMS, device="cuda")
    with CompilePool(1) as pool:
        (kernel,) = kernels(bind(f.build(), Binding()), pool, 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = kernel(x, 0.1)
    assert torch.equal(kernel(x, torch.tensor(3.0)), x * 3.0)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, x * 0.1)


def beside(dtype: DTypeName, kind: str, scalar: ScalarName = "f64") -> Fusion:
    f = FusionBuilder()
    x = f.input("x", (64, 520), dtype)
    f.output(getattr(f, kind)(x, f.scalar("s", scalar)), "y")
    return bind(f.build(), Binding())


@pytest.mark.parametrize("number", [0.1, -3.3, 1e-7, 3e38, 7, (1 << 60) + (1 << 36) + 1])
@pytest.mark.parametrize("kind", ["mul", "add", "sub", "gt", "eq"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_number_means_what_it_means_in_torch(dtype: str, kind: str, number: int | float) -> None:
    """Bit by bit: arithmetic of halves in f32 beside an f32, comparisons after rounding to the tensor's type."""
    held = getattr(torch, dtype)
    wire: Any = {"float64": "f64", "float32": "f32", "bfloat16": "bf16", "float16": "f16"}[dtype]
    x = torch.randn(64, 520, device="cuda").mul(4).to(held)
    if abs(number) < 10:
        x[0] = number
    with CompilePool(1) as pool:
        (kernel,) = kernels(beside(wire, kind, "i64" if isinstance(number, int) else "f64"), pool, 1)
    assert torch.equal(kernel(x, number), getattr(torch, kind)(x, number))


def test_kernels_are_right_on_every_set() -> None:
    fusion, arrays = adamw(40_000, "bf16"), TorchArrays("cuda:0")
    bench = CheckBench(fusion, arrays)
    with CompilePool(8) as pool:
        for kernel in kernels(fusion, pool, POINTS):
            launcher: Any = Launcher(kernel.artifact)
            assert {name: bench.check(launcher, name).fault for name in input_sets(fusion)} == dict.fromkeys(
                input_sets(fusion), ""
            )
