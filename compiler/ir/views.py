"""Index maps of view operators: which element of the source an element of the result is.

A `View` gives, for each dimension of the value that is read, the index as an expression in the positions of the element
that reads. Views compose by substitution, and the laws of integer division (`compiler.ir.expr`) make a chain of
reshapes, permutes, slices and broadcasts one map that is as short as its parts allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.fusion import dense_strides
from compiler.ir.ops import OpKind

View = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Within:
    """low <= index < high must hold for a read to be of a real element: what is read elsewhere is zero, and not used.

    The index has no constant, so that no part of it is negative where the bound of an outer piece holds; one that falls
    along a dimension has what keeps it from being negative.
    """

    index: Expr
    low: int
    high: int

    def at(self, index: Sequence[Expr]) -> Within:
        """The same bound at given positions."""
        (moved,) = at((self.index,), index)
        return within(moved, self.low, self.high)

    @property
    def is_sure(self) -> bool:
        """True where the index cannot leave its bounds."""
        return self.index.lo >= self.low and self.index.hi < self.high


def within(index: Expr, low: int, high: int) -> Within:
    """The bound low <= index < high, with the constant of the index moved to the other sides."""
    moved = index.const if all(c > 0 for _, c in index.terms) else index.lo
    return Within(index - moved, low - moved, high - moved)


def narrowed(view: View, bounds: Sequence[Within]) -> View:
    """The view as short as its bounds allow: inside of them it is what it was, and elsewhere it is not used.

    Of a cut row of heads, say, an index within one half is one of its head, and of no other row.
    """
    ranges: dict[Var, tuple[int, int]] = {}
    for bound in bounds:
        match bound.index:
            case Expr(terms=((Var() as v, 1),), const=0):
                low, high = ranges.get(v, (0, v.extent))
                ranges[v] = max(low, bound.low), min(high, bound.high)
            case _:
                pass
    inner = {v: Var(f"{v.name}_inside", high - low) for v, (low, high) in ranges.items() if high > low}
    moved = {v: var(inside) + ranges[v][0] for v, inside in inner.items()}
    back = {inside: var(v) - ranges[v][0] for v, inside in inner.items()}
    return tuple(_shorter(e, moved, back) for e in view)


def _shorter(e: Expr, moved: Mapping[Var, Expr], back: Mapping[Var, Expr]) -> Expr:
    """The expression without the quotients that ranges settle; itself where some are left, of what may be negative."""
    found = e.substitute(moved)
    if any(not isinstance(atom, Var) and Expr(((atom, 1),)).variables & back.keys() for atom, _ in found.terms):
        return e
    return found.substitute(back)


def position(dim: int, extent: int) -> Var:
    """The variable of a view that stands for the reader's position along a dimension."""
    return Var(f"d{dim}", extent)


def identity(shape: Sequence[int]) -> View:
    """Every element at its own position."""
    return tuple(var(position(d, n)) for d, n in enumerate(shape))


def source_index(
    kind: OpKind,
    dims: Sequence[int],
    start: int,
    source: Sequence[int],
    result: Sequence[int],
    index: Sequence[Expr],
    step: int = 1,
) -> View:
    """The index in the operand (of shape `source`) of the element at `index` of the result (of shape `result`).

    `dims`, `start` and `step` as in `ir.fusion.Op`; operators that are no views map every element to its own position.
    """
    match kind:
        case OpKind.PERMUTE:
            out = [Expr()] * len(dims)
            for result_dim, source_dim in enumerate(dims):
                out[source_dim] = index[result_dim]
            return tuple(out)
        case OpKind.BROADCAST_TO:
            expands = (n == 1 != result[d] for n, d in zip(source, dims, strict=True))
            return tuple(Expr() if e else index[d] for e, d in zip(expands, dims, strict=True))
        case OpKind.RESHAPE:
            return reshaped(source, result, index)
        case OpKind.SLICE:
            return tuple(e * step + start if d == dims[0] else e for d, e in enumerate(index))
        case OpKind.FLIP:
            return tuple(const(source[d] - 1) - e if d in dims else e for d, e in enumerate(index))
        case _:
            return tuple(index)


def chosen_index(kind: OpKind, dim: int, index_rank: int, row: Expr, index: Sequence[Expr]) -> tuple[View, View]:
    """Where a TAKE or GATHER along `dim` reads for the element at `index` of its result: in its first operand, where
    `row` is what the second one says, and in the second one, of `index_rank` dimensions."""
    end = dim + (index_rank if kind is OpKind.TAKE else 1)
    chosen = tuple(index[dim:end]) if kind is OpKind.TAKE else tuple(index)
    return (*index[:dim], row, *index[end:]), chosen


def row_variable(number: int, extent: int) -> Var:
    """The variable of a view that stands for an index that is data: of a TAKE, what its operand `number` says."""
    return Var(f"row{number}", extent)


def reshaped(source: Sequence[int], result: Sequence[int], index: Sequence[Expr]) -> View:
    """The index in `source` of the element at `index` of `result`, the same elements in row-major order."""
    place = Expr()
    for e, stride in zip(index, dense_strides(tuple(result)), strict=True):
        place = place + e * stride
    out: list[Expr] = []
    for d, (n, stride) in enumerate(zip(source, dense_strides(tuple(source)), strict=True)):
        quotient = place // stride
        out.append(const(0) if n == 1 else quotient if all(m == 1 for m in source[:d]) else quotient % n)
    return tuple(out)


def at(view: View, index: Sequence[Expr]) -> View:
    """The view at a given position: `index` in place of the position variables.

    Two lists of positions may use the same variables: all are replaced at once. Indices that are data stay.
    """
    names = {f"d{i}": e for i, e in enumerate(index)}
    return tuple(e.substitute({v: names[v.name] for v in e.variables if v.name in names}) for e in view)


def depends_on(view: View) -> frozenset[int]:
    """The dimensions of the reader that the view varies along, apart from what indices that are data do."""
    return frozenset(int(v.name[1:]) for e in view for v in e.variables if v.name.startswith("d"))
