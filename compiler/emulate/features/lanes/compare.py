"""Comparison and selection (PTX ISA, "Comparison and Selection Instructions", also the half precision ones)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Array, Binder, Reader, UnknownForm
from compiler.emulate.features.lanes.elementwise import Function, elementwise, integer_type
from compiler.emulate.numeric import floating
from compiler.emulate.numeric.half import BF16
from compiler.emulate.numeric.integer import packed, parts
from compiler.emulate.ptx.module import Operand, Pair, PtxInstruction
from compiler.emulate.registry import Run, instruction

_INTEGER: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
_FLOAT = frozenset(["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"])
_COMBINE: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_SMALLEST_HALF = np.float16(2.0**-14)


def _half(values: Array, ftz: bool) -> Array:
    """f16 values; with `.ftz` zeros of their sign for subnormal ones."""
    return np.where(np.abs(values) < _SMALLEST_HALF, np.copysign(np.float16(0), values), values) if ftz else values


@dataclass(frozen=True, slots=True)
class CompareInstruction:
    """`op` of operands of type `kind`: flags, one a lane, or two (the lower half's first) for packed types."""

    compare: Function
    dtype: np.dtype[Any]
    is_packed: bool


def comparison(op: str, kind: str, ftz: bool) -> CompareInstruction:
    """The comparison of two operands. Raises UnknownForm for one that the type does not have."""
    if kind not in ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64"):
        if op not in _INTEGER:
            raise UnknownForm(f"the comparison .{op} of .{kind}")
        return CompareInstruction(_INTEGER[op], integer_type(kind), False)
    if op not in _FLOAT:
        raise UnknownForm(f"the comparison .{op} of .{kind}")
    if kind in ("f32", "f64"):
        flush = ftz and kind == "f32"
        return CompareInstruction(
            lambda a, b: floating.compare(op, a, b, flush), np.dtype(f"f{int(kind[1:]) // 8}"), False
        )
    is_packed = kind.endswith("x2")
    word = np.dtype(np.uint32 if is_packed else np.uint16)

    def decoded(bits: Array) -> Array:
        if kind.startswith("bf16"):
            return BF16.widen(parts(bits, np.uint16) if is_packed else bits)
        return _half(parts(bits, np.float16) if is_packed else bits.view(np.float16), ftz)

    return CompareInstruction(lambda a, b: floating.compare(op, decoded(a), decoded(b)), word, is_packed)


def _combination(
    insn: PtxInstruction, binder: Binder, operands: tuple[Operand, ...]
) -> Callable[[Array, Active], Array]:
    """What `.and`, `.or`, `.xor` makes of flags and the predicate in `operands`; the flags themselves without it."""
    word = insn.name[2] if len(insn.name) > 2 else ""
    if word not in _COMBINE:
        return lambda flags, active: flags
    combine = _COMBINE[word]
    other = binder.reader(operands[0], np.bool_, insn)
    return lambda flags, active: np.asarray(combine(flags, other(active)))


@instruction("setp")
def build_setp(insn: PtxInstruction, binder: Binder) -> Run:
    """`setp`: one predicate, or two: the comparison and its opposite, of packed types that of each half."""
    form = comparison(insn.name[1], insn.name[-1], insn.has("ftz"))
    destination, first, second, *rest = insn.operands
    a, b = _operands(insn, binder, form, first, second)
    combine = _combination(insn, binder, tuple(rest))
    compare = form.compare
    if not isinstance(destination, Pair):
        if form.is_packed:
            raise UnknownForm(f"{insn.text}, which should have two predicates")
        write = binder.writer(destination, np.bool_, insn)
        return lambda active: write(active, combine(compare(a(active), b(active)), active))
    p = binder.writer(destination.first, np.bool_, insn)
    q = binder.writer(destination.second, np.bool_, insn)
    is_packed = form.is_packed

    def run(active: Active) -> None:
        flags = compare(a(active), b(active))
        held, other = (flags[..., 0], flags[..., 1]) if is_packed else (flags, ~flags)
        first_flags, second_flags = combine(held, active), combine(other, active)
        p(active, first_flags)
        q(active, second_flags)

    return run


def _operands(
    insn: PtxInstruction, binder: Binder, form: CompareInstruction, first: Operand, second: Operand
) -> tuple[Reader, Reader]:
    return binder.reader(first, form.dtype, insn), binder.reader(second, form.dtype, insn)


_TRUE: dict[str, np.generic] = {
    "u16": np.uint16(0xFFFF),
    "s16": np.uint16(0xFFFF),
    "u32": np.uint32(0xFFFFFFFF),
    "s32": np.uint32(0xFFFFFFFF),
    "f32": np.uint32(0x3F800000),
    "f16": np.uint16(0x3C00),
    "bf16": np.uint16(0x3F80),
}
_TRUE_HALF = {
    "f16x2": np.uint16(0x3C00),
    "bf16x2": np.uint16(0x3F80),
    "u32": np.uint16(0xFFFF),
    "s32": np.uint16(0xFFFF),
}


@instruction("set")
def build_set(insn: PtxInstruction, binder: Binder) -> Run:
    """`set`: all ones, or 1.0, for true, of packed types in each half."""
    form = comparison(insn.name[1], insn.name[-1], insn.has("ftz"))
    values = _TRUE_HALF if form.is_packed else _TRUE
    if insn.name[-2] not in values:
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    true = values[insn.name[-2]]
    false = true.dtype.type(0)
    destination, first, second, *rest = insn.operands
    a, b = _operands(insn, binder, form, first, second)
    combine = _combination(insn, binder, tuple(rest))
    write = binder.writer(destination, np.uint32 if form.is_packed else true.dtype, insn)
    compare, is_packed = form.compare, form.is_packed

    def run(active: Active) -> None:
        flags = compare(a(active), b(active))
        if is_packed:
            halves = np.stack([combine(flags[..., 0], active), combine(flags[..., 1], active)], -1)
            write(active, packed(np.where(halves, true, false), np.uint32))
        else:
            write(active, np.where(combine(flags, active), true, false))

    return run


@instruction("selp")
def build_selp(insn: PtxInstruction, binder: Binder) -> Run:
    """`selp`: the first value where the predicate holds, else the second."""
    word = _word(insn.name[-1])
    return elementwise(insn, binder, lambda a, b, p: np.where(p, a, b), word, word, word, np.bool_)


@instruction("slct")
def build_slct(insn: PtxInstruction, binder: Binder) -> Run:
    """`slct`: the first value where the third is not below zero, else the second; NaN counts as below."""
    word = _word(insn.name[-2])
    kind = insn.name[-1]
    if kind not in ("s32", "f32"):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    # A subnormal number below zero counts as zero with `.ftz`.
    limit = -np.finfo(np.float32).smallest_normal if insn.has("ftz") else None

    def function(a: Array, b: Array, c: Array) -> Array:
        return np.where(c >= 0 if limit is None else c > limit, a, b)

    return elementwise(insn, binder, function, word, word, word, np.int32 if kind == "s32" else np.float32)


def _word(kind: str) -> np.dtype[Any]:
    """Unsigned words of the width of a type, whatever it is."""
    digits = kind.lstrip("bsuf")
    if digits not in ("16", "32", "64"):
        raise UnknownForm(f"the type .{kind} here")
    return np.dtype(f"u{int(digits) // 8}")
