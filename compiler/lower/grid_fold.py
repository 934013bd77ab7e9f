"""Sums of several blocks as statements: all but one hand their parts over, which that one adds up.

if (the one that goes on) { wait for all others; sum = sum + each of theirs; all that comes of the sum }
else { hand over sum; meet; say so }
"""

from __future__ import annotations

from collections.abc import Iterable

from compiler.analysis.facts import Facts
from compiler.analysis.loops.grid_fold import GridFold, sums_bytes, sums_of, told_bytes, told_of
from compiler.arch import MAX_WORD_BYTES
from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.ops import OpKind
from compiler.lower.grid_ir import AwaitTold, PartsBehind, ScratchLoad, ScratchPointer, ScratchStore, Tell
from compiler.lower.kernel_ir import Accumulate, Declare, Elected, If, Loop, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.sync_ir import Sync
from compiler.lower.traversal import each


def scratch_of(facts: Facts) -> tuple[ScratchPointer, ...]:
    """The temporary memory of a kernel's sums over blocks."""
    found: list[ScratchPointer] = []
    for fold in facts.grid_folds.values():
        found.append(ScratchPointer(sums_of(fold), fold.dtype, sums_bytes(fold), False))
        found.append(ScratchPointer(told_of(fold), DType.I32, told_bytes(fold), True))
    return tuple(found)


def goes_on(fold: GridFold, rest: Iterable[Stmt]) -> Stmt:
    """`rest` in the blocks that have the whole sum in the end; the others hand over."""
    return If((Less(*fold.goes_on),), (*_added_up(fold), *rest), _handed_over(fold))


def _handed_over(fold: GridFold) -> tuple[Stmt, ...]:
    width = _word(fold)

    def store(word: Expr) -> tuple[Stmt, ...]:
        source = Reg(fold.tensor, fold.dtype, word * width)
        return (ScratchStore(source, sums_of(fold), _place(fold, fold.own_slot, word, width), width),)

    stored = each("word", fold.elems // width, store)
    return (*stored, Sync(), Elected((Tell(told_of(fold), fold.own_slot),)))


def _added_up(fold: GridFold) -> tuple[Stmt, ...]:
    """A thread waits for each other part, or for several where those are more than threads; all threads add what is
    theirs of it, the first part first."""
    if not fold.others:
        return ()
    waited = (_waited(fold, fold.thread + first) for first in range(0, fold.others, fold.threads))
    counted = (PartsBehind(*fold.counted),) if fold.counted is not None else ()
    return (*counted, *waited, Sync(), *_added(fold))


def _added(fold: GridFold) -> tuple[Stmt, ...]:
    """Where the number of parts is known they are taken word by word; else part by part."""
    words = fold.elems // _word(fold)
    if fold.counted is None:
        return each("word", words, lambda w: each("part", fold.others, lambda p: _word_added(fold, p, w)))
    index = Var("part", fold.others + 1)  # a variable, of one part too
    body = each("word", words, lambda w: _word_added(fold, var(index), w))
    return (Loop(index, fold.count, False, body, usual=1),)


def _word_added(fold: GridFold, part: Expr, word: Expr) -> tuple[Stmt, ...]:
    width, theirs = _word(fold), Reg(f"{fold.tensor}_theirs", fold.dtype, const(0))
    return (
        Declare(theirs.name, theirs.dtype, width),
        ScratchLoad(theirs, sums_of(fold), _place(fold, fold.slot(part), word, width), width),
        *each("element", width, lambda e: (_element_added(fold, word * width + e, theirs, e),)),
    )


def _element_added(fold: GridFold, at: Expr, theirs: Reg, element: Expr) -> Stmt:
    source = Reg(theirs.name, theirs.dtype, element)
    return Accumulate(OpKind.SUM, Reg(fold.tensor, fold.dtype, at), source)


def _waited(fold: GridFold, part: Expr) -> Stmt:
    return If((Less(part, fold.count),), (AwaitTold(told_of(fold), fold.slot(part)),))


def _place(fold: GridFold, slot: Expr, word: Expr, width: int) -> Expr:
    """[slot][word][thread]: neighbours in a warp have neighbouring words."""
    words = fold.elems // width
    return ((slot * words + word) * fold.threads + fold.thread) * width


def _word(fold: GridFold) -> int:
    """Elements that a thread moves at a time."""
    width = MAX_WORD_BYTES // fold.dtype.nbytes
    while fold.elems % width:
        width //= 2
    return width
