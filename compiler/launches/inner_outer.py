"""Reductions of rows and of columns of one tensor, rewritten so that one pass over the data serves both.

A block that goes through whole rows has a part of every column. So the rows are cut into groups: each column is folded
group by group first, beside what is folded along the rows, and the parts, one for each group and column, are folded by
a second launch in their order (nvFuser, inner and outer reductions; there the grid waits for itself
between the two steps). The parts are in the accumulator's dtype. They are plain operators of the fusion: what a column
sums is seen as [groups, rows, columns].
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import FOLDS, OpKind
from compiler.launches.writer import Writer

GROUPS_PER_SM = (1, 2, 4)
"""Groups of rows for each multiprocessor that are tried: blocks that share one are as many."""

NEAREST = 0.25
"""Groups are taken where their number is that near to what is wanted: fewer leave multiprocessors idle, and more have
a last wave that does. Where none is near, any is taken from so much less than the fewest up to so much more than the
most."""

FEWEST_ROWS = 4
"""Rows of a group: with fewer the parts are a good part of what is read."""


def group_counts(fusion: Fusion, sm_count: int) -> tuple[int, ...]:
    """Into how many groups rows are worth cutting, ascending; none where the fusion does not fold both ways.

    They divide the rows, and are near a multiple of the multiprocessors if there are such divisors.
    """
    columns = _column_folds(fusion)
    able = _cuts(fusion, columns) if columns else []
    wanted = [times * sm_count for times in GROUPS_PER_SM]
    near = {min(found, key=lambda n: (abs(n - m), n)) for m in wanted if (found := _within(able, m, m))}
    return tuple(sorted(near or _within(able, wanted[0], wanted[-1])[:1]))


def _within(counts: Sequence[int], low: int, high: int) -> list[int]:
    return [n for n in counts if (1 - NEAREST) * low <= n <= (1 + NEAREST) * high]


def in_groups(fusion: Fusion, groups: int) -> Fusion:
    """The fusion with its column reductions folded in so many groups of rows first. `groups`: of `group_counts`."""
    columns = _column_folds(fusion)
    w = Writer(fusion)
    for op in fusion.ops:
        if op in columns:
            _fold_in_groups(w, op, groups)
        else:
            w.copy(op)
    return w.fusion()


def _fold_in_groups(w: Writer, op: Op, groups: int) -> None:
    """A column reduction by way of the parts of its groups."""
    source, result = w.source.value(op.tensor_inputs[0]), w.source.value(op.output)
    rows = prod(source.shape[d] for d in op.dims)
    inner = source.shape[len(op.dims) :]
    summed = op.kind in (OpKind.SUM, OpKind.MEAN)
    kind = OpKind.SUM if summed else op.kind
    name = w.names[op.tensor_inputs[0]]
    dtype = DType.F32 if summed and result.dtype in (DType.F16, DType.BF16) else result.dtype
    if dtype is DType.F32:
        name = w.cast(name, dtype)
    parts = w.put(kind, [w.reshape(name, (groups, rows // groups, *inner))], (groups, *inner), dtype, (1,))
    folded = w.put(kind, [parts], inner, dtype, (0,))
    if op.kind is OpKind.MEAN:
        folded = w.pointwise(OpKind.DIV, folded, float(rows))
    w.names[op.output] = w.cast(w.reshape(folded, result.shape), result.dtype)


def _column_folds(fusion: Fusion) -> list[Op]:
    """The reductions of the leading dimensions of what others fold along its last ones, in this shape or another."""
    folds = [(op, fusion.value(op.tensor_inputs[0]).shape) for op in fusion.ops if op.kind in FOLDS]
    rows = [(prod(shape), prod(shape[d] for d in op.dims)) for op, shape in folds if _is_trailing(op, shape)]
    return [
        op
        for op, shape in folds
        if op.dims == tuple(range(len(op.dims))) and len(op.dims) < len(shape)
        if any(elems == prod(shape) and prod(shape[len(op.dims) :]) % row == 0 for elems, row in rows)
    ]


def _is_trailing(op: Op, shape: tuple[int, ...]) -> bool:
    return 0 < len(op.dims) < len(shape) and op.dims == tuple(range(len(shape) - len(op.dims), len(shape)))


def _cuts(fusion: Fusion, columns: Sequence[Op]) -> list[int]:
    """Numbers of groups of whole rows, ascending: each group is some of the dimensions of all column reductions, or a
    part of one of them."""
    shapes = [fusion.value(op.tensor_inputs[0]).shape[: len(op.dims)] for op in columns]
    rows = prod(shapes[0])
    if any(prod(shape) != rows for shape in shapes):
        return []
    ends = {prod(shape[d:]) for shape in shapes for d in range(len(shape))}
    low = [n for n in range(1, isqrt(rows) + 1) if rows % n == 0]
    sizes = sorted({*low, *(rows // n for n in low)}, reverse=True)
    fit = (n for n in sizes if n >= FEWEST_ROWS and all(n % end == 0 or end % n == 0 for end in ends))
    return [rows // n for n in fit if n < rows]
