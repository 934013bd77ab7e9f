"""Arithmetic of f16 and bf16, single and packed in pairs (PTX ISA, "Half Precision Floating-Point Instructions")."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.lanes.elementwise import Function, elementwise
from compiler.emulate.numeric import approximate, half, integer
from compiler.emulate.numeric.half import FORMATS, Half
from compiler.emulate.numeric.rounding import Array
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.registry import Run

_ARITHMETIC = frozenset(("rn", "ftz", "sat"))
_ORDER = frozenset(("ftz", "NaN", "xorsign", "abs"))
_FORMS: dict[str, frozenset[str]] = {
    "add": _ARITHMETIC,
    "sub": _ARITHMETIC,
    "mul": _ARITHMETIC,
    "fma": _ARITHMETIC | {"relu", "oob"},
    "min": _ORDER,
    "max": _ORDER,
    "abs": frozenset(("ftz",)),
    "neg": frozenset(("ftz",)),
}
"""The modifiers of each opcode; bf16 has neither .ftz nor .sat."""


def build_half(insn: PtxInstruction, binder: Binder) -> Run:
    """Binds `add sub mul fma min max abs neg` of f16, f16x2, bf16 or bf16x2."""
    fmt = _format(insn)
    modifiers = insn.name[1:-1]
    known = _FORMS.get(insn.opcode)
    if known is None or not known.issuperset(modifiers) or (fmt is half.BF16 and insn.has("ftz", "sat")):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    function, operands = _function(insn, fmt)
    return _bind(insn, binder, _finished(insn, fmt, function), operands)


def build_half_function(insn: PtxInstruction, binder: Binder) -> Run:
    """Binds `ex2.approx`, which for bf16 is always `.ftz` and for f16 never, and `tanh.approx`."""
    fmt, opcode = _format(insn), insn.opcode
    if insn.has("ftz") != (opcode == "ex2" and fmt is half.BF16):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    function: Function = functools.partial(approximate.half, opcode, fmt)
    if insn.has("ftz"):
        return _bind(insn, binder, lambda x: half.flush(fmt, function(half.flush(fmt, x))), 1)
    return _bind(insn, binder, function, 1)


def _format(insn: PtxInstruction) -> Half:
    return FORMATS[insn.name[-1].removesuffix("x2")]


def _bind(insn: PtxInstruction, binder: Binder, function: Function, operands: int) -> Run:
    """Binds a function of 16-bit elements to single registers or to pairs.

    Operands are read as bits: PTX has no constants of these types, only hexadecimal words.
    """
    if not insn.name[-1].endswith("x2"):
        return elementwise(insn, binder, function, np.uint16, *[np.uint16] * operands)

    pairs = by_parts(function, np.dtype(np.uint16), np.dtype(np.uint32))
    return elementwise(insn, binder, pairs, np.uint32, *[np.uint32] * operands)


def by_parts(function: Function, element: np.dtype[Any], word: np.dtype[Any]) -> Function:
    """`function` of elements, applied to words: to each of the elements that a word holds."""
    return lambda *xs: integer.packed(function(*(integer.parts(x, element) for x in xs)), word)


def _function(insn: PtxInstruction, fmt: Half) -> tuple[Function, int]:
    """What the opcode computes, before .ftz, .sat, .relu and .oob, and the number of its operands."""
    match insn.opcode:
        case "add":
            return functools.partial(half.add, fmt), 2
        case "sub":
            return functools.partial(half.subtract, fmt), 2
        case "mul":
            return functools.partial(half.multiply, fmt), 2
        case "fma":
            return functools.partial(half.fma, fmt), 3
        case "abs":
            return functools.partial(half.absolute, fmt), 1
        case "neg":
            return functools.partial(half.negate, fmt), 1
    extreme = half.minimum if insn.opcode == "min" else half.maximum
    two: Function = functools.partial(extreme, fmt, propagate_nan=insn.has("NaN"))
    if insn.has("xorsign"):
        size = functools.partial(half.absolute, fmt)
        return (lambda a, b: half.with_sign_product(fmt, two(size(a), size(b)), a, b)), 2
    return two, 2


def _flushed(insn: PtxInstruction, fmt: Half, function: Function) -> Function:
    """`function` with its operands and its result flushed; sums are exact where they are so small."""
    flush = functools.partial(half.flush, fmt)
    if insn.opcode not in ("mul", "fma"):
        return lambda *xs: flush(function(*map(flush, xs)))

    def flushed(*operands: Array) -> Array:
        xs = [flush(x) for x in operands]
        return half.flush_result(fmt, function(*xs), lambda scale: function(*xs, scale=scale))

    return flushed


def _finished(insn: PtxInstruction, fmt: Half, function: Function) -> Function:
    """`function` with the modifiers that act on its operands and its result."""
    if insn.has("ftz"):
        function = _flushed(insn, fmt, function)
    if insn.has("sat"):
        clamped = function
        function = lambda *xs: half.saturate(fmt, clamped(*xs))  # noqa: E731 - each modifier wraps the one before
    if insn.has("relu"):
        signed = function
        function = lambda *xs: half.rectify(signed(*xs))  # noqa: E731 - each modifier wraps the one before
    if insn.has("oob"):
        product = function
        return lambda a, b, c: half.zero_where_oob(product(a, b, c), a, b)
    return function
