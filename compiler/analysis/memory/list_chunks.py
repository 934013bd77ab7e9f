"""Kernels over lists: which part of each list's tensor a block works on."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.id.indexing import Indexing
from compiler.analysis.loops.loop_nest import BLOCK_VARS
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, const
from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import CopyVia


def chunk_elems(sf: ScheduledFusion, indexing: Indexing) -> int:
    """Elements of the chunk of a block, were the chunks equal; 0 where blocks do not divide the elements."""
    blocks, elems = indexing.nest.grid()[0], sf.fusion.value(sf.fusion.outputs[0]).elems
    return 0 if elems % blocks else elems // blocks


def strays_of_chunks(sf: ScheduledFusion, indexing: Indexing) -> Iterator[tuple[str, str]]:
    """(tensor, what is wrong): what is not done by the threads of one block to its own chunk alone."""
    chunk = chunk_elems(sf, indexing)
    if not chunk or indexing.nest.grid()[1:] != (1, 1) or indexing.nest.cluster > 1:
        yield "grid", f"{indexing.nest.grid()} blocks"
        return
    for op in sf.ops:
        t = sf.tensor(op.output)
        if op.via is not CopyVia.PLAIN or op.straddles or t.memory is MemoryType.SHARED:
            yield t.name, f"a copy via {op.via} to {t.memory} memory"
            continue
        offsets = [indexing.read_offset(op, x) for x in op.tensor_inputs if _is_listed(sf, x)]
        offsets += [indexing.write_offset(t)] if _is_listed(sf, t.name) else []
        for offset in offsets:
            inside = in_chunk(offset)
            if offset - inside != _of_blocks(offset) * chunk or inside.lo < 0 or inside.hi >= chunk:
                yield t.name, f"elements at {offset}"


def in_chunk(e: Expr) -> Expr:
    """An index counted from the first element of the block's chunk."""
    return e.substitute({v: const(0) for v in e.variables if v.name in BLOCK_VARS})


def _of_blocks(e: Expr) -> Expr:
    """The number of the block, if it is in the index."""
    found = Expr()
    for atom, _ in e.terms:
        if getattr(atom, "name", "") == "bx":
            found = found + Expr(((atom, 1),))
    return found


def _is_listed(sf: ScheduledFusion, name: str) -> bool:
    t = sf.tensor(name)
    return t.memory is MemoryType.GLOBAL and len(sf.fusion.value(t.part_of or name).shape) > 0
