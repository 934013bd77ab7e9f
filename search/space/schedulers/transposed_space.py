"""The iteration space of a fusion with transposed inputs: which dimension is innermost where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd, prod

from compiler.ir.domain import ScheduledFusion, extents, producer_indices
from compiler.ir.expr import Expr, Var
from compiler.ir.ops import REDUCTIONS, VIEWS, OpKind
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.views import identity

SMALLEST_TILE = 32
"""Elements of the smallest tile in a dimension that has as many: a warp's width."""


@dataclass(frozen=True, slots=True)
class Source:
    """An input that is read transposed.

    `view`: the tensor that it is read as, of the iteration space's shape; `dims`: its permutation where it is nothing
    else and is read in no other way (output dimension i is input dimension dims[i]), empty for any other index map.
    `strides`: in elements, along the dimensions of the iteration space; 0 where the input does not vary.
    """

    name: str
    view: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    nbytes: int
    align: int

    @property
    def is_permuted(self) -> bool:
        return bool(self.dims)


@dataclass(frozen=True, slots=True)
class TransposedSpace:
    """Dimensions of the output, grouped into runs that sources and outputs all keep together.

    `groups` are outermost first; the last (`column`) is contiguous in the outputs, `row` in the sources. The rest is
    batch: each index of it is a transpose of its own. `target_strides`: of the outputs, in
    elements, along each group; `target_align`, in bytes; `target_bytes`: element sizes of the outputs.
    """

    sources: tuple[Source, ...]
    shape: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    row: int
    target_strides: tuple[int, ...]
    target_align: int
    target_bytes: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(prod(self.shape[d] for d in g) for g in self.groups)

    @property
    def source_bytes(self) -> tuple[int, ...]:
        """Element sizes of the sources."""
        return tuple(s.nbytes for s in self.sources)

    @property
    def column(self) -> int:
        """The group that is contiguous in the outputs."""
        return len(self.groups) - 1

    @property
    def batch(self) -> tuple[int, ...]:
        """Every group but `row` and `column`."""
        return tuple(g for g in range(len(self.groups)) if g not in (self.row, self.column))

    @property
    def is_wide(self) -> bool:
        """True if both innermost dimensions fill more than half a warp: other schedulers need not try."""
        return 2 * min(self.sizes[self.row], self.sizes[self.column]) > SMALLEST_TILE

    def source_strides(self, source: Source) -> tuple[int, ...]:
        """Strides of a source along each group."""
        return tuple(_stride(self.shape, source.strides, g) for g in self.groups)

    @property
    def source_pitch(self) -> int:
        """The greatest number of elements at a multiple of which every row of every source begins."""
        strides = (s for x in self.sources for g, s in enumerate(self.source_strides(x)) if g != self.row)
        return reduce(gcd, strides, 0)

    @property
    def target_pitch(self) -> int:
        """The same for rows of the outputs."""
        return reduce(gcd, (s for g, s in enumerate(self.target_strides) if g != self.column), 0)


def transposed_space(sf: ScheduledFusion) -> TransposedSpace | str:
    """The space of an unscheduled fusion, or why the two-dimensional tile scheduler does not take it."""
    folded = next((op for op in sf.ops if op.kind in REDUCTIONS), None)
    if folded is not None:
        return f"{folded.output} folds dimensions; a transposed tile only moves them"
    outputs = [sf.tensor(name) for name in sf.outputs]
    shape, strides = extents(outputs[0].logical), _strides(outputs[0])
    if any((extents(t.logical), _strides(t)) != (shape, strides) for t in outputs):
        return "its outputs have different shapes; a tile of one is a tile of all"
    real = [d for d, n in enumerate(shape) if n > 1]
    if not real or strides[real[-1]] != 1:
        return "its outputs have no contiguous dimension of two or more elements"
    sources = _sources(sf, shape, real[-1])
    if not sources:
        return "no input is transposed: those that vary along the outputs' innermost dimension are contiguous there"
    twice = [s.name for s in sources if not s.is_permuted and _is_read_as_it_is(sf, s.name)]
    if twice:
        return f"it reads {twice[0]} through a view and in another way as well; pass it twice"
    groups = _groups(shape, [strides, *(s.strides for s in sources)])
    row = next(i for i, g in enumerate(groups) if _stride(shape, sources[0].strides, g) == 1)
    return TransposedSpace(
        tuple(sources),
        shape,
        groups,
        row,
        tuple(_stride(shape, strides, g) for g in groups),
        min(t.align for t in outputs),
        tuple(t.dtype.nbytes for t in outputs),
    )


