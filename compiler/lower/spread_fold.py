"""The fold of partials in shared memory by all threads of the block, each a few results, in place of every reader for
itself.

    partials [slot][result], written by warps -> barrier -> thread i folds the partials of result i, in ascending order,
    into slot 0 -> barrier -> readers read slot 0

A reader that folds for itself reads all slots of each of its elements, and so does every other reader of the same
elements; here each partial is read once, and each result once by each reader. Neighbouring threads read neighbouring
words, so that no bank is asked twice (CUDA guide, shared memory).
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.loops.fold import Fold
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.ops import MathGrade, OpKind
from compiler.lower.kernel_ir import Accumulate, Compute, Declare, If, SharedLoad, SharedStore, Stmt
from compiler.lower.operands import Less, Reg, Shared
from compiler.lower.traversal import each

PARTIALS_AT_ONCE = 16
"""Partials that a thread loads before it folds them: enough to hide the latency of shared memory, and few registers."""


def spread_fold(fold: Fold, base: int, block: tuple[int, int, int]) -> tuple[Stmt, ...]:
    """The statements by which the threads of a block of these extents fold the partials that begin at `base` bytes."""
    x, y, z = (var(Var(f"t{a}", n)) for a, n in zip("xyz", block, strict=True))
    thread = x + y * block[0] + z * (block[0] * block[1])
    threads, results = block[0] * block[1] * block[2], fold.groups * fold.elems
    out: list[Stmt] = []
    for first in range(0, results, threads):
        mine = thread + first
        body = tuple(_one(fold, base, mine, results, f"{fold.tensor}_s{first // threads}"))
        out += [If((Less(mine, const(results)),), body)] if mine.hi >= results else body
    return tuple(out)


def read_spread(fold: Fold, width: int, base: int) -> tuple[Stmt, ...]:
    """The results of a thread's elements, `width` at a time."""

    def load(at: Expr) -> tuple[Stmt, ...]:
        return (SharedLoad(Reg(fold.tensor, fold.dtype, at), _shared(fold, base, fold.place(const(0)) + at), width),)

    return each("word", fold.elems // width, lambda word: load(word * width))


def _one(fold: Fold, base: int, result: Expr, results: int, name: str) -> Iterator[Stmt]:
    """Result `result` of `results`: its partials lie `results` elements apart."""
    at_once = min(fold.slots, PARTIALS_AT_ONCE)
    yield Declare(name, fold.dtype, at_once)
    total = Reg(f"{name}_total", fold.dtype, const(0))
    yield Declare(total.name, fold.dtype, 1)

    def loads(first: int, count: int) -> tuple[Stmt, ...]:
        def load(slot: Expr) -> tuple[Stmt, ...]:
            place = _shared(fold, base, result + (slot + first) * results)
            return (SharedLoad(Reg(name, fold.dtype, slot), place, 1),)

        return each("slot", count, load)

    def step(slot: Expr) -> tuple[Stmt, ...]:
        return (Accumulate(fold.kind, total, Reg(name, fold.dtype, slot)),)

    for first in range(0, fold.slots, at_once):
        slots = min(at_once, fold.slots - first)
        yield from loads(first, slots)
        if first == 0:
            yield Compute(OpKind.COPY, total, (Reg(name, fold.dtype, const(0)),), MathGrade.EXACT)
            yield from each("slot", slots - 1, lambda s: step(s + 1))
        else:
            yield from each("slot", slots, step)
    yield SharedStore(total, _shared(fold, base, result), 1)


def _shared(fold: Fold, base: int, element: Expr) -> Shared:
    return Shared(fold.tensor, fold.dtype, element * fold.dtype.nbytes + base)
