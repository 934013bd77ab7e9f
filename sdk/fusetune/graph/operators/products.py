"""Matrix products: each element is summed in f32, and rounded once, as torch's libraries do. Products of f32 may be
in tf32 where torch's may."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from fusetune.fusion import Tensor
from fusetune.graph.operators.rows import entered
from fusetune.graph.precision import precision_of_f32
from fusetune.graph.sizes import known
from fusetune.graph.writing import HALVES, Uniform, Value, Writing
from fusetune.wire.fusion import DTypeName

_MULTIPLIED: dict[str, DTypeName] = {"f32": "f32", "f16": "f32", "bf16": "f32", "i8": "i32"}
"""Operands' types -> what their products are summed in."""


def _product(w: Writing, node: Node, left: Node, right: Node, dtype: DTypeName) -> Value:
    """`left @ right` in `dtype`; zeros where nothing is summed."""
    x, y = w.tensor(left), w.tensor(right)
    if x.dtype not in _MULTIPLIED:
        w.refuse(node, f"a product of {x.dtype}", "Leave it to torch, or cast its operands to f32, bf16 or f16.")
    if known(left.meta["val"].shape[-1]) == 0:
        return Uniform(0, w.shape(node), dtype)
    return w.f.matmul(x, y, dtype=dtype, precision=precision_of_f32() if x.dtype == "f32" else None)


def _plain(w: Writing, node: Node, a: Any) -> Value:
    return _product(w, node, a.self, a.mat2, w.dtype(node))


def _added(w: Writing, node: Node, left: Node, right: Node, a: Any) -> Tensor:
    """`beta * self + alpha * left @ right`, in the type that it is summed in."""
    dtype = w.dtype(node)
    wide: DTypeName = "f32" if dtype in HALVES else dtype
    made = w.written(_product(w, node, left, right, wide))
    alpha, beta = getattr(a, "alpha", 1), getattr(a, "beta", 1)
    if alpha != 1:
        made = made * alpha
    if beta != 0:
        term = w.expand(w.written(w.cast(w.operand(a.self), wide)), w.shape(node))
        made = made + (term if beta == 1 else term * beta)
    return made


def _rounded(w: Writing, node: Node, x: Tensor) -> Tensor:
    return w.written(w.cast(x, w.dtype(node)))


def _addmm(w: Writing, node: Node, a: Any) -> Value:
    return _rounded(w, node, _added(w, node, a.mat1, a.mat2, a))


def _baddbmm(w: Writing, node: Node, a: Any) -> Value:
    return _rounded(w, node, _added(w, node, a.batch1, a.batch2, a))


def _addmm_activation(w: Writing, node: Node, a: Any) -> Value:
    """Its GELU is the one by tanh on CUDA, as cuBLASLt has it; on the CPU it is exact."""
    made = _added(w, node, a.mat1, a.mat2, a)
    return _rounded(w, node, w.f.gelu(made) if a.use_gelu else w.f.relu(made))


entered("aten.mm.default aten.mm.dtype aten.bmm.default aten.bmm.dtype aten._int_mm.default", _plain)
entered("aten.addmm.default", _addmm)
entered("aten.baddbmm.default", _baddbmm)
entered("aten._addmm_activation.default", _addmm_activation)
