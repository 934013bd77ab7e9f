"""The iteration space of a fusion: its dimensions merged as far as every tensor allows, and who varies along which."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import gcd, prod

from compiler.arch import MAX_WORD_BYTES
from compiler.ir.domain import ScheduledFusion, producer_indices
from compiler.ir.expr import Expr, Var
from compiler.ir.ops import ELSEWHERE, REDUCTIONS, SCANS, OpKind
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.views import Within, depends_on, identity, position, row_variable
from search.space.groups import SWEPT

HELD = {"held_2": 2, "held_4": 4, "held_8": 8}
"""Row orders in which a thread takes several steps along a dimension that an operand repeats along."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A global tensor as the iteration space sees it: a stride in elements for each dimension, 0 if it does not vary.

    `first`: the register tensor that holds its values first, seen through its view; outputs name themselves.
    `is_direct`: read as it is, not through a view, so that a bulk copy can stage it. `is_affine`: its place is a sum of
    strides; else they only tell along which dimensions it varies. `align`: of its first element, in bytes. `run`: what
    a word of a bounded view must divide, 0 where nothing bounds it. `start`: its first element in the tensor, of which
    the address, and that of what an index chooses, is a multiple of `base` bytes. `is_broadcast`: it is read as it is
    but for dimensions that it repeats along, which a bulk copy can do, too. `is_chosen`: indices
    that are data say where.
    """

    name: str
    first: str
    strides: tuple[int, ...]
    nbytes: int
    is_output: bool
    align: int
    is_direct: bool
    is_affine: bool = True
    run: int = 0
    start: int = 0
    base: int = 1
    is_broadcast: bool = False
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class IterationSpace:
    """`groups`: runs of dimensions that every operand sees as one, outermost first; `sizes`: their extents.

    `parts`: the stored tensors that are parts of an output.
    """

    operands: tuple[Operand, ...]
    shape: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    parts: tuple[str, ...] = ()

    @property
    def elems(self) -> int:
        return prod(self.sizes)

    def stride(self, operand: Operand, group: int) -> int:
        """Stride of an operand along a group: that of its innermost dimension."""
        real = [d for d in self.groups[group] if self.shape[d] > 1]
        return operand.strides[real[-1]] if real else 0

    def is_stream(self, operand: Operand) -> bool:
        """True if the operand varies along every group: it is read or written once, not again and again."""
        return all(self.stride(operand, g) or self.sizes[g] == 1 for g in range(len(self.groups)))

    def distinct(self, operand: Operand) -> int:
        """Elements of the operand that the space reads or writes, those along broadcast dimensions once."""
        return prod(n for g, n in enumerate(self.sizes) if self.stride(operand, g))

    @property
    def streams(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if self.is_stream(o))

    @property
    def stageable(self) -> tuple[Operand, ...]:
        """Inputs that a bulk copy can bring tile by tile."""
        return tuple(o for o in self.streams if o.is_direct and not o.is_output)

    def is_merged(self, operand: Operand) -> bool:
        """True if the operand is one run of memory over all dimensions, which the merged view can cut anywhere."""
        last = len(self.sizes) - 1
        joins = (self.stride(operand, g) == self.stride(operand, g + 1) * self.sizes[g + 1] for g in range(last))
        return operand.is_affine and all(joins)

    def lanes(self, operand: Operand, view: str, most: int) -> int:
        """The widest word of at most `most` elements in which the operand can be moved, in that view of the space.

        A word is contiguous and aligned wherever it starts, and crosses the end of no row that the next one does not
        continue (nvFuser, vectorization).
        """
        width = most
        while width > 1 and not self._takes(operand, view, width):
            width //= 2
        return width

    def _takes(self, o: Operand, view: str, width: int) -> bool:
        last = len(self.sizes) - 1
        if width * o.nbytes > MAX_WORD_BYTES:
            return False
        if not o.is_affine or self.stride(o, last) != 1 or o.align % (width * o.nbytes) or o.run % width:
            return False
        if view == "1d" and self.is_merged(o):
            return True
        return self.sizes[last] % width == 0 and all(self.stride(o, g) % width == 0 for g in range(last))

    @property
    def repeated(self) -> tuple[Operand, ...]:
        """Operands broadcast along some dimension."""
        return tuple(o for o in self.operands if not self.is_stream(o))

    @property
    def held_group(self) -> int | None:
        """The last outer group that an operand repeats along, where rows are cut from another: a thread that takes
        several steps along it has that operand in registers for all of them (nvFuser, broadcast in the tile)."""
        outer = range(len(self.groups) - 2)
        found = [g for g in outer if self.sizes[g] > 1 and any(self.stride(o, g) == 0 for o in self.repeated)]
        return found[-1] if found else None

    def swept_rows(self, row_order: str) -> int:
        """Rows, a power of two, of the last outer group for which broadcast operands take the bytes of an order of
        `SWEPT`: fewer than there are. 0 for an order that cannot be swept so."""
        last = len(self.groups) - 2
        if row_order not in SWEPT or self.held_group is None:
            return 0
        bound = [o for o in self.repeated if self.stride(o, last) != 0]
        rows = self.sizes[last] * SWEPT[row_order] // max(1, sum(self.distinct(o) * o.nbytes for o in bound))
        return 1 << (rows.bit_length() - 1) if 1 < rows < self.sizes[last] else 0

    def swept_parts(self, tile_order: str) -> int:
        """Parts of a row, in a space of rows alone, for each of which broadcast operands take the bytes of an order of
        `SWEPT` at most; 0 where they take no more for all of it, and for other orders."""
        if tile_order not in SWEPT or len(self.groups) != 2:
            return 0
        nbytes = sum(self.distinct(o) * o.nbytes for o in self.repeated if self.stride(o, 0) == 0)
        return -(-nbytes // SWEPT[tile_order]) if nbytes > SWEPT[tile_order] else 0

    def outer_order(self, row_order: str) -> list[int]:
        """Groups but the innermost, outermost first; `broadcast_last` puts last those that an operand repeats along.

        The orders of `HELD` put the group that is held before the one that rows are cut from; those of `SWEPT` leave
        them as they are.
        """
        outer = range(len(self.groups) - 1)
        if row_order in HELD and (held := self.held_group) is not None:
            return [*(g for g in outer[:-1] if g != held), held, outer[-1]]
        if row_order == "natural" or row_order in SWEPT:
            return list(outer)
        repeats = [any(self.stride(o, g) == 0 for o in self.repeated) for g in outer]
        return sorted(outer, key=lambda g: (repeats[g], g))


def iteration_space(sf: ScheduledFusion) -> IterationSpace | str:
    """The iteration space of an unscheduled fusion, or why it has none."""
    shapes = {tuple(a.extent for a in sf.tensor(o).logical) for o in sf.outputs}
    if len(shapes) != 1:
        return f"its outputs have different shapes: {', '.join(map(str, sorted(shapes)))}"
    if (scan := next((op for op in sf.ops if op.kind in SCANS), None)) is not None:
        return f"it adds up along a dimension: {scan.kind} ({scan.output}); scan does that"
    folds = [op for op in sf.ops if op.kind in REDUCTIONS]
    if folds:
        return f"it folds dimensions: {folds[0].kind} ({folds[0].output})"
    (shape,) = shapes
    operands: list[Operand] = []
    for name in sf.inputs:
        t = sf.tensor(name)
        assert t.allocation is not None
        for op in sf.consumers(name):
            first = op.output if op.kind in ELSEWHERE else name
            if not any(o.name == name and o.first == first for o in operands):
                operands.append(_operand(sf, op, t, first, shape))
    for name in sf.outputs:
        t = sf.tensor(name)
        assert t.allocation is not None
        strides = [s or 0 for s in t.allocation.strides]
        operands.append(Operand(name, name, tuple(strides), t.dtype.nbytes, True, t.align, True, base=t.align))
    groups = _merge_dims(shape, operands)
    parts = tuple(name for name in sf.outputs if sf.tensor(name).part_of)
    return IterationSpace(tuple(operands), shape, groups, tuple(prod(shape[d] for d in g) for g in groups), parts)


def _operand(sf: ScheduledFusion, op: TensorOp, t: TensorView, first: str, shape: tuple[int, ...]) -> Operand:
    """An input as `op` reads it."""
    assert t.allocation is not None
    own, nbytes = identity(shape), t.dtype.nbytes
    read = producer_indices(op, t, own, shape)
    place = Expr()
    for e, stride in zip(read, t.allocation.strides, strict=True):
        place = place + e * (stride or 0)
    steps = {v: dict(place.terms).get(v, 0) for e in own for v in e.variables}
    strides = tuple(steps.get(position(d, n), 0) for d, n in enumerate(shape))
    chosen = tuple(row_variable(i, extent) for i, extent in enumerate(op.dims, 1)) if op.choosing else ()
    for row, name in zip(chosen, op.choosing, strict=True):
        strides = _with_chosen(sf.tensor(name), row, dict(place.terms).get(row, 0), strides)
    is_affine = all(isinstance(atom, Var) for atom, _ in place.terms)
    if not is_affine:
        strides = tuple(1 if d in depends_on(read) else 0 for d in range(len(shape)))
    run = reduce(gcd, (_run(w, shape) for w in op.within), 0)
    base = gcd(t.align, *(c * nbytes for atom, c in place.terms if atom in chosen))
    align = gcd(base, place.const * nbytes)
    is_direct = op.kind not in ELSEWHERE and all(c.kind not in ELSEWHERE for c in sf.consumers(t.name))
    is_broadcast = op.kind is OpKind.BROADCAST_TO
    start = place.const
    return Operand(
        t.name, first, strides, nbytes, False, align, is_direct, is_affine, run, start, base, is_broadcast, bool(chosen)
    )


def _with_chosen(index: TensorView, row: Var, stride: int, strides: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of what is read at places that an index says, as if these followed one another, a place more than
    there are from one to the next: multiples of a row's, of which none goes on in the next one. Rows that are all one
    place are apart too: each has an index of its own, which is looked at. What is read backwards goes on backwards:
    steps of both signs might add up to neighbours."""
    step = max(stride, 1) * (row.extent + 1)
    for d in reversed(range(len(index.logical))):
        axis = index.logical[d]
        if not axis.is_broadcast and axis.extent > 1:
            along = strides[d] + (step if strides[d] >= 0 else -step)
            strides = (*strides[:d], along, *strides[d + 1 :])
            step *= axis.extent
    return strides


