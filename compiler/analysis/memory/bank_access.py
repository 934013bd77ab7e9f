"""Bank conflicts of a warp's accesses to a shared tensor, computed on demand from the schedule.

The addresses of the 32 lanes come from the index map between the loops of the accessing tensor and the shared tensor's
allocation, so any layout counts as it is: padded, swizzled, or a view of either. A swizzled tensor starts on a repeat
of its pattern (`TilePlacement.align`), so its offsets have the bits of its addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.analysis.id.graph import Group, IdGraph, id_graph
from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.memory.bank_conflicts import ideal_wavefronts, wavefronts
from compiler.analysis.memory.matrix import halves_of, named_rows
from compiler.analysis.memory.memory_order import as_allocated
from compiler.analysis.memory.swizzle import Offsets, can_enumerate
from compiler.analysis.memory.tile_layout import NotRecognised, offset_along
from compiler.arch import MATRIX_ELEMENT_BYTES, MATRIX_ROW_BYTES, SMEM_LINE_BYTES, WARP_THREADS, WORD_BYTES
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import TensorOp, TensorView

THREAD_TYPES = (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ)
MAX_ITERATIONS = 1024
"""Loop iterations looked at; conflicts of later ones are those of the first, but for layouts made to differ."""


@dataclass(frozen=True, slots=True)
class BankAccess:
    """The worst of a warp's accesses: how many wavefronts it takes, and how many it would without conflicts.

    `width_bytes`: what one lane moves at a time; `lanes`: how many take part.
    """

    wavefronts: int
    ideal: int
    width_bytes: int
    lanes: int

    @property
    def degree(self) -> float:
        """How many times as long as without conflicts it takes: 1.0 is free of them, 32.0 a column of one bank."""
        return self.wavefronts / self.ideal


def bank_conflicts_of(
    sf: ScheduledFusion, op: TensorOp, tensor: str, graph: IdGraph | None = None
) -> BankAccess | None:
    """The worst access of any warp that carries out `op` to its operand or result `tensor`.

    Threads are those of the result's loops, x fastest; its Vectorize axis is one access of up to 16 bytes where its
    elements lie side by side, and one access for each element where they do not; of matrices, the rows that lanes name.
    None for a tensor that is not shared, for a copy that no thread carries out, and where the index map is not
    recognised. Raises ValueError for a tensor that is neither operand nor result.
    """
    if tensor != op.output and tensor not in op.tensor_inputs:
        raise ValueError(f"tensor: found {tensor}, expected one of {(op.output, *op.tensor_inputs)}.")
    shared, maker = as_allocated(sf, sf.tensor(tensor)), sf.tensor(op.output)
    if shared.memory is not MemoryType.SHARED or op.via.takes_tiles:
        return None
    found = graph if graph is not None else id_graph(sf)
    loops = _loop_variables(found, maker)
    offset = offset_along(found, layout_of(shared), {g: var(v) for g, v in loops.items()})
    if isinstance(offset, NotRecognised) or not can_enumerate(offset):
        return None
    vector = Var("lane", maker.vector_axis.extent if maker.vector_axis is not None else 1)
    lanes = _warp_lanes(sf, maker)
    cut = _matrices if op.via.is_matrix else _instructions
    accesses = _accesses(offset, loops, vector, lanes, shared.dtype.nbits, cut)
    return max(accesses, key=lambda a: (a.degree, a.wavefronts), default=None)


def _loop_variables(graph: IdGraph, maker: TensorView) -> dict[Group, Var]:
    """A variable for each loop, named after what carries it out."""
    found: dict[Group, Var] = {}
    for i, (axis, type_) in enumerate(zip(maker.loop, maker.types, strict=True)):
        name = "lane" if type_ is ParallelType.VECTORIZE else str(type_) if type_ in THREAD_TYPES else f"k{i}"
        found.setdefault(graph.group(axis), Var(name, axis.extent))
    return found


def _warp_lanes(sf: ScheduledFusion, maker: TensorView) -> list[dict[str, Offsets]]:
    """For each warp of the block, thread indices of its lanes that take part in the loops of `maker`."""
    block = [1, 1, 1]
    own = [1, 1, 1]
    for t in sf.tensors:
        for axis, type_ in zip(t.loop, t.types, strict=True):
            if type_ in THREAD_TYPES:
                d = THREAD_TYPES.index(type_)
                block[d] = max(block[d], axis.extent)
                own[d] = axis.extent if t.name == maker.name else own[d]
    x, y, _ = block
    warps = []
    for first in range(0, prod(block), WARP_THREADS):
        tid = np.arange(first, min(first + WARP_THREADS, prod(block)), dtype=np.int64)
        index = (tid % x, tid // x % y, tid // (x * y))
        active = np.logical_and.reduce([i < n for i, n in zip(index, own, strict=True)])
        if active.any():
            warps.append({str(t): i[active] for t, i in zip(THREAD_TYPES, index, strict=True)})
    return warps


def _accesses(
    offset: Expr,
    loops: dict[Group, Var],
    vector: Var,
    warps: list[dict[str, Offsets]],
    nbits: int,
    cut: Callable[[list[Offsets], int], Iterator[tuple[int, Offsets]]],
) -> Iterator[BankAccess]:
    """Every access that differs from the others by more than whole rows of banks. `cut`: the accesses of a vector."""
    seen: set[tuple[int, bytes]] = set()
    serial = [v for v in loops.values() if v in offset.variables and v.name not in (*THREAD_TYPES, vector.name)]
    for warp in warps:
        for values in _iterations(serial):
            bits = [_evaluate(offset, {**warp, **values, vector.name: e}, warp) * nbits for e in range(vector.extent)]
            for width, addresses in cut(bits, nbits):
                pattern = addresses - addresses.min() // SMEM_LINE_BYTES * SMEM_LINE_BYTES
                key = (width, pattern.tobytes())
                if key not in seen:
                    seen.add(key)
                    ideal = max(1, -(-ideal_wavefronts(width) * len(pattern) // WARP_THREADS))
                    yield BankAccess(wavefronts(pattern.tolist(), width), ideal, width, len(pattern))


def _evaluate(offset: Expr, values: dict[str, Offsets | int], warp: dict[str, Offsets]) -> Offsets:
    size = len(next(iter(warp.values())))
    return np.broadcast_to(np.asarray(offset.evaluate(values), dtype=np.int64), (size,))


def _iterations(serial: list[Var]) -> Iterator[dict[str, int]]:
    """Indices of the loops, the innermost fastest."""
    for i in range(min(MAX_ITERATIONS, prod(v.extent for v in serial))):
        values: dict[str, int] = {}
        for v in reversed(serial):
            values[v.name], i = i % v.extent, i // v.extent
        yield values


def _instructions(bits: list[Offsets], nbits: int) -> Iterator[tuple[int, Offsets]]:
    """Width in bytes and addresses of each access that moves the elements of a vector, given their bit offsets."""
    side_by_side = all(np.array_equal(b, bits[0] + i * nbits) for i, b in enumerate(bits))
    total = len(bits) * nbits // 8
    width = min(total, WORD_BYTES[-1])
    if side_by_side and width in WORD_BYTES and total % width == 0 and not (bits[0] % (width * 8)).any():
        for first in range(0, total, width):
            yield width, bits[0] // 8 + first
    else:
        nbytes = max(1, nbits // 8)
        for b in bits:
            yield nbytes, b // 8 // nbytes * nbytes


def _matrices(bits: list[Offsets], nbits: int) -> Iterator[tuple[int, Offsets]]:
    """16 bytes and the rows of the matrices of a warp, as its lanes give their addresses; none where the lanes hold no
    matrices (PTX ISA, ldmatrix)."""
    if nbits // 8 not in (1, MATRIX_ELEMENT_BYTES, 2 * MATRIX_ELEMENT_BYTES):
        return
    held = halves_of(np.stack(bits) // 8, nbits // 8)
    if held.shape[1] != WARP_THREADS or len(held) % 2:
        return
    rows, _ = named_rows(held)
    yield MATRIX_ROW_BYTES, rows
