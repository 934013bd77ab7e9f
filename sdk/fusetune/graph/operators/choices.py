"""What indices choose, and writing into a part of a tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from fusetune.fusion import Tensor
from fusetune.graph.operators.pointwise import chosen
from fusetune.graph.operators.rows import arguments, row
from fusetune.graph.operators.views import bound, padded, w_shape
from fusetune.graph.sizes import known
from fusetune.graph.writing import Uniform, Value, Writing
from fusetune.wire.fusion import Size
from fusetune.wire.op_check import INDEX_TYPES

aten = torch.ops.aten


def _index(w: Writing, x: Any) -> Tensor:
    """An index as the wire takes it."""
    found = w.tensor(x)
    return found if found.dtype in INDEX_TYPES else w.f.cast(found, "i64")


@row(aten.embedding.default)
def _embedding(w: Writing, node: Node, a: Any) -> Value:
    return w.f.take(w.tensor(a.weight), _index(w, a.indices), 0)


@row(aten.index_select.default)
def _index_select(w: Writing, node: Node, a: Any) -> Value:
    x, index = w.tensor(a.self), _index(w, a.index)
    if not x.shape:
        return w.expand(x, w.shape(node)) if w.shape(node) else x
    index = index if index.shape else w.f.reshape(index, (1,))
    return w.f.take(x, index, a.dim % len(x.shape))


@row(aten.index.Tensor, aten._unsafe_index.Tensor)
def _index_tensor(w: Writing, node: Node, a: Any) -> Value:
    """One tensor of indices, whose negatives count from the end."""
    places = [dim for dim, index in enumerate(a.indices) if index is not None]
    if len(places) != 1 or a.indices[places[0]].meta["val"].dtype in (torch.bool, torch.uint8):
        fix = "Index one dimension by integers at a time, or leave the choice outside."
        w.refuse(node, "a choice by a mask, or by several indices", fix)
    (dim,) = places
    size, index = known(w_shape(a.self)[dim]), _index(w, a.indices[dim])
    if size is None:
        w.refuse(node, "a choice along a size that is no number", "Use torch.index_select.")
    if not _is_in_range(a.indices[dim]):
        index = w.f.where(w.f.lt(index, 0), w.f.remainder(index, size), index)
    return w.f.take(w.tensor(a.self), index, dim)


def _is_in_range(index: Node) -> bool:
    """Whether an index is made so that it cannot be negative."""
    if index.target is not torch.ops.prims.iota.default:
        return False
    a = arguments(index)
    return all(isinstance(n, int) and n >= 0 for n in (a.start, a.step))


@row(aten.gather.default)
def _gather(w: Writing, node: Node, a: Any) -> Value:
    """One element of each row: of a row that is computed it is a sum over the row, which then needs not be stored."""
    x, index = w.tensor(a.self), _index(w, a.index)
    if not x.shape:
        return w.f.reshape(x, w.shape(node))
    if not index.shape:
        index = w.f.reshape(index, (1,) * len(x.shape))
    dim = a.dim % len(x.shape)
    if a.self in w.values and a.self.op == "call_function" and _chooses_one(x, index, dim) and x.dtype != "bool":
        mask = _is_chosen(w, x, index, dim)
        return w.f.sum(w.f.where(mask, x, 0), (dim,), True)
    return w.f.gather(x, dim, index)


def _chooses_one(x: Tensor, index: Tensor, dim: int) -> bool:
    """Whether an index has one place along `dim`, and all of the others."""
    wanted = tuple(1 if d == dim else size for d, size in enumerate(x.shape))
    return index.shape == wanted


def _is_chosen(w: Writing, x: Tensor, index: Tensor, dim: int) -> Tensor:
    """A mask of the elements that the index chooses."""
    places = w.f.iota(x.shape, dim, "i64")
    wide = index if index.dtype == "i64" else w.f.cast(index, "i64")
    return w.f.eq(places, w.f.broadcast_to(wide, x.shape, tuple(range(len(x.shape)))))


@row(aten.scatter.value, aten.scatter.src)
def _scatter(w: Writing, node: Node, a: Any) -> Value:
    mask, x = _scattered(w, node, a)
    if hasattr(a, "value"):
        return w.f.where(mask, a.value, x)
    return w.f.where(mask, w.expand(_source(w, node, a), x.shape), x)


@row(aten.scatter_add.default)
def _scatter_add(w: Writing, node: Node, a: Any) -> Value:
    mask, x = _scattered(w, node, a)
    return w.f.where(mask, w.f.add(x, w.expand(_source(w, node, a), x.shape)), x)


def _source(w: Writing, node: Node, a: Any) -> Tensor:
    if tuple(w_shape(a.src)) != tuple(w_shape(a.index)):
        w.refuse(node, "a source that is larger than its index", "Slice the source first.")
    return w.tensor(a.src)


def _scattered(w: Writing, node: Node, a: Any) -> tuple[Tensor, Tensor]:
    """Which elements are written, and what is there before; one place along the dimension is all that is said."""
    x, index = w.tensor(a.self), _index(w, a.index)
    dim = a.dim % max(len(x.shape), 1)
    if not x.shape or not _chooses_one(x, index, dim):
        fix = "Leave it outside: a sum whose order threads decide is none of a fusion's."
        w.refuse(node, "scattering to more than one place of a row", fix)
    return _is_chosen(w, x, index, dim), x


# Writing into a part


@row(aten.index_put.default, aten._unsafe_index_put.default)
def _index_put(w: Writing, node: Node, a: Any) -> Value:
    """Where a mask holds, one value, or one for all that stands at a place of the mask."""
    mask = a.indices[0].meta["val"] if len(a.indices) == 1 and a.indices[0] is not None else None
    shape, value = w.shape(node), w_shape(a.values)
    if mask is None or mask.dtype is not torch.bool or a.accumulate:
        w.refuse(node, "writing to places that indices choose", "Leave it outside: fusions do not scatter.")
    inner = len(shape) - mask.dim()
    if len(value) > inner and any(known(n) != 1 for n in value[: len(value) - inner]):
        fix = "Write torch.where(mask, x, y), with a value for every place."
        w.refuse(node, "writing values one after another where a mask holds", fix)
    held = w.f.reshape(w.tensor(a.indices[0]), (*shape[: mask.dim()], *[1] * inner))
    written = w.cast(w.value(a.values), w.dtype(node))
    if isinstance(written, Uniform):
        return chosen(w, node, held, written.number, a.self)
    values = w.written(written)
    kept = w.f.reshape(values, values.shape[max(0, len(value) - inner) :])
    return chosen(w, node, held, kept, a.self)


@row(aten.slice_scatter.default)
def _slice_scatter(w: Writing, node: Node, a: Any) -> Value:
    dim = a.dim % node.meta["val"].dim()
    size = w_shape(node)[dim]
    start, stop = bound(w, node, a.start, size, 0), bound(w, node, a.end, size, size)
    return _put(w, node, a.self, w.cast(w.value(a.src), w.dtype(node)), dim, start, stop, a.step)


@row(aten.select_scatter.default)
def _select_scatter(w: Writing, node: Node, a: Any) -> Value:
    shape = w.shape(node)
    dim = a.dim % len(shape)
    size = known(w_shape(node)[dim])
    if size is None or not isinstance(a.index, int):
        w.refuse(node, "a place that is no number")
    start = a.index % size
    one = (*shape[:dim], 1, *shape[dim + 1 :])
    value = w.cast(w.value(a.src), w.dtype(node))
    number = value.number if isinstance(value, Uniform) else None
    source = Uniform(number, one, w.dtype(node)) if number is not None else w.f.reshape(w.written(value), one)
    return _put(w, node, a.self, source, dim, start, start + 1, 1)


def _put(w: Writing, node: Node, x: Node, source: Value, dim: int, start: Size, stop: Size, step: int) -> Value:
    """`x` with `source` in a part: padded where `x` is one number, else chosen by the position."""
    shape, dtype = w.shape(node), w.dtype(node)
    into = w.cast(w.value(x), dtype)
    if start == 0 and stop == shape[dim] and step == 1:
        return source
    size = shape[dim]
    if not isinstance(start, int) or not isinstance(stop, int) or not isinstance(size, int):
        w.refuse(node, "writing into a part whose ends are no numbers")
    if start >= stop:
        return into
    if isinstance(source, Uniform) and not isinstance(into, Uniform):
        return w.f.where(_inside(w, shape, dim, start, stop, step), source.number, w.written(into))
    spread = _spread(w, w.written(source), dim, step)
    spread_size = spread.shape[dim]
    assert isinstance(spread_size, int)
    behind = size - start - spread_size
    if behind < 0:
        spread = w.f.slice(spread, dim, 0, size - start)
        behind = 0
    lows, highs = ([n if d == dim else 0 for d in range(len(shape))] for n in (start, behind))
    if isinstance(into, Uniform) and step == 1:
        return padded(w, spread, lows, highs, into.number)
    mask = _inside(w, shape, dim, start, stop, step)
    rest = into.number if isinstance(into, Uniform) else w.written(into)
    return w.f.where(mask, padded(w, spread, lows, highs, 0), rest)


def _spread(w: Writing, source: Tensor, dim: int, step: int) -> Tensor:
    """The source with `step - 1` places behind each element."""
    if step == 1:
        return source
    shape = source.shape
    apart = w.f.reshape(source, (*shape[: dim + 1], 1, *shape[dim + 1 :]))
    high = [step - 1 if d == dim + 1 else 0 for d in range(len(shape) + 1)]
    apart = w.f.pad(apart, [0] * len(high), high)
    size = shape[dim]
    assert isinstance(size, int)
    return w.f.reshape(apart, (*shape[:dim], size * step, *shape[dim + 1 :]))


def _inside(w: Writing, shape: tuple[Size, ...], dim: int, start: int, stop: int, step: int) -> Tensor:
    """Where the part lies."""
    places = w.f.iota(shape, dim, "i64")
    found = []
    if start:
        found.append(w.f.ge(places, start))
    if stop != shape[dim]:
        found.append(w.f.lt(places, stop))
    if step != 1:
        found.append(w.f.eq(w.f.remainder(places - start, step), 0))
    mask = found[0]
    for other in found[1:]:
        mask = w.f.bitwise_and(mask, other)
    return mask
