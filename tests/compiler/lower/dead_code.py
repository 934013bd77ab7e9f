"""What of a kernel does nothing: conditions that always or never hold, loops of one turn, arrays that nobody reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from compiler.ir.expr import Expr, Var, const
from compiler.lower import kernel_ir as k
from compiler.lower.operands import Less, Reg
from compiler.lower.traversal import walk
from compiler.lower.whole_ir import Divisor, WholeNumber


def dead_code(kernel: k.Kernel) -> list[str]:
    """One line for each finding; empty where there is none."""
    return [*_conditions(kernel.body, ()), *_loops(kernel.body), *_arrays(kernel.body)]


def outcome(c: Less) -> bool | None:
    """What a condition always is, by the ranges of its variables; None where it is either."""
    difference = c.left - c.right
    if difference.hi < 0:
        return True
    return False if difference.lo >= 0 else None


def _conditions(body: Sequence[k.Stmt], known: tuple[Less, ...]) -> Iterator[str]:
    """`known`: what holds here, since it was asked around."""
    for s in body:
        match s:
            case k.If():
                yield from _asked(s, s.conditions, known)
                yield from _conditions(s.then, (*known, *s.conditions))
                yield from _conditions(s.orelse, known)
            case k.Loop() | k.Elected():
                yield from _conditions(s.body, known)
            case k.GlobalLoad() | k.CopyAsync():
                yield from _asked(s, (*s.guards, *s.within, *_lanes(s)), known)
            case k.GlobalStore():
                yield from _asked(s, (*s.guards, *_lanes(s)), known)
            case k.Accumulate():
                yield from _asked(s, s.guards, known)
            case _:
                pass


def _lanes(s: k.GlobalLoad | k.GlobalStore | k.CopyAsync) -> tuple[Less, ...]:
    """What a tail asks first: whether the last lane is inside."""
    if s.tail is None:
        return ()
    lanes: dict[Var, Expr] = {v: const(s.width - 1) for v in s.tail.left.variables if v.name == "lane"}
    return (Less(s.tail.left.substitute(lanes), s.tail.right),)


def _asked(s: k.Stmt, conditions: tuple[Less, ...], known: tuple[Less, ...]) -> Iterator[str]:
    for number, c in enumerate(conditions):
        if outcome(c) is not None:
            yield f"{c} is always {str(outcome(c)).lower()}, at {type(s).__name__}"
        for other in (*known, *conditions[:number], *conditions[number + 1 :]):
            if ((c.left - c.right) - (other.left - other.right)).hi <= 0:
                yield f"{c} follows from {other}, at {type(s).__name__}"


def _loops(body: Sequence[k.Stmt]) -> Iterator[str]:
    for s in walk(tuple(body)):
        match s:
            case k.Loop() if s.trip.is_const and s.trip.const <= 1:
                yield f"a loop over {s.var} of {s.trip} turns"
            case k.Loop() | k.Elected() if not s.body:
                yield f"an empty {type(s).__name__}"
            case k.If() if not s.then and not s.orelse:
                yield "an If around nothing"
            case _:
                pass


def _arrays(body: Sequence[k.Stmt]) -> Iterator[str]:
    """Of a fold's own array neither its steps nor shuffles count as reads: somebody must use the result."""
    every = list(walk(tuple(body)))
    read = {name for s in every for name in _reads(s)}
    written = {name for s in every for name in _writes(s)}
    for s in every:
        if isinstance(s, k.Declare):
            if s.name not in read:
                yield f"{s.name} is never read"
            if s.name not in written:
                yield f"{s.name} is never written"


def _reads(s: k.Stmt) -> Iterator[str]:
    match s:
        case k.Compute():
            yield from (x.name for x in s.operands if isinstance(x, Reg))
        case (
            k.Convert()
            | k.GlobalStore()
            | k.SharedStore()
            | k.MatrixStore()
            | k.RemoteStore()
            | k.Accumulate()
            | k.AccumulateRun()
            | WholeNumber()
        ):
            yield s.source.name
        case Divisor(value=Reg() as value):
            yield value.name
        case _:
            pass


def _writes(s: Any) -> Iterator[str]:
    match s:
        case k.Fill():
            yield s.name
        case k.GlobalLoad() | k.SharedLoad() | k.MatrixLoad() | k.Compute() | k.Convert() | k.Index() | WholeNumber():
            yield s.target.name
        case _:
            pass
