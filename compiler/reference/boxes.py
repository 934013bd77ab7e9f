"""Boxes: which part of a view's operand makes a part of its result, and how the one becomes the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.ir.fusion import Op
from compiler.ir.ops import OpKind
from compiler.reference.floats import Array

Box = tuple[tuple[int, int], ...]
"""(start, stop) along each dimension of a tensor."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """A part of a view's operand, and the function from its elements to those of the wanted part of the result."""

    box: Box
    view: Callable[[Array], Array]


def whole(shape: Shape) -> Box:
    """The box of all elements."""
    return tuple((0, extent) for extent in shape)


def extents(box: Box) -> Shape:
    """The shape of a box."""
    return tuple(stop - start for start, stop in box)


def through(op: Op, source: Shape, result: Shape, box: Box, broadcast: Callable[[Array, Shape], Array]) -> Seen:
    """What `box` of the result of a view needs. `broadcast` is broadcast_to."""
    match op.kind:
        case OpKind.PERMUTE:
            places = sorted(range(len(op.dims)), key=lambda d: op.dims[d])
            order = tuple(op.dims)
            return Seen(tuple(box[d] for d in places), lambda x: _transposed(x, order))
        case OpKind.BROADCAST_TO:
            needed = tuple(box[dim] if source[d] == result[dim] else (0, 1) for d, dim in enumerate(op.dims))
            sizes = dict(zip(op.dims, extents(needed), strict=True))
            apart = tuple(sizes.get(dim, 1) for dim in range(len(result)))
            return Seen(needed, lambda x: broadcast(x.reshape(apart), extents(box)))
        case OpKind.SLICE:
            (axis,) = op.dims
            start, stop = (op.start + op.step * at for at in box[axis])
            needed = (*box[:axis], (start, stop - op.step + 1), *box[axis + 1 :])
            every = tuple(slice(None, None, op.step if d == axis else 1) for d in range(len(box)))
            return Seen(needed, lambda x: x[every])
        case OpKind.FLIP:
            turned = tuple(
                (n - b, n - a) if d in op.dims else (a, b)
                for d, (n, (a, b)) in enumerate(zip(source, box, strict=True))
            )
            return Seen(turned, lambda x: _flipped(x, op.dims))
        case OpKind.RESHAPE:
            return _reshaped(source, result, box)
    raise AssertionError(f"{op.kind} is no view")


@dataclass(frozen=True, slots=True)
class Padded:
    """A part of a pad's result: the part of its operand, None where it has no element of that, and for each padded
    dimension how many places stand before and behind it."""

    box: Box | None
    around: tuple[tuple[int, int, int], ...]


def padded(op: Op, source: Shape, box: Box) -> Padded:
    """What `box` of the result of a pad is made of."""
    inner, around = list(box), list[tuple[int, int, int]]()
    for axis, low in zip(op.dims, op.low, strict=True):
        start, stop = box[axis]
        first, last = (min(max(at - low, 0), source[axis]) for at in (start, stop))
        if first == last:
            return Padded(None, ())
        inner[axis] = first, last
        around.append((axis, first + low - start, stop - low - last))
    return Padded(tuple(inner), tuple(around))


def chosen_parts(op: Op, source: Shape, index_rank: int, box: Box) -> tuple[Box, Box]:
    """What a part of the result of a take or gather needs of its first operand, all along the dimension that is chosen
    along, and of the second one, of `index_rank` dimensions."""
    (axis,) = op.dims
    end = axis + (index_rank if op.kind is OpKind.TAKE else 1)
    table = (*box[:axis], (0, source[axis]), *box[end:])
    return table, box[axis:end] if op.kind is OpKind.TAKE else box


def chosen(op: Op, x: Array, index: Array, xp: Any) -> Array:
    """The elements of an operand that a take or gather chooses. Raises IndexError for an index that is out of range."""
    (axis,) = op.dims
    if bool(((index < 0) | (index >= x.shape[axis])).any()):
        raise IndexError(f"{op.kind} ({op.output}): an index outside of the {x.shape[axis]} that there are")
    if op.kind is OpKind.TAKE:
        return x[(slice(None),) * axis + (index,)]
    # numpy calls it take_along_axis, torch take_along_dim.
    return (getattr(xp, "take_along_dim", None) or xp.take_along_axis)(x, index, axis)


