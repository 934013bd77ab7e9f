"""Arithmetic of f32, f64 and f32x2, and the approximate functions (PTX ISA, "Floating-Point Instructions" and "Mixed
Precision Floating-Point Instructions")."""

from __future__ import annotations

import functools

import numpy as np

from compiler.emulate.binder import Array, Binder, UnknownForm
from compiler.emulate.features.lanes.elementwise import Function, elementwise
from compiler.emulate.features.lanes.half import build_half, build_half_function, by_parts
from compiler.emulate.numeric import approximate, floating, rounding
from compiler.emulate.numeric.half import FORMATS
from compiler.emulate.numeric.rounding import ROUNDINGS, Rounding
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.registry import Run, instruction

_HALVES = ("f16", "f16x2", "bf16", "bf16x2")
_ARITHMETIC = frozenset(("ftz", "sat", *ROUNDINGS))
_ORDER = frozenset(("ftz", "NaN", "xorsign", "abs"))
_FORMS: dict[str, frozenset[str]] = {
    "add": _ARITHMETIC,
    "sub": _ARITHMETIC,
    "mul": _ARITHMETIC,
    "fma": _ARITHMETIC,
    "mad": _ARITHMETIC,
    "div": frozenset(("approx", "full", "ftz", *ROUNDINGS)),
    "min": _ORDER,
    "max": _ORDER,
    "abs": frozenset(("ftz",)),
    "neg": frozenset(("ftz",)),
    "rcp": frozenset(("approx", "ftz", *ROUNDINGS)),
    "sqrt": frozenset(("approx", "ftz", *ROUNDINGS)),
    "rsqrt": frozenset(("approx", "ftz")),
    **dict.fromkeys(("sin", "cos", "lg2", "ex2"), frozenset(("approx", "ftz"))),
    "tanh": frozenset(("approx",)),
    "copysign": frozenset(),
}
"""The modifiers of each opcode."""


def build_float(insn: PtxInstruction, binder: Binder) -> Run:
    """Binds `add sub mul fma mad div min max abs neg` of a float or packed float type, the last word of the name."""
    kind = insn.name[-1]
    if kind in FORMATS and insn.name[-2] == "f32":
        return _build_mixed(insn, binder)
    if kind in _HALVES:
        return build_half(insn, binder)
    check_modifiers(insn, _FORMS[insn.opcode])
    ftz, sat = insn.has("ftz"), insn.has("sat")
    function, operands = _function(insn)
    match kind:
        case "f32":
            return elementwise(insn, binder, _finished(insn, function), np.float32, *[np.float32] * operands)
        case "f32x2" if insn.opcode in ("add", "sub", "mul", "fma") and not sat:
            pairs = by_parts(_finished(insn, function), np.dtype(np.float32), np.dtype(np.uint64))
            return elementwise(insn, binder, pairs, np.uint64, *[np.uint64] * operands)
        case "f64" if not (ftz or sat):
            return elementwise(insn, binder, _with_nan(insn, function), np.float64, *[np.float64] * operands)
        case _:
            raise unsupported(insn)


def unsupported(insn: PtxInstruction) -> UnknownForm:
    """The error for a form that is not known."""
    return UnknownForm(f"the form {'.'.join(insn.name)}")


def check_modifiers(insn: PtxInstruction, known: frozenset[str], types: int = 1) -> None:
    """Raises UnknownForm if a word between the opcode and the last `types` words is none of `known`."""
    if not known.issuperset(insn.name[1:-types]):
        raise unsupported(insn)


def rounding_of(insn: PtxInstruction) -> Rounding:
    """The rounding modifier; to nearest where none is given."""
    return next((mode for mode in ROUNDINGS if insn.has(mode)), "rn")


def _function(insn: PtxInstruction) -> tuple[Function, int]:
    """What the opcode computes of f32 or f64, before `.ftz` and `.sat`, and the number of its operands."""
    mode = rounding_of(insn)
    match insn.opcode:
        case "add":
            return functools.partial(floating.add, mode=mode) if mode != "rn" else np.add, 2
        case "sub":
            return functools.partial(floating.subtract, mode=mode) if mode != "rn" else np.subtract, 2
        case "mul":
            return functools.partial(floating.multiply, mode=mode) if mode != "rn" else np.multiply, 2
        case "fma" | "mad":
            return functools.partial(floating.fma, mode=mode), 3
        case "div" if insn.has("approx", "full"):
            full = insn.has("full")
            return functools.partial(approximate.divide, full=full), 2
        case "div":
            return functools.partial(floating.divide, mode=mode), 2
        case "min" | "max":
            return _extreme(insn), len(insn.operands) - 1
        case "abs":
            return np.abs, 1
        case "neg":
            return np.negative, 1
        case "rcp":
            return functools.partial(floating.reciprocal, mode=mode), 1
        case "sqrt":
            return functools.partial(floating.square_root, mode=mode), 1
        case _:
            raise unsupported(insn)


