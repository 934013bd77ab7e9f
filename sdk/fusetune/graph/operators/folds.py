"""Reductions and prefix sums."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from fusetune.fusion import Tensor
from fusetune.graph.operators.pointwise import truth
from fusetune.graph.operators.rows import entered, row
from fusetune.graph.writing import HALVES, Several, Uniform, Value, Writing, is_empty
from fusetune.wire.fusion import DTypeName

aten, prims = torch.ops.aten, torch.ops.prims

_OF_NOTHING = {"sum": 0, "prod": 1, "mean": math.nan, "any": 0, "all": 1}
"""What folds of no elements are."""


def dims_of(a: Any) -> tuple[int, ...]:
    """The dimensions that a fold goes over: all, where the call names none."""
    rank = a.self.meta["val"].dim()
    named = getattr(a, "dim", getattr(a, "dims", None))
    named = [] if named is None else [named] if isinstance(named, int) else list(named)
    return tuple(sorted(dim % rank for dim in named)) if named and rank else tuple(range(rank))


def _fold(name: str) -> Any:
    def made(w: Writing, node: Node, a: Any) -> Value:
        dtype = w.dtype(node)
        if is_empty(a.self):
            if name not in _OF_NOTHING:
                w.refuse(node, "the extreme of no elements", "Leave tensors without elements outside.")
            return Uniform(_OF_NOTHING[name], w.shape(node), dtype)
        dims, keepdim = dims_of(a), bool(getattr(a, "keepdim", False))
        if name in ("any", "all"):
            x = w.written(truth(w, a.self))
            found = w.made(name, x, dims, keepdim) if dims else x
            return w.cast(found, dtype)  # of u8 it is u8
        if name in ("sum", "prod"):
            x = w.tensor(a.self)
            if not dims:
                return w.cast(x, dtype)
            said = {"dtype": dtype} if dtype != x.dtype else {}
            return w.made(name, x, dims, keepdim, **said)
        x = w.written(w.cast(w.operand(a.self), dtype))
        return getattr(w.f, name)(x, dims, keepdim) if dims else x

    return made


_FOLDS = {
    "sum": "aten.sum.dim_IntList aten.sum.default",
    "mean": "aten.mean.dim aten.mean.default",
    "amax": "aten.amax.default aten.max.default",
    "amin": "aten.amin.default aten.min.default",
    "prod": "aten.prod.default aten.prod.dim_int",
    "any": "aten.any.default aten.any.dim aten.any.dims",
    "all": "aten.all.default aten.all.dim aten.all.dims",
}
for _wire, _names in _FOLDS.items():
    entered(_names, _fold(_wire))


@row(aten.cumsum.default)
def _cumsum(w: Writing, node: Node, a: Any) -> Value:
    x, dtype = w.tensor(a.self), w.dtype(node)
    if not x.shape:
        return w.cast(x, dtype)
    return w.f.cumsum(x, a.dim % len(x.shape), dtype if dtype != x.dtype else None)


def _arg(name: str) -> Any:
    def made(w: Writing, node: Node, a: Any) -> Value:
        x = w.tensor(a.self)
        if not x.shape:
            return Uniform(0, (), "i64")
        dim = None if a.dim is None else a.dim % len(x.shape)
        return w.made(name, x, dim, bool(a.keepdim))

    return made


entered("aten.argmax.default", _arg("argmax"))
entered("aten.argmin.default", _arg("argmin"))


def _with_place(extreme: str, place: str) -> Any:
    def made(w: Writing, node: Node, a: Any) -> Value:
        x = w.tensor(a.self)
        if not x.shape:
            return Several((x, Uniform(0, (), "i64")))
        dim = a.dim % len(x.shape)
        places = x if x.dtype != "bool" else w.f.cast(x, "i8")
        value = getattr(w.f, extreme)(x, (dim,), bool(a.keepdim))
        return Several((value, getattr(w.f, place)(places, dim, bool(a.keepdim))))

    return made


entered("aten.max.dim", _with_place("amax", "argmax"))
entered("aten.min.dim", _with_place("amin", "argmin"))


@row(aten.aminmax.default)
def _aminmax(w: Writing, node: Node, a: Any) -> Value:
    x, dims = w.tensor(a.self), dims_of(a)
    if not dims:
        return Several((x, x))
    return Several((w.f.amin(x, dims, bool(a.keepdim)), w.f.amax(x, dims, bool(a.keepdim))))


# Variances


@row(aten.var_mean.correction)
def _var_mean(w: Writing, node: Node, a: Any) -> Value:
    variance, mean = _moments(w, node, a, w.dtype(node, 0))
    return Several((variance, mean))


@row(aten.var.correction)
def _var(w: Writing, node: Node, a: Any) -> Value:
    return _moments(w, node, a, w.dtype(node))[0]


@row(aten.std.correction)
def _std(w: Writing, node: Node, a: Any) -> Value:
    dtype = w.dtype(node)
    wide = _moments(w, node, a, "f32" if dtype in HALVES else dtype)[0]
    return w.cast(w.f.sqrt(wide), dtype)


entered("prims.var.default", lambda w, node, a: w.refuse(node, "a variance of primitives", "Call torch.var."))


def _moments(w: Writing, node: Node, a: Any, dtype: DTypeName) -> tuple[Tensor, Tensor]:
    """Variance and mean, of halves in f32 and rounded once."""
    if is_empty(a.self):
        w.refuse(node, "the variance of no elements", "Leave tensors without elements outside.")
    x, dims = w.tensor(a.self), dims_of(a)
    x = w.f.cast(x, "f32") if x.dtype in HALVES else x
    keepdim = bool(a.keepdim) and bool(dims)
    if not dims:
        x, dims = w.f.reshape(x, (1,)), (0,)
    every = tuple(range(len(x.shape)))
    mean = x.mean(dims, keepdim=True)
    squares = w.f.square(x - w.f.broadcast_to(mean, x.shape, every))
    correction = 1 if a.correction is None else a.correction
    if correction == 0:
        variance = squares.mean(dims, keepdim)
    else:
        count = math.prod(_number(w, node, x.shape[dim]) for dim in dims)
        variance = squares.sum(dims, keepdim) / max(0.0, float(count - correction))
    kept = tuple(size for i, size in enumerate(mean.shape) if i not in dims)
    mean = mean if keepdim else w.f.reshape(mean, kept)
    return w.cast(variance, dtype), w.cast(mean, dtype)


def _number(w: Writing, node: Node, size: Any) -> int:
    if not isinstance(size, int):
        w.refuse(node, f"a correction of a variance over {size} elements", "Pass correction=0, and scale outside.")
    return size
