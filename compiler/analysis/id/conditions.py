"""Conditions on sizes and addresses with three outcomes: proved, refuted, or kept with a formula for launch."""

from __future__ import annotations

from compiler.errors import Condition, Outcome
from compiler.ir.id_exprs import Split
from compiler.ir.size import Size


def settled(holds: bool, formula: str) -> Condition:
    """A condition without unknowns."""
    return Condition(Outcome.PROVED if holds else Outcome.REFUTED, formula, holds)


def kept(holds: bool, formula: str, bound: int | None = None) -> Condition:
    """A condition that only a launch can settle; `holds` says how it stands at this one, `bound` what its left side
    is there."""
    return Condition(Outcome.KEPT, formula, holds, bound)


def is_multiple(size: Size, divisor: Size) -> Condition:
    """size % divisor == 0."""
    formula = f"{size} % ({divisor}) == 0"
    known = size.is_multiple_of(divisor)
    return kept(size.value % divisor.value == 0, formula, size.value) if known is None else settled(known, formula)


def are_equal(a: Size, b: Size) -> Condition:
    """a == b."""
    formula = f"{a} == {b}"
    if a == b or (a.is_constant and b.is_constant):
        return settled(a == b, formula)
    return kept(a.value == b.value, formula, a.value)


def at_most(size: Size, limit: int) -> Condition:
    """size <= limit. An unknown factor is at least one."""
    formula = f"{size} <= {limit}"
    if size.is_constant or size.coefficient > limit:
        return settled(size.is_constant and size.coefficient <= limit, formula)
    return kept(size.value <= limit, formula, size.value)


def at_least(size: Size, limit: int) -> Condition:
    """size >= limit. An unknown factor is at least one."""
    formula = f"{size} >= {limit}"
    if size.is_constant or size.coefficient >= limit:
        return settled(size.coefficient >= limit, formula)
    return kept(size.value >= limit, formula, size.value)


def split_divides(e: Split) -> Condition:
    """The split makes no holes: outer * inner == source (nvFuser, divisibility of split)."""
    inner, outer, source = e.inner.size, e.outer.size, e.source.size
    formula = f"{source} % ({inner}) == 0"
    if outer * inner == source:
        return settled(True, formula)
    if source.is_constant and inner.is_constant and outer.is_constant:
        return settled(e.divides, formula)
    return kept(e.divides, formula, source.value)
