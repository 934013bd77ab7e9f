"""The rows of a fusion with reductions: which dimensions are kept, which folded, and how operands lie along them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from compiler.analysis.id.indexing import first_lane, lane_variable, lanes_are_consecutive
from compiler.arch import CP_ASYNC_BYTES, MAX_WORD_BYTES
from compiler.ir.domain import ScheduledFusion, chosen_reads, downstream, producer_indices
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import CONTRACTIONS, ELSEWHERE, REDUCTIONS, SCANS, OpKind
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.views import Within

VECTORS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class RowOperand:
    """A global tensor as one operator reads it, or as it is stored, in the iteration space of the reductions.

    `read`: the register tensor that the view makes of it, or its own name where it is read as it is; `offset`: in
    elements, in a variable for each dimension of the space; `in_rows`, `in_kept`: it varies along folded, or kept,
    dimensions; `within`: bounds of places, in the same variables, outside of which nothing is read; `is_across`: it
    is read or stored once for all rows of a group (`inner_outer`); `chosen`: dimensions along which indices that are
    data say where it is read, each a variable of `offset` too; None where none do.
    """

    name: str
    read: str
    offset: Expr
    nbytes: int
    align: int
    is_output: bool
    is_direct: bool
    in_rows: bool
    in_kept: bool
    within: tuple[Within, ...] = ()
    is_across: bool = False
    chosen: frozenset[int] | None = None

    def stride(self, variable: Var) -> int:
        """Elements from the first place to the second along one dimension."""
        zero = {v.name: 0 for v in self.offset.variables}
        here = self.offset.evaluate(zero)
        return int(self.offset.evaluate({**zero, variable.name: 1}) - here) if variable.name in zero else 0


@dataclass(frozen=True, slots=True)
class Phase:
    """Where rows begin in memory: at element `start` + the sum of strides * positions of kept dimensions, of which the
    remainder by `modulus` is how far into a vector that is. `strides`: by dimension, those that decide it."""

    modulus: int
    start: int
    strides: tuple[tuple[int, int], ...]

    def of(self, shape: Sequence[int]) -> Expr:
        """The phase of a row, in a variable for each dimension of the space."""
        place = const(self.start)
        for d, stride in self.strides:
            place = place + var(variable(d, shape)) * stride
        return place % self.modulus


@dataclass(frozen=True)
class RowShape:
    """An iteration space cut into rows.

    `kept`, `folded`: its dimensions in loop order, each group outermost first. `phase`: by which rows are shifted, so
    that vectors start at multiples of the vector in memory; None where they start with the row. `crossed`: the last of
    the kept ones, which other reductions fold (`inner_outer`).
    """

    shape: tuple[int, ...]
    kept: tuple[int, ...]
    folded: tuple[int, ...]
    operands: tuple[RowOperand, ...]
    phase: Phase | None = None
    crossed: tuple[int, ...] = ()

    @property
    def order(self) -> tuple[int, ...]:
        """The dimensions of the space in loop order: kept ones, then folded ones."""
        return (*self.kept, *self.folded)

    @property
    def groups(self) -> tuple[int, ...]:
        """The kept dimensions that no other reduction folds: each place along them is a group of rows."""
        return tuple(d for d in self.kept if d not in self.crossed)

    @property
    def rows(self) -> int:
        return prod(self.shape[d] for d in self.kept)

    @property
    def cols(self) -> int:
        return prod(self.shape[d] for d in self.folded)

    @cached_property
    def streams(self) -> tuple[RowOperand, ...]:
        """Inputs and outputs of which every row is another part."""
        return tuple(o for o in self.operands if o.in_rows and (o.in_kept or self.rows == 1) and not o.is_across)

    @property
    def loaded(self) -> tuple[RowOperand, ...]:
        """Streamed inputs."""
        return tuple(o for o in self.streams if not o.is_output)

    @property
    def places(self) -> int:
        """Places along a row: its elements, and those that a shift adds."""
        return self.cols + (self.phase.modulus if self.phase is not None else 0)

    @cached_property
    def reference(self) -> RowOperand | None:
        """The stream whose rows vectors are aligned to: an output, whose parts of sectors cost most, else the input
        with the longest elements; a run of neighbours in memory at a linear place."""
        able = [o for o in self.streams if self.is_run(o) and self.base(o) is not None and o.chosen is None]
        return max(able, key=lambda o: (o.is_output, o.nbytes), default=None)

    def base(self, operand: RowOperand) -> Expr | None:
        """Where its rows begin, if that is a sum of strides from 0 on * positions of kept dimensions."""
        start = operand.offset.substitute({variable(d, self.shape): const(0) for d in self.folded})
        is_linear = all(isinstance(a, Var) and c > 0 for a, c in start.terms) and start.const >= 0
        return start if is_linear else None

    def aligned(self, elems: int) -> RowShape | None:
        """The rows, shifted by the phase of the reference to vectors of `elems`; None where vectors are aligned as rows
        are, or cannot be so."""
        operand = self.reference
        start = self.base(operand) if operand is not None else None
        if operand is None or start is None or self.width(operand, elems) == elems:
            return None
        of = {variable(d, self.shape): d for d in self.kept}
        strides = tuple((of[a], c) for a, c in start.terms if isinstance(a, Var) and c % elems)
        found = replace(self, phase=Phase(elems, start.const % elems, tuple(sorted(strides))))
        return found if found.width(operand, elems) == elems else None

    def width(self, operand: RowOperand, elems: int) -> int:
        """Elements, `elems` at most, that one access moves wherever along the merged row a vector starts."""
        most = max(1, min(elems, MAX_WORD_BYTES // operand.nbytes))
        return next(w for w in reversed(VECTORS) if w <= most and self.fits(operand, w))

    def fits(self, operand: RowOperand, elems: int) -> bool:
        """True if each `elems` neighbours of the merged row are neighbours in memory, at an aligned address, and inside
        of the bounds all of them or none."""
        if elems == 1:
            return True
        if any(self.cuts(bound, elems) for bound in operand.within) or not self.is_of_one_choice(operand, elems):
            return False
        offset = self.along(operand, elems)
        start = first_lane(offset, elems)
        aligned = start.divisible_by(elems) and operand.align % (elems * operand.nbytes) == 0
        return aligned and lanes_are_consecutive(offset, elems)

    def cuts(self, bound: Within, elems: int) -> bool:
        """True if some `elems` neighbours of the merged row may lie on both sides of a bound."""
        index = self.vectors(bound.index, elems)
        start = first_lane(index, elems)
        apart = bound.low % elems == 0 and bound.high % elems == 0 and start.divisible_by(elems)
        return index != start and not (apart and lanes_are_consecutive(index, elems))

    def is_of_one_choice(self, operand: RowOperand, elems: int) -> bool:
        """True if each `elems` neighbours of the merged row are read where one index says."""
        along = (self.vectors(var(variable(d, self.shape)), elems) for d in operand.chosen or ())
        return all(lane_variable(elems) not in e.variables for e in along)

    def is_run(self, operand: RowOperand) -> bool:
        """True if a row is one run of neighbours in memory."""
        return self.is_of_one_choice(operand, self.cols) and lanes_are_consecutive(
            self.along(operand, self.cols), self.cols
        )

    def bulk_rows(self, operand: RowOperand) -> bool:
        """True if a bulk copy can move rows, or parts of rows of whole 16 bytes (PTX ISA, cp.async.bulk): of dimensions
        in the order in which they lie in memory (`analysis.bulk_run`)."""
        ordered = self.order == tuple(range(len(self.shape)))
        start = first_lane(self.along(operand, self.cols), self.cols)
        pitch = start.divisible_by(max(1, MAX_WORD_BYTES // operand.nbytes))
        whole = self.cols * operand.nbytes % MAX_WORD_BYTES == 0
        return (
            ordered
            and operand.is_direct
            and self.is_run(operand)
            and pitch
            and whole
            and operand.align % MAX_WORD_BYTES == 0
        )

    def is_staged(self, operand: RowOperand) -> bool:
        """True for a streamed input that bulk copies can bring."""
        return operand in self.loaded and self.bulk_rows(operand)

    def is_sent(self, operand: RowOperand) -> bool:
        """True for a streamed output that bulk copies can store."""
        return operand in self.streams and operand.is_output and self.bulk_rows(operand)

    def is_copied(self, operand: RowOperand, elems: int) -> bool:
        """True for a streamed input that threads can copy past their registers, in vectors of `elems` at most: rows of
        any pitch, if only words of 4 bytes or more lie in them."""
        is_read = operand in self.loaded and operand.is_direct
        return is_read and self.width(operand, elems) * operand.nbytes in CP_ASYNC_BYTES

    def along(self, operand: RowOperand, elems: int) -> Expr:
        """The offset where the merged folded dimension is a vector of `elems`, and a lane in it."""
        return self.vectors(operand.offset, elems)

    def vectors(self, place_in_space: Expr, elems: int) -> Expr:
        """An expression in positions of the space, where the merged folded dimension is a vector and a lane in it."""
        place = var(Var("q", -(-self.places // elems))) * elems + var(lane_variable(elems))
        place = place - self.phase.of(self.shape) if self.phase is not None else place
        values: dict[Var, Expr] = {}
        inner = 1
        for d in reversed(self.folded):
            quotient = place // inner
            values[variable(d, self.shape)] = quotient if d == self.folded[0] else quotient % self.shape[d]
            inner *= self.shape[d]
        return place_in_space.substitute(values)


def variable(dim: int, shape: Sequence[int]) -> Var:
    """The variable that runs along a dimension of the iteration space."""
    return Var(f"s{dim}", shape[dim])


def fold_sets(sf: ScheduledFusion) -> dict[tuple[int, ...], list[str]]:
    """The reductions of an unscheduled fusion by the dimensions that they fold."""
    found: dict[tuple[int, ...], list[str]] = {}
    for op in sf.ops:
        if op.kind in REDUCTIONS:
            logical = sf.tensor(op.output).logical
            found.setdefault(tuple(d for d, a in enumerate(logical) if a.is_reduction), []).append(op.output)
    return found


def row_shape(sf: ScheduledFusion) -> RowShape | str:
    """The rows of an unscheduled fusion, or why it has none."""
    if (refused := product_refusal(sf)) is not None:
        return refused
    found = fold_sets(sf)
    if not found:
        return "it has no reduction"
    if len(found) > 1:
        return "it folds columns as well as rows; inner_outer takes it"
    (folded,) = found
    return shape_of_rows(sf, folded)


def shape_of_rows(sf: ScheduledFusion, folded: tuple[int, ...], columns: Sequence[str] = ()) -> RowShape | str:
    """The rows of an unscheduled fusion whose rows are `folded`, or why it has none. `columns`: reductions of others of
    its dimensions."""
    fold = next(op.output for op in sf.ops if op.kind in REDUCTIONS | SCANS)
    shape = tuple(a.extent for a in sf.tensor(fold).logical)
    crossed = tuple(d for d, a in enumerate(sf.tensor(columns[0]).logical) if a.is_reduction) if columns else ()
    kept = (*(d for d in range(len(shape)) if d not in (*folded, *crossed)), *crossed)
    operands = tuple(_operands(sf, RowShape(shape, kept, folded, (), crossed=crossed), computed_across(sf, columns)))
    plain = RowShape(shape, kept, folded, operands, crossed=crossed)
    main = _main(plain)
    if main is None:
        return "the elements that it folds are not the neighbours in memory of its inputs"
    order = sorted(folded, key=lambda d: (shape[d] > 1, -main.stride(variable(d, shape))))
    return replace(plain, folded=tuple(order))


def computed_across(sf: ScheduledFusion, columns: Sequence[str]) -> frozenset[str]:
    """What is computed from reductions of columns, without these, and what of their shape it is computed with."""
    found = set[str]().union(*(downstream(sf, name) for name in columns))
    for op in reversed(sf.ops):
        if op.output in found:
            beside = (n for n in op.tensor_inputs if n not in sf.inputs)
            found.update(n for n in beside if not is_full(sf.tensor(n), len(sf.tensor(columns[0]).logical)))
    return frozenset(found)


def chosen_refusal(sf: ScheduledFusion) -> str | None:
    """Why a scheduler that only takes what lies at places known before does not take a fusion; None where it may."""
    found = chosen_reads(sf)
    return f"it reads {found[0].inputs[0]} where an index says that is data; flat and row do that" if found else None


def product_refusal(sf: ScheduledFusion) -> str | None:
    """Why a scheduler of folds does not take a fusion that multiplies matrices; None where it may."""
    made = next((op.output for op in sf.ops if op.kind in CONTRACTIONS), None)
    return f"it multiplies matrices ({made}); product does that" if made is not None else None


def reads_a_view(op: TensorOp) -> bool:
    """True for an operator that reads its operand at another place than the one it makes."""
    return op.kind in ELSEWHERE or op.kind is OpKind.CAT


def _is_viewed(sf: ScheduledFusion, name: str) -> bool:
    """True for an input of which some operator reads a view: no register or shared copy of it serves every reader, so
    that each has what it reads in registers of its own."""
    return any(reads_a_view(op) for op in sf.consumers(name))


def is_full(t: TensorView, rank: int) -> bool:
    """True for a tensor that has an axis for every dimension of the iteration space."""
    return len(t.logical) == rank


def in_rows(t: TensorView, folded: Sequence[int]) -> bool:
    """True for a full tensor with elements along the folded dimensions."""
    return any(not (t.logical[d].is_broadcast or t.logical[d].is_reduction) for d in folded)


def _operands(sf: ScheduledFusion, rows: RowShape, across: frozenset[str]) -> list[RowOperand]:
    """Every read of an input and every store of an output, in order; those of the reduced shape among them."""
    found: dict[tuple[str, str], RowOperand] = {}
    shape, kept, folded = rows.shape, rows.kept, rows.folded
    for op in sf.ops:
        t = sf.tensor(op.output)
        dims: Sequence[int] = range(len(shape))
        if not is_full(t, len(shape)):
            dims = [d for d in dims if d not in (rows.crossed if op.output in across else folded)]
        index = [var(variable(d, shape)) for d in dims]
        extents = [a.extent for a in t.logical]
        for name in dict.fromkeys(op.tensor_inputs):
            if name in sf.inputs:
                source = sf.tensor(name)
                read = op.output if reads_a_view(op) or _is_viewed(sf, name) else name
                at = producer_indices(op, source, index, extents)
                bounds = tuple(bound.at(index) for bound in op.within)
                chosen = _chosen_along(sf, op, dims) if op.choosing and name == op.inputs[0] else None
                operand = _operand(source, read, at, folded, kept, is_output=False, chosen=chosen)
                found.setdefault((name, read), replace(operand, within=bounds, is_across=op.output in across))
        if t.memory is MemoryType.GLOBAL:
            operand = _operand(t, op.output, index, folded, kept, is_output=True)
            found[op.output, op.output] = replace(operand, is_across=op.output in across)
    return list(found.values())


def _chosen_along(sf: ScheduledFusion, op: TensorOp, dims: Sequence[int]) -> frozenset[int]:
    """The dimensions of the space along which what chooses in a TAKE varies."""
    axes = (zip(dims, sf.tensor(name).logical, strict=True) for name in op.choosing)
    return frozenset(d for pairs in axes for d, a in pairs if not a.is_broadcast)


def _operand(
    t: TensorView,
    read: str,
    index: Sequence[Expr],
    folded: Sequence[int],
    kept: Sequence[int],
    *,
    is_output: bool,
    chosen: frozenset[int] | None = None,
) -> RowOperand:
    assert t.allocation is not None, "a global tensor always has an allocation"
    offset = const(0)
    for e, stride in zip(index, t.allocation.strides, strict=True):
        offset = offset + e * (stride or 0)
    names = {v.name for v in offset.variables} | {f"s{d}" for d in chosen or ()}
    in_folded, in_kept = (any(f"s{d}" in names for d in dims) for dims in (folded, kept))
    return RowOperand(
        t.name,
        read,
        offset,
        t.dtype.nbytes,
        t.align,
        is_output,
        is_direct=read == t.name,
        chosen=chosen,
        in_rows=in_folded,
        in_kept=in_kept,
    )


def _main(rows: RowShape) -> RowOperand | None:
    """The widest streamed input whose neighbours in memory are neighbours in a row; any operand where none streams."""
    if not rows.loaded:
        return rows.operands[0] if rows.operands else None
    inner = [o for o in rows.loaded if _innermost(rows, o) in rows.folded or rows.cols == 1 or rows.rows == 1]
    return max(inner, key=lambda o: (o.is_direct, o.nbytes), default=None)


def _innermost(rows: RowShape, operand: RowOperand) -> int | None:
    """The dimension along which neighbours are nearest in memory."""
    strides = {d: abs(operand.stride(variable(d, rows.shape))) for d in range(len(rows.shape)) if rows.shape[d] > 1}
    real = {d: s for d, s in strides.items() if s}
    return min(real, key=lambda d: (real[d], -d), default=None)
