"""Schedules of small reductions for blocks of any shape: which threads fold together, over a cluster, in a loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.arch import arch_named
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import REDUCTIONS
from compiler.pipeline import Generated, generate
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from tests.compiler.schedules import from_wire

P = ParallelType
HOPPER = arch_named("sm_90a")
_TYPE = {"x": P.TIDX, "y": P.TIDY, "z": P.TIDZ}


@dataclass(frozen=True)
class Threads:
    """`block`: threads in x, y and z, of which those in `folded` share a row, and the others have rows of their own.

    Each has `lanes` rows and `unroll` neighbouring elements of each at a time; a block does `turns` rows after each
    other, and `cluster` blocks share one.
    """

    block: tuple[int, int, int]
    folded: str = "x"
    cluster: int = 1
    lanes: int = 1
    turns: int = 1
    unroll: int = 2

    @property
    def extents(self) -> dict[str, int]:
        return dict(zip("xyz", self.block, strict=True))

    def __str__(self) -> str:
        shape = "x".join(map(str, self.block))
        rest = ((self.cluster, "blocks"), (self.lanes, "lanes"), (self.turns, "turns"))
        return "-".join([shape, self.folded, *(f"{n}-{what}" for n, what in rest if n > 1)])


def reduction(kind: str, rows: int, columns: int, dtype: str) -> Fusion:
    """out = the fold of each row."""
    return from_wire(
        [{"name": "x", "shape": [rows, columns], "dtype": dtype}],
        [{"op": kind, "in": ["x"], "out": "out", "dims": [1], "keepdim": False}],
        "out",
    )


def distance(rows: int, columns: int, dtype: str, kind: str = "amax") -> Fusion:
    """out = x - the fold of its row: every thread needs the result."""
    shape = [rows, columns]
    ops: list[Mapping[str, Any]] = [
        {"op": kind, "in": ["x"], "out": "m", "dims": [1], "keepdim": True},
        {"op": "broadcast_to", "in": ["m"], "out": "b", "shape": shape, "dims": [0, 1]},
        {"op": "sub", "in": ["x", "b"], "out": "out"},
    ]
    return from_wire([{"name": "x", "shape": shape, "dtype": dtype}], ops, "out")


def folded_by(fusion: Fusion, threads: Threads) -> Generated:
    """The kernel of a fusion [rows, columns] that folds its columns."""
    b = TraceBuilder(fusion)
    readers = [op.output for op in b.sf.consumers("i0")]
    b.do(steps.CacheInput("i0", "i0_r", MemoryType.LOCAL))
    for number, reader in enumerate(readers[1:]):
        b.do(steps.Recompute("i0_r", reader, f"i0_r{number}"))
    for name in b.sf.outputs:
        if len(b.tensor(name).loop) == 2:
            b.do(steps.CacheOutput(name, f"{name}_r", MemoryType.LOCAL))
    kept = [a for a in "zyx" if a not in threads.folded and threads.extents[a] > 1]
    for op in b.sf.ops:
        _loops(b, op.output, threads, kept)
    row = 2 + len(kept)
    for op in reversed(b.sf.ops):
        t = b.tensor(op.output)
        if t.memory is MemoryType.LOCAL:
            once = op.kind in REDUCTIONS or any(a.is_broadcast for a in t.loop)
            b.inline([op.output], row if once else len(t.loop))
    return generate(b.trace(), HOPPER)


def _loops(b: TraceBuilder, name: str, threads: Threads, kept: list[str]) -> None:
    """[rows, columns] -> [block, turn, kept threads, folded threads, cluster, step, element, lane]."""
    has_columns = len(b.tensor(name).loop) > 1
    row_types = [P.SERIAL, *(_TYPE[a] for a in kept), P.UNROLL]
    for factor in _inner([threads.turns, *(threads.extents[a] for a in kept), threads.lanes]):
        b.split(name, _row_axes(b, name, has_columns) - 1, factor)
    lane = 2 + len(kept)
    if not has_columns:
        b.parallelize(name, [P.BIDX, *row_types])
        return
    folded = [a for a in "zyx" if a in threads.folded and threads.extents[a] > 1]
    clusters = [threads.cluster] if threads.cluster > 1 else []
    for factor in _inner([*clusters, *(threads.extents[a] for a in folded), threads.unroll]):
        b.split(name, len(b.tensor(name).loop) - 1, factor)
    step = lane + 1
    cluster = [step + 1] if clusters else []
    first = step + 1 + len(cluster)
    inner = [*range(first, first + len(folded)), *cluster, step, first + len(folded), lane]
    b.reorder(name, [*range(lane), *inner])
    types = [_TYPE[a] for a in folded] + [P.CLUSTER] * len(cluster) + [P.SERIAL, P.UNROLL]
    b.parallelize(name, [P.BIDX, *row_types[:-1], *types, P.UNROLL])


def _row_axes(b: TraceBuilder, name: str, has_columns: bool) -> int:
    return len(b.tensor(name).loop) - has_columns


def _inner(extents: list[int]) -> list[int]:
    """Factors of successive splits of the innermost axis that leave axes of these extents: their products."""
    factors = []
    for at in range(len(extents)):
        product = 1
        for n in extents[at:]:
            product *= n
        factors.append(product)
    return factors
