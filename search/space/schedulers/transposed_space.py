"""The iteration space of a fusion with one permuted input: which dimension is innermost where."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from compiler.ir.domain import ScheduledFusion
from compiler.ir.ops import OpKind

SMALLEST_TILE = 32
"""Elements of the smallest tile in a dimension: a warp's width."""


@dataclass(frozen=True, slots=True)
class TransposedSpace:
    """Dimensions of the output, grouped into runs that input and output both keep together.

    `groups` are outermost first in the output's order; `order` lists the same groups in the permuted input's order.
    The last group (`column`) is contiguous in the output, `row` (the last of `order`) is contiguous in the input.
    `strides`: of the input along each group, in elements of the output's group order.
    """

    source: str
    shape: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    source_strides: tuple[int, ...]
    nbytes: int
    source_align: int
    target_align: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(prod(self.shape[d] for d in g) for g in self.groups)

    @property
    def row(self) -> int:
        """The group that is contiguous in the input."""
        return self.order[-1]

    @property
    def column(self) -> int:
        """The group that is contiguous in the output."""
        return len(self.groups) - 1

    @property
    def batch(self) -> tuple[int, ...]:
        """The other groups: each index of them is a transpose of its own."""
        return tuple(g for g in range(len(self.groups)) if g not in (self.row, self.column))

    @property
    def target_strides(self) -> tuple[int, ...]:
        """Strides of the dense output along each group."""
        sizes = self.sizes
        return tuple(prod(sizes[g + 1 :]) for g in range(len(sizes)))


def transposed_space(sf: ScheduledFusion) -> TransposedSpace | str:
    """The space of an unscheduled fusion, or why the two-dimensional tile scheduler does not take it."""
    if len(sf.outputs) != 1:
        return f"it has {len(sf.outputs)} outputs; a transposed tile has one"
    permutes = [op for op in sf.ops if op.kind is OpKind.PERMUTE]
    if len(permutes) != 1:
        return f"it permutes {len(permutes)} inputs; a transposed tile permutes one"
    op = permutes[0]
    source = sf.tensor(op.tensor_inputs[0])
    assert source.allocation is not None, "a global tensor always has an allocation"
    out = sf.tensor(sf.outputs[0])
    shape = tuple(a.extent for a in out.logical)
    if len(sf.consumers(source.name)) > 1:
        return f"it reads {source.name} transposed and in another way as well; pass it twice"
    strides = [source.allocation.strides[p] or 0 for p in op.dims]
    groups = _groups(shape, strides)
    group_strides = tuple(_stride(shape, strides, g) for g in groups)
    order = tuple(sorted(range(len(groups)), key=lambda g: -group_strides[g]))
    if order[-1] == len(groups) - 1:
        return "input and output agree on the innermost dimension: it is a strided copy, not a transpose"
    if group_strides[order[-1]] != 1:
        return f"no dimension of {source.name} is contiguous"
    nbytes, aligns = source.dtype.nbytes, (source.align, out.align)
    found = TransposedSpace(source.name, shape, groups, order, group_strides, nbytes, *aligns)
    least = min(found.sizes[found.row], found.sizes[found.column])
    if 2 * least <= SMALLEST_TILE:
        return f"its innermost dimensions go down to {least}, half a tile of {SMALLEST_TILE} or less"
    return found


def _groups(shape: tuple[int, ...], strides: list[int]) -> tuple[tuple[int, ...], ...]:
    groups: list[list[int]] = []
    for d in range(len(shape)):
        if groups:
            real = [g for g in groups[-1] if shape[g] > 1]
            if shape[d] == 1 or not real or strides[real[-1]] == strides[d] * shape[d]:
                groups[-1].append(d)
                continue
        groups.append([d])
    return tuple(tuple(g) for g in groups)


def _stride(shape: tuple[int, ...], strides: list[int], group: tuple[int, ...]) -> int:
    real = [d for d in group if shape[d] > 1]
    return strides[real[-1]] if real else 0
