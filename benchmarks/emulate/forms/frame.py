"""The frame of kernels that are more than one map: source, inputs and launch written out."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.emulate.form import EXACT, FormTolerance, InstructionForm

Array = npt.NDArray[Any]


def kernel(parameters: str, body: str, attributes: str = "") -> str:
    """A kernel of `parameters`; `body` sees the thread's index in the block as `t`, in the grid as `i`."""
    return (
        f'extern "C" __global__ void {attributes} ENTRY({parameters}) {{\n'
        "  u32 t = threadIdx.x, i = blockIdx.x * blockDim.x + t;\n"
        f"{body}\n}}\n"
    )


def words(name: str, count: int, dtype: str = "uint32") -> Array:
    """Random bits that depend on the form's name alone."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return np.frombuffer(rng.bytes(count * np.dtype(dtype).itemsize), dtype)


def numbers(name: str, count: int, dtype: str = "float32") -> Array:
    """Small whole numbers, so that sums are exact in any order."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return rng.integers(-8, 9, count).astype(dtype)


def form(
    name: str,
    family: str,
    source: str,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, int],
    *,
    args: tuple[Any, ...] | None = None,
    grid: int = 1,
    block: int = 128,
    cluster: int = 1,
    dynamic_smem: int = 0,
    changed: tuple[str, ...] = (),
    tolerance: FormTolerance = EXACT,
) -> InstructionForm:
    """A form over one-dimensional grids; without `args` the inputs in order, then the outputs."""
    return InstructionForm(
        name=name,
        family=family,
        kernel=source,
        args=(*inputs, *outputs) if args is None else args,
        inputs=inputs,
        outputs=outputs,
        tolerance=tolerance,
        changed=changed,
        grid=(grid, 1, 1),
        block=(block, 1, 1),
        cluster=(cluster, 1, 1),
        dynamic_smem=dynamic_smem,
    )
