"""Fusions whose CUDA is kept, and what is kept of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.ir.fusion import Fusion
from compiler.pipeline import Generated
from tests.compiler.schedules import from_wire

ALL, BULK = ("sm_80", "sm_90a", "sm_100a"), ("sm_90a", "sm_100a")


@dataclass(frozen=True)
class Golden:
    """`archs` are those that the source compiles for; the first one is generated for."""

    archs: tuple[str, ...]
    make: Callable[[str], Generated]

    def generate(self) -> Generated:
        return self.make(self.archs[0])


def add(*shape: int, dtype: str = "f32") -> Fusion:
    """out = x + y."""
    inputs = [{"name": n, "shape": list(shape), "dtype": dtype} for n in "xy"]
    return from_wire(inputs, [{"op": "add", "in": ["x", "y"], "out": "out"}], "out")


def bias_gelu(x: str = "x", b: str = "b", out: str = "out", rows: int = 512, columns: int = 1024) -> Fusion:
    """out = gelu(x + bias) in bf16, computed in f32."""
    shape = [rows, columns]
    inputs = [{"name": x, "shape": shape, "dtype": "bf16"}, {"name": b, "shape": shape[1:], "dtype": "bf16"}]
    ops: list[Mapping[str, Any]] = [
        {"op": "cast", "in": [x], "out": "t0", "dtype": "f32"},
        {"op": "cast", "in": [b], "out": "t1", "dtype": "f32"},
        {"op": "broadcast_to", "in": ["t1"], "out": "t2", "shape": shape, "dims": [1]},
        {"op": "add", "in": ["t0", "t2"], "out": "t3"},
        {"op": "gelu", "in": ["t3"], "out": "t4"},
        {"op": "cast", "in": ["t4"], "out": out, "dtype": "bf16"},
    ]
    return from_wire(inputs, ops, out)


def transpose(rows: int, columns: int, dtype: str) -> Fusion:
    ops = [{"op": "permute", "in": ["x"], "out": "out", "dims": [1, 0]}]
    return from_wire([{"name": "x", "shape": [rows, columns], "dtype": dtype}], ops, "out")


def lower_triangle(rows: int, columns: int) -> Fusion:
    """h = x on and below the diagonal, else 0, in bf16; and the mask itself."""
    shape = [rows, columns]
    ops: list[Mapping[str, Any]] = [
        {"op": "iota", "in": [], "out": "i", "shape": shape, "dim": 0, "dtype": "i32"},
        {"op": "iota", "in": [], "out": "j", "shape": shape, "dim": 1, "dtype": "i32"},
        {"op": "ge", "in": ["i", "j"], "out": "m"},
        {"op": "where", "in": ["m", "x", 0.0], "out": "y"},
        {"op": "cast", "in": ["y"], "out": "h", "dtype": "bf16"},
    ]
    return from_wire([{"name": "x", "shape": shape, "dtype": "f32"}], ops, "h", "m")


def prefix_sums(shape: Sequence[int], dim: int, dtype: str = "f32", **said: Any) -> Fusion:
    """out = the sums of the elements of x up to each along a dimension."""
    op = {"op": "cumsum", "in": ["x"], "out": "out", "dim": dim, **said}
    return from_wire([{"name": "x", "shape": list(shape), "dtype": dtype}], [op], "out")
