"""Kernels and launches of these tests."""

from __future__ import annotations

from typing import Any

ADD = """\
extern "C" __global__ void add(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = x[i] + 1.0f;
}
"""
READ_LINE = 4
"""Of ADD: the load that goes out of bounds if `n` is too large."""

TENSORS: dict[str, Any] = {
    "x": {"shape": [250], "dtype": "f32", "init": "random", "seed": 3},
    "y": {"shape": [250], "dtype": "f32", "init": "poison"},
}


def add_spec(n: int = 250) -> dict[str, Any]:
    """A launch of ADD over `n` of 250 elements."""
    return {
        "entry": "add",
        "grid": [4, 1, 1],
        "block": [64, 1, 1],
        "args": [{"tensor": "x"}, {"tensor": "y"}, {"scalar": n, "dtype": "i32"}],
        "tensors": TENSORS,
    }
