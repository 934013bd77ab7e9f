"""Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions"); float forms of the same names go on from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.emulate.binder import Array, Binder, UnknownForm
from compiler.emulate.features.lanes.elementwise import Function, elementwise, integer_type
from compiler.emulate.features.lanes.floating import build_float
from compiler.emulate.numeric import integer
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.registry import Run, instruction

_FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64")
_PACKED = {"u16x2": np.dtype(np.uint16), "s16x2": np.dtype(np.int16)}


@instruction("add", "sub", "min", "max")
def build_two(insn: PtxInstruction, binder: Binder) -> Run:
    """`add`, `sub`, `min`, `max` of integers and packed pairs; `.sat` clamps, `.relu` gives no less than 0."""
    kind = insn.name[-1]
    if kind in _FLOATS:
        return build_float(insn, binder)
    function = _TWO.get((insn.opcode, insn.has("sat")))
    if function is None or (insn.has("sat") and kind != "s32"):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    if insn.has("relu"):
        function = _not_below_zero(function)
    if kind in _PACKED:
        return elementwise(insn, binder, _by_parts(function, _PACKED[kind]), np.uint32, np.uint32, np.uint32)
    dtype = integer_type(kind)
    return elementwise(insn, binder, function, dtype, dtype, dtype)


_TWO: dict[tuple[str, bool], Function] = {
    ("add", False): np.add,
    ("sub", False): np.subtract,
    ("min", False): np.minimum,
    ("max", False): np.maximum,
    ("add", True): integer.add_saturated,
    ("sub", True): integer.sub_saturated,
}


def _not_below_zero(function: Function) -> Function:
    def clamped(a: Array, b: Array) -> Array:
        result: Array = function(a, b)
        return np.asarray(np.maximum(result, result.dtype.type(0)))

    return clamped


def _by_parts(function: Function, dtype: np.dtype[Any]) -> Function:
    return lambda a, b: integer.packed(function(integer.parts(a, dtype), integer.parts(b, dtype)), np.uint32)


@instruction("abs", "neg")
def build_one(insn: PtxInstruction, binder: Binder) -> Run:
    """`abs` and `neg`; those of the lowest number wrap to itself."""
    if insn.name[-1] in _FLOATS:
        return build_float(insn, binder)
    dtype = integer_type(insn.name[-1])
    return elementwise(insn, binder, np.abs if insn.opcode == "abs" else np.negative, dtype, dtype)


@instruction("div", "rem")
def build_quotient(insn: PtxInstruction, binder: Binder) -> Run:
    """`div` and `rem`, truncating."""
    if insn.name[-1] in _FLOATS:
        return build_float(insn, binder)
    dtype = integer_type(insn.name[-1])
    return elementwise(insn, binder, integer.divide if insn.opcode == "div" else integer.remainder, dtype, dtype, dtype)


def product(insn: PtxInstruction) -> tuple[Callable[[Array, Array], Array], np.dtype[Any], np.dtype[Any]]:
    """The function of `.lo`, `.hi` or `.wide`, the type of its factors and that of its result."""
    dtype = integer_type(insn.name[-1])
    if insn.has("lo"):
        return np.multiply, dtype, dtype
    if insn.has("hi"):
        return integer.mul_high, dtype, dtype
    if insn.has("wide") and dtype.itemsize < 8:
        return integer.mul_wide, dtype, integer.wider(dtype)
    raise UnknownForm(f"the form {'.'.join(insn.name)}")


@instruction("mul")
def build_mul(insn: PtxInstruction, binder: Binder) -> Run:
    """`mul.lo`, `mul.hi`, `mul.wide`."""
    if insn.name[-1] in _FLOATS:
        return build_float(insn, binder)
    function, factor, result = product(insn)
    return elementwise(insn, binder, function, result, factor, factor)


@instruction("mad")
def build_mad(insn: PtxInstruction, binder: Binder) -> Run:
    """`mad.lo`, `mad.hi`, `mad.wide`, and `mad.hi.sat.s32`, which clamps the sum."""
    if insn.name[-1] in _FLOATS:
        return build_float(insn, binder)
    function, factor, result = product(insn)
    add = _sum(insn, "hi")
    return elementwise(insn, binder, lambda a, b, c: add(function(a, b), c), result, factor, factor, result)


def _sum(insn: PtxInstruction, saturating: str) -> Function:
    if not insn.has("sat"):
        return np.add
    if not insn.has(saturating) or insn.name[-1] != "s32":
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    return integer.add_saturated


@instruction("mul24", "mad24")
def build_24(insn: PtxInstruction, binder: Binder) -> Run:
    """`mul24` and `mad24`: products of 24-bit factors."""
    dtype = integer_type(insn.name[-1])
    if dtype.itemsize != 4:
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    high = insn.has("hi")
    if insn.opcode == "mul24":
        return elementwise(insn, binder, lambda a, b: integer.mul24(a, b, high), dtype, dtype, dtype)
    add = _sum(insn, "hi")
    return elementwise(insn, binder, lambda a, b, c: add(integer.mul24(a, b, high), c), dtype, dtype, dtype, dtype)


@instruction("sad")
def build_sad(insn: PtxInstruction, binder: Binder) -> Run:
    """`sad`: c + |a - b|."""
    dtype = integer_type(insn.name[-1])

    def function(a: Array, b: Array, c: Array) -> Array:
        return np.asarray(c + integer.absolute_difference(a, b))

    return elementwise(insn, binder, function, dtype, dtype, dtype, dtype)


@instruction("dp4a", "dp2a")
def build_dot(insn: PtxInstruction, binder: Binder) -> Run:
    """`dp4a` and `dp2a`: dot products of bytes."""
    a_signed, b_signed = (kind == "s32" for kind in insn.name[-2:])
    word = np.dtype(np.int32 if a_signed or b_signed else np.uint32)
    b_type = np.int8 if b_signed else np.uint8
    if insn.opcode == "dp4a":
        bytes_type = np.int8 if a_signed else np.uint8
        function: Function = lambda a, b, c: integer.dot4(a, b, c, bytes_type, b_type)  # noqa: E731 - one of two
    else:
        half_type = np.int16 if a_signed else np.uint16
        high = insn.has("hi")
        function = lambda a, b, c: integer.dot2(a, b, c, half_type, b_type, high)  # noqa: E731 - one of two
    return elementwise(insn, binder, function, word, np.uint32, np.uint32, word)
