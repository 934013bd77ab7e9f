"""Roundings left out, made twice, or made in another type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

from compiler.dtypes import DType
from compiler.ir.ops import COMPARE, MathGrade, OpKind
from compiler.lower.kernel_ir import Compute, Convert, Index, Kernel, Stmt
from compiler.lower.operands import Reg
from compiler.lower.traversal import walk
from tests.compiler.lower.mutations import changed_at
from tests.mutants.kinds.kind import becoming, changing, rewriting, through

_HALVES = frozenset({DType.F16, DType.BF16})
Made = tuple[Stmt, ...] | None


@rewriting
def cast_not_rounded(kernel: Kernel) -> Iterator[Kernel]:
    """What a cast to 16 bits was made of is read in the place of its result."""
    made = {s.target.name: s for s in walk(kernel.body) if _narrows(s)}
    for number, s in enumerate(walk(kernel.body)):
        if isinstance(s, Convert) and (cast := made.get(s.source.name)) is not None:
            wide = _before(cast, s.source)
            if wide is not None and s.target.dtype is wide.dtype:
                yield changed_at(kernel, number, becoming(replace(s, source=wide)))
        if isinstance(s, Compute):
            for at, x in enumerate(s.operands):
                if isinstance(x, Reg) and (cast := made.get(x.name)) is not None:
                    wide = _before(cast, x)
                    if wide is not None:
                        operands = (*s.operands[:at], wide, *s.operands[at + 1 :])
                        yield changed_at(kernel, number, becoming(replace(s, operands=operands)))


def _narrows(s: Stmt) -> TypeGuard[Convert | Compute]:
    if isinstance(s, Convert):
        return s.target.dtype in _HALVES and s.source.dtype is DType.F32
    return (
        isinstance(s, Compute)
        and s.kind is OpKind.CAST
        and s.target.dtype in _HALVES
        and isinstance(s.operands[0], Reg)
        and s.operands[0].dtype is DType.F32
    )


def _before(cast: Convert | Compute, read: Reg) -> Reg | None:
    """The register that was rounded into `read`, where both arrays have their elements in the same order."""
    source = cast.source if isinstance(cast, Convert) else cast.operands[0]
    assert isinstance(source, Reg)
    return Reg(source.name, source.dtype, read.offset) if source.offset == cast.target.offset else None


@changing
def rounded_to_bf16_on_the_way(s: Stmt) -> Made:
    """A value between operators is rounded to bf16, though it is f32."""
    return (s, *through(s.target, DType.BF16)) if _is_f32(s) else None


@changing
def rounded_to_f16_on_the_way(s: Stmt) -> Made:
    """A value between operators is rounded to f16, though it is f32, and overflows."""
    return (s, *through(s.target, DType.F16)) if _is_f32(s) else None


@changing
def rounded_to_the_other_half(s: Stmt) -> Made:
    """A result is rounded to the other type of 16 bits before it is rounded to its own."""
    if not isinstance(s, Compute) or s.target.dtype not in _HALVES or s.kind in COMPARE:
        return None
    return (s, *through(s.target, DType.F16 if s.target.dtype is DType.BF16 else DType.BF16))


@changing
def double_computed_in_f32(s: Stmt) -> Made:
    """A value is rounded to f32, though it is f64."""
    return (s, *through(s.target, DType.F32)) if isinstance(s, Compute) and s.target.dtype is DType.F64 else None


@changing
def integer_in_fewer_bits(s: Stmt) -> Made:
    """An integer is kept in the next narrower type on the way."""
    if not isinstance(s, Compute | Index) or (isinstance(s, Compute) and s.kind in COMPARE):
        return None
    narrow = {DType.I64: DType.I32, DType.I32: DType.I8}.get(s.target.dtype)
    return None if narrow is None else (s, *through(s.target, narrow))


@changing
def integer_through_f32(s: Stmt) -> Made:
    """An integer is kept as f32 on the way."""
    wide = isinstance(s, Compute) and s.target.dtype in (DType.I64, DType.I32)
    return (s, *through(s.target, DType.F32)) if wide and isinstance(s, Compute) else None


@rewriting
def coarse_function(kernel: Kernel) -> Iterator[Kernel]:
    """A function is approximated as results of 16 bits allow, though the result is f32."""
    # Where all that is stored has 16 bits, that is a choice of the schedule.
    if any(p.written and p.dtype is DType.F32 for p in kernel.pointers):
        for number, s in enumerate(walk(kernel.body)):
            if (made := _coarser(s)) is not None:
                yield changed_at(kernel, number, becoming(*made))


def _coarser(s: Stmt) -> Made:
    if not isinstance(s, Compute) or s.target.dtype is not DType.F32 or s.kind.row.coarse is None:
        return None
    return (replace(s, grade=MathGrade.COARSE),) if s.grade is not MathGrade.COARSE else None


def _is_f32(s: Stmt) -> TypeGuard[Compute]:
    return isinstance(s, Compute) and s.target.dtype is DType.F32 and s.kind not in COMPARE


KINDS = (
    cast_not_rounded,
    rounded_to_bf16_on_the_way,
    rounded_to_f16_on_the_way,
    rounded_to_the_other_half,
    double_computed_in_f32,
    integer_in_fewer_bits,
    integer_through_f32,
    coarse_function,
)
