"""Traces that keep a tensor in tensor memory: flat, and between the passes over a row."""

from __future__ import annotations

from compiler.arch import arch_named
from compiler.dtypes import DType
from compiler.explicit.generate import GeneratedExplicit
from compiler.ir.fusion import Fusion, Op, Value
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CopyVia
from compiler.pipeline import generate
from compiler.schedule import steps as st
from compiler.schedule.trace import ScheduleTrace
from tests.compiler.schedules import LOCAL, P, Steps

TENSOR, TO, FROM = MemoryType.TENSOR, CopyVia.ST_TMEM, CopyVia.LD_TMEM


def of_trace(fusion: Fusion, steps: Steps) -> GeneratedExplicit:
    """The kernel of a trace, as explicit schedules are run."""
    made = generate(ScheduleTrace(fusion, tuple(steps)), arch_named("sm_100a"))
    return GeneratedExplicit("trace", {}, made.arch, fusion, made.scheduled, made.kernel, made.source)


def kept_flat(vector: int, unroll: int) -> Steps:
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
