"""What is made of nothing: constants, positions, random numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from fusetune.fusion import Tensor
from fusetune.graph.operators.rows import entered, row
from fusetune.graph.writing import Several, Uniform, Value, Writing, is_empty, rounded
from fusetune.wire.op_check import FLOATS

aten, prims = torch.ops.aten, torch.ops.prims


def constant(w: Writing, node: Node, number: Any) -> Value:
    """One number everywhere, as the node's dtype holds it."""
    dtype = w.dtype(node)
    if isinstance(number, Node):
        return w.alone(number, node)
    return Uniform(rounded(int(number) if isinstance(number, bool) else number, dtype), w.shape(node), dtype)


entered(
    "aten.full.default aten.full_like.default aten.new_full.default",
    lambda w, node, a: constant(w, node, a.fill_value),
)
entered("aten.scalar_tensor.default", lambda w, node, a: constant(w, node, a.s))
entered("aten.fill.Scalar aten.fill.Tensor", lambda w, node, a: constant(w, node, a.value))
entered(
    "aten.zeros.default aten.zeros_like.default aten.new_zeros.default aten.empty.memory_format "
    "aten.empty_like.default aten.empty_strided.default aten.new_empty.default aten.new_empty_strided.default "
    "aten.empty_permuted.default",
    lambda w, node, a: constant(w, node, 0),
)
entered("aten.ones.default aten.ones_like.default aten.new_ones.default", lambda w, node, a: constant(w, node, 1))


@row(prims.iota.default)
def _iota(w: Writing, node: Node, a: Any) -> Value:
    return _positions(w, node, a.start, a.step)


entered("aten.arange.default", lambda w, node, a: _positions(w, node, 0, 1))
entered("aten.arange.start", lambda w, node, a: _positions(w, node, a.start, 1))
entered("aten.arange.start_step", lambda w, node, a: _positions(w, node, a.start, a.step))


def _positions(w: Writing, node: Node, start: Any, step: Any) -> Value:
    """`start + step * position`, of halves in f32."""
    dtype, shape = w.dtype(node), w.shape(node)
    if is_empty(node):
        return Uniform(0, shape, dtype)
    if not all(isinstance(n, int | float) for n in (start, step)):
        w.refuse(node, "positions from a number that is not known", "Add it to torch.arange(n).")
    wide = dtype if dtype not in FLOATS or dtype == "f64" else "f32"
    found = w.f.iota(shape, 0, wide)
    found = found if step == 1 else w.f.mul(found, step)
    found = found if start == 0 else w.f.add(found, start)
    return w.cast(found, dtype)


# Random numbers


@row(aten.rand.default, aten.rand_like.default)
def _rand(w: Writing, node: Node, a: Any) -> Value:
    return w.cast(_drawn(w, node), w.dtype(node))


@row(aten.bernoulli.p)
def _bernoulli(w: Writing, node: Node, a: Any) -> Value:
    return w.cast(w.f.lt(_drawn(w, node), a.p), w.dtype(node))


@row(aten.native_dropout.default)
def _native_dropout(w: Writing, node: Node, a: Any) -> Value:
    x = w.tensor(a.input)
    if a.train is False:
        return Several((x, Uniform(1, w.shape(node, 1), "bool")))
    scale = 1.0 / (1.0 - a.p) if a.p < 1 else 0.0
    kept = w.f.ge(w.f.rand(w.shape(node, 0), *w.random()), a.p)
    return Several((w.f.where(kept, w.f.mul(x, scale), 0.0), kept))


def _drawn(w: Writing, node: Node) -> Tensor:
    """Numbers of [0, 1) in f32; rounded to halves they may be 1, as no number of torch's is."""
    if w.dtype(node) not in ("f32", "f64") and node.target is not aten.bernoulli.p:
        w.refuse(node, f"random numbers in {w.dtype(node)}", "Draw them in float32.")
    return w.f.rand(w.shape(node), *w.random())
