"""Linearity and stride proofs between two domains: how far one step along an axis moves in an ordered one.

The question is nvFuser's (nvFuser, linearity and strides). Indices are walked symbolically from the axes at hand to
the domain, so a proof holds for every index, those in holes included. Where the canonical form of the offset does not
settle it, the few variables that it takes are enumerated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.id.graph import GraphStep, Group, IdGraph
from compiler.analysis.id.group_index import walk
from compiler.ir.expr import Expr, Var, every_part, var
from compiler.ir.id_exprs import Merge, Split
from compiler.ir.iter_domain import IterDomain
from compiler.ir.size import Size

UNKNOWN_EXTENT = 1 << 40
"""Stands for an extent that the compiled kernel does not know: no proof may rest on such an axis ending."""

_MAX_POINTS = 1 << 12
_MAX_MAGNITUDE = 1 << 60


class Linearity(Enum):
    """What is known of an expression as a function of one of its variables."""

    LINEAR = "linear"
    NOT_LINEAR = "not linear"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Slope:
    """Whether an expression is `step` * variable + (something without that variable)."""

    linearity: Linearity
    step: int = 0

    @property
    def proved(self) -> int | None:
        return self.step if self.linearity is Linearity.LINEAR else None


@dataclass(frozen=True, slots=True)
class Reached:
    """Indices of groups, and the unknown sizes at whose present values alone they are these expressions."""

    index: Mapping[Group, Expr]
    sizes: frozenset[Size] = frozenset()

    def offset(self, domain: Sequence[Group], strides: Sequence[int]) -> Expr:
        """Offset in an ordered domain; an axis of it without an index has extent one."""
        total = Expr()
        for group, stride in zip(domain, strides, strict=True):
            total = total + self.index.get(group, Expr()) * stride
        return total


def index_of(axis: IterDomain, name: str) -> Expr:
    """The index of an axis as a variable of that name."""
    return var(Var(name, axis.extent if axis.symbolic is None else UNKNOWN_EXTENT))


def dense_strides(extents: Sequence[int], given: Sequence[int | None] = ()) -> tuple[int, ...]:
    """One stride an axis, outermost first: the given one, else the next axis' extent times its stride."""
    strides: list[int] = []
    whole = 1
    for extent, stride in zip(reversed(extents), reversed(given or (None,) * len(extents)), strict=True):
        strides.append(whole if stride is None else stride)
        whole = strides[-1] * extent
    return tuple(reversed(strides))


def reach(graph: IdGraph, known: Mapping[Group, Expr], domain: Sequence[Group]) -> Reached | None:
    """Indices in `domain` of the place with the known ones; None where they do not lead to all of it."""
    path, missing = graph.path(tuple(known), [g for g in domain if not graph.axis(g).is_trivial])
    return None if missing else Reached(walk(graph, path, known), _sizes_used(graph, path))


def slope(e: Expr, v: Var) -> Slope:
    """How `e` depends on `v`: exact, save where too many points would have to be looked at."""
    direct, tangled = 0, Expr()
    for atom, c in e.terms:
        if isinstance(atom, Var):
            direct = c if atom == v else direct
        elif v in (part := Expr(((atom, c),))).variables:
            tangled = tangled + part
    if tangled.is_const:
        return Slope(Linearity.LINEAR, direct)
    points = grid(tangled, first=v)
    if points is None:
        return Slope(Linearity.UNKNOWN)
    moves = points - points[:1]
    step = int(moves[1].flat[0])
    steps = np.arange(v.extent).reshape(-1, *(1,) * (moves.ndim - 1)) * step
    return Slope(Linearity.LINEAR, direct + step) if (moves == steps).all() else Slope(Linearity.NOT_LINEAR)


def grid(e: Expr, first: Var | None = None) -> NDArray[Any] | None:
    """The values of `e` at every value of its variables, one array axis a variable, `first` in front; None where
    there are too many of them, or numbers too large to compute with."""
    names = sorted(e.variables - {first} if first is not None else e.variables, key=lambda v: v.name)
    variables = [first, *names] if first is not None else list(names)
    if prod(v.extent for v in variables) > _MAX_POINTS or not every_part(e, _is_small):
        return None
    axes = np.ix_(*(np.arange(v.extent) for v in variables))
    found = e.evaluate({v.name: a for v, a in zip(variables, axes, strict=True)})
    return np.broadcast_to(np.asarray(found), tuple(v.extent for v in variables))


def values(e: Expr) -> frozenset[int] | None:
    """Every value that `e` takes, or None where there are too many points to look at."""
    points = grid(e)
    return None if points is None else frozenset(points.ravel().tolist())


def _sizes_used(graph: IdGraph, path: Sequence[GraphStep]) -> frozenset[Size]:
    """Unknown sizes by whose values a walk divides or multiplies: those of inner pieces."""
    found = set()
    for step in path:
        match step.expr.example:
            case Split():
                inner = graph.size(step.expr.outputs[1])
            case Merge():
                inner = graph.size(step.expr.inputs[1])
            case _:
                continue
        if not inner.is_constant:
            found.add(inner)
    return frozenset(found)


def _is_small(e: Expr) -> bool:
    return e.lo > -_MAX_MAGNITUDE and e.hi < _MAX_MAGNITUDE
