"""Kernels on torch tensors of 8-bit floats, u8 and i16, called by the SDK: every bit of them read and written by each
path, and the results those of torch on the same card."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact
from fusetune.kernel import Kernel
from fusetune.wire.fusion import DTypeName
from tests.search.proof.emulated.test_short_types import FLAT, SHORT, scaled
from tests.search.schedulers.points import generated

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

SHAPE = (256, 1024)


@pytest.mark.parametrize("path", FLAT)
@pytest.mark.parametrize("dtype", SHORT)
def test_scaled_as_torch_does(dtype: DTypeName, path: str, pool: CompilePool) -> None:
    from fusetune.torch import DTYPES

    major, minor = torch.cuda.get_device_capability()
    arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    made = generated("flat", scaled(SHAPE, dtype, dtype), arch, **FLAT[path])
    kernel = Kernel(artifact(made, pool.submit(made.source, arch).result()))
    of = DTYPES[dtype]
    bits = torch.arange(1 << 18, device="cuda").reshape(SHAPE)
    x = bits.to(torch.int16) if dtype == "i16" else bits.to(torch.uint8).view(of)
    scale = torch.rand(SHAPE[1:], device="cuda")  # in range of what integers are truncated from
    found: Any = kernel(x, scale)
    expected = (x.float() * scale.abs()).to(of)
    assert found.dtype == of
    right = (found.view(torch.uint8) == expected.view(torch.uint8)).reshape(*SHAPE, -1).all(-1)
    right |= found.float().isnan() & expected.float().isnan()
    assert right.all(), f"{int((~right).sum())} elements differ"
