"""Products in tensor memory, scheduled by hand: a warp brings operands, a thread asks for products, warps read them.

No scheduler is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compiler.arch import TCGEN05_HALF_ROWS
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import CONTRACTIONS, OpKind
from compiler.ir.tensor import BufferKind, CopyVia
from compiler.schedule import steps as st
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder
from tests.compiler.products import PIECE, operand_tile
from tests.compiler.schedules import LOCAL, SHARED, P

TENSOR = MemoryType.TENSOR
LOADED = "y_l"
"""What comes from tensor memory to registers."""


@dataclass(frozen=True)
class Ask:
    """Tiles of `rows` by `columns` and `k`, in `stages`. `blocks`: that stay, 0 for one a tile. `accumulators`: places
    of results. `cluster`: of so many blocks along the rows. `words`: that a thread
    loads at a time. `is_mma`: or every axis by itself, of 128 rows in registers. `keeps`: what was loaded goes back to
    tensor memory, and comes from there where it is used."""

    rows: int = 128
    columns: int = 64
    k: int = 64
    stages: int = 3
    blocks: int = 0
    accumulators: int = 1
    cluster: int = 0
    words: int = 16
    is_mma: bool = True
    keeps: bool = False


def by_one_thread(fusion: Fusion, how: Ask, changed: Sequence[st.Step] = ()) -> ScheduleTrace:
    """A lane a thread of 128 rows; fragments of 64. `changed`: steps taken at the end."""
    b = TraceBuilder(fusion)
    product = next(op for op in b.sf.ops if op.kind in CONTRACTIONS)
    tv, operands = product.output, product.tensor_inputs
    (out,) = b.sf.outputs
    if b.sf.producer(out).kind is not OpKind.COPY:  # type: ignore[union-attr]  # an output is made
        b.do(st.CacheOutput(out, "y_r", LOCAL))
    tv = next(op.output for op in b.sf.ops if op.kind in CONTRACTIONS)
    b.do(st.CacheInput(tv, LOADED, LOCAL, CopyVia.LD_TMEM if how.is_mma else CopyVia.PLAIN))
    kept = (LOADED, "z", "q") if how.keeps else (LOADED,)
    if how.keeps:
        b.do(st.CacheInput(LOADED, "z", TENSOR, CopyVia.ST_TMEM), st.CacheInput("z", "q", LOCAL, CopyVia.LD_TMEM))
    if how.is_mma:
        b.do(st.SetMemory(tv, TENSOR))
    for name in operands:
        b.do(st.SetMemory(name, SHARED, CopyVia.TMA))
    grid = _tiles(b, tv, how)
    at = len(grid)
    held = [op.output for op in b.sf.ops if op.output not in (tv, *operands)]
    b.do(st.Propagate(tv, (*operands, *held)))
    for name in operands:
        operand_tile(b, name, grid)
    _result(b, tv, how, grid)
    narrow = [name for name in held if b.sf.producer(name).kind is OpKind.CAST][-1:]  # type: ignore[union-attr]  # held are made
    word = min(PIECE // b.tensor(out).dtype.nbytes, how.words) if how.rows != TCGEN05_HALF_ROWS else 2
    for name in held:
        _read(b, name, how, grid, word if name in (*narrow, out) else 0)
    last = len(b.tensor(LOADED).loop) - 1
    for name in kept:
        b.do(st.Parallelize(name, last, P.VECTORIZE if how.is_mma else P.UNROLL))
    if how.keeps:
        b.do(st.SetAllocationDomain("z", (*range(at), at + 1, at, at + 2)), st.TmemDimsep("z", at + 1))
    b.inline((tv,), at)
    b.inline([name for name in held if name not in (out, "z")], last)
    b.inline(("z",) if how.keeps else (), at)
    b.inline(operands, at + 1)
    options: dict[str, Any] = {"kind": BufferKind.WARP_SPECIALIZED, "on": P.TIDX}
    for name in operands:
        b.do(st.CircularBuffer(name, how.stages, -1, **options))
    if how.accumulators > 1 and how.is_mma:
        b.do(st.ProductsInFlight(tv, how.accumulators - 1))
    b.do(*changed)
    return b.trace()


def _tiles(b: TraceBuilder, tv: str, how: Ask) -> list[P]:
    """[tile.., k, rows, columns, k]."""
    first = len(b.tensor(tv).loop) - 3
    b.split(tv, first + 2, how.k)
    b.split(tv, first + 1, how.columns)
    b.split(tv, first, how.rows)
    b.reorder(tv, [*range(first), first, first + 2, first + 4, first + 1, first + 3, first + 5])
    if how.cluster:
        b.split(tv, first, how.cluster)
        b.reorder(tv, [first + 1, *(i for i in range(first + 7) if i != first + 1)])
        b.merge(tv, 1, first + 2)
        return [P.CLUSTER, P.BIDX]
    b.merge(tv, 0, first + 2)
    if how.blocks:
        b.split(tv, 0, how.blocks)
        return [P.SERIAL, P.BIDX]
    return [P.BIDX]


def _result(b: TraceBuilder, tv: str, how: Ask, grid: list[P]) -> None:
    """[.., k of a stage, rows, columns, k of an instruction], a row a lane."""
    at = len(grid)
    operand = next(op for op in b.sf.ops if op.kind in CONTRACTIONS).tensor_inputs[0]
    b.split(tv, at + 3, 32 // b.tensor(operand).dtype.nbytes)
    b.reorder(tv, [*range(at + 1), at + 3, at + 1, at + 2, at + 4])
    if not how.is_mma:  # in registers, which a thread finds its own row in
        b.parallelize(tv, [*grid, P.SERIAL, P.UNROLL, P.TIDX, P.UNROLL, P.UNROLL])
        return
    b.parallelize(tv, [*grid, P.SERIAL, P.UNROLL, *[P.MMA] * 3])
    axes = (*range(at), at + 2, at + 3, at, at + 1, at + 4)
    if how.rows == TCGEN05_HALF_ROWS:
        strides = (*[None] * at, 32, 1, 1, None, None, None)
        b.do(st.SetAllocationDomain(tv, axes, (st.Split(tv, at, 16),), strides))
        b.do(st.TmemDimsep(tv, at + 2))
    else:
        b.do(st.SetAllocationDomain(tv, axes))
        b.do(st.TmemDimsep(tv, at + 1))


def _read(b: TraceBuilder, name: str, how: Ask, grid: list[P], word: int) -> None:
    """[.., pieces of columns, thread, words of a piece]: of 128 rows a thread has one, of 64 fragments of 16 by 8.
    `word`: elements that are converted, or stored, at a time; 0 for one."""
    at = len(grid)
    if how.rows != TCGEN05_HALF_ROWS:
        b.split(name, at + 1, how.words)
        b.reorder(name, [*range(at), at + 1, at, at + 2])
        _typed(b, name, grid, word)
        return
    for axis, size in ((at + 1, how.words * 2), (at + 2, 8), (at + 3, 2), (at, 16), (at + 1, 8)):
        b.split(name, axis, size)
    # warp, half, line | piece, 8 columns, pair, side
    b.reorder(name, [*range(at), at + 3, at, at + 2, at + 5, at + 4, at + 1, at + 6])
    b.merge(name, at + 1, 3)
    b.merge(name, at + 2, 3)
    _typed(b, name, grid, word)


def _typed(b: TraceBuilder, name: str, grid: list[P], word: int) -> None:
    if word:
        b.split(name, len(grid) + 2, word)
    b.parallelize(name, [*grid, P.UNROLL, P.TIDX, P.UNROLL, *([P.VECTORIZE] if word else [])])
