"""Sums up to each element, in one pass, are those of torch on the same card: rows, columns, halves, positions of bools,
operators around them. Each fusion at several points of the scheduler of scans, and at those of all launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from fusetune import FusionBuilder
from fusetune.fusion import Tensor
from fusetune.wire.fusion import DTypeName
from tests.bound import dense
from tests.gpu.test_folds_cuda import compared

pytestmark = pytest.mark.gpu

Write = Callable[[FusionBuilder, Tensor], Tensor]
Said = Callable[[Any], Any]


def before(x: Any, dim: int) -> Any:
    """torch's sums of the elements before each."""
    return x.cumsum(dim).roll(1, dim).index_fill(dim, x.new_zeros((1,), dtype=int), 0)


CASES: dict[str, tuple[tuple[int, ...], Write, Said]] = {
    "rows": ((1024, 1024), lambda f, x: x.cumsum(1), lambda x: x.cumsum(1)),
    "long-rows": ((600, 32_768), lambda f, x: x.cumsum(1), lambda x: x.cumsum(1)),
    "odd-rows": ((777, 1031), lambda f, x: x.cumsum(1), lambda x: x.cumsum(1)),
    "short-rows": ((5000, 9), lambda f, x: x.cumsum(1), lambda x: x.cumsum(1)),
    "few-rows": ((8, 1 << 18), lambda f, x: x.cumsum(1), lambda x: x.cumsum(1)),
    "columns": ((64, 1024, 64), lambda f, x: x.cumsum(1), lambda x: x.cumsum(1)),
    "odd-columns": ((300, 77, 129), lambda f, x: x.cumsum(0), lambda x: x.cumsum(0)),
    "few-columns": ((8192, 256), lambda f, x: x.cumsum(0), lambda x: x.cumsum(0)),
    "before": ((512, 1000), lambda f, x: x.cumsum(1, exclusive=True), lambda x: before(x, 1)),
    "turned": (
        (256, 4096),
        lambda f, x: f.flip(f.flip(x, (1,)).cumsum(1), (1,)),
        lambda x: x.flip(1).cumsum(1).flip(1),
    ),
}


def bound(write: Write, shape: tuple[int, ...], dtype: DTypeName) -> Fusion:
    f = FusionBuilder()
    f.output(write(f, f.input("x", shape, dtype)), "y")
    return dense(f)


@pytest.mark.parametrize("dtype", ["i32", "i64", "bool"])
@pytest.mark.parametrize("case", CASES)
def test_integers_are_those_of_torch(case: str, dtype: DTypeName, pool: CompilePool) -> None:
    shape, write, said = CASES[case]
    for point, have, want in compared(bound(write, shape, dtype), pool, said):
        np.testing.assert_array_equal(have, want, point)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64"])
@pytest.mark.parametrize("case", CASES)
def test_floats_are_near_torchs_in_f64(case: str, dtype: DTypeName, pool: CompilePool) -> None:
    """Within a rounding of 16 bits, or what a long sum in f32 loses."""
    shape, write, said = CASES[case]
    rtol = {"bf16": 2.0**-7, "f16": 2.0**-10}.get(dtype, 2.0**-11)
    for point, have, want in compared(bound(write, shape, dtype), pool, lambda x: said(x.double())):
        np.testing.assert_allclose(have, want, rtol=rtol, atol=2.0**-7, err_msg=point)
