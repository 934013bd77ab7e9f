"""What the column scheduler sees of a fusion with reductions: folded, batch and column dimensions, and every access.

The iteration space S of a kernel with reductions has one shape; all reductions fold the same dimensions of it. Columns
are the kept dimensions along which the inputs are contiguous, the other kept dimensions are batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod

from compiler.arch import MAX_WORD_BYTES
from compiler.ir.domain import ScheduledFusion, extents, producer_indices
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import MOVES, REDUCTIONS, OpKind
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.views import Within, position
from search.space.schedulers.row_shape import RowShape, chosen_refusal, fold_sets, product_refusal, row_shape

_CUT = frozenset({OpKind.VIEW, OpKind.RESHAPE, OpKind.SLICE, OpKind.CAT})
"""Operators that compute where they read: past the end of a row, where the last word of it may reach, that is another
place than the next one in memory."""


@dataclass(frozen=True, slots=True)
class ColumnAccess:
    """A global tensor as one operator reads it, or as it is written.

    `first`: the tensor that the reading operator makes, or the output itself. `strides`: in elements for every
    dimension of S, None where the position is no multiple of the index (through some views). `offset`: of the first
    element.
    `run`: what a word must divide that lies on one side of every bound and end of a view, 0 where there is none.
    `is_full`: reads or writes in S, and varies along the folded dimensions; otherwise once for each column.
    """

    tensor: str
    first: str
    strides: tuple[int | None, ...]
    offset: int
    run: int
    nbytes: int
    align: int
    is_output: bool
    is_full: bool


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """Dimensions of S by their part in the schedule; each list is in the order of S."""

    shape: tuple[int, ...]
    folded: tuple[int, ...]
    kept: tuple[int, ...]
    inner: int
    accesses: tuple[ColumnAccess, ...]

    def columns(self, which: str) -> tuple[int, ...]:
        """The dimensions that threads of a row lie along: the kept ones from the last folded one on, or all.

        Where the inner one has folded dimensions right of it, it stands alone. Sizes of one are left to the batch: the
        last word of a row may reach past its end, and would be the first of another row there.
        """
        others = tuple(d for d in self.kept if d != self.inner and self.shape[d] > 1)
        if which == "all":
            return (*others, self.inner)
        last = max(self.folded)
        return (*(d for d in others if d > last and self.inner > last), self.inner)

    def batch(self, which: str) -> tuple[int, ...]:
        """The kept dimensions that blocks alone lie along."""
        taken = self.columns(which)
        return tuple(d for d in self.kept if d not in taken)

    def extent(self, dims: tuple[int, ...]) -> int:
        """Elements along dimensions merged into one."""
        return prod(self.shape[d] for d in dims)

    def width(self, access: ColumnAccess, which: str, vector: int) -> int:
        """The widest word, in elements, by which `vector` neighbouring columns of an access are read or written.

        A word is contiguous and aligned wherever it starts (PTX ISA, ld and st): its extent divides every stride but
        that along the columns, the run of contiguous columns where that is not the last dimension of all, and the
        alignment of the address.
        """
        run = self._run(access, which)
        word = vector
        while word > 1 and not self._fits(access, which, word, run):
            word //= 2
        return word

    def _run(self, access: ColumnAccess, which: str) -> tuple[int, ...]:
        """The innermost columns that lie one after the other in memory."""
        found: list[int] = []
        for d in reversed([d for d in self.columns(which) if self.shape[d] > 1]):
            if access.strides[d] != self.extent(tuple(found)):
                break
            found.append(d)
        return tuple(found)

    def is_run(self, access: ColumnAccess, which: str) -> bool:
        """True if all columns of an access lie one after the other in memory."""
        return len(self._run(access, which)) == sum(self.shape[d] > 1 for d in self.columns(which))

    def _fits(self, access: ColumnAccess, which: str, word: int, run: tuple[int, ...]) -> bool:
        if word * access.nbytes > MAX_WORD_BYTES or access.align % (word * access.nbytes):
            return False
        if access.offset % word or access.run % word:
            return False
        whole = all(d in run or self.shape[d] == 1 for d in self.columns(which))
        if not run or (self.extent(run) % word and not whole):
            return False
        others = (s for d, s in enumerate(access.strides) if d not in run and self.shape[d] > 1)
        return all(s is not None and s % word == 0 for s in others)

    @property
    def full(self) -> tuple[ColumnAccess, ...]:
        """Accesses that pass over the whole iteration space."""
        return tuple(a for a in self.accesses if a.is_full)

    @property
    def streams(self) -> tuple[ColumnAccess, ...]:
        """Full accesses that vary along every dimension, which make up most of the traffic; all full ones if none."""
        return _streams(self.shape, self.full) or self.full

    @property
    def loads(self) -> tuple[ColumnAccess, ...]:
        return tuple(a for a in self.full if not a.is_output)

    @property
    def stores(self) -> tuple[ColumnAccess, ...]:
        return tuple(a for a in self.full if a.is_output)


def column_form(sf: ScheduledFusion) -> ColumnForm | str:
    """The form of an unscheduled fusion, or why its contiguous dimension is no column."""
    folds = [op for op in sf.ops if op.kind in REDUCTIONS]
    if not folds:
        return "it has no reduction; flat takes it"
    if (refused := product_refusal(sf) or chosen_refusal(sf)) is not None:
        return refused
    first = sf.tensor(folds[0].output)
    shape = extents(first.logical)
    folded = tuple(d for d, a in enumerate(first.logical) if a.is_reduction)
    kept = tuple(d for d in range(len(shape)) if d not in folded)
    if (name := _read_in_two_ways(sf, kept)) is not None:
        return f"it reads input {name} through a view and in another way as well; pass it twice"
    if len(fold_sets(sf)) > 1:
        return "it folds rows as well as columns; inner_outer takes it"
    accesses = _accesses(sf, shape, kept)
    inner = _innermost(shape, accesses)
    if inner not in kept:
        if isinstance(row_shape(sf), RowShape):
            return "it folds the dimension along which its inputs are contiguous; row takes it"
        inner = kept[-1]
    return ColumnForm(shape, folded, kept, inner, accesses)


def with_accesses_of(form: ColumnForm, sf: ScheduledFusion) -> ColumnForm:
    """The same dimensions with the accesses of a fusion that has its register copies."""
    return replace(form, accesses=_accesses(sf, form.shape, form.kept))


def _read_in_two_ways(sf: ScheduledFusion, kept: tuple[int, ...]) -> str | None:
    """An input that is read as it is, and through a view that a copy of it in registers does not serve.

    It serves where the input lies along the kept dimensions, and the view spreads it over the folded ones.
    """
    for name in sf.inputs:
        readers = sf.consumers(name)
        plain = [op for op in readers if not reads_memory(sf, op)]
        if not plain or len(plain) == len(readers):
            continue
        spread = all(op.kind is OpKind.BROADCAST_TO and op.dims == kept for op in readers if op not in plain)
        if not spread or len(sf.tensor(name).logical) != len(kept):
            return name
    return None


def reads_memory(sf: ScheduledFusion, op: TensorOp) -> bool:
    """True for an operator that brings an input into registers by itself: a view, or a copy."""
    return op.kind in MOVES and is_load(sf, op) and sf.tensor(op.output).memory is not MemoryType.GLOBAL


def is_load(sf: ScheduledFusion, op: TensorOp) -> bool:
    """True for an operator that reads an input of the fusion."""
    return any(name in sf.inputs for name in op.tensor_inputs)


def varies_along(t: TensorView, folded: tuple[int, ...]) -> bool:
    """True for a tensor of the whole space that has elements along folded dimensions, or is stored at their places."""
    return any(not (t.logical[d].is_broadcast or t.logical[d].is_reduction) for d in folded)


def _accesses(sf: ScheduledFusion, shape: tuple[int, ...], kept: tuple[int, ...]) -> tuple[ColumnAccess, ...]:
    found: list[ColumnAccess] = []
    for op in sf.ops:
        result = sf.tensor(op.output)
        whole = len(result.logical) == len(shape)
        dims = tuple(range(len(shape))) if whole else kept
        index = tuple(var(Var(f"d{d}", shape[d])) for d in dims)
        folds = tuple(d for d in dims if d not in kept)
        is_full = whole and (op.kind in REDUCTIONS or varies_along(result, folds))
        for name in dict.fromkeys(op.tensor_inputs):
            if name in sf.inputs:
                source = sf.tensor(name)
                place = _place(source, producer_indices(op, source, index, tuple(shape[d] for d in dims)))
                strides = tuple(_stride(place, d) for d in range(len(shape)))
                run = _run_of(op.within, tuple(shape[d] for d in dims))
                if op.kind in _CUT:
                    run = gcd(run, *(n for n, s in zip(shape, strides, strict=True) if s == 1 and n > 1))
                found.append(_access(source, op.output, strides, place.const, run, is_full=is_full))
        if result.memory is MemoryType.GLOBAL:
            place = _place(result, index)
            strides = tuple(_stride(place, d) for d in range(len(shape)))
            found.append(_access(result, op.output, strides, 0, 0, is_full=is_full))
    return tuple(found)


def _place(t: TensorView, index: tuple[Expr, ...]) -> Expr:
    """Element offset in a global tensor."""
    assert t.allocation is not None, "a global tensor always has an allocation"
    total = Expr()
    for e, stride in zip(index, t.allocation.strides, strict=True):
        total = total + e * (stride or 0)
    return total


def _access(
    t: TensorView, first: str, strides: tuple[int | None, ...], offset: int, run: int, *, is_full: bool
) -> ColumnAccess:
    return ColumnAccess(t.name, first, strides, offset, run, t.dtype.nbytes, t.align, t.name == first, is_full)


def _run_of(bounds: tuple[Within, ...], extents: tuple[int, ...]) -> int:
    """What a word must divide so that each bound holds for all of its elements, or for none; 0 without bounds."""
    inner = max((d for d, n in enumerate(extents) if n > 1), default=0)
    found = 0
    for bound in bounds:
        steps = dict(bound.index.terms)
        if any(not isinstance(atom, Var) for atom in steps) or steps.pop(position(inner, extents[inner]), 0) > 1:
            return 1
        found = gcd(found, bound.low, bound.high, extents[inner], *steps.values())
    return found


def _stride(place: Expr, dim: int) -> int | None:
    """The multiple of the dimension's index in an offset; None where it also stands in a quotient or remainder."""
    step = 0
    for atom, factor in place.terms:
        if isinstance(atom, Var):
            step += factor if atom.name == f"d{dim}" else 0
        elif any(v.name == f"d{dim}" for v in Expr(((atom, 1),)).variables):
            return None
    return step


def _streams(shape: tuple[int, ...], accesses: tuple[ColumnAccess, ...]) -> tuple[ColumnAccess, ...]:
    real = [d for d, n in enumerate(shape) if n > 1]
    return tuple(a for a in accesses if all(a.strides[d] != 0 for d in real))


def _innermost(shape: tuple[int, ...], accesses: tuple[ColumnAccess, ...]) -> int:
    """The dimension along which most bytes are contiguous; of equals the last.

    Where nothing is contiguous, the dimension of the shortest stride; where nothing varies, the last.
    """
    full = tuple(a for a in accesses if a.is_full) or accesses
    weights = [0] * len(shape)
    for a in _streams(shape, full) or full:
        steps = [(s, -d) for d, s in enumerate(a.strides) if s and shape[d] > 1]
        if steps:
            weights[-min(steps)[1]] += a.nbytes
    return max(range(len(shape)), key=lambda d: (weights[d], d))
