"""The instruction that carries each copy of a scheduled fusion, and how much one access of it moves: decided here.

A schedule says by which means its copies go (`CopyVia`), and how wide (the vectorized axis, the Bulk axes). What that
comes to as an instruction is asked here alone, by the lowering, the rules of legality, the explanation and the copy
plans. It takes microseconds a copy, and needs no more than that the copy is legal.

A whole copy plan (`compiler.copies.derived`, `compiler.copies.inferred`) adds who moves which element in which round,
with its sectors and bank conflicts. It takes tiles whose layouts are compositions of strides, which general index maps
are not, and looks at elements one by one. It explains a copy; kernels are lowered from index maps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from compiler.analysis.facts import Facts
from compiler.analysis.memory.matrix import MatrixFragment, fragment_of
from compiler.analysis.memory.narrow_tile import narrow_run
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import MOVES
from compiler.ir.tensor import CopyVia, TensorOp, TensorView


class Path(StrEnum):
    """The instruction that carries a copy."""

    TMA = "TMA"
    BULK_1D = "1-D bulk"
    CP_ASYNC = "cp.async"
    LDMATRIX = "ldmatrix"
    STMATRIX = "stmatrix"
    VECTOR = "vector"
    LD_TMEM = "tcgen05.ld"
    ST_TMEM = "tcgen05.st"
    CP_TMEM = "tcgen05.cp"
    SHIFT_TMEM = "tcgen05.shift"

    @property
    def is_bulk(self) -> bool:
        """True where one thread asks, and no thread moves: the copy engine does, or the tensor cores."""
        return self in (Path.TMA, Path.BULK_1D, Path.CP_TMEM, Path.SHIFT_TMEM)

    @property
    def is_matrix(self) -> bool:
        return self in (Path.LDMATRIX, Path.STMATRIX)


_G, _S, _L, _T = MemoryType.GLOBAL, MemoryType.SHARED, MemoryType.LOCAL, MemoryType.TENSOR

JOINED: dict[Path, tuple[tuple[MemoryType, MemoryType], ...]] = {
    Path.BULK_1D: ((_G, _S), (_S, _G)),
    Path.TMA: ((_G, _S), (_S, _G)),
    Path.CP_ASYNC: ((_G, _S),),
    Path.LDMATRIX: ((_S, _L),),
    Path.STMATRIX: ((_L, _S),),
    Path.VECTOR: ((_G, _L), (_L, _G), (_L, _S), (_S, _L)),
    Path.LD_TMEM: ((_T, _L),),
    Path.ST_TMEM: ((_L, _T),),
    Path.CP_TMEM: ((_S, _T),),
    Path.SHIFT_TMEM: ((_T, _T),),
}
"""From and to which memories each instruction moves, the one with the least work for the threads first (PTX ISA,
cp.async.bulk, cp.async.bulk.tensor, cp.async, ldmatrix, stmatrix, ld and st, tcgen05.ld, tcgen05.st, tcgen05.cp,
tcgen05.shift)."""

_PATHS = {
    CopyVia.PLAIN: Path.VECTOR,
    CopyVia.TMA: Path.TMA,
    CopyVia.BULK1D: Path.BULK_1D,
    CopyVia.CP_ASYNC: Path.CP_ASYNC,
    CopyVia.ST_TMEM: Path.ST_TMEM,
    CopyVia.LD_TMEM: Path.LD_TMEM,
    CopyVia.CP_TMEM: Path.CP_TMEM,
    CopyVia.SHIFT_TMEM: Path.SHIFT_TMEM,
    CopyVia.LDMATRIX: Path.LDMATRIX,
    CopyVia.STMATRIX: Path.STMATRIX,
}


@dataclass(frozen=True, slots=True)
class CopyInstruction:
    """What carries a copy: `elems` elements of `nbits` bits at a time, of one thread, or of the one that asks."""

    path: Path
    elems: int
    nbits: int

    @property
    def access_bytes(self) -> int:
        """Bytes that one access moves."""
        return self.elems * self.nbits // 8


def path_named(via: CopyVia) -> Path:
    """The instruction that a schedule names, before what it moves is looked at."""
    return _PATHS[via]


def joined(via: CopyVia) -> tuple[tuple[MemoryType, MemoryType], ...]:
    """From and to which memories a copy by these means moves: one without means of its own between registers, too."""
    pairs = JOINED[_PATHS[via]]
    return (*pairs, (_L, _L)) if via is CopyVia.PLAIN else pairs


def lanes(t: TensorView) -> int:
    """Elements that a thread reads or writes of `t` at a time: its vectorized axis."""
    return t.vector_axis.extent if t.vector_axis is not None else 1


def thread_access(sf: ScheduledFusion, op: TensorOp) -> CopyInstruction | None:
    """The instruction of a copy that threads carry out; None for one of the copy engine, between registers, or for an
    operator that computes."""
    t = sf.tensor(op.output)
    if op.kind not in MOVES or op.via.takes_tiles or not op.tensor_inputs:
        return None
    if t.memory is _L and sf.tensor(op.tensor_inputs[0]).memory is _L:
        return None
    return CopyInstruction(_PATHS[op.via], lanes(t), t.dtype.nbits)


def fragment(facts: Facts, op: TensorOp) -> MatrixFragment | None:
    """The matrices that a copy by ldmatrix or stmatrix moves in one instruction; None where its loops, and the way in
    which the tile lies in shared memory, make none."""
    t, nest = facts.sf.tensor(op.output), facts.indexing.nest
    is_load = op.via is CopyVia.LDMATRIX
    offset = facts.indexing.read_offset(op, op.tensor_inputs[0]) if is_load else facts.indexing.write_offset(t)
    return fragment_of(offset, lanes(t), t.dtype.nbytes, nest.dims.get(ParallelType.TIDX, 1))


def path_of(facts: Facts, op: TensorOp) -> Path:
    """The instruction that carries a copy, legal or not: a tile that a tensor map cannot place, though a run can, goes
    by a 1-D bulk copy (`analysis.narrow_tile`)."""
    is_run = op.via is CopyVia.TMA and narrow_run(facts, op.output) is not None
    return Path.BULK_1D if is_run else _PATHS[op.via]


def multicast_blocks(facts: Facts, op: TensorOp) -> int:
    """Blocks to which one copy of a legal schedule brings its tile: those of the cluster, for a multicast."""
    return facts.indexing.nest.cluster if op.multicasts else 1


def instruction_of(facts: Facts, op: TensorOp) -> CopyInstruction | None:
    """The instruction of a legal copy; None where there is none, as for `thread_access`."""
    if op.kind not in MOVES or not op.via.is_bulk:
        return thread_access(facts.sf, op)
    nbits = facts.sf.tensor(op.output).dtype.nbits
    if op.via is CopyVia.BULK1D:
        elems = facts.bulk_runs[op.output].elems
        assert elems is not None, "legality refuses copies that are no run"
        return CopyInstruction(Path.BULK_1D, elems.value, nbits)
    return CopyInstruction(path_of(facts, op), facts.tensor_maps[op.output].tile_elems, nbits)
