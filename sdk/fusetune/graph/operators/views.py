"""Views and what moves elements: shapes, orders, parts, joins, padding."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch.fx import Node

from fusetune.fusion import Tensor
from fusetune.graph.operators.rows import entered, row
from fusetune.graph.operators.strided import as_strided, as_strided_scatter
from fusetune.graph.sizes import known
from fusetune.graph.writing import Several, Uniform, Value, Writing, is_derived, is_empty
from fusetune.wire.fusion import DTypeName, Size

aten = torch.ops.aten


def moved(w: Writing, node: Node, x: Any, item: int | None, made: Any) -> Value:
    """What `made` does to a tensor; a constant stays one, whatever its shape becomes."""
    value, shape = w.operand(x), w.shape(node, item)
    if isinstance(value, Uniform):
        return Uniform(value.number, shape, value.dtype)
    source = w.written(value)
    found: Value = made(source, shape)
    return found


@row(aten.alias.default, aten.detach.default, aten.clone.default, aten.contiguous.default, aten.lift_fresh_copy.default)
def _same(w: Writing, node: Node, a: Any) -> Value:
    return w.value(a.self)


entered("aten.lift_fresh.default aten.alias_copy.default prims.clone.default aten.lift.default", _same)
entered("prims.copy_strided.default", lambda w, node, a: _same(w, node, SimpleNamespace(self=a.a)))

_RESHAPES = """
aten.view.default aten._unsafe_view.default aten.reshape.default aten.unsqueeze.default aten.squeeze.default
aten.squeeze.dim aten.squeeze.dims aten._reshape_alias.default aten.view_copy.default aten.flatten.using_ints
aten.unflatten.int prims.view_of.default aten._reshape_copy.default
"""
entered(_RESHAPES, lambda w, node, a: reshaped(w, node, next(iter(vars(a).values()))))


def reshaped(w: Writing, node: Node, x: Any) -> Value:
    """The elements in row-major order under the shape that torch gives the node; one size may be anything."""
    value = w.operand(x)
    if isinstance(value, Uniform):
        return Uniform(value.number, w.shape(node), value.dtype)
    source = w.written(value)
    sizes = w.shape(node)
    derived = [size for size in sizes if is_derived(size)]
    if len(derived) > 1:
        w.refuse(node, f"a shape with {' and '.join(map(str, derived))}, which are no input's sizes")
    shape = tuple(-1 if is_derived(size) else size for size in sizes)
    return source if shape == source.shape else w.f.reshape(source, shape)


entered("aten.expand.default aten.expand_copy.default", lambda w, node, a: expanded(w, node, a.self))


def expanded(w: Writing, node: Node, x: Any) -> Value:
    """Broadcast to the node's shape."""
    return moved(w, node, x, None, w.expand)


@row(aten.permute.default)
def _permute(w: Writing, node: Node, a: Any) -> Value:
    rank = len(a.dims)
    return permuted(w, node, a.self, [dim % rank for dim in a.dims])


@row(aten.transpose.int)
def _transpose(w: Writing, node: Node, a: Any) -> Value:
    order = list(range(node.meta["val"].dim()))
    if order:
        order[a.dim0], order[a.dim1] = order[a.dim1], order[a.dim0]
    return permuted(w, node, a.self, order)


@row(aten.t.default)
def _t(w: Writing, node: Node, a: Any) -> Value:
    return permuted(w, node, a.self, list(range(node.meta["val"].dim()))[::-1])


def permuted(w: Writing, node: Node, x: Node, order: list[int]) -> Value:
    """The dimensions in another order."""
    if order == sorted(order):
        return w.value(x)
    return moved(w, node, x, None, lambda source, shape: w.f.permute(source, order))


def bound(w: Writing, node: Node, x: Any, size: Any, default: Any) -> Size:
    """One end of a slice as the wire has it: from 0 to the size."""
    x = x.meta["val"] if isinstance(x, Node) else x
    size_ = known(size)
    x = default if x is None else x
    number = known(x)
    if number is None or size_ is None:
        if number == 0:
            return 0
        if number is not None and number >= 2**62:
            number, x = None, size
        found = None if number is not None and number < 0 else w.sizes.size(x)
        if found is None:
            w.refuse(node, f"an end of {x} of a dimension of size {size}, which are no input's sizes")
        return found
    return min(max(number + size_ if number < 0 else number, 0), size_)


@row(aten.slice.Tensor)
def _slice(w: Writing, node: Node, a: Any) -> Value:
    dim = a.dim % max(node.meta["val"].dim(), 1)
    size = w_shape(a.self)[dim]
    start, end = bound(w, node, a.start, size, 0), bound(w, node, a.end, size, size)
    return part(w, node, a.self, None, dim, start, end, a.step)


