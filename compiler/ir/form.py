"""What facts that outlast a verdict are known by: the form of a tensor, how its axes were made whatever runs them.

Verdicts on schedules that begin alike ask the same of the same tensors. A function whose result follows from its
arguments alone is `remembered`. That is sound since all arguments are immutable values (or one id graph, which only
equals itself) and what it returns is only read. Two rules keep it so:

- It is given no more than it needs: a `Form` and not a tensor where types and compute positions do not matter, so that
  those steps leave it known; no scheduled fusion.
- Groups are numbers of one id graph, so a result that holds any has that graph among its arguments.

Threads may share what is remembered: `lru_cache` locks itself, and at worst two of them compute the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

from compiler.ir.id_exprs import IdExpr
from compiler.ir.iter_domain import IterDomain
from compiler.ir.tensor import Allocation, TensorView

_P = ParamSpec("_P")
_R = TypeVar("_R")
KNOWN: list[_lru_cache_wrapper[Any]] = []
"""What each remembered function knows."""


class Form(NamedTuple):
    """The axes of a tensor and the transforms between them."""

    logical: tuple[IterDomain, ...]
    loop: tuple[IterDomain, ...]
    exprs: tuple[IdExpr, ...]
    allocation: Allocation | None

    def __hash__(self) -> int:
        """Of little, since it is asked for often: names and extents of the ends tell most forms apart."""
        if not self.loop:
            return len(self.logical)
        first, last = self.loop[0], self.loop[-1]
        return hash((last.name, last.extent, first.extent, len(self.exprs)))


def form_of(t: TensorView | Form) -> Form:
    """The form of a tensor."""
    return Form(t.logical, t.loop, t.exprs, t.allocation)


def remembered(most: int) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Makes a function look up what it was asked before; `most` results are kept, those that were used last."""

    def of(f: Callable[_P, _R]) -> Callable[_P, _R]:
        known = lru_cache(maxsize=most)(f)
        KNOWN.append(known)
        return cast("Callable[_P, _R]", known)

    return of


def forget() -> None:
    """Empties everything that is remembered."""
    for known in KNOWN:
        known.cache_clear()
