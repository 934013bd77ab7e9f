"""Floating-point atomics and reductions on special values: NaN, infinities, zeros of both signs, subnormal numbers.

Each thread has a place of its own, so that order does not matter. Whether subnormal numbers are kept depends on the
space, and for vectors on the instruction (PTX ISA, "atom", "red", "cp.reduce.async.bulk").
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from benchmarks.emulate.form import FormTolerance, InstructionForm
from benchmarks.emulate.forms.frame import Array, form, kernel
from benchmarks.emulate.values import WIDTHS, operands
from compiler.emulate.launch import EmulatedTensorMap

_WORDS = {16: ("u16", "h"), 32: ("u32", "r"), 64: ("u64", "l")}
_KINDS = ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")
_THREADS = 128
_VECTORS = (
    *((count, "f32", "add") for count in (2, 4)),
    *((count, kind, op) for kind in ("f16", "bf16") for count in (2, 4, 8) for op in ("add", "min", "max")),
    *((count, kind, op) for kind in ("f16x2", "bf16x2") for count in (2, 4) for op in ("add", "min", "max")),
)


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    for kind in _KINDS:
        for space in ("global", "shared", "generic global", "generic shared"):
            yield _scalar("red", kind, space)
            yield _scalar("atom", kind, space)
    for count, kind, op in _VECTORS:
        yield _vector("red", count, kind, op)
        yield _vector("atom", count, kind, op)
    for kind in ("f32", "f64", "f16", "bf16"):
        yield _bulk(kind, "add")
    for kind in ("f16", "bf16"):
        for op in ("min", "max"):
            yield _bulk(kind, op)
    for kind in ("f32", "f16", "bf16"):
        for op in ("add",) if kind == "f32" else ("add", "min", "max"):
            yield _tensor(kind, op)


def _pairs(name: str, kind: str) -> tuple[Array, Array]:
    """Special values of two operands, crossed, as words of the type's width."""
    dtype = f"u{WIDTHS[kind] // 8}"
    first, second = (v.astype(dtype) for v in operands((kind, kind), zlib.crc32(name.encode())))
    return first, second


def _made(
    name: str, kind: str, source: str, inputs: dict[str, Array], outputs: dict[str, int], count: int
) -> InstructionForm:
    return form(
        f"{name} on special values",
        "float atomic",
        source,
        inputs,
        outputs,
        args=("x", "z", *outputs),
        changed=("z",),
        grid=count // _THREADS,
        tolerance=FormTolerance(kind, with_nan_bits=kind != "f64"),
    )


def _suffix(kind: str, op: str = "add") -> str:
    return f"{op}.{kind}" if kind in ("f32", "f64") else f"{op}.noftz.{kind}"


def _scalar(opcode: str, kind: str, space: str) -> InstructionForm:
    word, letter = _WORDS[WIDTHS[kind]]
    where = "" if space.startswith("generic") else f".{space}"
    instruction = f"{opcode}{where}.{_suffix(kind)}"
    name = f"{instruction} of {space}" if not where else instruction
    x, z = _pairs(name, kind)
    result = f'"={letter}"(d)' if opcode == "atom" else ""
    first = 1 if opcode == "atom" else 0
    operation = f"{instruction} {'%0, ' if first else ''}[%{first}], %{first + 1};"
    if space.endswith("shared"):
        address = '"r"(SMEM(s + t))' if where else '"l"(s + t)'
        frame = (
            f"  __shared__ {word} s[{_THREADS}];\n  s[t] = z[i];\n  __syncthreads();\n  {word} d = 0;\n%s"
            "  __syncthreads();\n  z[i] = s[t];"
        )
    else:
        address, frame = '"l"(z + i)', f"  {word} d = 0;\n%s"
    text = frame % f'  asm volatile("{operation}" : {result} : {address}, "{letter}"(x[i]) : "memory");\n'
    outputs = {}
    if opcode == "atom":
        text += "\n  y[i] = d;"
        outputs = {"y": x.nbytes}
    source = kernel(f"const {word}* x, {word}* z{f', {word}* y' if outputs else ''}", text)
    return _made(name, kind, source, {"x": x, "z": z}, outputs, len(x))


