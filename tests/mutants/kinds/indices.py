"""Accesses of the wrong place: a neighbour, another row, block, lane or register, and positions that are off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler.ir.expr import Expr, Mod, Var, const, var
from compiler.ir.ops import OpKind
from compiler.lower.kernel_ir import Compute, CopyAsync, GlobalLoad, GlobalStore, Index, Kernel, Stmt
from compiler.lower.operands import Reg
from compiler.lower.traversal import walk
from tests.compiler.lower.mutations import changed_at
from tests.mutants.kinds.kind import becoming, changing, compute, rewriting, spare

Made = tuple[Stmt, ...] | None
_THREADS, _BLOCKS = ("tx", "ty", "tz"), ("bx", "by", "bz", "cx")


def _read(s: Stmt) -> GlobalLoad | CopyAsync | None:
    """A load from global memory of which no other field repeats the offset."""
    return s if isinstance(s, GlobalLoad | CopyAsync) and not getattr(s, "straddles", False) else None


def _moved(s: GlobalLoad | CopyAsync, e: Expr) -> tuple[Stmt, ...]:
    return (replace(s, offset=e),)


def _named(e: Expr, names: tuple[str, ...]) -> list[Var]:
    return sorted((v for v in e.variables if v.name in names and v.extent > 1), key=lambda v: v.name)


def _loops(e: Expr) -> list[Var]:
    taken = (*_THREADS, *_BLOCKS, "lane")
    return sorted((v for v in e.variables if v.name not in taken and v.extent > 1), key=lambda v: v.name)


@changing
def vector_further_on(s: Stmt) -> Made:
    """A load begins one vector further on."""
    return None if (load := _read(s)) is None else _moved(load, load.offset + load.width)


@changing
def off_at_the_last_thread(s: Stmt) -> Made:
    """The last thread of a tile's edge loads what lies after its own."""
    if (load := _read(s)) is None or not (threads := _named(load.offset, _THREADS)):
        return None
    edge = (var(threads[0]) + 1) // threads[0].extent
    return _moved(load, load.offset + edge * load.width)


@changing
def off_at_the_last_turn(s: Stmt) -> Made:
    """The last turn of a loop loads what the turn before has loaded."""
    if (load := _read(s)) is None or not (loops := _loops(load.offset)):
        return None
    here = loops[-1]
    return _moved(load, load.offset.substitute({here: var(here) - (var(here) + 1) // here.extent}))


@changing
def row_before(s: Stmt) -> Made:
    """Every other row of threads loads the row before its own."""
    if (load := _read(s)) is None:
        return None
    rows = [v for v in _named(load.offset, _THREADS) if v.name != "tx"] or _loops(load.offset)
    if not rows:
        return None
    return _moved(load, load.offset.substitute({rows[0]: var(rows[0]) - var(rows[0]) % 2}))


@changing
def another_blocks_data(s: Stmt) -> Made:
    """Every other block loads what the block before it loads."""
    if (load := _read(s)) is None or not (blocks := _named(load.offset, _BLOCKS)):
        return None
    return _moved(load, load.offset.substitute({blocks[0]: var(blocks[0]) - var(blocks[0]) % 2}))


@changing
def same_for_all_threads(s: Stmt) -> Made:
    """An operand is loaded as if it were broadcast: all threads of a dimension load the first one's."""
    if (load := _read(s)) is None or not (threads := _named(load.offset, _THREADS)):
        return None
    return _moved(load, load.offset.substitute({threads[0]: const(0)}))


@rewriting
def rows_and_columns_confused(kernel: Kernel) -> Iterator[Kernel]:
    """Two variables change places in the offset of a load."""
    for number, s in enumerate(walk(kernel.body)):
        if (load := _read(s)) is None:
            continue
        known = [*_named(load.offset, _THREADS), *_loops(load.offset)]
        for at, a in enumerate(known[:-1]):
            b = known[at + 1]
            if a.extent == b.extent:
                e = load.offset.substitute({a: var(b), b: var(a)})
                yield changed_at(kernel, number, becoming(*_moved(load, e)))


@changing
def stored_over_a_neighbour(s: Stmt) -> Made:
    """The last thread stores where the thread before it does."""
    if not isinstance(s, GlobalStore) or not (threads := _named(s.offset, _THREADS)):
        return None
    here = threads[0]
    return (replace(s, offset=s.offset.substitute({here: var(here) - (var(here) + 1) // here.extent})),)


@changing
def stored_further_on(s: Stmt) -> Made:
    """A store begins one vector further on."""
    return (replace(s, offset=s.offset + s.width),) if isinstance(s, GlobalStore) else None


@changing
def lanes_change_places(s: Stmt) -> Made:
    """The first two elements of a vector that is stored change places."""
    if not isinstance(s, GlobalStore) or s.width < 2:
        return None
    a, b = (Reg(s.source.name, s.source.dtype, s.source.offset + n) for n in (0, 1))
    declared, kept = spare(a.dtype)
    moves = (compute(OpKind.COPY, to, x) for to, x in ((kept, a), (a, b), (b, kept)))
    return declared, *moves, s


@changing
def operand_of_the_neighbour(s: Stmt) -> Made:
    """An operand is taken from the element before, but for the first."""
    if not isinstance(s, Compute):
        return None
    for at, x in enumerate(s.operands):
        if isinstance(x, Reg) and x != s.target and (loops := _loops(x.offset)):
            here = loops[-1]
            before = replace(x, offset=x.offset.substitute({here: var(here) - var(here) % 2}))
            if before.offset != x.offset:
                return (replace(s, operands=(*s.operands[:at], before, *s.operands[at + 1 :])),)
    return None


@changing
def position_one_off(s: Stmt) -> Made:
    """Positions count from 1."""
    return (replace(s, value=s.value + 1),) if isinstance(s, Index) else None


@changing
def position_within_the_block(s: Stmt) -> Made:
    """Positions begin again with every block."""
    if not isinstance(s, Index) or not (blocks := _named(s.value, _BLOCKS)):
        return None
    return (replace(s, value=s.value.substitute({v: const(0) for v in blocks})),)


@changing
def position_of_the_vector(s: Stmt) -> Made:
    """All elements of a thread have the position of the first."""
    if not isinstance(s, Index) or not (loops := _loops(s.value)):
        return None
    return (replace(s, value=s.value.substitute({loops[-1]: const(0)})),)


@changing
def remainder_of_one_more(s: Stmt) -> Made:
    """The remainder that makes a place within a row begins one later."""
    if (load := _read(s)) is None:
        return None
    for atom, c in load.offset.terms:
        if isinstance(atom, Mod) and atom.divisor % load.width == 0 and c % load.width == 0:
            shifted = (atom.numerator + 1) % atom.divisor
            return _moved(load, load.offset + (shifted - Expr(((atom, 1),))) * c)
    return None


KINDS = (
    vector_further_on,
    off_at_the_last_thread,
    off_at_the_last_turn,
    row_before,
    another_blocks_data,
    same_for_all_threads,
    rows_and_columns_confused,
    stored_over_a_neighbour,
    stored_further_on,
    lanes_change_places,
    operand_of_the_neighbour,
    position_one_off,
    position_within_the_block,
    position_of_the_vector,
    remainder_of_one_more,
)
