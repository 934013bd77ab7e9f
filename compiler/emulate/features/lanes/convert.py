"""`cvt` and `cvt.pack` (PTX ISA, "cvt" and "cvt.pack")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.emulate.binder import Array, Binder
from compiler.emulate.features.lanes.elementwise import Function, elementwise
from compiler.emulate.features.lanes.floating import check_modifiers, rounding_of, unsupported
from compiler.emulate.numeric import convert, half, minifloat, packed, rounding
from compiler.emulate.numeric.convert import DTYPES, IntegerRounding
from compiler.emulate.numeric.half import FORMATS as HALVES
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.registry import Run, instruction

_FLOATS = frozenset(("f16", "bf16", "f32", "f64"))
_INTEGER_ROUNDINGS: tuple[IntegerRounding, ...] = ("rni", "rzi", "rmi", "rpi")
_SCALAR = frozenset(("ftz", "sat", "relu", "satfinite", *rounding.ROUNDINGS, *_INTEGER_ROUNDINGS))
_PAIR = frozenset(("rn", "rz", "relu", "satfinite"))


@instruction("cvt")
def build_cvt(insn: PtxInstruction, binder: Binder) -> Run:
    """`cvt`: every pair of integer and float types, and the packed and narrow formats but stochastic rounding (.rs)."""
    if len(insn.name) < 3:
        raise unsupported(insn)
    to, source = insn.name[-2:]
    if to in DTYPES and source in DTYPES:
        return _build_scalar(insn, binder, to, source)
    check_modifiers(insn, _PAIR | {"rna", "rp"}, types=2)
    to_narrow, from_narrow = (minifloat.FORMATS.get(word.removesuffix("x2")) for word in (to, source))
    if to in ("f16x2", "bf16x2") and source == "f32":
        return _build_halves(insn, binder, to.removesuffix("x2"))
    if to == "tf32" and source == "f32":
        mode, satfinite, relu = insn.name[1], insn.has("satfinite"), insn.has("relu")
        if mode not in ("rn", "rz", "rna"):
            raise unsupported(insn)
        return elementwise(insn, binder, lambda x: minifloat.to_tf32(x, mode, satfinite, relu), np.uint32, np.float32)
    if to_narrow is not None and to.endswith("x2"):
        return _build_to_narrow(insn, binder, to_narrow, source)
    if from_narrow is not None and source.endswith("x2") and to == "f16x2":
        return _build_from_narrow(insn, binder, from_narrow)
    if to == "ue8m0x2":
        return _build_to_ue8m0(insn, binder, source)
    if (to, source) == ("bf16x2", "ue8m0x2"):
        return elementwise(
            insn, binder, _each_half(minifloat.decode_ue8m0, np.uint16, 8, np.uint32), np.uint32, np.uint16
        )
    raise unsupported(insn)


def _build_scalar(insn: PtxInstruction, binder: Binder, to: str, source: str) -> Run:
    check_modifiers(insn, _SCALAR, types=2)
    function = _scalar(insn, to, source)
    if to not in _FLOATS and source not in _FLOATS and not insn.has("sat"):
        # Truncation is reading the low bits, which the binder does.
        size = min(DTYPES[to].itemsize, DTYPES[source].itemsize)
        return elementwise(insn, binder, function, DTYPES[to], np.dtype(f"{DTYPES[source].kind}{size}"))
    return elementwise(insn, binder, function, DTYPES[to], DTYPES[source])


def _scalar(insn: PtxInstruction, to: str, source: str) -> Function:
    """The function from a register of type `source` to one of type `to`."""
    mode = rounding_of(insn)
    whole = next((m for m in _INTEGER_ROUNDINGS if insn.has(m)), None)
    dtype, sat = DTYPES[to], insn.has("sat")
    match to in _FLOATS, source in _FLOATS:
        case False, False:
            return lambda x: convert.integer_to_integer(x, dtype, sat)
        case True, False:
            return _clamped(insn, to, lambda x: convert.integer_to_float(x, to, mode))
    flush: Function = _canonical_flush if insn.has("ftz") and source == "f32" else _same
    if to not in _FLOATS:
        return lambda x: convert.float_to_integer(convert.decode(source, flush(x)), source, dtype, whole or "rzi")
    if whole is not None:
        integral: IntegerRounding = whole
        return _clamped(
            insn,
            to,
            lambda x: convert.encode(to, convert.to_integral(convert.decode(source, flush(x)), integral), None, mode),
        )

    def narrowed(x: Array) -> Array:
        return convert.float_to_float(flush(x), source, to, mode)

    if insn.has("ftz") and (to, source) == ("f32", "f64"):
        return _clamped(insn, to, lambda x: _flushed(x, narrowed(x), mode))
    return _clamped(insn, to, narrowed)


def _flushed(x: Array, result: Array, mode: rounding.Rounding) -> Array:
    """`result`, f32 of the f64 `x`, flushed."""
    return rounding.flush_result(result, lambda scale: convert.float_to_float(x * scale, "f64", "f32", mode))


def _canonical_flush(x: Array) -> Array:
    """f32 operands under `.ftz`: the assembler flushes them by a product, which makes NaN canonical too."""
    return rounding.canonical(rounding.flush(x))


def _same(x: Array) -> Array:
    return x


def _clamped(insn: PtxInstruction, to: str, function: Function) -> Function:
    """`function` with the modifiers that act on a float result: .ftz, .sat, .satfinite and .relu."""
    steps: list[Callable[[Array], Array]] = [function]
    if insn.has("ftz") and to == "f32":
        steps.append(rounding.flush)
    if to in HALVES:
        fmt = HALVES[to]
        if insn.has("sat"):
            steps.append(lambda x: half.saturate(fmt, x))
        if insn.has("satfinite"):
            steps.append(lambda x: half.saturate_finite(fmt, x))
        if insn.has("relu"):
            steps.append(half.rectify)
    elif insn.has("relu", "satfinite"):
        raise unsupported(insn)
    elif insn.has("sat"):
        steps.append(rounding.saturate)
    if len(steps) == 1:
        return function

    def chain(x: Array) -> Array:
        for step in steps:
            x = step(x)
        return x

    return chain


def _build_halves(insn: PtxInstruction, binder: Binder, kind: str) -> Run:
    """Two f32 to f16x2 or bf16x2: the first source goes to the high half."""
    check_modifiers(insn, _PAIR, types=2)
    mode = rounding_of(insn)
    one = _clamped(insn, kind, lambda x: convert.float_to_float(x, "f32", kind, mode))
    return elementwise(
        insn, binder, lambda a, b: packed.join(one(a), one(b), np.uint32, 16), np.uint32, np.float32, np.float32
    )


def _each_half(
    function: Callable[[Array], Array], source: type[np.unsignedinteger], bits: int, to: type[np.unsignedinteger]
) -> Function:
    """`function` on the two parts of words of `2 * bits` bits, joined to words of type `to`."""
    half_bits = 4 * np.dtype(to).itemsize

    def both(x: Array) -> Array:
        high, low = packed.split(x, bits)
        return packed.join(function(high.astype(source)), function(low.astype(source)), to, half_bits)

    return both


def _build_to_narrow(insn: PtxInstruction, binder: Binder, fmt: minifloat.Minifloat, source: str) -> Run:
    """Two values to 8 bits each (6-bit formats: with zeros above), e2m1 to 4 bits each; always `.satfinite`."""
    check_modifiers(insn, frozenset(("rn", "satfinite", "relu")), types=2)
    relu, bits = insn.has("relu"), 4 if fmt.name == "e2m1" else 8
    word = np.uint8 if bits == 4 else np.uint16

    def encode(x: Array) -> Array:
        return minifloat.encode(fmt, x, relu)

    if source == "f32":
        return elementwise(
            insn,
            binder,
            lambda a, b: packed.join(encode(a.astype(np.float64)), encode(b.astype(np.float64)), word, bits),
            word,
            np.float32,
            np.float32,
        )
    if source not in ("f16x2", "bf16x2"):
        raise unsupported(insn)
    kind = source.removesuffix("x2")

    def pair(x: Array) -> Array:
        high, low = (encode(convert.decode(kind, part.astype(np.uint16))) for part in packed.split(x, 16))
        return packed.join(high, low, word, bits)

    return elementwise(insn, binder, pair, word, np.uint32)


def _build_from_narrow(insn: PtxInstruction, binder: Binder, fmt: minifloat.Minifloat) -> Run:
    """Two values of 8 bits (e2m1: of 4) to f16x2; f16 holds each of them."""
    check_modifiers(insn, frozenset(("rn", "relu")), types=2)
    bits = 4 if fmt.name == "e2m1" else 8
    relu = insn.has("relu")

    def decode(x: Array) -> Array:
        result = rounding.to_f16(minifloat.decode(fmt, x), None, "rn")
        return half.rectify(result) if relu else result

    word = np.uint8 if bits == 4 else np.uint16
    return elementwise(insn, binder, _each_half(decode, np.uint8, bits, np.uint32), np.uint32, word)


def _build_to_ue8m0(insn: PtxInstruction, binder: Binder, source: str) -> Run:
    """Two f32, or bf16x2, to the exponents of their sizes."""
    check_modifiers(insn, frozenset(("rz", "rp", "satfinite")), types=2)
    up, satfinite = insn.has("rp"), insn.has("satfinite")

    def encode(bits: Array) -> Array:
        return minifloat.encode_ue8m0(bits, up, satfinite)

    if source == "f32":
        return elementwise(
            insn, binder, lambda a, b: packed.join(encode(a), encode(b), np.uint16, 8), np.uint16, np.uint32, np.uint32
        )
    if source != "bf16x2":
        raise unsupported(insn)

    def pair(x: Array) -> Array:
        high, low = (encode(part << np.uint32(16)) for part in packed.split(x, 16))
        return packed.join(high, low, np.uint16, 8)

    return elementwise(insn, binder, pair, np.uint16, np.uint32)


@instruction("cvt.pack")
def build_cvt_pack(insn: PtxInstruction, binder: Binder) -> Run:
    """`cvt.pack.sat`: two s32 clamped and packed, for 8 bits and less above the low bits of a third operand."""
    match insn.name[2:]:
        case ("sat", ("u16" | "s16") as to, "s32"):
            third: tuple[type[np.uint32], ...] = ()
        case ("sat", ("u8" | "s8" | "u4" | "s4" | "u2" | "s2") as to, "s32", "b32"):
            third = (np.uint32,)
        case _:
            raise unsupported(insn)
    signed, bits = to[0] == "s", int(to[1:])

    def function(a: Array, b: Array, c: Array | None = None) -> Array:
        return convert.pack_saturated(a, b, c, signed, bits)

    return elementwise(insn, binder, function, np.uint32, np.int32, np.int32, *third)
