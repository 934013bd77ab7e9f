"""The iteration space of a fusion: its dimensions merged as far as every tensor allows, and who varies along which."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from compiler.ir.domain import ScheduledFusion
from compiler.ir.ops import VIEWS, OpKind
from compiler.ir.tensor import TensorOp


@dataclass(frozen=True, slots=True)
class Operand:
    """A global tensor as the iteration space sees it: a stride in elements for each dimension, 0 if it does not vary.

    `first`: the register tensor that holds its values first, seen through its view; outputs name themselves.
    `is_direct`: read as it is, not through a view, so that a bulk copy can stage it.
    """

    name: str
    first: str
    strides: tuple[int, ...]
    nbytes: int
    is_output: bool
    align: int
    is_direct: bool


@dataclass(frozen=True, slots=True)
class IterationSpace:
    """`groups`: runs of dimensions that every operand sees as one, outermost first; `sizes`: their extents."""

    operands: tuple[Operand, ...]
    shape: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]

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

    @property
    def streams(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if self.is_stream(o))

    @property
    def stageable(self) -> tuple[Operand, ...]:
        """Inputs that a bulk copy can bring tile by tile."""
        return tuple(o for o in self.streams if o.is_direct and not o.is_output)

    @property
    def repeated(self) -> tuple[Operand, ...]:
        """Operands broadcast along some dimension."""
        return tuple(o for o in self.operands if not self.is_stream(o))

    def outer_order(self, row_order: str) -> list[int]:
        """Groups but the innermost, outermost first; `broadcast_last` puts last those that an operand repeats along."""
        outer = range(len(self.groups) - 1)
        if row_order == "natural":
            return list(outer)
        repeats = [any(self.stride(o, g) == 0 for o in self.repeated) for g in outer]
        return sorted(outer, key=lambda g: (repeats[g], g))


def iteration_space(sf: ScheduledFusion) -> IterationSpace | str:
    """The iteration space of an unscheduled fusion, or why it has none."""
    shapes = {tuple(a.extent for a in sf.tensor(o).logical) for o in sf.outputs}
    if len(shapes) != 1:
        return f"its outputs have different shapes: {', '.join(map(str, sorted(shapes)))}"
    twice = [n for n in sf.inputs if len(sf.consumers(n)) > 1 and any(op.kind in VIEWS for op in sf.consumers(n))]
    if twice:
        return f"it reads input {twice[0]} through a view and in another way as well; pass it twice"
    (shape,) = shapes
    operands: list[Operand] = []
    for name in sf.inputs:
        t = sf.tensor(name)
        assert t.allocation is not None
        for op in sf.consumers(name):
            strides = [0] * len(shape)
            for d, axis, stride in zip(_dims_of(op, len(shape)), t.logical, t.allocation.strides, strict=True):
                strides[d] = (stride or 0) if axis.extent == shape[d] and axis.extent > 1 else 0
            first = op.output if op.kind in VIEWS else name
            if not any(o.name == name and o.first == first for o in operands):
                operands.append(
                    Operand(name, first, tuple(strides), t.dtype.nbytes, False, t.align, op.kind not in VIEWS)
                )
    for name in sf.outputs:
        t = sf.tensor(name)
        assert t.allocation is not None
        strides = [s or 0 for s in t.allocation.strides]
        operands.append(Operand(name, name, tuple(strides), t.dtype.nbytes, True, t.align, True))
    groups = _merge_dims(shape, operands)
    return IterationSpace(tuple(operands), shape, groups, tuple(prod(shape[d] for d in g) for g in groups))


def _dims_of(op: TensorOp, rank: int) -> tuple[int, ...]:
    """For each dimension of the operand, the dimension of the iteration space that it is read along."""
    match op.kind:
        case OpKind.BROADCAST_TO:
            return op.dims
        case OpKind.PERMUTE:
            return tuple(op.dims.index(d) for d in range(rank))
        case _:
            return tuple(range(rank))


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
    return all(o.strides[real[-1]] == o.strides[d] * shape[d] for o in operands)
