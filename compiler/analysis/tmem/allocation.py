"""What a tensor takes of tensor memory, and the regions that tensors are allocated in.

Tensor memory has two dimensions: 128 lanes, and 512 columns of 4 bytes (PTX ISA, tcgen05). Allocation axes left of the
tensor's separator are lanes, the others columns, each side with strides of its own. Which axes are allocated is said by
the three rules (nvFuser, allocation rules), an axis of the allocation domain being inlined or parallel only if it is
itself a loop axis (nvFuser, tensor memory).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.analysis.id.linear import dense_strides
from compiler.analysis.memory.allocation import loop_axis_is_allocated
from compiler.arch import TMEM_COLUMN_BITS, TMEM_LEAST_COLUMNS
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import IterDomain, MemoryType
from compiler.ir.size import Size
from compiler.ir.tensor import CopyVia, TensorView
from compiler.ir.trivial import loop_of

_MAX_POINTS = 1 << 16


@dataclass(frozen=True, slots=True)
class Side:
    """Allocated axes on one side of the separator, outermost first, with their strides; `span` is what they reach over:
    the distance from the first to the last element, and one more."""

    axes: tuple[IterDomain, ...]
    strides: tuple[int, ...]
    span: Size

    @property
    def count(self) -> int:
        """Places that hold an element, where no two share one."""
        return prod(a.extent for a in self.axes)

    @property
    def is_one_to_one(self) -> bool:
        """False where strides send two elements to one place."""
        reach = 0
        for stride, extent in sorted(zip(self.strides, (a.extent for a in self.axes), strict=True)):
            if extent > 1 and stride <= reach:
                return self._enumerated_is_one_to_one()
            reach += stride * (extent - 1)
        return True

    def _enumerated_is_one_to_one(self) -> bool:
        """Strides that interleave need not collide. More points than there are places always do."""
        if prod(a.extent for a in self.axes) > _MAX_POINTS:
            return False
        points = np.zeros(1, dtype=np.int64)
        for axis, stride in zip(self.axes, self.strides, strict=True):
            points = np.add.outer(points, np.arange(axis.extent) * stride).ravel()
        return len(set(points.tolist())) == len(points)

    @property
    def sizes_in_strides(self) -> frozenset[Size]:
        """Unknown sizes that a stride is a multiple of: those of every axis but the outermost."""
        return frozenset(a.size for a in self.axes[1:] if a.symbolic is not None)


@dataclass(frozen=True, slots=True)
class TmemLayout:
    """Where the elements of a tensor lie: `lanes`, and `columns` counted in elements; `columns_needed` of 4 bytes, in
    as many places as there are results under way while one is read."""

    tensor: TensorView
    lanes: Side
    columns: Side

    @property
    def columns_needed(self) -> Size:
        one = (self.columns.span * Size(self.tensor.dtype.nbits)).ceil_div(Size(TMEM_COLUMN_BITS))
        return one * Size(1 + self.tensor.in_flight) if self.tensor.in_flight else one


@dataclass(frozen=True, slots=True)
class TmemRegion:
    """Tensors side by side in one allocation, in order: the columns that they need, and those that are allocated."""

    layouts: tuple[TmemLayout, ...]
    needed: Size
    allocated: Size

    @property
    def name(self) -> str:
        return ", ".join(layout.tensor.name for layout in self.layouts)


def layout_of(t: TensorView) -> TmemLayout:
    """The layout of a tensor in tensor memory. An allocation domain that is not set is the logical one, densely packed
    (nvFuser, tensor memory); without a separator everything is a column."""
    given = t.allocation
    order = given.axes if given is not None else t.logical
    strides = given.strides if given is not None else (None,) * len(order)
    at = t.dimsep or 0
    return TmemLayout(t, _side(t, order[:at], strides[:at]), _side(t, order[at:], strides[at:]))


def _side(t: TensorView, order: Sequence[IterDomain], strides: Sequence[int | None]) -> Side:
    kept = [(a, s) for a, s in zip(order, strides, strict=True) if is_allocated(t, a)]
    axes = tuple(a for a, _ in kept)
    given = tuple(s for _, s in kept)
    steps = dense_strides([a.extent for a in axes], given)
    return Side(axes, steps, _span(axes, steps, is_dense=all(s is None for s in given)))


def is_allocated(t: TensorView, axis: IterDomain) -> bool:
    """The three rules for one axis of the allocation domain; an axis without extent takes nothing."""
    if axis.is_broadcast or axis.is_reduction or axis.is_trivial:
        return False
    loop = loop_of(t, axis)
    return loop_axis_is_allocated(t, loop) if loop is not None else True


def _span(axes: Sequence[IterDomain], strides: Sequence[int], is_dense: bool) -> Size:
    if is_dense:
        whole = Size(1)
        for axis in axes:
            whole = whole * axis.size
        return whole
    span = 1 + sum(s * (a.extent - 1) for a, s in zip(axes, strides, strict=True))
    if all(a.symbolic is None for a in axes):
        return Size(span)
    terms = " + ".join(f"{s} * ({a.size} - 1)" for a, s in zip(axes, strides, strict=True))
    return Size.symbol(f"(1 + {terms})", span)


def total(sizes: Sequence[Size]) -> Size:
    """The sum of sizes as one size: an unknown whose text is the sum, where any of several is unknown."""
    if all(s.is_constant for s in sizes):
        return Size(sum(s.value for s in sizes))
    return sizes[0] if len(sizes) == 1 else Size.symbol(f"({' + '.join(map(str, sizes))})", sum(s.value for s in sizes))


def columns_allocated(needed: Size) -> Size:
    """`needed` rounded up to a power of two, at least 32 (PTX ISA, tcgen05.alloc). Past 512 there is no such thing, and
    the power of two is only a number that is too large."""
    rounded = max(TMEM_LEAST_COLUMNS, 1 << (needed.value - 1).bit_length())
    if needed.is_constant:
        return Size(rounded)
    # 32, and as much again wherever that does not suffice: a guard knows no logarithm.
    steps = [f"{n} * min(1, ({needed} - 1) // {n})" for n in (32, 64, 128, 256, 512)]
    return Size.symbol(f"(32 + {' + '.join(steps)})", rounded)


def regions_of(sf: ScheduledFusion) -> tuple[TmemRegion, ...]:
    """The regions that the fusion asks for, as far as they name tensors in tensor memory that no earlier one has; then
    one for every other tensor there, in the order of the fusion. What is shifted there has none of its own."""
    return tuple(_regions(sf))


def shifted_from(sf: ScheduledFusion) -> dict[str, str]:
    """Tensor that is shifted in tensor memory -> the one in whose columns it lies (`analysis.tmem.row_shift`)."""
    return {op.output: op.tensor_inputs[0] for op in sf.ops if op.via is CopyVia.SHIFT_TMEM}


def _regions(sf: ScheduledFusion) -> Iterator[TmemRegion]:
    shifted = shifted_from(sf)
    layouts = {t.name: layout_of(t) for t in sf.tensors if t.memory is MemoryType.TENSOR and t.name not in shifted}
    for names in sf.tmem_regions:
        together = tuple(layouts.pop(name) for name in names if name in layouts)
        if together:
            yield _region(together)
    for layout in layouts.values():
        yield _region((layout,))


def _region(layouts: tuple[TmemLayout, ...]) -> TmemRegion:
    needed = total([layout.columns_needed for layout in layouts])
    return TmemRegion(layouts, needed, columns_allocated(needed))
