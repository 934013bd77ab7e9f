"""Fusions with scalars, which several tests share."""

from __future__ import annotations

from compiler.ir.fusion import Fusion
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import DTypeName

ADAMW_SCALARS = ("lr", "beta1", "beta2", "eps", "decay", "correction1", "root2")
"""In the order of a call: the last two are 1 - beta1^step and the root of 1 - beta2^step."""


def adamw(elems: int, dtype: DTypeName = "f32") -> Fusion:
    """One step of AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019), as torch computes it:
    (parameter, gradient, first moment, second moment) to the new parameter and moments."""
    f = FusionBuilder()
    p, g, m, v = (f.input(name, (elems,), dtype) for name in "pgmv")
    lr, beta1, beta2, eps, decay, correction1, root2 = (f.scalar(name) for name in ADAMW_SCALARS)
    p, g, m, v = (x if dtype == "f32" else x.cast("f32") for x in (p, g, m, v))
    kept = p - p * lr * decay
    m = g + (m - g) * beta1
    v = g * g + (v - g * g) * beta2
    step = m / correction1 / (f.sqrt(v) / root2 + eps)
    for name, x in (("p_new", kept - step * lr), ("m_new", m), ("v_new", v)):
        f.output(x if dtype == "f32" else x.cast(dtype), name)
    return bind(f.build(), Binding())
