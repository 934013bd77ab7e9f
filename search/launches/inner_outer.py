"""Reductions of rows and of columns of one tensor, rewritten so that one pass over the data serves both.

A block that goes through whole rows has a part of every column. So the rows are cut into groups: each column is folded
group by group first, beside what is folded along the rows, and the parts, one for each group and column, are folded by
a second launch in their order (nvFuser, inner and outer reductions; there the grid waits for itself
between the two steps). The parts are in the accumulator's dtype. They are plain operators of the fusion: what a column
sums is seen as [groups, rows, columns]. Where no number of groups divides the rows, rows of
zeros, which sums begin with, fill the last group; the kernel knows which rows those are, and reads none of them
(`schedule.start_groups`). Columns that each batch folds for itself are folded in groups of a batch's own rows, beside
those that are folded over all: [batches, groups of each, rows, columns].
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import FOLDS, OpKind
from search.launches.writer import Writer

GROUPS_PER_SM = (1, 2, 4)
"""Groups of rows for each multiprocessor that are tried: blocks that share one are as many."""

NEAREST = 0.1
"""Groups that divide the rows are taken if there is a number of them as near as this to what is wanted: fewer leave
multiprocessors idle, and more have a last wave that does. Else the last group has fewer rows than the others."""

NEAR_ENOUGH = 0.25
"""The same where all groups must be alike. Where none is near, any is taken from so much less than the fewest up to so
much more than the most."""

FEWER = 0.1
"""Groups of rows that do not divide them may be by this much fewer than wanted."""

_Added = tuple[OpKind, tuple[int, ...], DType]

TOGETHER = (4, 2)
"""Rows that blocks take at a time, the best first: they divide groups whose rows come to shared memory."""

FEWEST_ROWS = 4
"""Rows of a group: with fewer the parts are a good part of what is read."""


def group_counts(fusion: Fusion, sm_count: int) -> tuple[int, ...]:
    """Into how many groups rows are worth cutting, ascending; none where the fusion does not fold both ways.

    They are near a multiple of the multiprocessors, and divide the rows if there are such divisors; else all but the
    last have as many rows, where a kernel can do with that.
    """
    batched, leading = _batched_folds(fusion), _column_folds(fusion)
    return (_counts(fusion, batched, sm_count) if batched else ()) or _counts(fusion, leading, sm_count)


def _counts(fusion: Fusion, columns: Sequence[Op], sm_count: int) -> tuple[int, ...]:
    if not columns:
        return ()
    able, rows, may_rest = _cuts(fusion, columns), _rows_of(fusion, columns[0]), _may_leave_a_rest(fusion, columns)
    found: set[int] = set()
    for wanted in (times * sm_count for times in GROUPS_PER_SM):
        near = _within(able, wanted, wanted, NEAREST if may_rest else NEAR_ENOUGH)
        if near:
            found.add(min(near, key=lambda n: (abs(n - wanted), n)))
        elif may_rest and (size := _rows_of_a_group(rows, wanted)) >= FEWEST_ROWS:
            found.add(-(-rows // size))
    fewest, most = (times * sm_count for times in (GROUPS_PER_SM[0], GROUPS_PER_SM[-1]))
    return tuple(sorted(found or _within(able, fewest, most, NEAR_ENOUGH)[:1]))


def _rows_of_a_group(rows: int, groups: int) -> int:
    """Rows of each of about so many groups: a multiple of as many as a block takes at a time, if few groups less do."""
    size = -(-rows // groups)
    rounded = (-(-size // together) * together for together in TOGETHER)
    return next((n for n in rounded if -(-rows // n) >= (1 - FEWER) * groups), size)


def _may_leave_a_rest(fusion: Fusion, columns: Sequence[Op]) -> bool:
    """Whether the rows of the column reductions may be brought to whole groups: they fold floats of as many rows."""
    return len({_rows_of(fusion, op) for op in columns}) == 1 and all(
        op.dims[0] == 0 and fusion.value(op.tensor_inputs[0]).dtype.is_float and op.kind in FOLDS for op in columns
    )


def _rows_of(fusion: Fusion, op: Op) -> int:
    """Rows that a column reduction folds."""
    shape = fusion.value(op.tensor_inputs[0]).shape
    return prod(shape[d] for d in op.dims)


def _batches_of(fusion: Fusion, op: Op) -> int:
    """What stands before the dimensions that a column reduction folds: it folds each of these for itself."""
    return prod(fusion.value(op.tensor_inputs[0]).shape[: op.dims[0]])


def _all_rows_of(fusion: Fusion, op: Op) -> int:
    """Rows of all its batches."""
    return _batches_of(fusion, op) * _rows_of(fusion, op)


def _within(counts: Sequence[int], low: int, high: int, near: float) -> list[int]:
    return [n for n in counts if (1 - near) * low <= n <= (1 + near) * high]


def in_groups(fusion: Fusion, groups: int) -> Fusion:
    """The fusion with its column reductions folded in so many groups of rows first. `groups`: of `group_counts`."""
    batched = _batched_folds(fusion)
    is_batched = groups in _cuts(fusion, batched)
    columns = batched if is_batched else _column_folds(fusion)
    w, added = Writer(fusion), dict[_Added, str]()
    batches = max((_batches_of(fusion, op) for op in columns), default=1)
    for op in fusion.ops:
        if op in columns and is_batched:
            _fold_in_batches(w, op, groups, batches)
        elif op in columns:
            _fold_in_groups(w, op, groups, added)
        else:
            w.copy(op)
    return w.fusion()


def _fold_in_groups(w: Writer, op: Op, groups: int, added: dict[_Added, str]) -> None:
    """A column reduction by way of the parts of its groups. `added`: what rows were brought to whole groups by."""
    source = w.source.value(op.tensor_inputs[0])
    rows = prod(source.shape[d] for d in op.dims)
    inner = source.shape[len(op.dims) :]
    kind, dtype = w.parts_of(op)
    name = w.cast(w.names[op.tensor_inputs[0]], dtype)
    if rows % groups:
        name = _with_rest(w, kind, w.reshape(name, (rows, *inner)), groups, added)
    cut = w.reshape(name, (groups, -(-rows // groups), *inner))
    parts = w.put(kind, [cut], (groups, *inner), dtype, (1,))
    w.finish(op, w.put(kind, [parts], inner, dtype, (0,)))


def _fold_in_batches(w: Writer, op: Op, groups: int, batches: int) -> None:
    """The same where some columns are folded batch by batch: no group has rows of two batches."""
    source = w.source.value(op.tensor_inputs[0])
    inner = source.shape[op.dims[-1] + 1 :]
    kind, dtype = w.parts_of(op)
    name, each = w.cast(w.names[op.tensor_inputs[0]], dtype), groups // batches
    cut = w.reshape(name, (batches, each, _all_rows_of(w.source, op) // groups, *inner))
    parts = w.put(kind, [cut], (batches, each, *inner), dtype, (2,))
    if _batches_of(w.source, op) > 1:
        w.finish(op, w.put(kind, [parts], (batches, *inner), dtype, (1,)))
    else:
        w.finish(op, w.put(kind, [parts], inner, dtype, (0, 1)))


def _with_rest(w: Writer, kind: OpKind, name: str, groups: int, added: dict[_Added, str]) -> str:
    """`name` with as many more rows as whole groups take, of what a fold begins with."""
    value = w.value(name)
    rows, *inner = value.shape
    shape = (-(-rows // groups) * groups - rows, *inner)
    key = (kind, shape, value.dtype)
    if key not in added:
        count = w.cast(w.put(OpKind.IOTA, [], shape, DType.I32, (0,)), value.dtype)
        zeros = w.pointwise(OpKind.MUL, count, 0.0)
        added[key] = w.pointwise(OpKind.ADD, zeros, kind.row.begins) if kind.row.begins else zeros
    return w.joined(0, name, added[key])


def _column_folds(fusion: Fusion) -> list[Op]:
    """The reductions of the leading dimensions of what others fold along its last ones, in this shape or another."""
    return [op for op in _folds_across(fusion) if op.dims[0] == 0]


def _batched_folds(fusion: Fusion) -> list[Op]:
    """Those and the reductions of dimensions behind those of batches, where some are: batches are the same number for
    all that have any, and rows of all batches for all; else none."""
    found = _folds_across(fusion)
    batches = {_batches_of(fusion, op) for op in found} - {1}
    return found if len(batches) == 1 and len({_all_rows_of(fusion, op) for op in found}) == 1 else []


def _folds_across(fusion: Fusion) -> list[Op]:
    """The reductions of neighbouring dimensions that are not the last ones, of what others fold along those."""
    folds = [(op, fusion.value(op.tensor_inputs[0]).shape) for op in fusion.ops if op.kind in FOLDS]
    rows = [(prod(shape), prod(shape[d] for d in op.dims)) for op, shape in folds if _is_trailing(op, shape)]
    return [
        op
        for op, shape in folds
        if op.dims == tuple(range(op.dims[0], op.dims[0] + len(op.dims))) and op.dims[-1] + 1 < len(shape)
        if any(elems == prod(shape) and prod(shape[op.dims[-1] + 1 :]) % row == 0 for elems, row in rows)
    ]


def _is_trailing(op: Op, shape: tuple[int, ...]) -> bool:
    return 0 < len(op.dims) < len(shape) and op.dims == tuple(range(len(shape) - len(op.dims), len(shape)))


def _cuts(fusion: Fusion, columns: Sequence[Op]) -> list[int]:
    """Numbers of groups of whole rows, ascending: each group is some of the dimensions of all column reductions, or a
    part of one of them."""
    shapes = [fusion.value(op.tensor_inputs[0]).shape[: op.dims[-1] + 1] for op in columns]
    if not shapes:
        return []
    rows = prod(shapes[0])
    if any(prod(shape) != rows for shape in shapes):
        return []
    most = min(_rows_of(fusion, op) for op in columns)  # a group is of one batch
    ends = {prod(shape[d:]) for shape in shapes for d in range(len(shape))}
    low = [n for n in range(1, isqrt(rows) + 1) if rows % n == 0]
    sizes = sorted({*low, *(rows // n for n in low)}, reverse=True)
    fit = (n for n in sizes if n >= FEWEST_ROWS and all(n % end == 0 or end % n == 0 for end in ends))
    return [rows // n for n in fit if n < rows and most % n == 0]