def _run(bound: Within, shape: tuple[int, ...]) -> int:
    """What a word must divide so that a bound holds for all its elements or for none; 1 where that is not known."""
    inner = max((d for d, n in enumerate(shape) if n > 1), default=0)
    steps = dict(bound.index.terms)
    if any(not isinstance(atom, Var) for atom in steps):
        return 1
    along = steps.pop(position(inner, shape[inner]), 0)
    return reduce(gcd, (bound.low, bound.high, shape[inner], *steps.values())) if along in (0, 1) else 1


def _merge_dims(shape: tuple[int, ...], operands: list[Operand]) -> tuple[tuple[int, ...], ...]:
    """Joins neighbouring dimensions that are contiguous in every operand; dimensions of size 1 join anything."""
    groups: list[list[int]] = []
    for d in range(len(shape)):
        if groups and _joins(shape, operands, groups[-1], d):
            groups[-1].append(d)
        else:
            groups.append([d])
    return tuple(tuple(g) for g in groups)


def _joins(shape: tuple[int, ...], operands: list[Operand], group: list[int], d: int) -> bool:
    real = [g for g in group if shape[g] > 1]
    if shape[d] == 1 or not real:
        return True
    for o in operands:
        outer, inner = o.strides[real[-1]], o.strides[d]
        if outer != inner * shape[d] if o.is_affine else bool(outer) != bool(inner):
            return False
    return True
