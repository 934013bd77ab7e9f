"""Loads as one vector what the loads of several elements take of it together.

    unroll k < 4: load a[k] = x[4 t + k] where k % 2 < 1       ->   load v[0..4) = x[4 t ..]
    unroll k < 4: load b[k] = x[4 t + k + 1] where k % 2 < 1        unroll k < 4: if (k % 2 < 1) a[k] = v[k] else 0
                                                                    unroll k < 4: if (k % 2 < 1) b[k] = v[k + 1] else 0

A schedule loads in vectors what lies in memory as it is iterated over. Pairs that are rotated, channels that lie side
by side, a scale for each few elements are read in another order, of which every element is still in reach of the
thread: the moves between registers cost nothing, since the loops are unrolled. No element is read that was not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from compiler.arch import MAX_WORD_BYTES
from compiler.dtypes import DType
from compiler.ir.expr import Expr, const
from compiler.ir.fusion import Literal
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import CachePolicy
from compiler.lower.kernel_ir import Compute, Declare, GlobalLoad, If, Loop, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.passes.settled_conditions import outcome
from compiler.lower.traversal import with_bodies

MOST_TURNS = 32
"""Turns of a loop whose elements are told apart."""


def load_covered_vectors(body: tuple[Stmt, ...], aligned: Mapping[str, int]) -> tuple[Stmt, ...]:
    """The body with such loads in vectors. `aligned`: what is known of each tensor's address, in bytes."""
    return _covered(body, aligned, count())


@dataclass(frozen=True, slots=True)
class _Loads:
    """Loads of one element, or of one a turn of an unrolled loop. `constants`: where those loaded lie past `start`."""

    at: int
    loop: Loop | None
    load: GlobalLoad
    guards: tuple[Less, ...]
    start: Expr
    constants: frozenset[int]

    @property
    def group(self) -> tuple[str, DType, CachePolicy, tuple[Less, ...], Expr]:
        """What loads have in common that one vector may serve."""
        return self.load.tensor, self.load.target.dtype, self.load.cache, self.guards, self.start


@dataclass(frozen=True, slots=True)
class _Vectors:
    """`elems` elements from `first` on, in vectors of `width`."""

    first: Expr
    width: int
    elems: int


def _covered(body: tuple[Stmt, ...], aligned: Mapping[str, int], numbers: Iterator[int]) -> tuple[Stmt, ...]:
    groups: dict[object, list[_Loads]] = defaultdict(list)
    for at, s in enumerate(body):
        if (found := _loads(at, s)) is not None:
            groups[found.group].append(found)
    before: dict[int, tuple[Stmt, ...]] = {}
    instead: dict[int, Stmt] = {}
    for members in groups.values():
        vectors = _vectors(members, aligned.get(members[0].load.tensor, 1))
        if vectors is None or not _is_less(members, vectors):
            continue
        first = members[0]
        target = Reg(f"{first.load.tensor}_w{next(numbers)}", first.load.target.dtype, Expr())
        before[first.at] = _loading(first, vectors, target)
        instead |= {m.at: _moving(m, replace(target, offset=m.load.offset - vectors.first)) for m in members}
    out: list[Stmt] = []
    for at, s in enumerate(body):
        out += before.get(at, ())
        out.append(instead[at] if at in instead else with_bodies(s, lambda b: _covered(b, aligned, numbers)))
    return tuple(out)


def _loads(at: int, s: Stmt) -> _Loads | None:
    """The statement as loads of elements at constant distances, under guards that are the same in every turn."""
    loop: Loop | None = None
    match s:
        case Loop(unroll=True, body=(GlobalLoad() as load,)) if s.trip.is_const and s.trip.const <= MOST_TURNS:
            loop = s
        case GlobalLoad() as load:
            pass
        case _:
            return None
    if load.width > 1 or load.straddles or load.rows or load.head is not None or load.tail is not None:
        return None
    found: dict[Expr, set[int]] = defaultdict(set)
    guards: set[tuple[Less, ...]] = set()
    for turn in range(1 if loop is None else loop.trip.const):
        values = {} if loop is None else {loop.var: const(turn)}
        asked = [Less(c.left.substitute(values), c.right.substitute(values)) for c in (*load.guards, *load.within)]
        if any(outcome(c) is False for c in asked):
            continue
        guards.add(tuple(c for c in asked if outcome(c) is None))
        offset = load.offset.substitute(values)
        found[Expr(offset.terms)].add(offset.const)
    if len(found) != 1 or len(guards) != 1:
        return None
    ((start, constants),) = found.items()
    return _Loads(at, loop, load, guards.pop(), start, frozenset(constants))


def _vectors(members: list[_Loads], aligned: int) -> _Vectors | None:
    """The widest vectors, one behind the other, that hold what all of them load and nothing else."""
    first = members[0]
    taken = frozenset[int]().union(*(m.constants for m in members))
    low, elems = min(taken), max(taken) + 1 - min(taken)
    if len(taken) != elems:
        return None
    nbytes = first.load.target.dtype.nbytes
    width = min(MAX_WORD_BYTES, aligned) // nbytes
    while width > 1:
        if elems % width == 0 and (first.start + low).divisible_by(width):
            return _Vectors(first.start + low, width, elems)
        width //= 2
    return None


def _is_less(members: list[_Loads], vectors: _Vectors) -> bool:
    """Whether vectors are fewer than what is loaded element by element, and each member finds its place in them."""
    if any((m.load.offset - vectors.first).variables - ({m.loop.var} if m.loop else set()) for m in members):
        return False
    return vectors.elems // vectors.width < sum(len(m.constants) for m in members)


def _loading(first: _Loads, vectors: _Vectors, target: Reg) -> tuple[Stmt, ...]:
    loads = (
        replace(
            first.load,
            target=replace(target, offset=const(start)),
            offset=vectors.first + start,
            width=vectors.width,
            guards=first.guards,
            within=(),
        )
        for start in range(0, vectors.elems, vectors.width)
    )
    return (Declare(target.name, target.dtype, vectors.elems), *loads)


def _moving(m: _Loads, source: Reg) -> Stmt:
    """Moves from a vector in place of loads, and zeros where there were none."""
    move = Compute(OpKind.COPY, m.load.target, (source,), MathGrade.EXACT)
    if m.loop is None:
        return move
    zero = Compute(OpKind.COPY, m.load.target, (Literal(0),), MathGrade.EXACT)
    told = (c for c in (*m.load.guards, *m.load.within) if m.loop.var in c.left.variables | c.right.variables)
    asked = tuple(told)
    return replace(m.loop, body=(If(asked, (move,), (zero,)) if asked else move,))
