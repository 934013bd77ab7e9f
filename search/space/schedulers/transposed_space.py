"""The iteration space of a fusion with transposed inputs: which dimension is innermost where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd, prod

from compiler.ir.domain import ScheduledFusion, extents, producer_indices
from compiler.ir.expr import Expr, Var
from compiler.ir.ops import REDUCTIONS, SCANS, VIEWS, OpKind
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.views import identity
from search.space.schedulers.row_shape import chosen_refusal

SMALLEST_TILE = 32
"""Elements of the smallest tile in a dimension that has as many: a warp's width."""

LONG_RUN = 512
"""Elements of a run of which tiles of 64 waste little, whatever its length: at most an eighth."""


@dataclass(frozen=True, slots=True)
class Source:
    """An input that is read transposed.

    `view`: the tensor that it is read as, of the iteration space's shape: the input itself where its memory alone is
    in another order. `dims`: its permutation where it is nothing else and is read in no other way (output dimension i
    is input dimension dims[i]), empty for any other index map. `strides`: in elements, along the dimensions of the
    iteration space; 0 where the input does not vary.
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

    @property
    def is_read_as_it_is(self) -> bool:
        return self.view == self.name

    @property
    def is_whole(self) -> bool:
        """True if tiles of the input are tiles of the iteration space, so that something else than threads that work
        out every address can bring them."""
        return self.is_permuted or self.is_read_as_it_is


@dataclass(frozen=True, slots=True)
class TransposedSpace:
    """Dimensions of the output, grouped into runs that sources and outputs all keep together.

    `groups` are outermost first. `rows` are the groups that are one run of memory in the sources, outermost first, the
    last of them contiguous; `columns` the same in the outputs. The rest is batch: each index of it is a transpose of
    its own. `target_strides`: of the outputs, in elements, along each group; `target_align`, in bytes; `target_bytes`:
    element sizes of the outputs; `operand_bytes`: of what is read along every dimension and is no source.
    """

    sources: tuple[Source, ...]
    shape: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    target_strides: tuple[int, ...]
    target_align: int
    target_bytes: tuple[int, ...]
    operand_bytes: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(prod(self.shape[d] for d in g) for g in self.groups)

    @property
    def source_bytes(self) -> tuple[int, ...]:
        """Element sizes of the sources."""
        return tuple(s.nbytes for s in self.sources)

    @property
    def extent_in(self) -> int:
        """Elements of one run of the sources."""
        return prod(self.sizes[g] for g in self.rows)

    @property
    def extent_out(self) -> int:
        """Elements of one run of the outputs."""
        return prod(self.sizes[g] for g in self.columns)

    @property
    def batch(self) -> tuple[int, ...]:
        """Every group that is in neither run."""
        return tuple(g for g in range(len(self.groups)) if g not in (*self.rows, *self.columns))

    @property
    def batch_inside(self) -> tuple[int, ...]:
        """Batch groups along which the outputs step less far than from one element of a source's row to the next: of
        each of their indices there is a row between those of a tile."""
        step = self.target_strides[self.rows[-1]]
        return tuple(g for g in self.batch if self.sizes[g] > 1 and self.target_strides[g] < step)

    @property
    def is_wide(self) -> bool:
        """True if both runs fill more than half a warp: other schedulers need not try."""
        return 2 * min(self.extent_in, self.extent_out) > SMALLEST_TILE

    def source_strides(self, source: Source) -> tuple[int, ...]:
        """Strides of a source along each group."""
        return tuple(_stride(self.shape, source.strides, g) for g in self.groups)

    @property
    def source_pitch(self) -> int:
        """The greatest number of elements at a multiple of which every row of every source begins."""
        strides = (s for x in self.sources for g, s in enumerate(self.source_strides(x)) if g not in self.rows)
        return reduce(gcd, strides, 0)

    def loads_by(self, elems: int) -> bool:
        """True if rows of every source hold whole vectors of `elems`, each aligned."""
        aligned = all(s.align % (elems * s.nbytes) == 0 for s in self.sources)
        return aligned and self.source_pitch % elems == 0 and self.extent_in % elems == 0

    @property
    def target_pitch(self) -> int:
        """The same for rows of the outputs."""
        return reduce(gcd, (s for g, s in enumerate(self.target_strides) if g not in self.columns), 0)


def transposed_space(sf: ScheduledFusion) -> TransposedSpace | str:
    """The space of an unscheduled fusion, or why the two-dimensional tile scheduler does not take it."""
    folded = next((op for op in sf.ops if op.kind in REDUCTIONS | SCANS), None)
    if folded is not None:
        done = "folds dimensions" if folded.kind in REDUCTIONS else "adds up along a dimension"
        return f"{folded.output} {done}; a transposed tile only moves them"
    if (refused := chosen_refusal(sf)) is not None:
        return refused
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
    twice = [s.name for s in sources if not s.is_whole and _is_read_as_it_is(sf, s.name)]
    if twice:
        return f"it reads {twice[0]} through a view and in another way as well; pass it twice"
    groups = _groups(shape, [strides, *(s.strides for s in sources)])
    along = [tuple(_stride(shape, layout, g) for g in groups) for layout in (strides, *(s.strides for s in sources))]
    sizes = tuple(prod(shape[d] for d in g) for g in groups)
    rows, columns = _runs(sizes, along[0], along[1:])
    return TransposedSpace(
        tuple(sources),
        shape,
        groups,
        rows,
        columns,
        along[0],
        min(t.align for t in outputs),
        tuple(t.dtype.nbytes for t in outputs),
        _operand_bytes(sf, shape, sources),
    )


def _operand_bytes(sf: ScheduledFusion, shape: tuple[int, ...], sources: list[Source]) -> tuple[int, ...]:
    chained = {(s.name, s.view) for s in sources}
    found: dict[tuple[str, str], int] = {}
    for op in sf.ops:
        for name in op.tensor_inputs:
            at = name, op.output if op.kind in VIEWS else name
            if name in sf.inputs and at not in chained and _is_stream(sf, op, name, shape):
                found[at] = sf.tensor(name).dtype.nbytes
    return tuple(found.values())


def _is_stream(sf: ScheduledFusion, op: TensorOp, name: str, shape: tuple[int, ...]) -> bool:
    """Whether what is read varies along every dimension: each of its elements is used once."""
    strides = view_strides(sf, op, name) if op.kind in VIEWS else _strides(sf.tensor(name))
    return strides is None or all(s or n == 1 for s, n in zip(strides, shape, strict=True))


def _runs(
    sizes: tuple[int, ...], target: tuple[int, ...], sources: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The groups that tiles are cut from: those contiguous in the sources, and in the outputs.

    A run that tiles would not fill goes on over the groups that follow in memory, as long as neither the other run nor
    the tensors stand in the way (nvFuser, scheduling of transposes: small inner dimensions). The shorter grows first.
    """
    rows = [next(g for g, stride in enumerate(sources[0]) if stride == 1 and sizes[g] > 1)]
    columns = [len(sizes) - 1]

    def grown(run: list[int], layouts: Sequence[tuple[int, ...]]) -> int | None:
        length = prod(sizes[g] for g in run)
        if length >= LONG_RUN or length % (2 * SMALLEST_TILE) == 0:
            return None
        free = (g for g in range(len(sizes)) if g not in (*rows, *columns))
        return next((g for g in free if all(s[g] == s[run[-1]] * length for s in layouts)), None)

    while True:
        both = [
            (prod(sizes[g] for g in run), run, grown(run, by)) for run, by in ((rows, sources), (columns, [target]))
        ]
        able = [(length, run, group) for length, run, group in both if group is not None]
        if not able:
            return tuple(rows), tuple(columns)
        _, run, group = min(able, key=lambda one: one[0])
        run.insert(0, group)


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
            if name not in sf.inputs:
                continue
            is_view, t = op.kind in (OpKind.PERMUTE, OpKind.BROADCAST_TO, OpKind.VIEW), sf.tensor(name)
            if not is_view and (op.kind in VIEWS or any(c.kind in VIEWS for c in sf.consumers(name))):
                continue
            strides = view_strides(sf, op, name) if is_view else _strides(t)
            if strides is None or strides[column] < 2:
                continue
            rows = [d for d, s in enumerate(strides) if s == 1 and shape[d] > 1]
            if rows:
                dims = op.dims if op.kind is OpKind.PERMUTE and not _is_viewed(sf, name) else ()
                source = Source(name, op.output if is_view else name, dims, strides, t.dtype.nbytes, t.align)
                found = along.setdefault(rows[-1], [])
                found += [source] if source not in found else []
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
