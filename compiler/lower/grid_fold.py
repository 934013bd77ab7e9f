"""Sums over blocks of the grid as statements: all blocks but the last hand their parts over, which that one adds up.

if (the last part) { wait for all others; sum = sum + each of theirs; all that comes of the sum }
else { hand over sum; meet; say so }
"""

from __future__ import annotations

from collections.abc import Iterable

from compiler.analysis.facts import Facts
from compiler.analysis.loops.grid_fold import GridFold
from compiler.arch import MAX_WORD_BYTES
from compiler.dtypes import DType
from compiler.ir.expr import Expr, const
from compiler.ir.ops import OpKind
from compiler.lower.grid_ir import AwaitTold, ScratchLoad, ScratchPointer, ScratchStore, Tell
from compiler.lower.kernel_ir import Accumulate, Declare, Elected, If, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.sync_ir import Sync
from compiler.lower.traversal import each


def scratch_of(facts: Facts) -> tuple[ScratchPointer, ...]:
    """The temporary memory of a kernel's sums over blocks."""
    found: list[ScratchPointer] = []
    for fold in facts.grid_folds.values():
        found.append(ScratchPointer(fold.sums, fold.dtype, fold.sums_bytes, False))
        found.append(ScratchPointer(fold.told, DType.I32, fold.told_bytes, True))
    return tuple(found)


def goes_on(fold: GridFold, rest: Iterable[Stmt]) -> Stmt:
    """`rest` in the blocks of the last part, of the whole sum; the others hand over."""
    is_last = Less(const(fold.parts - 2), fold.part)
    return If((is_last,), (*_added_up(fold), *rest), _handed_over(fold))


def _handed_over(fold: GridFold) -> tuple[Stmt, ...]:
    width = _word(fold)

    def store(word: Expr) -> tuple[Stmt, ...]:
        source = Reg(fold.tensor, fold.dtype, word * width)
        return (ScratchStore(source, fold.sums, _place(fold, fold.part, word, width), width),)

    stored = each("word", fold.elems // width, store)
    return (*stored, Sync(), Elected((Tell(fold.told, fold.tile * fold.others + fold.part),)))


def _added_up(fold: GridFold) -> tuple[Stmt, ...]:
    """A thread waits for each other part, or for several where those are more than threads; all threads add what is
    theirs of it, the first part first."""
    width, theirs = _word(fold), Reg(f"{fold.tensor}_theirs", fold.dtype, const(0))

    def add(word: Expr, part: Expr) -> tuple[Stmt, ...]:
        load = ScratchLoad(theirs, fold.sums, _place(fold, part, word, width), width)
        return (
            Declare(theirs.name, theirs.dtype, width),
            load,
            *each("element", width, lambda e: (_added(fold, word * width + e, theirs, e),)),
        )

    words = each("word", fold.elems // width, lambda w: each("part", fold.others, lambda p: add(w, p)))
    waited = (_waited(fold, fold.thread + first) for first in range(0, fold.others, fold.threads))
    return (*waited, Sync(), *words)


def _waited(fold: GridFold, part: Expr) -> Stmt:
    return If((Less(part, const(fold.others)),), (AwaitTold(fold.told, fold.tile * fold.others + part),))


def _added(fold: GridFold, at: Expr, theirs: Reg, element: Expr) -> Stmt:
    source = Reg(theirs.name, theirs.dtype, element)
    return Accumulate(OpKind.SUM, Reg(fold.tensor, fold.dtype, at), source)


def _place(fold: GridFold, part: Expr, word: Expr, width: int) -> Expr:
    """[tile][part][word][thread]: neighbours in a warp have neighbouring words."""
    words = fold.elems // width
    return (((fold.tile * fold.others + part) * words + word) * fold.threads + fold.thread) * width


def _word(fold: GridFold) -> int:
    """Elements that a thread moves at a time."""
    width = MAX_WORD_BYTES // fold.dtype.nbytes
    while fold.elems % width:
        width //= 2
    return width
