"""Tensor memory in schedules that come as traces: a tensor that is kept there by steps, beside tiles that bounds cut,
and between the passes over a row."""

from __future__ import annotations

import pytest

from compiler.dtypes import DType
from compiler.emulate.launch import Completion, Options
from compiler.explicit.emulated import run_explicit
from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind
from compiler.nvrtc import CompilePool
from tests.compiler.schedules import Steps, unary
from tests.compiler.tmem.traces import kept_flat, of_trace, row_kept, rows_scaled


def right(fusion: Fusion, steps: Steps, pool: CompilePool) -> str:
    """The schedule run in the emulator: right, and without a fault however late its operations complete. Its CUDA."""
    made = of_trace(fusion, steps)
    for completion in Completion:
        ran = run_explicit(made, Options(completion=completion), pool)
        assert not ran.outcome.faults, [(f.kind, f.message) for f in ran.outcome.faults]
        assert all(c.is_right for c in ran.compared), [str(c) for c in ran.compared]
    return made.source


@pytest.mark.parametrize(
    ("size", "dtype", "vector", "unroll"),
    [
        pytest.param(4096, DType.F32, 4, 2, id="whole-tiles"),
        pytest.param(4096 + 12, DType.F32, 4, 2, id="a-tile-cut"),
        pytest.param(4096 + 5, DType.F32, 4, 4, id="a-vector-cut"),
        pytest.param(4096 + 24, DType.BF16, 8, 2, id="halves"),
    ],
)
def test_a_flat_kernel_keeps_values_in_tensor_memory(
    size: int, dtype: DType, vector: int, unroll: int, pool: CompilePool
) -> None:
    source = right(unary((size,), OpKind.NEG, dtype), kept_flat(vector, unroll), pool)
    kernel = source.partition('extern "C"')[2]
    words = vector * unroll * dtype.nbytes // 4
    assert f"ft_tmem_store_32x32b_x{words}(" in kernel
    assert kernel.count("ft_tmem_allocate(") == kernel.count("ft_tmem_deallocate(") == 1


def test_a_row_is_kept_between_two_passes(pool: CompilePool) -> None:
    right(rows_scaled(3, 2048), row_kept(4), pool)