def _extreme(insn: PtxInstruction) -> Function:
    """`min` or `max` of two operands, or of three (sm_100), with .NaN, .abs and .xorsign."""
    two = functools.partial(
        floating.minimum if insn.opcode == "min" else floating.maximum, propagate_nan=insn.has("NaN")
    )
    if insn.has("xorsign"):
        return lambda a, b: floating.with_sign_product(two(np.abs(a), np.abs(b)), a, b)
    if insn.has("abs"):
        return lambda *xs: functools.reduce(two, map(np.abs, xs))
    return two if len(insn.operands) == 3 else lambda *xs: functools.reduce(two, xs)


_SCALED: dict[str, Function] = {
    "mul": floating.multiply,
    "fma": floating.fma,
    "mad": floating.fma,
    "div": floating.divide,
    "rcp": floating.reciprocal,
}
"""Opcodes whose results may be inexact below the smallest normal number. Sums are exact there, roots never there."""


def _finished(insn: PtxInstruction, function: Function) -> Function:
    """`function` of f32 with its operands and results flushed, clamped, and NaN canonical."""
    last: Function = rounding.saturate if insn.has("sat") else rounding.canonical
    if not insn.has("ftz"):
        return lambda *xs: last(function(*xs))
    flush = rounding.flush
    if insn.opcode not in _SCALED or insn.has("approx", "full"):
        return lambda *xs: last(flush(function(*map(flush, xs))))
    mode = rounding_of(insn)
    scaled: Function = _SCALED[insn.opcode]

    def flushed(*operands: Array) -> Array:
        xs = [flush(x) for x in operands]
        result: Array = last(rounding.flush_result(function(*xs), lambda scale: scaled(*xs, mode, scale)))
        return result

    return flushed


def _with_nan(insn: PtxInstruction, function: Function) -> Function:
    """`function` of f64 with the NaN of its operands."""
    order = floating.NAN_ORDER[insn.opcode]
    return lambda *xs: rounding.operand_nan(function(*xs), [xs[k] for k in order])


def _build_mixed(insn: PtxInstruction, binder: Binder) -> Run:
    """`add`, `sub`, `fma` of f32 with f16 or bf16 (sm_100): the halves are widened, the last operand is f32."""
    if insn.opcode not in ("add", "sub", "fma"):
        raise unsupported(insn)
    check_modifiers(insn, frozenset(("sat", *ROUNDINGS)), types=2)
    widen = FORMATS[insn.name[-1]].widen
    function, operands = _function(insn)
    finished = _finished(insn, function)
    return elementwise(
        insn,
        binder,
        lambda *xs: finished(*map(widen, xs[:-1]), xs[-1]),
        np.float32,
        *[np.uint16] * (operands - 1),
        np.float32,
    )


@instruction("fma")
def build_fma(insn: PtxInstruction, binder: Binder) -> Run:
    """`fma`: a product and a sum, rounded once."""
    return build_float(insn, binder)


@instruction("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh")
def build_function(insn: PtxInstruction, binder: Binder) -> Run:
    """Functions of one operand: correctly rounded `rcp` and `sqrt`, and the approximate ones."""
    kind, opcode, ftz = insn.name[-1], insn.opcode, insn.has("ftz")
    check_modifiers(insn, _FORMS[opcode])
    if kind in _HALVES and opcode in ("ex2", "tanh"):
        return build_half_function(insn, binder)
    is_rounded = opcode in ("rcp", "sqrt") and not insn.has("approx")
    if kind in ("f32", "f64") and is_rounded:
        return build_float(insn, binder)
    if kind == "f32":
        return elementwise(insn, binder, lambda x: approximate.f32(opcode, x, ftz), np.float32, np.float32)
    if kind == "f64" and opcode in ("rcp", "rsqrt") and ftz:
        return elementwise(insn, binder, lambda x: approximate.gross_f64(opcode, x), np.float64, np.float64)
    if kind == "f64" and opcode == "rsqrt":
        return elementwise(insn, binder, approximate.FUNCTIONS["rsqrt"], np.float64, np.float64)
    raise unsupported(insn)


@instruction("copysign")
def build_copysign(insn: PtxInstruction, binder: Binder) -> Run:
    """`copysign`: the second source with the sign of the first."""
    check_modifiers(insn, _FORMS["copysign"])
    dtype = _plain(insn)

    def function(sign: Array, size: Array) -> Array:
        return np.asarray(np.copysign(size, sign))

    return elementwise(insn, binder, function, dtype, dtype, dtype)


@instruction("testp")
def build_testp(insn: PtxInstruction, binder: Binder) -> Run:
    """`testp`: a predicate, whether a float is finite, infinite, a number, no number, normal or subnormal."""
    check_modifiers(insn, frozenset(("finite", "infinite", "number", "notanumber", "normal", "subnormal")))
    dtype, name = _plain(insn), insn.name[1]
    return elementwise(insn, binder, lambda x: floating.has_property(name, x), np.bool_, dtype)


def _plain(insn: PtxInstruction) -> np.dtype[np.generic]:
    """The dtype of an instruction on f32 or f64."""
    if insn.name[-1] not in ("f32", "f64"):
        raise unsupported(insn)
    return np.dtype(np.float32 if insn.name[-1] == "f32" else np.float64)
