"""From bounds of indices to guards of accesses and trip counts of loops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compiler.analysis.id.indexing import IndexBound, first_lane, lane_variable
from compiler.analysis.loops.loop_nest import BLOCK_VARS, LANE, THREAD_VARS
from compiler.errors import Unsupported
from compiler.ir.expr import Atom, Expr, Inside, Mod, Var, const
from compiler.lower.operands import Less


@dataclass(frozen=True, slots=True)
class LaneGuards:
    """`shared`: what all lanes of a vector access agree on; `head`, `tail`: what may hold for its last, or its first,
    lanes only, in the lane variable: that the index is not below 0, and not beyond the extent."""

    shared: tuple[Less, ...]
    head: Less | None = None
    tail: Less | None = None


def lane_guards(bounds: Iterable[IndexBound], width: int, where: str) -> LaneGuards:
    """The guards of a vector access.

    Lanes agree where the first lane and the extent are both multiples of the width. Both ends of a shifted run may cut
    a vector, of any other only the last. Raises Unsupported where two bounds do.
    """
    guards: list[Less] = []
    heads: list[Less] = []
    tails: list[Less] = []
    for b in bounds:
        start = first_lane(b.index, width)
        before, limit = const(-1), const(b.extent)
        if lane_variable(width) not in b.index.variables or (start.divisible_by(width) and b.extent % width == 0):
            guards += [*[Less(before, start)] * b.is_shifted, Less(start, limit)]
        else:
            heads += [Less(before, b.index)] * b.is_shifted
            tails.append(Less(b.index, limit))
    if len(tails) > 1:
        raise Unsupported(
            f"{where}: a vector that two bounds cut", "Vectorize by a factor that divides one of the extents."
        )
    return LaneGuards(tuple(guards), heads[0] if heads else None, tails[0] if tails else None)


def split_guards(bounds: Iterable[IndexBound], width: int, where: str) -> tuple[tuple[Less, ...], Less | None]:
    """The guards of an access that only the end of a run may cut: those that all lanes share, and the tail.

    Raises Unsupported as `lane_guards`, and for a vector along a shifted run.
    """
    g = lane_guards(bounds, width, where)
    if g.head is not None:
        raise Unsupported(f"{where}: a vector along a shifted run", "Access a shifted run element by element.")
    return g.shared, g.tail


def trip_count(bound: IndexBound, variable: Var, outer: frozenset[Var]) -> Expr | None:
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

    None if there is none of this form. The part that varies inside the block is replaced by its maximum, or right of a
    constant by its minimum. So is a remainder of both kinds of values, the phase of a row of a shifted run, where the
    condition can hold nevertheless.
    """
    if less.right.is_const:
        uniform, varying = _parts(less.left)
        found = Less(uniform + varying.hi, less.right)
    elif less.left.is_const:
        uniform, varying = _parts(less.right)
        found = Less(less.left, uniform + varying.lo)
    else:
        return None
    mixed = [atom for atom, _ in varying.terms if _mixes(atom)]
    never = found.left.lo >= found.right.hi
    return None if any(not isinstance(atom, Mod) or never for atom in mixed) else found


def _parts(e: Expr) -> tuple[Expr, Expr]:
    """What of a sum is one value for the whole block, and what varies inside it."""
    uniform, varying = Expr((), e.const), Expr()
    for atom, c in e.terms:
        term = Expr(((atom, c),))
        if any(map(_varies, term.variables)):
            varying = varying + term
        else:
            uniform = uniform + term
    return uniform, varying


def _mixes(atom: Atom) -> bool:
    """Whether an atom is of both kinds of values, and not known by its bounds."""
    return not isinstance(atom, Inside) and not all(map(_varies, Expr(((atom, 1),)).variables))


def _varies(v: Var) -> bool:
    """Thread, lane and unrolled-loop variables vary inside a tile; block and serial-loop variables do not."""
    return v.name in THREAD_VARS or v.name == LANE or v.name.startswith("u")
