"""Sums over the blocks of a cluster as statements: each goes on with the slice that it adds up, or the first with all.

send the other slices; wait for what others send; slice = slice + each of theirs; all that comes of the slice
if (the first) { wait for all others; sum = sum + each of theirs; all that comes of the sum } else { send sum }
"""

from __future__ import annotations

from collections.abc import Iterable

from compiler.analysis.loops.cluster_sum import ClusterSum
from compiler.arch import MAX_WORD_BYTES
from compiler.ir.expr import Expr, const
from compiler.ir.ops import OpKind
from compiler.lower.kernel_ir import Accumulate, Declare, Elected, If, RemoteStore, SharedLoad, Stmt
from compiler.lower.operands import Barrier, Less, Reg, Shared
from compiler.lower.sync_ir import ExpectBytes, WaitBarrier
from compiler.lower.traversal import each, map_exprs


def summed_in_cluster(total: ClusterSum, base: int, arrived: Barrier, rest: Iterable[Stmt]) -> tuple[Stmt, ...]:
    """`rest` in the blocks that go on. `base`: where in shared memory parts arrive, `arrived`: the barrier that counts
    them."""
    waited = (Elected((ExpectBytes(arrived, total.sent_bytes),)), WaitBarrier(arrived, const(0)))
    if not total.run:
        first, sent = const(0), _sent(total, base, arrived, const(0), total.part - 1)
        return (If((Less(total.part, const(1)),), (*waited, *_added_up(total, base, first), *rest), sent),)
    behind = tuple(rest)

    def send(slice_: Expr) -> tuple[Stmt, ...]:
        """To the block of a slice that is not the own one: in the place that says how far behind it the sender is."""
        away = (total.part + total.parts - slice_) % total.parts
        return (If((Less(const(0), away),), _sent(total, base, arrived, slice_, away - 1)),)

    def go_on(slice_: Expr) -> tuple[Stmt, ...]:
        """With numbers of registers that are known where the loop is unrolled."""
        here = map_exprs(behind, lambda e: e.substitute({total.variable: slice_}))
        is_own = Less(slice_, total.part + 1), Less(total.part, slice_ + 1)
        return (If(is_own, (*_added_up(total, base, slice_), *here)),)

    return (*each("slice", total.parts, send), *waited, *each("slice", total.parts, go_on))


def _sent(total: ClusterSum, base: int, arrived: Barrier, to: Expr, other: Expr) -> tuple[Stmt, ...]:
    """The slice of block `to`, of which it is part `other` there."""
    width = _word(total)

    def send(word: Expr) -> tuple[Stmt, ...]:
        source = _own(total, total.element(to, word * width))
        return (RemoteStore(source, _there(total, base, other, word, width), to, width, arrived),)

    return each("word", total.own // width, send)


def _added_up(total: ClusterSum, base: int, slice_: Expr) -> tuple[Stmt, ...]:
    """Word by word, of each one part after the other."""
    width, theirs = _word(total), Reg(f"{total.tensor}_theirs", total.dtype, const(0))

    def added(word: Expr, other: Expr) -> tuple[Stmt, ...]:
        return (
            Declare(theirs.name, theirs.dtype, width),
            SharedLoad(theirs, _there(total, base, other, word, width), width),
            *each("element", width, lambda e: (_element_added(total, total.element(slice_, word * width + e), e),)),
        )

    return each("word", total.own // width, lambda w: each("part", total.others, lambda p: added(w, p)))


def _element_added(total: ClusterSum, at: Expr, element: Expr) -> Stmt:
    return Accumulate(OpKind.SUM, _own(total, at), Reg(f"{total.tensor}_theirs", total.dtype, element))


def _own(total: ClusterSum, element: Expr) -> Reg:
    return Reg(total.tensor, total.dtype, element)


def _there(total: ClusterSum, base: int, other: Expr, word: Expr, width: int) -> Shared:
    return Shared(total.tensor, total.dtype, total.place(other, word, width) + base)


def _word(total: ClusterSum) -> int:
    """Elements that a thread sends at a time."""
    width = MAX_WORD_BYTES // total.dtype.nbytes
    while (total.run or total.own) % width:
        width //= 2
    return width
