"""Whether axes stand for a domain: nothing of it missing, nothing of it twice (nvFuser, domains)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.ir.id_exprs import IdExpr
from compiler.ir.iter_domain import IterDomain


@dataclass(frozen=True, slots=True)
class Equivalence:
    """What keeps axes from standing for a domain: parts of it that they lack, axes that say again what others say."""

    missing: tuple[IterDomain, ...]
    redundant: tuple[IterDomain, ...]

    def __bool__(self) -> bool:
        return not self.missing and not self.redundant


def compare_domains(
    reference: Iterable[IterDomain], axes: Sequence[IterDomain], exprs: Iterable[IdExpr]
) -> Equivalence:
    """Compares `axes` with the domain `reference` that they come from by `exprs`, which stand in order.

    Broadcast axes hold no data, so they may be made and dropped freely. Positions without an element (holes of a split
    that does not divide, padding) are no fault here.
    """
    needed: list[IdExpr] = []
    wanted = set(axes)
    for e in reversed(tuple(exprs)):
        if not wanted.isdisjoint(_made(e)):
            wanted.update(e.inputs)
            needed.append(e)
    frontier = dict.fromkeys(reference)
    for e in reversed(needed):
        for a in e.inputs:
            frontier.pop(a, None)
        frontier.update(dict.fromkeys(e.outputs))
    listed = set(axes)
    again = [a for i, a in enumerate(axes) if a in axes[:i]] if len(listed) < len(axes) else []
    again += [a for a in axes if a not in frontier and not a.is_broadcast]
    missing = tuple(a for a in frontier if a not in listed and not a.is_broadcast)
    return Equivalence(missing, tuple(dict.fromkeys(again)))


def _made(e: IdExpr) -> tuple[IterDomain, ...]:
    """The axes that come into being by a transform: a swizzle leaves its first as it is."""
    return tuple(a for a in e.outputs if a not in e.inputs)
