"""Kernels that give each thread its operands, execute one instruction and store the result.

Operands and results travel as 64-bit slots, so that all these kernels have one signature.
"""

from __future__ import annotations

import zlib

import numpy as np

from benchmarks.emulate.form import EXACT, FormTolerance, InstructionForm
from benchmarks.emulate.values import WIDTHS, operands, width

_LETTERS = {8: "h", 16: "h", 32: "r", 64: "l"}
_TYPES = {8: "u16", 16: "u16", 32: "u32", 64: "u64"}

_KERNEL = """extern "C" __global__ void ENTRY(const u64* a, const u64* b, const u64* c, u64* out) {{
  u32 i = blockIdx.x * 128 + threadIdx.x;
  {result} d;
  asm volatile("{body}" : "={letter}"(d) : {inputs});
  out[i] = (u64)d;
}}
"""

FLOATING = frozenset({"f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "tf32"})


def elementwise(
    name: str, dtypes: str, result: str, *, body: str = "", tolerance: FormTolerance = EXACT, family: str
) -> InstructionForm:
    """A form of instruction `name`. `dtypes` are its operands' types, separated by spaces, at most 3.

    `body` is the PTX, `%0` the result and `%1` the first operand; without it the instruction with all of them.
    """
    kinds = tuple(dtypes.split())
    text = body or f"{name} {', '.join(f'%{k}' for k in range(len(kinds) + 1))};"
    inputs = ", ".join(
        f'"{_LETTERS[width(kind)]}"(({_TYPES[width(kind)]}){array}[i])'
        for kind, array in zip(kinds, "abc", strict=False)
    )
    kernel = _KERNEL.format(
        result=_TYPES[WIDTHS[result]], letter=_LETTERS[WIDTHS[result]], body=text.replace("\n", "\\n"), inputs=inputs
    )
    values = operands(kinds, zlib.crc32(name.encode()))
    count = len(values[0])
    padded = values + [np.zeros(1, np.uint64)] * (3 - len(values))
    if tolerance == EXACT and result in FLOATING:
        tolerance = FormTolerance(result, with_nan_bits=True)
    return InstructionForm(
        name=name,
        family=family,
        kernel=kernel,
        args=("a", "b", "c", "out"),
        inputs=dict(zip("abc", padded, strict=True)),
        outputs={"out": 8 * count},
        tolerance=tolerance,
        grid=(count // 128, 1, 1),
    )
