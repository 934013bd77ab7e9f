"""Guards: conditions on a call that travel with a kernel, parsed from text and evaluated without `eval`.

    condition   := condition ("and" | "or") condition | number (("==" | "!=" | "<" | "<=" | ">" | ">=") number)+
    number      := integer | name | number ("+" | "-" | "*" | "//" | "%") number | "-" number
                 | "min" "(" number, ... ")" | "max" "(" number, ... ")"
    name        := "ptr[" position "]" | "size[" position "][" dim "]" | "stride[" position "][" dim "]"

`ptr` is an address in bytes, `size` and `stride` count elements; `//` and `%` round towards minus infinity.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fusetune.errors import GuardFailed, InvalidKernel
from fusetune.wire.artifact import Guard

MAX_GUARD_CHARS = 2000
"""Longer text is refused unread: a guard is one line that a person can check."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What a guard may speak of, by tensor position: inputs in order, then outputs."""

    pointers: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]


Number = Callable[[CallFacts], int]
Condition = Callable[[CallFacts], bool]

_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@lru_cache(maxsize=1024)
def parse_guard(expr: str) -> Condition:
    """The condition as a function of the call's facts.

    Raises InvalidKernel where the text is not in the grammar. The function raises it where a name has no such position
    or dimension, or a divisor is zero.
    """
    if len(expr) > MAX_GUARD_CHARS:
        raise _invalid(expr[:60] + "…", f"it has {len(expr)} characters, at most {MAX_GUARD_CHARS} are allowed")
    try:
        tree = ast.parse(expr, mode="eval").body
        condition = _condition(tree, expr)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _invalid(expr, f"it cannot be parsed: {error}") from error

    def checked(facts: CallFacts) -> bool:
        try:
            return condition(facts)
        except ZeroDivisionError:
            raise _invalid(expr, "it divides by zero") from None
        except IndexError:
            raise _invalid(expr, "it names a tensor or a dimension that the call does not have") from None

    return checked


def check_guards(guards: tuple[Guard, ...], facts: CallFacts) -> None:
    """Raises GuardFailed for the first guard that does not hold, InvalidKernel for one that means nothing."""
    for guard in guards:
        if not parse_guard(guard.expr)(facts):
            raise GuardFailed(guard.expr, guard.message)


def _condition(node: ast.expr, text: str) -> Condition:
    match node:
        case ast.BoolOp(op=op, values=values):
            terms = [_condition(value, text) for value in values]
            join = all if isinstance(op, ast.And) else any
            return lambda facts: join(term(facts) for term in terms)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            numbers = [_number(operand, text) for operand in (left, *comparators)]
            tests = [_COMPARISONS.get(type(op)) for op in ops]
            if None in tests:
                raise _invalid(text, f"{ast.unparse(node)!r} compares with something other than == != < <= > >=")
            return lambda facts: _chain(tests, [number(facts) for number in numbers])
        case _:
            raise _invalid(text, f"{ast.unparse(node)!r} is not a comparison")


def _chain(tests: list[Any], values: list[int]) -> bool:
    return all(test(a, b) for test, a, b in zip(tests, values, values[1:], strict=False))


def _number(node: ast.expr, text: str) -> Number:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return lambda facts: value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            positive = _number(operand, text)
            return lambda facts: -positive(facts)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            apply, a, b = _ARITHMETIC[type(op)], _number(left, text), _number(right, text)
            return lambda facts: apply(a(facts), b(facts))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[_, _, *_] as args, keywords=[]):
            pick = min if name == "min" else max
            numbers = [_number(arg, text) for arg in args]
            return lambda facts: pick(number(facts) for number in numbers)
        case ast.Subscript():
            return _fact(node, text)
        case _:
            raise _invalid(text, f"{ast.unparse(node)!r} is not a number of the grammar")


def _fact(node: ast.Subscript, text: str) -> Number:
    match node:
        case ast.Subscript(value=ast.Name(id="ptr"), slice=ast.Constant(value=int(p))):
            return lambda facts: facts.pointers[p]
        case ast.Subscript(
            value=ast.Subscript(value=ast.Name(id="size"), slice=ast.Constant(value=int(p))),
            slice=ast.Constant(value=int(d)),
        ):
            return lambda facts: facts.sizes[p][d]
        case ast.Subscript(
            value=ast.Subscript(value=ast.Name(id="stride"), slice=ast.Constant(value=int(p))),
            slice=ast.Constant(value=int(d)),
        ):
            return lambda facts: facts.strides[p][d]
        case _:
            raise _invalid(text, f"{ast.unparse(node)!r} is neither ptr[p], size[p][d] nor stride[p][d]")


def _invalid(expr: str, reason: str) -> InvalidKernel:
    return InvalidKernel(f"guard {expr!r}", reason, "Tune the fusion again: its stored kernel cannot be checked.")
