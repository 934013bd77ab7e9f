"""Random numbers on a card: those of the formula in every schedule, others when a graph's offset has moved on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.ir.fusion import Fusion
from compiler.ir.ops.philox import uniform
from compiler.nvrtc import CompilePool
from fusetune.launch import Launcher
from search.measure.cuda_check import CheckBench
from search.proof.verify.arrays import TorchArrays
from search.proof.verify.inputs import input_sets
from tests.gpu.kernels_of_points import kernels
from tests.search.randoms import drawn, dropout, dropout_backward, residual_norm, turned

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

SHAPE = (512, 4096)
POINTS = 6
SEED, OFFSET = -0x0123456789ABCDEF, (1 << 40) + 5


def state() -> list[Any]:
    return [torch.tensor(x, device="cuda") for x in (SEED, OFFSET)]


def numbers(count: int, offset: int = OFFSET) -> Any:
    return uniform(np, np.asarray(SEED), np.asarray(offset), np.arange(count))


@pytest.mark.parametrize("shape", [SHAPE, (513, 1003)])
def test_every_schedule_draws_the_numbers_of_the_formula(shape: tuple[int, int]) -> None:
    want = numbers(shape[0] * shape[1]).reshape(shape)
    with CompilePool(8) as pool:
        for kernel in kernels(drawn(*shape), pool, POINTS):
            found: Any = kernel(*state())
            np.testing.assert_array_equal(found.cpu().numpy(), want)


def test_forward_and_backward_drop_the_same() -> None:
    x = torch.ones(SHAPE, device="cuda")
    want = torch.from_numpy(numbers(x.numel()).reshape(SHAPE) >= np.float32(0.1)).cuda()
    with CompilePool(8) as pool:
        for fusion, given in ((dropout(*SHAPE), x.bfloat16()), (dropout_backward(*SHAPE), x)):
            for kernel in kernels(fusion, pool, POINTS):
                found = kernel(given, *state())
                kept = found[0] if isinstance(found, tuple) else found
                assert torch.equal(kept != 0, want)


def test_a_captured_graph_draws_anew_when_its_offset_moves_on() -> None:
    seed, offset = state()
    with CompilePool(1) as pool:
        (kernel,) = kernels(drawn(64, 256), pool, 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y: Any = kernel(seed, offset)
        offset.add_(1)
    for turn in range(3):
        graph.replay()
        torch.cuda.synchronize()
        np.testing.assert_array_equal(y.cpu().numpy().reshape(-1), numbers(64 * 256, OFFSET + turn))


def test_numbers_are_uniform() -> None:
    """Sixteen million of them: mean and variance within five standard deviations."""
    with CompilePool(1) as pool:
        (kernel,) = kernels(drawn(4096, 4096), pool, 1)
    drawn_: Any = kernel(*state())
    y = drawn_.double()
    assert float(y.min()) >= 0
    assert float(y.max()) < 1
    assert abs(float(y.mean()) - 0.5) < 5 / (12 * y.numel()) ** 0.5
    assert abs(float(y.var()) - 1 / 12) < 5 / (180 * y.numel()) ** 0.5


@pytest.mark.parametrize("fusion", [residual_norm(300, 1024), turned(130, 520)], ids=["norm", "turned"])
def test_kernels_are_right_on_every_set(fusion: Fusion) -> None:
    bench = CheckBench(fusion, TorchArrays("cuda:0"))
    with CompilePool(8) as pool:
        for kernel in kernels(fusion, pool, POINTS):
            for name in input_sets(fusion):
                assert bench.check(Launcher(kernel.artifact), name).fault == ""
