"""Small fusions and schedules for the compiler's tests: copies by threads, through shared memory, by bulk copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.arch import arch_named
from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Op, Value, dense_strides
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from compiler.schedule.trace import ScheduleTrace
from compiler.wire import bind
from fusetune.wire.fusion import FORMAT
from fusetune.wire.parse import parse_binding, parse_fusion

P = ParallelType
GLOBAL, SHARED, LOCAL = MemoryType.GLOBAL, MemoryType.SHARED, MemoryType.LOCAL
Steps = list[st.Step]


def unary(
    shape: Sequence[int],
    kind: OpKind = OpKind.COPY,
    dtype: DType = DType.F32,
    strides: Sequence[int] | None = None,
    align: int = 16,
    dims: tuple[int, ...] = (),
    result: Sequence[int] | None = None,
) -> Fusion:
    """v0 = kind(i0)."""
    inside, outside = tuple(shape), tuple(shape if result is None else result)
    i0 = Value("i0", inside, dtype, tuple(strides) if strides is not None else dense_strides(inside), align)
    v0 = Value("v0", outside, dtype, dense_strides(outside))
    return Fusion((i0, v0), ("i0",), (Op(kind, ("i0",), "v0", dims),), ("v0",), "f", "b")


def from_wire(inputs: Sequence[Mapping[str, Any]], ops: Sequence[Mapping[str, Any]], *outputs: str) -> Fusion:
    """A bound fusion from wire terms; an input may give `strides` and `align` beside name, shape and dtype."""
    names = ("name", "shape", "dtype")
    document = {
        "format": FORMAT,
        "inputs": [{n: x[n] for n in names} for x in inputs],
        "ops": [dict(op) for op in ops],
        "outputs": [{"name": name} for name in outputs],
    }
    layouts = [{n: x[n] for n in ("strides", "align") if n in x} for x in inputs]
    return bind(parse_fusion(document), parse_binding({"sizes": {}, "inputs": layouts}))


def schedule(fusion: Fusion, steps: Sequence[st.Step], arch: str = "sm_90a") -> Schedule:
    """The fusion after these steps, ready for the rules."""
    return Schedule(ScheduleTrace(fusion, tuple(steps)).replay(), arch_named(arch))


def parallel(tv: str, *types: ParallelType) -> Steps:
    """One type for each axis."""
    return [st.Parallelize(tv, i, t) for i, t in enumerate(types) if t is not P.SERIAL]


def flat_loops(tv: str, rank: int, threads: int, vector: int, last: ParallelType = P.VECTORIZE) -> Steps:
    """[block, thread, lane] of all dimensions merged."""
    return [
        *[st.Merge(tv, 0)] * (rank - 1),
        st.Split(tv, 0, vector),
        st.Split(tv, 0, threads),
        *parallel(tv, P.BIDX, P.TIDX, last),
    ]


def by_threads(rank: int = 1, threads: int = 8, vector: int = 4) -> Steps:
    """i0 -> r -> v0: every thread copies a vector."""
    return [
        st.CacheInput("i0", "r", LOCAL),
        *flat_loops("r", rank, threads, vector),
        *flat_loops("v0", rank, threads, vector),
        st.InlineAt("r", 2),
    ]


def box_loops(tv: str, boxes: Sequence[int]) -> Steps:
    """[tile, box axes...] of a tensor with one box size a dimension; the tile is the block."""
    n = len(boxes)
    splits: Steps = [st.Split(tv, d, boxes[d]) for d in reversed(range(n))]
    moves = tuple((2 * d, d) for d in range(n)) + tuple((2 * d + 1, n + d) for d in range(n))
    order: Steps = [st.Reorder(tv, moves)] if n > 1 else []
    return [*splits, *order, *[st.Merge(tv, 0)] * (n - 1), st.Parallelize(tv, 0, P.BIDX)]


def bulk(tv: str, count: int, at: int = 1) -> Steps:
    """Marks `count` axes from `at` on as the copy engine's."""
    return [st.Parallelize(tv, at + i, P.BULK) for i in range(count)]


def load_by_tma(*boxes: int, via: CopyVia = CopyVia.TMA) -> Steps:
    """i0 -> s (by the copy engine) -> r -> v0, one box a block, written out by one thread."""
    n = len(boxes)
    return [
        st.CacheInput("i0", "s", SHARED, via),
        st.CacheInput("s", "r", LOCAL),
        *box_loops("s", boxes),
        *bulk("s", n),
        *box_loops("r", boxes),
        *box_loops("v0", boxes),
        st.InlineAt("r", n + 1),
        st.InlineAt("s", 1),
    ]


def load_by_copies(tile: int, word: int) -> Steps:
    """i0 -> s (by cp.async, `word` elements a thread) -> r -> v0 over one dimension, one tile a block."""
    steps: Steps = [st.CacheInput("i0", "s", SHARED, CopyVia.CP_ASYNC), st.CacheInput("s", "r", LOCAL)]
    for tv in ("s", "r", "v0"):
        steps += [st.Split(tv, 0, tile), st.Split(tv, 1, word), *parallel(tv, P.BIDX, P.TIDX, P.VECTORIZE)]
    return [*steps, st.InlineAt("r", 2), st.InlineAt("s", 1)]


def store_by_tma(*boxes: int, via: CopyVia = CopyVia.TMA) -> Steps:
    """i0 -> r -> s -> v0 (by the copy engine), one box a block, read by one thread."""
    n = len(boxes)
    return [
        st.CacheInput("i0", "r", LOCAL),
        st.CacheOutput("v0", "s", SHARED, via),
        *box_loops("r", boxes),
        *box_loops("s", boxes),
        *box_loops("v0", boxes),
        *bulk("v0", n),
        st.InlineAt("r", n + 1),
        st.InlineAt("s", 1),
    ]


def through_shared(tile: int, threads: int, vector: int) -> Steps:
    """i0 -> g -> s -> r -> v0 over one dimension: a tile of shared memory a block, written and read by its threads."""
    steps: Steps = [
        st.CacheInput("i0", "g", LOCAL),
        st.CacheInput("g", "s", SHARED),
        st.CacheInput("s", "r", LOCAL),
    ]
    for tv in ("g", "s", "r", "v0"):
        steps += [st.Split(tv, 0, tile), st.Split(tv, 1, vector), st.Split(tv, 1, threads)]
        steps += parallel(tv, P.BIDX, P.UNROLL, P.TIDX, P.VECTORIZE)
    return [*steps, st.InlineAt("g", 3), st.InlineAt("r", 3), st.InlineAt("s", 1)]
