"""CUDA's mathematical functions: programs of hundreds of instructions, with tables, loops and local memory.

The compiler may contract products and sums of their PTX (PTX ISA, "mul", "add": without a rounding modifier), so that
results are held to a few units in the last place, within what the CUDA guide documents for them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

from benchmarks.emulate.form import FormTolerance, InstructionForm
from benchmarks.emulate.forms.frame import form, kernel
from benchmarks.emulate.values import operands

_ONE = ("exp", "exp2", "expm1", "log", "log1p", "log2", "sin", "cos", "tan", "atan", "asin", "tanh", "sinh", "erf",
        "erfc", "cbrt", "rsqrt", "rcbrt", "normcdf", "sinpi", "round", "rint", "logb")  # fmt: skip
_TWO = ("pow", "fmod", "atan2", "remainder", "fdim", "nextafter")
_UNITS = {"f64": 2.0**-49, "f32": 2.0**-20}
_TYPES = {"f64": ("double", np.float64), "f32": ("float", np.float32)}


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    for kind in ("f64", "f32"):
        for name in _ONE:
            yield _function(name, kind, 1)
        for name in _TWO:
            yield _function(name, kind, 2)
    yield _integers()


def _function(name: str, kind: str, count: int) -> InstructionForm:
    c_type, dtype = _TYPES[kind]
    call = f"{name}{'f' if kind == 'f32' else ''}"
    values = operands((kind,) * count, zlib.crc32(call.encode()))
    bits = [v.astype(np.uint64 if kind == "f64" else np.uint32).view(dtype) for v in values]
    arguments = ", ".join(f"{n}[i]" for n in "xz"[:count])
    parameters = ", ".join(f"const {c_type}* {n}" for n in "xz"[:count])
    source = kernel(f"{parameters}, {c_type}* y", f"  y[i] = {call}({arguments});")
    unit = _UNITS[kind]
    return form(
        f"{call} of CUDA",
        "program",
        source,
        dict(zip("xz", bits, strict=False)),
        {"y": bits[0].nbytes},
        grid=len(bits[0]) // 128,
        tolerance=FormTolerance(kind, relative=unit),
    )


def _integers() -> InstructionForm:
    """128-bit arithmetic: carries, wide products, divisions."""
    text = (
        "  unsigned __int128 a = ((unsigned __int128)x[i] << 64) | z[i], b = ((unsigned __int128)z[i] << 13) + x[i];\n"
        "  unsigned __int128 d = a * b + (a >> (t & 127)) - (b << (i & 63));\n"
        "  d ^= (__int128)a / (__int128)(b | 1);\n  y[2 * i] = (u64)d; y[2 * i + 1] = (u64)(d >> 64);"
    )
    values = operands(("u64", "u64"), 3)
    source = kernel("const u64* x, const u64* z, u64* y", text)
    inputs = dict(zip("xz", values, strict=True))
    return form(
        "128-bit arithmetic", "program", source, inputs, {"y": 2 * values[0].nbytes}, grid=len(values[0]) // 128
    )
