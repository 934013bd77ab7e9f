"""Rows and columns of a result in tensor memory, in place of the variables of its Mma axes.

One thread asks for an instruction: none of its rows and columns are threads. Row r of the result lies in lane

    r                         of 128 rows (PTX ISA, "Data Path Layout Organization", layout D)
    32 * (r / 16) + r % 16    of 64 rows (layout F), 16 lanes of each warp's 32

and column c in column c of 4 bytes, from the accumulator's first on.
"""

from __future__ import annotations

from math import prod

from compiler.analysis.id.indexing import Indexing
from compiler.analysis.mma.coordinates import Coordinates, evaluated, mma_variables
from compiler.analysis.tmem.allocation import Side, layout_of
from compiler.arch import TCGEN05_HALF_ROWS, WARP_THREADS
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.tensor import TensorView

_QUARTER = 16
"""Rows of 64 that lie in the lanes of one warp."""


def tensor_coordinates(indexing: Indexing, t: TensorView) -> Coordinates | None:
    """The coordinates of the instruction that makes the Mma axes of `t`; None where lanes and columns of its elements
    are not those of an instruction."""
    lane, column = accumulator_place(indexing, t)
    held, summed = mma_variables(indexing, t)
    of_lanes = [v for v in held if v in lane.variables]
    of_columns = [v for v in held if v in column.variables]
    if {*of_lanes, *of_columns} != {*held} or {*of_lanes} & {*of_columns}:
        return None
    m, n, k = (prod(v.extent for v in of) for of in (of_lanes, of_columns, summed))
    moved: dict[Var, Expr] = {}
    of: list[dict[Var, Expr]] = []
    for name, place, extent, variables in (
        ("fragment_row", "row", m, of_lanes),
        ("fragment_column", "column", n, of_columns),
        ("fragment_k", "fragment_k", k, summed),
    ):
        counter, rest = Var(name, extent), extent
        for v in variables:
            rest //= v.extent
            moved[v] = var(counter) // rest % v.extent
        of.append({counter: var(Var(place, extent))})
    found = Coordinates(m, n, k, moved, *of)
    return found if _is_laid_out(found, lane, column) else None


def accumulator_place(indexing: Indexing, t: TensorView) -> tuple[Expr, Expr]:
    """Lane and column of an element of a result, from its own first on."""
    layout, own = layout_of(t), indexing.own(t)

    def offset(side: Side) -> Expr:
        return sum((own[a] * n for a, n in zip(side.axes, side.strides, strict=True)), Expr())

    return offset(layout.lanes), offset(layout.columns)


def _is_laid_out(found: Coordinates, lane: Expr, column: Expr) -> bool:
    """Whether each row is in its lane, from lane 0 on, and each column in its own."""
    (row,), (place,) = found.of_row, found.of_column
    lanes, columns = found.at(lane), found.at(column)
    if lanes.variables - {row} or any(v.name.startswith("mma") for v in columns.variables):
        return False
    rows = var(row)
    wanted = rows // _QUARTER * WARP_THREADS + rows % _QUARTER if found.m == TCGEN05_HALF_ROWS else rows
    first = columns.substitute({place: const(0)})
    return bool((evaluated(lanes, (row,)) == evaluated(wanted, (row,))).all() and columns == first + var(place))
