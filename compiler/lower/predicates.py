"""From bounds of indices to guards of accesses and trip counts of loops."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.analysis.indexing import Bound, first_lane, lane_variable
from compiler.analysis.loop_nest import BLOCK_VARS, LANE, THREAD_VARS
from compiler.errors import Unsupported
from compiler.ir.expr import Expr, Inside, Var, const
from compiler.lower.kernel_ir import Less


def split_guards(bounds: Iterable[Bound], width: int, where: str) -> tuple[tuple[Less, ...], Less | None]:
    """Guards that all lanes of a vector access share, and the one condition that may hold for some lanes only.

    Lanes agree where the first lane and the extent are both multiples of the width. Raises Unsupported for two such
    conditions, and for a vector along a shifted run, which both ends of the run may cut.
    """
    guards: list[Less] = []
    tails: list[Less] = []
    for b in bounds:
        start = first_lane(b.index, width)
        limit = const(b.extent)
        if b.is_shifted:
            if lane_variable(width) in b.index.variables:
                raise Unsupported(f"{where}: a vector along a shifted run", "Access a shifted run element by element.")
            guards.append(Less(const(-1), start))
        if lane_variable(width) not in b.index.variables or (start.divisible_by(width) and b.extent % width == 0):
            guards.append(Less(start, limit))
        else:
            tails.append(Less(b.index, limit))
    if len(tails) > 1:
        raise Unsupported(
            f"{where}: a vector that two bounds cut", "Vectorize by a factor that divides one of the extents."
        )
    return tuple(guards), tails[0] if tails else None


def trip_count(bound: Bound, variable: Var, outer: frozenset[Var]) -> Expr | None:
    """Iterations of the loop over `variable` for which the bound holds, if that is one number for the whole block.

    `outer`: variables of the loops around it; besides them only block indices may occur.
    """
    known = {v.name for v in outer} | BLOCK_VARS | {variable.name}
    step = dict(bound.index.terms).get(variable)
    if not step or step < 0 or any(v.name not in known for v in bound.index.variables):
        return None
    rest = bound.index - Expr(((variable, step),))
    if variable in rest.variables or rest.hi > bound.extent - 1 + step:
        return None
    count = (rest * -1 + (bound.extent + step - 1)) // step
    return count if count.hi <= variable.extent else None


def holds_for_block(less: Less) -> Less | None:
    """A condition on block-uniform values that implies `less` for every thread, lane and unrolled iteration.

    None if there is none of this form. The part that varies inside the block is replaced by its maximum.
    """
    uniform, varying = Expr((), less.left.const), Expr()
    for atom, c in less.left.terms:
        term = Expr(((atom, c),))
        if any(_varies(v) for v in term.variables):
            if any(not _varies(v) for v in term.variables) and not isinstance(atom, Inside):
                return None
            varying = varying + term
        else:
            uniform = uniform + term
    if not less.right.is_const:
        return None
    return Less(uniform + varying.hi, less.right)


def _varies(v: Var) -> bool:
    """Thread, lane and unrolled-loop variables vary inside a tile; block and serial-loop variables do not."""
    return v.name in THREAD_VARS or v.name == LANE or v.name.startswith("u")
