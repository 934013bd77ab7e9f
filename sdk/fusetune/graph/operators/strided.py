"""`as_strided` where it is a view that the wire has: parts of runs of a tensor that is dense in some order."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from fusetune.graph.sizes import known
from fusetune.graph.writing import Uniform, Value, Writing

_OTHER = "strides over a tensor that is not dense"
_FIX = "Write it as slices, permutes and reshapes."


def dense_order(shape: Any, strides: Any) -> tuple[int, ...] | None:
    """The dimensions from the outermost in memory on, if the elements lie there without gaps; else None."""
    order = sorted(range(len(shape)), key=lambda d: (-_or_zero(strides[d]), d))
    step: Any = 1
    for d in reversed(order):
        if known(shape[d]) == 1:
            continue
        if not _same(strides[d], step):
            return None
        step = step * shape[d]
    return tuple(order)


def _or_zero(stride: Any) -> int:
    number = known(stride)
    return number if number is not None else int(stride.node.hint or 0)


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, torch.SymInt) or isinstance(y, torch.SymInt):
        left, right = (n.node.expr if isinstance(n, torch.SymInt) else n for n in (x, y))
        return bool(left == right)
    return bool(x == y)


def as_strided(w: Writing, node: Node, a: Any) -> Value:
    """The node in views. Refuses what reads its elements in no such way."""
    value, base = w.value(a.self), a.self.meta["val"]
    if isinstance(value, Uniform):
        return Uniform(value.number, w.shape(node), value.dtype)
    sizes, strides = list(a.size), list(a.stride)
    if _is_itself(sizes, strides, a.storage_offset, base):
        return value
    source = w.written(value)
    order = dense_order(base.shape, base.stride())
    if order is None or any(known(n) is None for n in (*sizes, *strides, *base.shape)):
        w.refuse(node, _OTHER, _FIX)
    if order != tuple(range(len(order))):
        source = w.f.permute(source, order)
    offset = (a.storage_offset if a.storage_offset is not None else base.storage_offset()) - base.storage_offset()
    total = base.numel()
    read = sorted((d for d in range(len(sizes)) if strides[d] and sizes[d] != 1), key=lambda d: -strides[d])
    runs, starts = _runs([strides[d] for d in read], [sizes[d] for d in read], offset, total, w, node)
    found = w.f.reshape(source, runs)
    for dim, start in enumerate(starts):
        size = sizes[read[dim]] if dim < len(read) else 1
        if size != runs[dim]:
            found = w.f.slice(found, dim, start, start + size)
    found = w.f.reshape(found, tuple(sizes[d] for d in read))
    back = sorted(range(len(read)), key=lambda i: read[i])
    found = found if back == list(range(len(back))) else w.f.permute(found, back)
    return w.f.broadcast_to(found, tuple(sizes), tuple(sorted(read))) if len(read) != len(sizes) else found


def as_strided_scatter(w: Writing, node: Node, a: Any) -> Value:
    """The tensor with `src` where `as_strided` would read. Refuses what `as_strided` refuses."""
    base, sizes, strides = a.self.meta["val"], list(a.size), list(a.stride)
    if 0 in sizes:
        return w.cast(w.value(a.self), w.dtype(node))
    source = w.written(w.cast(w.operand(a.src), w.dtype(node)))
    if _is_itself(sizes, strides, a.storage_offset, base):
        return w.expand(source, w.shape(node))
    order = dense_order(base.shape, base.stride())
    if order is None or any(known(n) is None for n in (*sizes, *strides, *base.shape)):
        w.refuse(node, _OTHER, _FIX)
    offset = (a.storage_offset if a.storage_offset is not None else base.storage_offset()) - base.storage_offset()
    if any(stride == 0 and size != 1 for size, stride in zip(sizes, strides, strict=True)):
        w.refuse(node, "writing one element several times", _FIX)
    read = sorted((d for d in range(len(sizes)) if sizes[d] != 1), key=lambda d: -strides[d])
    runs, starts = _runs([strides[d] for d in read], [sizes[d] for d in read], offset, base.numel(), w, node)
    part = [*(sizes[d] for d in read), 1]
    behind = [run - start - size for run, start, size in zip(runs, starts, part, strict=True)]
    packed = w.f.reshape(w.expand(source, tuple(sizes)), tuple(n for n in sizes if n != 1))
    turned = [sorted(read).index(d) for d in read]
    packed = packed if turned == sorted(turned) else w.f.permute(packed, turned)
    in_memory = tuple(base.shape[d] for d in order)
    spread, mask = (
        w.f.reshape(w.f.pad(x, starts, behind, 0), in_memory)
        for x in (w.f.reshape(packed, part), w.f.full(part, 1, "bool"))
    )
    back = [order.index(d) for d in range(len(order))]
    if back != sorted(back):
        spread, mask = w.f.permute(spread, back), w.f.permute(mask, back)
    into = w.cast(w.operand(a.self), w.dtype(node))
    return w.f.where(mask, spread, into.number if isinstance(into, Uniform) else w.written(into))


def _runs(
    strides: list[int], sizes: list[int], offset: int, total: int, w: Writing, node: Node
) -> tuple[tuple[int, ...], list[int]]:
    """The shape under which the elements lie along its dimensions, and where each dimension starts; the last dimension
    is what lies between elements."""
    steps, runs, starts, left = [total, *strides], [], [], offset
    for i, stride in enumerate(strides):
        if steps[i] % stride:
            w.refuse(node, f"strides {strides} over {total} elements, of which none divides the other", _FIX)
        runs.append(steps[i] // stride)
        starts.append(left // stride)
        left %= stride
    runs.append(steps[-1])
    starts.append(left)
    sizes = [*sizes, 1]
    if any(start + size > run for start, size, run in zip(starts, sizes, runs, strict=True)):
        w.refuse(node, "windows that overlap, or reach around the end of a row", _FIX)
    return tuple(runs), starts


def _is_itself(sizes: Any, strides: Any, offset: Any, base: torch.Tensor) -> bool:
    if offset is not None and not _same(offset, base.storage_offset()):
        return False
    alike = all(_same(x, y) for x, y in zip(sizes, base.shape, strict=True)) if len(sizes) == base.dim() else False
    return alike and all(known(n) == 1 or _same(x, y) for n, x, y in zip(sizes, strides, base.stride(), strict=True))
