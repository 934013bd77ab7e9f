"""Rows and columns of an instruction's result, in place of threads and registers.

Lane l of warp w has in its register v of an instruction (PTX ISA, "Matrix Fragments for mma.m16n8k16", "Register
Fragments" of wgmma.mma_async: D)

    row 16 * w + l / 4 + 8 * (v / 2 % 2), column 8 * (v / 4) + 2 * (l % 4) + v % 2

so that a schedule cuts the 64 rows of a warp group [4, 2, 8] and its N columns [N/8, 4, 2], puts 4, 8 and 4 of them on
128 threads and leaves the others, N/8, 2 and 2 in this order, to the instruction. A warp by itself has 16 rows and 8
columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.id.indexing import Indexing
from compiler.analysis.loops.loop_nest import MMA
from compiler.analysis.mma.instructions import MmaUnit
from compiler.arch import MMA_SYNC_COLUMNS, MMA_SYNC_ROWS, WARP_THREADS
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import TensorView

_LINE, _HALF, _PAIR, _SIDE = (
    Var(f"fragment_{name}", n) for name, n in (("line", 8), ("half", 2), ("pair", 4), ("side", 2))
)
GROUP = "fragment_group"
"""The variable that counts the groups of threads of a block along x that ask for instructions."""

_HELD = 4
"""Of each block of 8 columns: two rows, two columns."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """How variables of threads and of an instruction's axes follow from rows, columns and places along k.

    `m`, `n`, `k`: extents of the instruction. `moved`: what stands for each variable, in those below. `of_row`: what a
    row says of the variables that are of rows; `of_column` and `of_inner` likewise.
    """

    m: int
    n: int
    k: int
    moved: Mapping[Var, Expr]
    of_row: Mapping[Var, Expr]
    of_column: Mapping[Var, Expr]
    of_inner: Mapping[Var, Expr]

    def at(self, e: Expr) -> Expr:
        """An index of threads and registers, in variables of rows, columns and places along k."""
        return e.substitute(self.moved)

    def first(self, e: Expr) -> Expr:
        """An index where the instruction begins: at its first register, and its first place along k."""
        return e.substitute({v: const(0) for v in e.variables if v.name.startswith(MMA)})


def place_in(of: Mapping[Var, Expr]) -> Var | None:
    """The variable that counts rows, columns, or places along k, by which others are told."""
    found = {v for e in of.values() for v in e.variables}
    return found.pop() if len(found) == 1 else None


def evaluated(e: Expr, variables: tuple[Var, ...]) -> NDArray[np.int64]:
    """An expression at every value of the variables, the last one fastest."""
    extents = tuple(v.extent for v in variables)
    index = np.indices(extents, dtype=np.int64)
    values = {v.name: index[i] for i, v in enumerate(variables)}
    return np.broadcast_to(np.asarray(e.evaluate(values), dtype=np.int64), extents)


def instruction_coordinates(indexing: Indexing, t: TensorView, unit: MmaUnit) -> Coordinates | None:
    """The coordinates of the instruction that makes the Mma axes of `t`; None where its threads are no whole groups,
    or its registers do not follow one another."""
    threads, x = unit.threads, indexing.nest.block()[0]
    if x % threads:
        return None
    offset, inner = indexing.write_offset(t), 1
    moved: dict[Var, Expr] = {}
    held, summed = mma_variables(indexing, t)
    columns = 1
    for v in held:
        columns *= v.extent
    if columns % _HELD or (unit is MmaUnit.MMA_SYNC and columns != _HELD):
        return None
    block = Var("fragment_block", columns // _HELD)
    register = var(block) * _HELD + var(_HALF) * 2 + var(_SIDE)
    steps = dict(offset.terms)
    for v in sorted(held, key=lambda one: steps.get(one, 0)):
        if steps.get(v) != inner:
            return None
        moved[v] = register // inner % v.extent
        inner *= v.extent
    k = 1
    for v in summed:
        k *= v.extent
    place = Var("fragment_k", k)
    rest = k
    for v in summed:
        rest //= v.extent
        moved[v] = var(place) // rest % v.extent
    warp, group = Var("fragment_warp", threads // WARP_THREADS), Var(GROUP, x // threads)
    lane = var(_LINE) * (WARP_THREADS // _LINE.extent) + var(_PAIR)
    moved[Var("tx", x)] = var(group) * threads + var(warp) * WARP_THREADS + lane
    m, n = warp.extent * MMA_SYNC_ROWS, block.extent * MMA_SYNC_COLUMNS
    row, column = var(Var("row", m)), var(Var("column", n))
    return Coordinates(
        m,
        n,
        k,
        moved,
        of_row={warp: row // MMA_SYNC_ROWS, _HALF: row // 8 % 2, _LINE: row % 8},
        of_column={block: column // 8, _PAIR: column // 2 % 4, _SIDE: column % 2},
        of_inner={place: var(place)},
    )


def mma_variables(indexing: Indexing, t: TensorView) -> tuple[list[Var], list[Var]]:
    """The variables of a product's Mma axes: those of elements, and those that are summed along, outermost first."""
    found: tuple[list[Var], list[Var]] = ([], [])
    for i, (axis, type_) in enumerate(zip(t.loop, t.types, strict=True)):
        if type_ is ParallelType.MMA:
            found[axis.is_reduction].extend(indexing.nest.variable(t, i).variables)
    return found
