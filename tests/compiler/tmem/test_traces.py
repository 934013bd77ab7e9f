"""Tensor memory in schedules that come as traces: a tensor that is kept there by steps, beside tiles that bounds cut,
and between the passes over a row."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compiler.arch import arch_named
from compiler.dtypes import DType
from compiler.emulate.launch import Completion, Options
from compiler.explicit.emulated import run_explicit
from compiler.explicit.generate import GeneratedExplicit
from compiler.ir.fusion import Fusion, Op, Value
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CopyVia
from compiler.nvrtc import CompilePool
from compiler.pipeline import generate
from compiler.schedule import steps as st
from compiler.schedule.trace import ScheduleTrace
from tests.compiler.schedules import LOCAL, P, Steps, unary

TENSOR, TO, FROM = MemoryType.TENSOR, CopyVia.ST_TMEM, CopyVia.LD_TMEM


@pytest.fixture(scope="module")
def pool() -> Iterator[CompilePool]:
    with CompilePool(workers=1, time_limit_s=120.0) as compilers:
        yield compilers


def right(fusion: Fusion, steps: Steps, pool: CompilePool) -> str:
    """The schedule run in the emulator: right, and without a fault however late its operations complete. Its CUDA."""
    made = generate(ScheduleTrace(fusion, tuple(steps)), arch_named("sm_100a"))
    launched = GeneratedExplicit("trace", {}, made.arch, fusion, made.scheduled, made.kernel, made.source)
    for completion in Completion:
        ran = run_explicit(launched, Options(completion=completion), pool)
        assert not ran.outcome.faults, [(f.kind, f.message) for f in ran.outcome.faults]
        assert all(c.is_right for c in ran.compared), [str(c) for c in ran.compared]
    return made.source


def kept_flat(vector: int, unroll: int, kind: OpKind) -> Steps:
    """i0 -> r -> t in tensor memory -> q -> v0: a thread keeps `unroll` vectors there as one word."""
    steps: Steps = [
        st.CacheInput("i0", "r", LOCAL),
        st.CacheInput("r", "t", TENSOR, TO),
        st.CacheInput("t", "q", LOCAL, FROM),
        st.CacheOutput("v0", "o", LOCAL),
    ]
    for tv in ("r", "t", "q", "o", "v0"):
        steps += [st.Split(tv, 0, vector), st.Split(tv, 0, 128), st.Split(tv, 0, unroll)]
        if tv in ("t", "q"):
            steps += [st.Reorder(tv, ((1, 2), (2, 1))), st.Merge(tv, 2)]
            steps.append(st.ParallelizeLoops(tv, (P.BIDX, P.TIDX, P.VECTORIZE)))
        else:
            inner = P.VECTORIZE if tv in ("r", "v0") else P.UNROLL
            steps.append(st.ParallelizeLoops(tv, (P.BIDX, P.UNROLL, P.TIDX, inner)))
    steps += [st.SetAllocationDomain("t", (0, 1, 2)), st.TmemDimsep("t", 2)]
    return [*steps, *(st.InlineAt(tv, 1) for tv in ("r", "t", "q", "o"))]


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
    source = right(unary((size,), OpKind.NEG, dtype), kept_flat(vector, unroll, OpKind.NEG), pool)
    kernel = source.partition('extern "C"')[2]
    words = vector * unroll * dtype.nbytes // 4
    assert f"ft_tmem_store_32x32b_x{words}(" in kernel
    assert kernel.count("ft_tmem_allocate(") == kernel.count("ft_tmem_deallocate(") == 1


def rows_scaled(rows: int, columns: int) -> Fusion:
    """y = x * sum(x) along each row."""
    x, y = (Value(n, (rows, columns), DType.F32, (columns, 1)) for n in ("x", "y"))
    s, b = Value("s", (rows, 1), DType.F32, (1, 1)), Value("b", (rows, columns), DType.F32, (columns, 1))
    ops = (
        Op(OpKind.SUM, ("x",), "s", (1,)),
        Op(OpKind.BROADCAST_TO, ("s",), "b", (0, 1)),
        Op(OpKind.MUL, ("x", "b"), "y"),
    )
    return Fusion((x, s, b, y), ("x",), ops, ("y",), "f", "b")


def row_kept(words: int) -> Steps:
    """A row a block: what the first pass loads and folds stays in tensor memory for the second one."""
    steps: Steps = [
        st.CacheInput("x", "r", LOCAL),
        st.CacheInput("r", "t", TENSOR, TO),
        st.CacheInput("t", "q", LOCAL, FROM),
        st.Recompute("q", "y", "q2"),
        st.CacheOutput("y", "o", LOCAL),
    ]
    for tv in ("r", "t", "q", "s_sum", "w1", "q2", "o", "y"):
        steps += [st.Split(tv, 1, words), st.Split(tv, 1, 128)]
        inner = P.VECTORIZE if tv in ("r", "t", "q", "q2", "y") else P.UNROLL
        steps.append(st.ParallelizeLoops(tv, (P.BIDX, P.SERIAL, P.TIDX, inner)))
    steps += [st.SetAllocationDomain("t", (0, 2, 1, 3)), st.TmemDimsep("t", 2)]
    steps += [*(st.InlineAt(tv, 2) for tv in ("r", "q", "w1", "q2", "o")), st.InlineAt("t", 1), st.InlineAt("s_sum", 1)]
    return steps


def test_a_row_is_kept_between_two_passes(pool: CompilePool) -> None:
    right(rows_scaled(3, 2048), row_kept(4), pool)
