"""Rows of the column scheduler by way of shared memory: tensor-map copies bring tiles of a step each.

    input -> shared tile [rows of the step, columns of the slab], a ring that turns with the steps -> registers
    input -> shared tiles of all steps of the block, one copy each -> registers, in every pass again

Each pass over the rows has a ring of its own, which asks for tiles ahead of their turn. Without a ring all rows of the
block come at once and stay for all passes: they are read once, and its neighbours on the multiprocessor fold or store
meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.arch import BULK_BYTES
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import OpKind
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.groups import SHARED, stage
from search.space.schedulers.column_form import ColumnAccess, ColumnForm

P = ParallelType


def stageable(form: ColumnForm, sf: ScheduledFusion, which: str) -> tuple[str, ...]:
    """The inputs that tensor maps can bring, `which` as in `ColumnForm.columns`: read as they are, once in every place,
    their columns one run in memory and their rows a multiple of 16 bytes apart."""
    by_name: dict[str, list[ColumnAccess]] = {}
    for a in form.accesses:
        if not a.is_output:
            by_name.setdefault(a.tensor, []).append(a)
    return tuple(name for name, found in by_name.items() if all(_is_stageable(form, sf, which, a) for a in found))


def _is_stageable(form: ColumnForm, sf: ScheduledFusion, which: str, a: ColumnAccess) -> bool:
    op = sf.producer(a.first)
    if op is None or op.kind is not OpKind.COPY or not a.is_full or a not in form.streams or a.align % BULK_BYTES:
        return False
    columns, rows = form.columns(which), form.folded
    if form.extent(columns) == 1 or form.extent(rows) == 1 or not _is_merged(form, a, columns, 1):
        return False
    real = [s or 0 for s, n in zip(a.strides, form.shape, strict=True) if n > 1]
    if not all(real) or sorted(real, reverse=True) != real:
        return False  # a tensor map's dimensions are those of the input, each with a stride, as they lie in memory
    pitch = next((s for d in reversed(rows) if form.shape[d] > 1 and (s := a.strides[d]) is not None), 0)
    others = (s for d, s in enumerate(a.strides) if d not in columns and form.shape[d] > 1)
    return _is_merged(form, a, rows, pitch) and all(s is not None and s * a.nbytes % BULK_BYTES == 0 for s in others)


def _is_merged(form: ColumnForm, a: ColumnAccess, dims: tuple[int, ...], step: int) -> bool:
    """True if the dimensions are one run in memory, of elements `step` apart."""
    for d in reversed([d for d in dims if form.shape[d] > 1]):
        if a.strides[d] != step:
            return False
        step *= form.shape[d]
    return True


def stage_each(b: TraceBuilder, names: tuple[str, ...], path: str, *, stays: bool) -> list[str]:
    """Puts a shared tensor between each of the inputs and its register copies: one for each of these, or one that
    `stays` for all. Returns the shared tensors."""
    staged: list[str] = []
    for name in names:
        copies = [op.output for op in b.sf.consumers(name)]
        staged.append(stage(b, name, path))
        for number, copy in enumerate(() if stays else copies[1:], start=1):
            staged.append(f"{name}_s{number}")
            b.do(steps.Recompute(f"{name}_s", copy, staged[-1]))
    return staged


def tile_types(point: Mapping[str, Any]) -> list[P]:
    """The types of a tile's loops, the last two the copy engine's. Rows that stay are asked for all at once."""
    turn = P.UNROLL if point["reuse"] == SHARED else P.SERIAL
    return [P.BIDX, *([P.CLUSTER] if point["cluster"] > 1 else []), turn, P.BULK, P.BULK]
