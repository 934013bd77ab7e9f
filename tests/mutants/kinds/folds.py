"""Folds that leave something out, take it twice, start or end wrong, or accumulate in too few bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

from compiler.dtypes import DType
from compiler.ir.expr import Var, const, var
from compiler.ir.fusion import Literal
from compiler.ir.ops import OpKind
from compiler.lower.kernel_ir import Accumulate, AccumulateRun, Compute, Declare, Fill, If, Kernel, Loop, Shuffle, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.traversal import walk
from tests.compiler.lower.mutations import changed_at
from tests.mutants.kinds.kind import becoming, changing, compute, rewriting, spare, through

Made = tuple[Stmt, ...] | None
_EXTREMES = (OpKind.AMAX, OpKind.AMIN)
_WARP = 32
_LANE = 5
"""Of a warp: one that stands for any."""


def _folds(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(s, Accumulate | AccumulateRun) for s in walk(body))


@changing
def last_turn_left_out(s: Stmt) -> Made:
    """A loop that folds ends one turn early."""
    if not isinstance(s, Loop) or not _folds(s.body) or (s.trip.is_const and s.trip.const < 2):
        return None
    return (replace(s, trip=s.trip - 1),)


@changing
def element_folded_twice(s: Stmt) -> Made:
    """One element is folded twice, of the first turn where there are several."""
    if not isinstance(s, Accumulate):
        return None
    turns = sorted((v for v in s.source.offset.variables), key=lambda v: v.name)
    first = tuple(Less(var(v), const(1)) for v in turns)
    return s, replace(s, guards=(*s.guards, *first))


@rewriting
def element_left_out(kernel: Kernel) -> Iterator[Kernel]:
    """One thread leaves out what it has at one place of its loop."""
    (x, _, _) = kernel.block
    for number, s in enumerate(walk(kernel.body)):
        if isinstance(s, Accumulate):
            turns = sorted((v for v in s.source.offset.variables), key=lambda v: v.name)
            if turns:
                guard = Less(const(0), var(turns[-1]))
            elif x > 1:
                guard = Less(const(0), var(Var("tx", x)))
            else:
                continue
            yield changed_at(kernel, number, becoming(_guarded(s, guard)))


@rewriting
def threads_elements_left_out(kernel: Kernel) -> Iterator[Kernel]:
    """The last thread of a block folds nothing."""
    x, y, _ = kernel.block
    last = Less(var(Var("tx", x)), const(x - 1)) if x > 1 else Less(var(Var("ty", y)), const(y - 1))
    for number, s in enumerate(walk(kernel.body)):
        if isinstance(s, Accumulate) and x * y > 1:
            yield changed_at(kernel, number, becoming(_guarded(s, last)))


def _guarded(s: Accumulate, guard: Less) -> Stmt:
    return replace(s, guards=(*s.guards, guard))


@changing
def last_distance_left_out(s: Stmt) -> Made:
    """Lanes exchange over all distances but the largest."""
    return (replace(s, masks=s.masks[:-1]),) if isinstance(s, Shuffle) and len(s.masks) > 1 else None


@changing
def first_distance_left_out(s: Stmt) -> Made:
    """Lanes exchange over all distances but the smallest."""
    return (replace(s, masks=s.masks[1:]),) if isinstance(s, Shuffle) and len(s.masks) > 1 else None


@changing
def distance_taken_twice(s: Stmt) -> Made:
    """Lanes exchange over one distance once more."""
    return (s, replace(s, masks=s.masks[-1:])) if isinstance(s, Shuffle) else None


@rewriting
def lanes_partial_dropped(kernel: Kernel) -> Iterator[Kernel]:
    """One lane of a warp brings nothing into the exchange."""
    (x, _, _) = kernel.block
    lane = var(Var("tx", x)) % _WARP if x > _LANE else None
    for number, s in enumerate(walk(kernel.body)):
        if isinstance(s, Shuffle) and lane is not None:
            here = (Less(lane, const(_LANE + 1)), Less(const(_LANE - 1), lane))
            yield changed_at(kernel, number, becoming(If(here, (_emptied(s),)), s))


@rewriting
def warps_partial_dropped(kernel: Kernel) -> Iterator[Kernel]:
    """The second warp of a block brings nothing into the exchange."""
    (x, _, _) = kernel.block
    for number, s in enumerate(walk(kernel.body)):
        if isinstance(s, Shuffle) and x > _WARP:
            warp = var(Var("tx", x)) // _WARP
            here = (Less(warp, const(2)), Less(const(0), warp))
            yield changed_at(kernel, number, becoming(If(here, (_emptied(s),)), s))


def _emptied(s: Shuffle) -> Stmt:
    return Fill(s.name, s.dtype, s.elems, s.kind)


@changing
def starts_from_zero(s: Stmt) -> Made:
    """A maximum or minimum starts from 0."""
    return (replace(s, kind=OpKind.SUM),) if isinstance(s, Fill) and s.kind in _EXTREMES else None


@changing
def starts_from_one(s: Stmt) -> Made:
    """A sum starts from 1."""
    if not isinstance(s, Fill) or s.kind is not OpKind.SUM or s.dtype not in (DType.F32, DType.F64):
        return None
    first = Reg(s.name, s.dtype, const(0))
    return s, compute(OpKind.ADD, first, first, Literal(1.0))


@changing
def not_started_again(s: Stmt) -> Made:
    """A fold goes on from the row before, from the second turn of a block on."""
    if not isinstance(s, Loop) or s.unroll:
        return None
    declared = {x.name: x for x in s.body if isinstance(x, Declare)}
    for at, x in enumerate(s.body):
        if isinstance(x, Fill) and x.name in declared:
            once = If((Less(var(s.var), const(1)),), (x,))
            body = (*s.body[:at], once, *s.body[at + 1 :])
            kept = declared[x.name]
            return kept, replace(s, body=tuple(y for y in body if y is not kept))
    return None


@changing
def other_extreme(s: Stmt) -> Made:
    """A step of a maximum takes the smaller one, or of a minimum the larger one."""
    if not isinstance(s, Accumulate | Shuffle) or s.kind not in _EXTREMES:
        return None
    return (replace(s, kind=OpKind.AMIN if s.kind is OpKind.AMAX else OpKind.AMAX),)


@changing
def accumulated_in_f16(s: Stmt) -> Made:
    """A sum or product is rounded to f16 after every step."""
    return (s, *through(s.target, DType.F16)) if _sums(s) else None


@changing
def accumulated_in_bf16(s: Stmt) -> Made:
    """A sum or product is rounded to bf16 after every step."""
    return (s, *through(s.target, DType.BF16)) if _sums(s) else None


def _sums(s: Stmt) -> TypeGuard[Accumulate]:
    return isinstance(s, Accumulate) and s.kind in (OpKind.SUM, OpKind.PROD) and s.target.dtype is DType.F32


@changing
def accumulated_in_f32(s: Stmt) -> Made:
    """A sum of f64 is rounded to f32 after every step."""
    wide = isinstance(s, Accumulate) and s.kind is OpKind.SUM and s.target.dtype is DType.F64
    return (s, *through(s.target, DType.F32)) if wide and isinstance(s, Accumulate) else None


@changing
def accumulated_in_bytes(s: Stmt) -> Made:
    """An integer sum keeps 8 bits."""
    narrow = isinstance(s, Accumulate) and s.kind is OpKind.SUM and s.target.dtype in (DType.I32, DType.I64)
    return (s, *through(s.target, DType.I8)) if narrow and isinstance(s, Accumulate) else None


@changing
def nan_lost_in_a_fold(s: Stmt) -> Made:
    """A maximum or minimum is a comparison and a choice, so that NaN is passed over."""
    if not isinstance(s, Accumulate) or s.kind not in _EXTREMES or not s.target.dtype.is_float or s.guards:
        return None
    declared, better = spare(DType.BOOL)
    kind = OpKind.GT if s.kind is OpKind.AMAX else OpKind.LT
    chosen = compute(OpKind.WHERE, s.target, better, s.source, s.target)
    return declared, compute(kind, better, s.source, s.target), chosen


@changing
def nan_is_no_place(s: Stmt) -> Made:
    """The place of a NaN is not asked for: that it differs from itself is taken to be false."""
    if not isinstance(s, Compute) or s.kind is not OpKind.NE or s.operands[0] != s.operands[1]:
        return None
    return (replace(s, kind=OpKind.LT),)


@changing
def product_starts_from_zero(s: Stmt) -> Made:
    """A product starts from 0."""
    return (replace(s, kind=OpKind.SUM),) if isinstance(s, Fill) and s.kind is OpKind.PROD else None


@changing
def rescaling_left_out(s: Stmt) -> Made:
    """A sum of exponentials is not rescaled when its maximum rises."""
    if isinstance(s, Compute) and s.kind is OpKind.MUL and s.operands[0] == s.target:
        return ()
    return None


@rewriting
def tie_broken_the_other_way(kernel: Kernel) -> Iterator[Kernel]:
    """Of equal elements the last is chosen and not the first."""
    integers = {DType.I32, DType.I64, DType.I8}
    steps = [s for s in walk(kernel.body) if isinstance(s, Accumulate) and s.kind is OpKind.AMIN]
    if not any(s.target.dtype in integers for s in steps):
        return

    def other(s: Stmt) -> tuple[Stmt, ...]:
        match s:
            case Accumulate(kind=OpKind.AMIN) if s.target.dtype in integers:
                return (replace(s, kind=OpKind.AMAX),)
            case AccumulateRun(kind=OpKind.AMIN) if s.target.dtype in integers:
                return (replace(s, kind=OpKind.AMAX),)
            case Shuffle(kind=OpKind.AMIN) | Fill(kind=OpKind.AMIN) if s.dtype in integers:
                return (replace(s, kind=OpKind.AMAX),)
            case Compute(kind=OpKind.WHERE, operands=(condition, chosen, Literal())) if s.target.dtype in integers:
                return (replace(s, operands=(condition, chosen, Literal(-1))),)
            case _:
                return (s,)

    made = kernel
    for number, s in enumerate(walk(kernel.body)):
        if other(s) != (s,):
            made = changed_at(made, number, other)
    yield made


KINDS = (
    last_turn_left_out,
    element_folded_twice,
    element_left_out,
    threads_elements_left_out,
    last_distance_left_out,
    first_distance_left_out,
    distance_taken_twice,
    lanes_partial_dropped,
    warps_partial_dropped,
    starts_from_zero,
    starts_from_one,
    not_started_again,
    other_extreme,
    accumulated_in_f16,
    accumulated_in_bf16,
    accumulated_in_f32,
    accumulated_in_bytes,
    nan_lost_in_a_fold,
    nan_is_no_place,
    product_starts_from_zero,
    rescaling_left_out,
    tie_broken_the_other_way,
)
