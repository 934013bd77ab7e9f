"""Sums over blocks of the grid as statements: a block takes what is summed so far, and hands on what it makes of it.

if (not the first part) { wait for the turn; sum = what was handed on + sum }
if (the last part) { all that comes of the sum } else { hand on sum; meet; the next one's turn }
"""

from __future__ import annotations

from collections.abc import Iterable

from compiler.analysis.facts import Facts
from compiler.analysis.loops.grid_fold import GridFold
from compiler.arch import MAX_WORD_BYTES
from compiler.dtypes import DType
from compiler.ir.expr import Expr, const
from compiler.ir.ops import OpKind
from compiler.lower.grid_ir import AwaitTurn, PassTurn, ScratchLoad, ScratchPointer, ScratchStore
from compiler.lower.kernel_ir import Accumulate, Declare, Elected, If, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.sync_ir import Sync
from compiler.lower.traversal import each


def scratch_of(facts: Facts) -> tuple[ScratchPointer, ...]:
    """The temporary memory of a kernel's sums over blocks."""
    found: list[ScratchPointer] = []
    for fold in facts.grid_folds.values():
        found.append(ScratchPointer(fold.sums, fold.dtype, fold.sums_bytes, False))
        found.append(ScratchPointer(fold.turns, DType.I32, fold.turns_bytes, True))
    return tuple(found)


def taken(fold: GridFold) -> Stmt:
    """Adds what the parts before have summed."""
    width, before = _word(fold), Reg(f"{fold.tensor}_before", fold.dtype, const(0))

    def add(word: Expr) -> tuple[Stmt, ...]:
        load = ScratchLoad(before, fold.sums, _place(fold, word, width), width)
        return (load, *each("element", width, lambda e: (_added(fold, word * width + e, before, e),)))

    words = each("word", fold.elems // width, add)
    waited = AwaitTurn(fold.turns, fold.tile, fold.part)
    return If((Less(const(0), fold.part),), (waited, Declare(before.name, before.dtype, width), *words))


def _added(fold: GridFold, at: Expr, before: Reg, element: Expr) -> Stmt:
    source = Reg(before.name, before.dtype, element)
    return Accumulate(OpKind.SUM, Reg(fold.tensor, fold.dtype, at), source)


def goes_on(fold: GridFold, rest: Iterable[Stmt]) -> Stmt:
    """`rest` in the blocks of the last part; the others hand on."""
    width = _word(fold)

    def store(word: Expr) -> tuple[Stmt, ...]:
        source = Reg(fold.tensor, fold.dtype, word * width)
        return (ScratchStore(source, fold.sums, _place(fold, word, width), width),)

    handed = each("word", fold.elems // width, store)
    told = Elected((PassTurn(fold.turns, fold.tile, fold.part + 1),))
    return If((Less(const(fold.parts - 2), fold.part),), tuple(rest), (*handed, Sync(), told))


def _place(fold: GridFold, word: Expr, width: int) -> Expr:
    """[tile][word][thread]: neighbours in a warp have neighbouring words."""
    words = fold.elems // width
    return ((fold.tile * words + word) * fold.threads + fold.thread) * width


def _word(fold: GridFold) -> int:
    """Elements that a thread moves at a time."""
    width = MAX_WORD_BYTES // fold.dtype.nbytes
    while fold.elems % width:
        width //= 2
    return width