def _vector(opcode: str, count: int, kind: str, op: str) -> InstructionForm:
    word, letter = _WORDS[WIDTHS[kind]]
    letter = "f" if kind == "f32" else letter
    instruction = f"{opcode}.global.{op}{'' if kind == 'f32' else '.noftz'}.v{count}.{kind}"
    x, z = _pairs(instruction, kind)
    of_result = count if opcode == "atom" else 0
    results = "{" + ", ".join(f"%{k}" for k in range(count)) + "}, " if of_result else ""
    values = "{" + ", ".join(f"%{of_result + 1 + k}" for k in range(count)) + "}"
    as_read = "__uint_as_float(x[{0}])" if kind == "f32" else "x[{0}]"
    outs = ", ".join(f'"={letter}"(d[{k}])' for k in range(of_result))
    ins = ", ".join(f'"{letter}"({as_read.format(f"{count} * i + {k}")})' for k in range(count))
    register = "float" if kind == "f32" else word
    text = (
        f"  if ({count} * i >= {len(x)}) return;\n  {register} d[{count}];\n"
        f'  asm volatile("{instruction} {results}[%{of_result}], {values};" : {outs} : "l"(z + {count} * i), {ins} : '
        '"memory");\n'
    )
    outputs = {}
    if of_result:
        taken = "__float_as_uint(d[k])" if kind == "f32" else "d[k]"
        text += f"  for (u32 k = 0; k < {count}; ++k) y[{count} * i + k] = {taken};"
        outputs = {"y": x.nbytes}
    source = kernel(f"const {word}* x, {word}* z{f', {word}* y' if outputs else ''}", text)
    return _made(instruction, kind, source, {"x": x, "z": z}, outputs, len(x))


def _bulk(kind: str, op: str) -> InstructionForm:
    word, _ = _WORDS[WIDTHS[kind]]
    suffix = _suffix(kind, op) if op == "add" else f"{op}.{kind}"
    instruction = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{suffix}"
    x, z = _pairs(instruction, kind)
    nbytes = _THREADS * x.itemsize
    operation = (
        f'asm volatile("{instruction} [%0], [%1], {nbytes};" ::"l"(z + {_THREADS} * blockIdx.x), "r"(SMEM(s)) : '
        '"memory");'
    )
    source = kernel(f"const {word}* x, {word}* z", _staged(word, operation))
    return _made(instruction, kind, source, {"x": x, "z": z}, {}, len(x))


def _staged(word: str, operation: str) -> str:
    return (
        f"  __shared__ __align__(128) {word} s[{_THREADS}];\n  s[t] = x[i];\n  FENCE_ASYNC();\n  __syncthreads();\n"
        f"  if (t == 0) {{\n    {operation}\n    BULK_COMMIT();\n    BULK_WAIT(0);\n  }}"
    )


def _tensor(kind: str, op: str) -> InstructionForm:
    word, _ = _WORDS[WIDTHS[kind]]
    name = f"cp.reduce.async.bulk.tensor.1d.{op} {kind}"
    x, z = _pairs(name, kind)
    operation = (
        f'asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.{op}.tile.bulk_group [%0, {{%2}}], [%1];" '
        f'::"l"(&z), "r"(SMEM(s)), "r"({_THREADS} * blockIdx.x) : "memory");'
    )
    source = kernel(f"const {word}* x, const __grid_constant__ TensorMap z", _staged(word, operation))
    tensor = EmulatedTensorMap("z", kind, (len(z),), (), (_THREADS,), (1,))
    return form(
        f"{name} on special values",
        "float atomic",
        source,
        {"x": x, "z": z},
        {},
        args=("x", tensor),
        changed=("z",),
        grid=len(x) // _THREADS,
        tolerance=FormTolerance(kind, with_nan_bits=kind != "f64"),
    )
