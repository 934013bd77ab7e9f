"""Fusions that draw random numbers, which several tests share."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.ir.fusion import Fusion
from compiler.wire import bind
from fusetune import FusionBuilder, Tensor
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import DTypeName


def drawn(*shape: int) -> Fusion:
    """The numbers themselves."""
    f = FusionBuilder()
    f.output(f.rand(shape, *_state(f)), "y")
    return bind(f.build(), Binding())


def dropout(*shape: int, p: float = 0.1, dtype: DTypeName = "bf16") -> Fusion:
    f = FusionBuilder()
    x = f.input("x", shape, dtype)
    f.output(f.dropout(x, p, *_state(f)), "y")
    return bind(f.build(), Binding())


def dropout_backward(*shape: int, p: float = 0.1) -> Fusion:
    """The gradient of `dropout`, and its sum over rows: a fusion of another structure with the same mask."""
    f = FusionBuilder()
    grad = f.input("grad", shape, "f32")
    dropped = f.dropout(grad, p, *_state(f))
    f.output(dropped, "dx")
    f.output(dropped.sum((len(shape) - 1,)), "total")
    return bind(f.build(), Binding())


def turned(rows: int, columns: int) -> Fusion:
    """A permuted draw, beside what is read in order."""
    f = FusionBuilder()
    x = f.input("x", (columns, rows), "f32")
    f.output(x * f.rand((rows, columns), *_state(f)).permute((1, 0)), "y")
    return bind(f.build(), Binding())


def residual_norm(rows: int, columns: int, p: float = 0.1) -> Fusion:
    """Layer norm of a residual and what dropout leaves of a branch; the sum is kept."""
    f = FusionBuilder()
    branch, residual = (f.input(name, (rows, columns), "bf16") for name in ("branch", "residual"))
    gain, bias = (f.input(name, (columns,), "f32") for name in ("gain", "bias"))
    kept = f.dropout(branch.cast("f32"), p, *_state(f)) + residual.cast("f32")

    def across(x: Tensor) -> Tensor:
        return x.broadcast_to((rows, columns), (0,))

    apart = kept - across(kept.mean((1,)))
    root = f.rsqrt(f.square(apart).mean((1,)) + 1e-5)
    scaled = apart * across(root) * gain.broadcast_to((rows, columns), (1,)) + bias.broadcast_to((rows, columns), (1,))
    f.output(scaled.cast("bf16"), "y")
    f.output(kept.cast("bf16"), "kept")
    return bind(f.build(), Binding())


def _state(f: FusionBuilder) -> Sequence[Tensor]:
    return f.input("seed", (), "i64"), f.input("offset", (), "i64")
