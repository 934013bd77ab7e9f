"""Pads, flips, strided slices and constants on the card, as torch computes them there."""

from __future__ import annotations

import pytest

from compiler.pipeline import artifact
from tests.search.random_fusions.building import InThisProcess
from tests.search.random_fusions.proving import kernels
from tests.search.schedulers.user_views import USER_FUSIONS, case_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

POINTS = 4
"""Of the schedulers of each fusion."""

TOLERANCE = {"f32": 1e-4, "f16": 2e-3, "bf16": 1.6e-2}
"""Relative, and of elements near 1: a few roundings of the result, and approximate functions of f32."""


@pytest.mark.parametrize("name", USER_FUSIONS)
def test_kernels_give_what_torch_gives_on_the_card(name: str) -> None:
    from fusetune.kernel import Kernel

    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("kernels are compiled for sm_90a")
    one = USER_FUSIONS[name]
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[one.dtype]
    inputs = [torch.randn(shape, device="cuda", dtype=dtype) for shape in one.shapes]
    wanted = one.by_torch(*inputs)
    made = kernels(case_of(name), 11, POINTS, InThisProcess())
    assert made
    for kernel in made:
        assert kernel.made is not None, f"{kernel.fault} {kernel.unsupported}"
        assert kernel.compiled is not None
        found = Kernel(artifact(kernel.made, kernel.compiled.result()))(*inputs)
        tolerance = TOLERANCE[one.dtype]
        torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)