def view_strides(sf: ScheduledFusion, op: TensorOp, name: str) -> tuple[int, ...] | None:
    """Strides, along the dimensions of what `op` makes, of the elements that it reads of global tensor `name`.

    None where it reads at no fixed strides (a reshape across rows, a part selected by its index).
    """
    t, shape = sf.tensor(name), extents(sf.tensor(op.output).logical)
    if op.within:
        return None
    offset = Expr()
    for index, stride in zip(producer_indices(op, t, identity(shape), shape), _strides(t), strict=True):
        offset = offset + index * stride
    found = [0] * len(shape)
    for atom, c in offset.terms:
        if not isinstance(atom, Var):
            return None
        found[int(atom.name[1:])] = c
    return tuple(found)


def _sources(sf: ScheduledFusion, shape: tuple[int, ...], column: int) -> list[Source]:
    """The inputs that are read along another dimension than `column`: those that share the dimension most bytes lie
    along. What else is transposed is gathered element by element."""
    along: dict[int, list[Source]] = {}
    for op in sf.ops:
        for name in op.tensor_inputs:
            if name not in sf.inputs or op.kind not in (OpKind.PERMUTE, OpKind.BROADCAST_TO, OpKind.VIEW):
                continue
            strides, t = view_strides(sf, op, name), sf.tensor(name)
            if strides is None or strides[column] < 2:
                continue
            rows = [d for d, s in enumerate(strides) if s == 1 and shape[d] > 1]
            if rows:
                dims = op.dims if op.kind is OpKind.PERMUTE and not _is_viewed(sf, name) else ()
                source = Source(name, op.output, dims, strides, t.dtype.nbytes, t.align)
                along.setdefault(rows[-1], []).append(source)
    return max(along.values(), key=lambda found: sum(_bytes(shape, s) for s in found), default=[])


def _bytes(shape: Sequence[int], source: Source) -> int:
    return source.nbytes * prod(n for n, s in zip(shape, source.strides, strict=True) if s)


def _is_read_as_it_is(sf: ScheduledFusion, name: str) -> bool:
    return any(op.kind not in (OpKind.PERMUTE, OpKind.BROADCAST_TO, OpKind.VIEW) for op in sf.consumers(name))


def _is_viewed(sf: ScheduledFusion, name: str) -> bool:
    """True if an operator reads the input in another way than permuted, from memory: no register copy serves it."""
    return any(op.kind in VIEWS and op.kind is not OpKind.PERMUTE for op in sf.consumers(name))


def _strides(t: TensorView) -> tuple[int, ...]:
    assert t.allocation is not None, "a global tensor always has an allocation"
    return tuple(s or 0 for s in t.allocation.strides)


def _groups(shape: tuple[int, ...], layouts: Iterable[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Runs of dimensions that every layout keeps together; dimensions of size 1 join anything."""
    each = list(layouts)
    groups: list[list[int]] = []
    for d in range(len(shape)):
        if groups:
            real = [g for g in groups[-1] if shape[g] > 1]
            if shape[d] == 1 or not real or all(s[real[-1]] == s[d] * shape[d] for s in each):
                groups[-1].append(d)
                continue
        groups.append([d])
    return tuple(tuple(g) for g in groups)


def _stride(shape: tuple[int, ...], strides: Sequence[int], group: tuple[int, ...]) -> int:
    real = [d for d in group if shape[d] > 1]
    return strides[real[-1]] if real else 0