def w_shape(node: Node) -> Any:
    """The shape that torch gives a node."""
    return node.meta["val"].shape


def part(w: Writing, node: Node, x: Any, item: int | None, dim: int, start: Size, end: Size, step: int = 1) -> Value:
    """A slice; all of a dimension is no slice."""
    value = w.operand(x)
    if isinstance(value, Uniform):
        return Uniform(value.number, w.shape(node, item), value.dtype)
    source = w.written(value)
    if start == 0 and end == source.shape[dim] and step == 1:
        return source
    return w.f.slice(source, dim, start, end, step)


@row(aten.select.int)
def _select(w: Writing, node: Node, a: Any) -> Value:
    return selected(w, node, a.self, None, a.dim, a.index)


def selected(w: Writing, node: Node, x: Any, item: int | None, dim: int, index: Any) -> Value:
    """One place of a dimension, which is gone then."""
    shape = w_shape(x)
    dim, size, number = (
        dim % len(shape),
        known(shape[dim % len(shape)]),
        known(index) if not isinstance(index, Node) else None,
    )
    if number is None or (number < 0 and size is None):
        w.refuse(node, "a place that is no number", "Use a number, or torch.index_select with a tensor.")
    start = number + size if number < 0 and size is not None else number

    def made(source: Tensor, wanted: tuple[Size, ...]) -> Value:
        found = w.f.slice(source, dim, start, start + 1) if source.shape[dim] != 1 else source
        return w.f.reshape(found, wanted)

    return moved(w, node, x, item, made)


@row(aten.split.Tensor, aten.split_with_sizes.default)
def _split(w: Writing, node: Node, a: Any) -> Value:
    values = []
    start: int = 0
    dim = a.dim % len(w_shape(a.self))
    for item, result in enumerate(node.meta["val"]):
        size = known(result.shape[dim])
        if size is None:
            w.refuse(node, f"parts of {result.shape[dim]} elements", "Split by numbers.")
        values.append(part(w, node, a.self, item, dim, start, start + size))
        start += size
    return Several(tuple(values))


@row(aten.unbind.int)
def _unbind(w: Writing, node: Node, a: Any) -> Value:
    count = len(node.meta["val"])
    return Several(tuple(selected(w, node, a.self, i, a.dim, i) for i in range(count)))


@row(aten.flip.default)
def _flip(w: Writing, node: Node, a: Any) -> Value:
    dims = tuple(dim % max(node.meta["val"].dim(), 1) for dim in a.dims)
    if not dims or not node.meta["val"].dim():
        return w.value(a.self)
    return moved(w, node, a.self, None, lambda source, shape: w.f.flip(source, dims))


@row(aten.repeat.default)
def _repeat(w: Writing, node: Node, a: Any) -> Value:
    """Every dimension that is repeated behind a new one, of as many places as that is; one of size 1 expands."""

    def made(source: Tensor, shape: tuple[Size, ...]) -> Value:
        times = [known(n.meta["val"] if isinstance(n, Node) else n) for n in a.repeats]
        if any(n is None for n in times):
            w.refuse(node, "repeating by sizes that are no numbers", "Write it as an expand and a reshape.")
        new = len(times) - len(source.shape)
        wide: list[Size] = [n or 0 for n in times[:new]]
        dims: list[int] = []
        for n, size in zip(times[new:], source.shape, strict=True):
            wide += [size] if n == 1 else [n or 0] if size == 1 else [n or 0, size]
            dims.append(len(wide) - 1)
        found = w.f.broadcast_to(source, wide, dims)
        return found if found.shape == shape else w.f.reshape(found, shape)

    return moved(w, node, a.self, None, made)


MOST_WINDOWED = 16
"""Places of windows that overlap: each is a slice of its own."""


@row(aten.unfold.default)
def _windows(w: Writing, node: Node, a: Any) -> Value:
    """Windows along a dimension, whose places come last: a reshape where they lie side by side, else slices."""
    rank = len(w_shape(a.self))
    if rank == 0:
        w.refuse(node, "windows of a number")
    dim = a.dimension % rank
    size, count = known(a.size), known(node.meta["val"].shape[dim])
    if size is None or count is None or known(a.step) is None:
        w.refuse(node, "windows of sizes that are no numbers")
    if a.step != size and size > MOST_WINDOWED:
        w.refuse(node, f"windows of {size} places that overlap, or lie apart", f"Up to {MOST_WINDOWED} can be said.")

    def made(source: Tensor, shape: tuple[Size, ...]) -> Value:
        if a.step == size:
            whole = w.f.slice(source, dim, 0, count * size)
            apart = w.f.reshape(whole, (*shape[: dim + 1], size, *shape[dim + 1 : -1]))
            return w.f.permute(apart, [*range(dim + 1), *range(dim + 2, rank + 1), dim + 1])
        parts = [w.f.slice(source, dim, n, n + (count - 1) * a.step + 1, a.step) for n in range(size)]
        return joined(w, node, [w.f.reshape(part, (*shape[:-1], 1)) for part in parts], rank)

    return moved(w, node, a.self, None, made)


