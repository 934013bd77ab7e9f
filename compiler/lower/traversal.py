"""Ways through kernel IR: its statements, the expressions in them, and a statement for each number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from operator import attrgetter
from typing import Any

from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.fusion import Number
from compiler.ir.remembered import remembered
from compiler.lower.kernel_ir import Declare, Elected, Fill, If, Loop, Opaque, ScanLanes, ScanRun, Shuffle, Stmt
from compiler.lower.operands import Reg


def walk(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outermost first."""
    waiting = [*reversed(body)]
    while waiting:
        s = waiting.pop()
        yield s
        if isinstance(s, Loop | Elected):
            waiting += reversed(s.body)
        elif isinstance(s, If):
            waiting += reversed(s.orelse)
            waiting += reversed(s.then)


def with_bodies(s: Stmt, f: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """The statement with `f` of every body inside it; one that has none as it is."""
    match s:
        case Loop() | Elected():
            return replace(s, body=f(s.body))
        case If():
            return replace(s, then=f(s.then), orelse=f(s.orelse))
        case _:
            return s


def map_exprs(body: tuple[Stmt, ...], f: Callable[[Expr], Expr]) -> tuple[Stmt, ...]:
    """The same statements with every expression replaced by `f` of it."""
    return tuple(_map_node(s, f) for s in body)


def _map_node(node: Any, f: Callable[[Expr], Expr]) -> Any:
    if isinstance(node, Expr):
        return f(node)
    if isinstance(node, tuple):
        return tuple([_map_node(x, f) for x in node])
    parts = fields_of(type(node))
    return type(node)(*[_map_node(x, f) for x in parts(node)]) if parts is not None else node


def expressions(node: Any) -> Iterator[Expr]:
    """Every expression in a statement, tuple of statements or operand."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Expr):
            yield one
        elif isinstance(one, tuple):
            waiting += reversed(one)
        elif (parts := fields_of(type(one))) is not None:
            waiting += reversed(parts(one))


@remembered(256)
def fields_of(kind: type) -> Callable[[Any], tuple[Any, ...]] | None:
    """What gives the fields of a statement or operand of this class, in order; None for what has none: a variable, a
    number, a name."""
    if not is_dataclass(kind) or issubclass(kind, Var | Number):
        return None
    names = tuple(f.name for f in fields(kind))
    if len(names) > 1:
        return attrgetter(*names)
    return lambda node: tuple(getattr(node, name) for name in names)


def registers_of(node: Any) -> Iterator[str]:
    """The register arrays that a statement names, as often as it does; of one with a body, not those inside."""
    match node:
        case Loop() | Elected() | If():
            pass
        case Reg() | Declare() | Fill() | Opaque() | Shuffle():
            yield node.name
        case tuple():
            for x in node:
                yield from registers_of(x)
        case _ if is_dataclass(node) and not isinstance(node, (Expr, Var, Number)):
            for x in fields(node):
                yield from registers_of(getattr(node, x.name))


def registers_set(body: tuple[Stmt, ...]) -> Iterator[str]:
    """The register arrays that statements set, or begin."""
    for s in walk(body):
        target = getattr(s, "target", None)
        if isinstance(s, Shuffle | Fill | Declare):
            yield s.name
        elif isinstance(s, ScanLanes):
            yield from (s.before.name, s.total.name)
        elif isinstance(target, Reg):
            yield target.name
            if isinstance(s, ScanRun):
                yield s.running.name


def each(name: str, count: int, body: Callable[[Expr], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
    """What `body` gives for every number below `count`: an unrolled loop over `name`, where there is more than one."""
    if count <= 1:
        return body(const(0)) if count else ()
    index = Var(name, count)
    return (Loop(index, const(count), True, body(var(index))),)
