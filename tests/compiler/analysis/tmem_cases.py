"""Copies through tensor memory as explicit schedules, and what their threads touch by plain counting.

The copy is tv0 (global) -> tv1 (registers) -> tv2 (tensor memory) -> tv3 (registers) -> tv4 (global). A step is an
object of the explicit format; `on` gives it to several tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.id.graph import id_graph
from compiler.analysis.tmem.patterns import SHAPES
from compiler.analysis.tmem.tmem import TensorMemoryPlan, plan_tensor_memory
from compiler.arch import arch_named
from compiler.errors import Kept, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion
from compiler.ir.id_exprs import IdExpr, Merge, Split, Swizzle
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.tensor import TensorOp, TensorView
from compiler.legality import tmem
from compiler.legality.rules import MODEL, Schedule
from compiler.schedule.apply import apply
from compiler.schedule.explicit import read_case, read_step

Step = dict[str, Any]
ALL = ("tv1", "tv2", "tv3", "tv4")
Index = dict[IterDomain, NDArray[Any]]


def on(names: str | Iterable[str], *steps: Step) -> list[Step]:
    chosen = (names,) if isinstance(names, str) else tuple(names)
    return [{"tv": name, **step} for name in chosen for step in steps]


def split(axis: int, factor: int, *, inner: bool = True) -> Step:
    return {"do": "split", "axis": axis, "factor": factor, "inner": inner}


def merge(axis: int) -> Step:
    return {"do": "merge", "axis": axis}


def reorder(order: Mapping[int, int]) -> Step:
    return {"do": "reorder", "map": {str(old): new for old, new in order.items()}}


def swizzle(x: int, y: int) -> Step:
    return {"do": "swizzle", "kind": "xor", "axes": [x, y]}


def types(*given: str | None) -> list[Step]:
    """The parallel type of each axis from the first on; None leaves one serial."""
    return [{"do": "parallelize", "axis": i, "type": t} for i, t in enumerate(given) if t is not None]


def vectorize(axis: int) -> Step:
    return {"do": "parallelize", "axis": axis, "type": "Vectorize"}


def allocate(axes: str | Sequence[int] = "loop", strides: Sequence[int | None] | None = None) -> Step:
    return {"do": "set_allocation_domain", "axes": axes, "contiguity": True} | (
        {} if strides is None else {"strides": list(strides)}
    )


def dimsep(position: int) -> Step:
    return {"do": "tmem_dimsep", "position": position}


def inline(position: int) -> Step:
    return {"do": "inline_at", "position": position}


def document(shape: Sequence[int], steps: Sequence[Step], dtype: str = "float32", **more: Any) -> dict[str, Any]:
    """The copy as a document; `more` replaces or adds members."""
    memories = ("global", "local", "tensor", "local", "global")
    tensors = {f"tv{n}": {"shape": list(shape), "dtype": dtype, "memory": memory} for n, memory in enumerate(memories)}
    vias = (None, "st_tmem", "ld_tmem", None)
    ops = [
        {"op": "set", "in": [f"tv{n}"], "out": f"tv{n + 1}"} | ({"via": via} if via else {})
        for n, via in enumerate(vias)
    ]
    case = {"name": "case", "tensors": tensors, "ops": ops, "inputs": ["tv0"], "outputs": ["tv4"]}
    return {**case, "schedule": list(steps), **more}


def fusion_of(data: Mapping[str, Any]) -> ScheduledFusion:
    """The scheduled fusion of a document whose every step can be taken."""
    case = read_case(data)
    sf = case.start
    for i, raw in enumerate(case.steps):
        sf = apply(sf, read_step(raw, sf, case.scalars, f"schedule[{i}]"))
    return sf


def plan_of(data: Mapping[str, Any]) -> TensorMemoryPlan:
    sf = fusion_of(data)
    return plan_tensor_memory(sf, id_graph(sf))


def judged(memory: TensorMemoryPlan) -> list[Violation | Kept]:
    """What the rules of tensor memory say of a plan, whatever fusion it is of."""
    schedule = Schedule(ScheduledFusion(Fusion((), (), (), (), "", ""), (), ()), arch_named("sm_100a"))
    vars(schedule)["tensor_memory"] = memory
    return [v for rule in MODEL if rule.__module__ == tmem.__name__ for v in rule(schedule)]


def breaches_of(memory: TensorMemoryPlan) -> set[str]:
    """Names of the rules that a plan breaks."""
    return {v.rule for v in judged(memory) if isinstance(v, Violation)}


# Plain counting ------------------------------------------------------------------------------------------------------


def backward(exprs: Iterable[IdExpr], index: Index) -> Index:
    """Indices of what transforms were applied to, from those of what came out."""
    index = dict(index)
    for e in reversed(tuple(exprs)):
        match e:
            case Split():
                index[e.source] = index[e.outer] * e.inner.extent + index[e.inner]
            case Merge():
                index[e.outer], index[e.inner] = np.divmod(index[e.out], e.inner.extent)
            case Swizzle():
                index[e.y] = index[e.out] ^ index[e.x]
    return index


def forward(exprs: Iterable[IdExpr], index: Index) -> Index:
    """Indices of what comes out of transforms, from those of what went in."""
    index = dict(index)
    for e in exprs:
        match e:
            case Split():
                index[e.outer], index[e.inner] = np.divmod(index[e.source], e.inner.extent)
            case Merge():
                index[e.out] = index[e.outer] * e.inner.extent + index[e.inner]
            case Swizzle():
                index[e.out] = index[e.y] ^ index[e.x]
    return index


def every_index(axes: Sequence[IterDomain]) -> Index:
    """All combinations of indices of some axes, one flat array an axis."""
    grids = np.meshgrid(*(np.arange(a.extent) for a in axes), indexing="ij") if axes else []
    return {a: g.ravel() for a, g in zip(axes, grids, strict=True)}


def allocation_index(tm: TensorView, logical: Sequence[NDArray[Any]]) -> Index:
    """Indices of the allocation axes of a tensor, given those of its logical axes."""
    index = forward(tm.exprs, dict(zip(tm.logical, logical, strict=True)))
    return forward(tm.allocation.exprs, index) if tm.allocation is not None else index


def touched_pattern(sf: ScheduledFusion, op: TensorOp, memory: TensorMemoryPlan) -> str | None:
    """The first pattern that explains, cell by cell, what every warp touches; None where no pattern does.

    For copies whose blocks have whole warps and whose loops and vectors have extents of two (or vectors of bits).
    """
    out = sf.tensor(op.output)
    name = op.output if op.output == "tv2" else op.tensor_inputs[0]
    found = next(t for t in memory.tensors if t.tensor == name)
    tm = found.layout.tensor
    index = every_index(out.loop)
    logical = backward(out.exprs, index)
    placed = allocation_index(tm, [logical[a] for a in out.logical])
    zero = np.zeros_like(next(iter(index.values())))
    sides = [
        sum((placed[a] * s for a, s in zip(side.axes, side.strides, strict=True)), zero)
        for side in (found.layout.lanes, found.layout.columns)
    ]
    lane, element = sides
    thread, step = zero, 1
    for type_ in (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ):
        for axis in out.axes_of(type_):
            thread = thread + index[axis] * step
            step *= axis.extent
    per_word = 32 // tm.dtype.nbits
    column, inside = np.divmod(element, per_word)
    vector = out.vector_axis
    number = index[vector] if vector is not None else zero
    if (number % per_word != inside).any():
        return None
    word = number // per_word
    words = 1 if vector is None else vector.extent // per_word
    if not words:
        return None
    loops = [a for a, t in zip(out.loop, out.types, strict=True) if t.is_loop and a.extent > 1]
    for shape in SHAPES:
        choices = (
            [c for n in range(len(loops) + 1) for c in combinations(loops, n)] if shape.least_registers > 1 else [()]
        )
        for chosen in choices:
            registers = words << len(chosen)
            if registers < shape.least_registers or registers > 128:
                continue
            register = word
            for n, axis in enumerate(chosen):
                register = register + (index[axis] * words << n)
            rest = [index[a] for a in loops if a not in chosen]
            if _explains(shape, registers, thread, register, rest, lane, column):
                return shape.pattern
    return None


def _explains(
    shape: Any,
    registers: int,
    thread: NDArray[Any],
    register: NDArray[Any],
    rest: Sequence[NDArray[Any]],
    lane: NDArray[Any],
    column: NDArray[Any],
) -> bool:
    """True if every warp, at every index of the other loops, touches the cells of one instruction."""
    warp = thread // 32
    group = warp
    for other in rest:
        group = group * (int(other.max()) + 1) + other
    numbering: dict[int, int] | None = None
    for one in np.unique(group):
        here = group == one
        numbers = (a[here].tolist() for a in (thread % 32, register, lane, column))
        cells = {(t, r): (a, c) for t, r, a, c in zip(*numbers, strict=True)}
        base = cells_base(cells)
        if base[0] % 16 or not 0 <= base[0] - 32 * (int(warp[here][0]) % 4) <= 32 - shape.lanes:
            return False
        half = cells[16, 0][1] - cells[0, 0][1] if shape.has_half_offset else 0
        wanted = {
            (t, r): (base[0] + shape.lane(t, r), base[1] + shape.column(t, r) + half * (t >> 4))
            for t in range(32)
            for r in range(registers)
        }
        if numbering is None:
            by_cell = {cell: r for (t, r), cell in wanted.items() if t == 0}
            numbering = {r: by_cell.get(cell, -1) for (t, r), cell in cells.items() if t == 0}
            if sorted(numbering.values()) != list(range(registers)):
                return False
        if {(t, numbering[r]): cell for (t, r), cell in cells.items()} != wanted:
            return False
    return True


def cells_base(cells: Mapping[tuple[int, int], tuple[int, int]]) -> tuple[int, int]:
    """Where an instruction begins: the smallest lane and column of its first thread."""
    own = [cell for (t, _), cell in cells.items() if t == 0]
    return min(lane for lane, _ in own), min(column for _, column in own)