@row(aten.roll.default)
def _roll(w: Writing, node: Node, a: Any) -> Value:
    """The last places first, along each dimension."""
    value = w.operand(a.self)
    if isinstance(value, Uniform):
        return value
    found = w.written(value)
    flat = not a.dims
    found = w.f.reshape(found, (-1,)) if flat else found
    for shift, dim in zip(a.shifts, a.dims or [0], strict=True):
        size = found.shape[dim]
        if not isinstance(size, int):
            w.refuse(node, f"rolling a size of {size}", "Write it as a cat of two slices.")
        if shift % size:
            at = size - shift % size
            found = w.f.cat([w.f.slice(found, dim, at, size), w.f.slice(found, dim, 0, at)], dim)
    return reshaped_to(w, found, w.shape(node)) if flat else found


def reshaped_to(w: Writing, x: Tensor, shape: tuple[Size, ...]) -> Tensor:
    """The elements in row-major order under another shape."""
    return x if x.shape == shape else w.f.reshape(x, shape)


@row(aten.cat.default)
def _cat(w: Writing, node: Node, a: Any) -> Value:
    return joined(w, node, [w.cast(w.operand(x), w.dtype(node)) for x in a.tensors if not is_empty(x)], a.dim)


@row(aten.stack.default)
def _stack(w: Writing, node: Node, a: Any) -> Value:
    shape = w.shape(node)
    dim = a.dim % len(shape)
    one = (*shape[:dim], 1, *shape[dim + 1 :])
    parts: list[Any] = []
    for x in a.tensors:
        value = w.cast(w.operand(x), w.dtype(node))
        if isinstance(value, Uniform):
            parts.append(Uniform(value.number, one, value.dtype))
        else:
            parts.append(w.f.reshape(w.written(value), one))
    return joined(w, node, parts, dim)


def joined(w: Writing, node: Node, parts: Sequence[Any], dim: int) -> Value:
    """One after the other."""
    rank = node.meta["val"].dim()
    tensors = [w.written(x) for x in parts]
    return tensors[0] if len(tensors) == 1 else w.f.cat(tensors, dim % max(rank, 1))


@row(aten.constant_pad_nd.default)
def _pad(w: Writing, node: Node, a: Any) -> Value:
    """Pairs from the last dimension on; what is negative takes elements away."""
    rank = node.meta["val"].dim()
    pairs = [(0, 0)] * rank
    for i in range(len(a.pad) // 2):
        pairs[rank - 1 - i] = (a.pad[2 * i], a.pad[2 * i + 1])
    if any(known(n) is None for pair in pairs for n in pair):
        w.refuse(node, "padding by sizes that are no numbers")
    found = w.tensor(a.self)
    for dim, (low, high) in enumerate(pairs):
        size = known(w_shape(a.self)[dim])
        if low < 0 or high < 0:
            if size is None:
                w.refuse(node, "negative padding of a size that is no number")
            start, stop = max(-low, 0), size - max(-high, 0)
            if start >= stop:  # all of it is taken away
                return Uniform(_fill(a.value, found.dtype), w.shape(node), found.dtype)
            found = w.f.slice(found, dim, start, stop)
    lows, highs = ([max(pair[side], 0) for pair in pairs] for side in (0, 1))
    return padded(w, found, lows, highs, a.value)


def padded(w: Writing, x: Tensor, low: Sequence[Size], high: Sequence[Size], value: Any) -> Tensor:
    """Places before and behind, which hold `value`; none are no operator."""
    return w.f.pad(x, low, high, _fill(value, x.dtype)) if any((*low, *high)) else x


def _fill(value: Any, dtype: DTypeName) -> int | float:
    """A number as a dtype holds it: of bools whether it is one."""
    number: int | float = 0 if value is None else value
    return int(bool(number)) if dtype == "bool" or isinstance(number, bool) else number


@row(aten.as_strided.default)
def _as_strided(w: Writing, node: Node, a: Any) -> Value:
    return as_strided(w, node, a)


@row(aten.as_strided_scatter.default)
def _as_strided_scatter(w: Writing, node: Node, a: Any) -> Value:
    return as_strided_scatter(w, node, a)


@row(aten.diagonal.default)
def _diagonal(w: Writing, node: Node, a: Any) -> Value:
    return w.refuse(node, "a diagonal", "Multiply by a mask of torch.eye and sum, or take it outside.")