def cat_parts(axis: int, operands: list[Shape], box: Box) -> list[tuple[int, Box]]:
    """Which operands of a cat a part of its result needs: (position, part of it), in order."""
    found = []
    first = 0
    for position, shape in enumerate(operands):
        start, stop = max(box[axis][0], first), min(box[axis][1], first + shape[axis])
        if start < stop:
            found.append((position, (*box[:axis], (start - first, stop - first), *box[axis + 1 :])))
        first += shape[axis]
    return found


def halves(box: Box, limit: int) -> list[Box]:
    """The box in parts of at most `limit` elements, split along its first dimension with more than one."""
    axis = next(d for d, (start, stop) in enumerate(box) if stop - start > 1)
    start, stop = box[axis]
    step = max(1, limit * (stop - start) // math.prod(extents(box)))
    return [(*box[:axis], (at, min(at + step, stop)), *box[axis + 1 :]) for at in range(start, stop, step)]


def _transposed(x: Array, order: tuple[int, ...]) -> Array:
    # numpy calls it transpose, torch permute.
    return x.permute(order) if hasattr(x, "permute") else x.transpose(order)


def _flipped(x: Array, axes: tuple[int, ...]) -> Array:
    # torch has no negative steps, numpy's flip makes a view of them.
    return (
        x.flip(axes)
        if hasattr(x, "flip")
        else x[tuple(slice(None, None, -1 if d in axes else 1) for d in range(x.ndim))]
    )


def _reshaped(source: Shape, result: Shape, box: Box) -> Seen:
    """Groups of dimensions with equal products are independent; inside one, a contiguous run that covers the box."""
    needed: list[tuple[int, int]] = []
    runs: list[slice] = []
    covered: list[tuple[int, int]] = []
    for ours, theirs in _groups(source, result):
        sizes = result[theirs]
        cover = _covering(box[theirs], sizes)
        low, high = _flat(tuple(a for a, _ in cover), sizes), _flat(tuple(b - 1 for _, b in cover), sizes) + 1
        part = _of_run(low, high, source[ours])
        first = _flat(tuple(a for a, _ in part), source[ours])
        needed += part
        covered += cover
        runs.append(slice(low - first, high - first))
    flat = tuple(math.prod(extents(tuple(needed[ours]))) for ours, _ in _groups(source, result))
    inside = tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(box, covered, strict=True))

    def view(x: Array) -> Array:
        return x.reshape(flat)[tuple(runs)].reshape(extents(tuple(covered)))[inside]

    return Seen(tuple(needed), view)


def _groups(source: Shape, result: Shape) -> list[tuple[slice, slice]]:
    """The finest pairing of neighbouring dimensions with equal numbers of elements."""
    groups = []
    i = j = 0
    while i < len(source) or j < len(result):
        first = (i, j)
        ours = theirs = 1
        if i < len(source):
            ours, i = source[i], i + 1
        if j < len(result):
            theirs, j = result[j], j + 1
        while ours != theirs:
            if ours < theirs:
                ours, i = ours * source[i], i + 1
            else:
                theirs, j = theirs * result[j], j + 1
        groups.append((slice(first[0], i), slice(first[1], j)))
    return groups


def _covering(box: Box, sizes: Shape) -> list[tuple[int, int]]:
    """The least box around `box` whose elements follow one another: all of every dimension after the first cut."""
    cover = list(box)
    wide = next((d for d, (a, b) in enumerate(box) if b - a > 1), len(box))
    cover[wide + 1 :] = [(0, extent) for extent in sizes[wide + 1 :]]
    return cover


def _of_run(low: int, high: int, sizes: Shape) -> list[tuple[int, int]]:
    """The least such box of a tensor of these sizes around the elements `low` up to `high`."""
    first, last = (tuple(map(int, np.unravel_index(flat, sizes))) for flat in (low, high - 1))
    wide = next((d for d in range(len(sizes)) if first[d] != last[d]), len(sizes))
    return [(first[d], last[d] + 1) if d <= wide else (0, extent) for d, extent in enumerate(sizes)]


def _flat(index: Shape, sizes: Shape) -> int:
    flat = 0
    for at, extent in zip(index, sizes, strict=True):
        flat = flat * extent + at
    return flat
