"""Outputs in permuted and in strided layouts on a GPU, judged by torch."""

from __future__ import annotations

import pytest
import torch

from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact
from fusetune.kernel import Kernel
from search.measure.cuda import CudaDevice
from search.measure.device import Effort
from search.tuning.trial import TrialState
from tests.search.proof.emulated.kernels import kernels_of
from tests.search.proof.emulated.test_output_layouts import FIRST, FUSIONS, LAST, SHAPE, biased

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("inside", [FIRST, LAST])
def test_channels_last_are_what_torch_gives(inside: tuple[int, ...], pool: CompilePool) -> None:
    x = torch.randn(SHAPE, device="cuda")
    x = x.to(memory_format=torch.channels_last) if inside == LAST else x
    b = torch.randn(SHAPE[1], device="cuda")
    for made in kernels_of(biased(inside, LAST), 3, count=3):
        y = Kernel(artifact(made, pool.submit(made.source, made.arch.name).result()))(x, b)
        assert isinstance(y, torch.Tensor)
        assert y.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(y, torch.relu(x + b[:, None, None]))


@pytest.mark.parametrize("name", FUSIONS)
def test_kernels_pass_all_input_sets(name: str, pool: CompilePool) -> None:
    fusion = FUSIONS[name][0]()
    with CudaDevice() as device:
        device.open(fusion)
        for made in kernels_of(fusion, 11, count=2):
            compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
            result = device.measure(compiled, Effort.ALL_SETS)
            assert result.state is TrialState.MEASURED, result.reason
        baseline = device.baseline()
        assert baseline.timing is not None, baseline.why
