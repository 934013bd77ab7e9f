"""Rules on sums that are folded along with a maximum: they are one reduction of several values."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.loops.online import OnlineFold, online_folds
from compiler.errors import Violation
from compiler.ir.algebra import forward
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import IterDomain, MemoryType
from compiler.ir.tensor import TensorView
from compiler.legality.rules import Schedule, structure_rule


@structure_rule
def online_sums_are_scheduled_as_their_maximum(s: Schedule) -> Iterator[Violation]:
    """The values of one reduction have the same loops, in the same places (nvFuser, Welford reductions: all outputs
    of one are scheduled alike): a thread scales the sum that it has by the maximum that it has."""
    for fold in _folds(s):
        top = s.sf.tensor(fold.maximum)
        for t in (top, *(s.sf.tensor(part.tensor) for part in fold.sums)):
            if t.memory is not MemoryType.LOCAL:
                yield _violation(t, f"in {t.memory} memory", "local", "Leave it in registers.")
            elif _loops(t) != _loops(top):
                fix = f"Transform and parallelize it as {top.name}."
                yield _violation(t, _described(t), f"the loops of {top.name}: {_described(top)}", fix)
            elif t.compute_at != top.compute_at:
                fix = f"Inline it at {top.compute_at}."
                yield _violation(t, f"inlined at {t.compute_at}", f"{top.compute_at}, as {top.name}", fix)


@structure_rule
def running_maxima_live_as_long_as_their_maximum(s: Schedule) -> Iterator[Violation]:
    """What sums are measured from is kept from one turn of the folded loops to the next, a value for each maximum."""
    for fold in _folds(s):
        top, running = s.sf.tensor(fold.maximum), s.sf.tensor(fold.running)
        alike = running.compute_at == top.compute_at and _kept(running) == _kept(top)
        if running.memory is not MemoryType.LOCAL or not alike:
            fix = f"Inline it at {top.compute_at}, outside of the loops that {top.name} folds, in registers."
            found = f"inlined at {running.compute_at}, with {_kept(running)} of its own"
            wanted = f"inlined at {top.compute_at}, with {_kept(top)}, as {top.name}"
            rule = "running_maxima_live_as_long_as_their_maximum"
            yield Violation(rule, running.name, found, wanted, fix)


def _violation(t: TensorView, found: str, limit: str, fix: str) -> Violation:
    return Violation("online_sums_are_scheduled_as_their_maximum", t.name, found, limit, fix)


def _folds(s: Schedule) -> list[OnlineFold]:
    folds = online_folds(s.sf)
    return [fold for name, fold in folds.items() if name == fold.maximum]


def _loops(t: TensorView) -> list[tuple[Expr, object, bool]]:
    """What each loop is of the tensor's elements, how it is carried out, and whether it is folded."""
    place: dict[IterDomain, Expr] = {a: var(Var(f"d{d}", a.extent)) for d, a in enumerate(t.logical)}
    index = forward(place, t.exprs)
    return [(index[a], p, a.is_reduction) for a, p in zip(t.loop, t.types, strict=True)]


def _kept(t: TensorView) -> str:
    """The axes of which a thread has a value for each place."""
    pairs = zip(t.loop[t.compute_at :], t.types[t.compute_at :], strict=True)
    own = (a for a, p in pairs if not (a.is_reduction or a.is_broadcast or p.is_thread or p.is_block))
    return f"[{', '.join(str(a.extent) for a in own)}]"


def _described(t: TensorView) -> str:
    return ", ".join(f"{a.extent} {p}" for a, p in zip(t.loop, t.types, strict=True))
