"""What is folded of a product's elements in its own kernel: of a tile's row, or column, what each thread has of it.

    [.., tiles, columns / 8, 4, 2]: the second and the last are folded, and four lanes have a part each

Threads hold the elements of a result as instructions leave them: so no lane waits for another, and what they fold is
a result with a part for each tile and lane (`search.launches.tile_sums` writes fusions so).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from compiler.arch import FRAGMENT_COLUMNS, FRAGMENT_LANES
from compiler.ir.domain import ScheduledFusion, computed_from
from compiler.ir.ops import CONTRACTIONS, REDUCTIONS

_PAIR = FRAGMENT_COLUMNS // FRAGMENT_LANES


@dataclass(frozen=True, slots=True)
class ProductFolds:
    """Reductions of what comes of a product: `names`, the tensors that they make; `across`: these, and what is made of
    them; `only`: what they alone are made of, behind the product. `pieces`: the dimensions that a tile's columns are:
    eights, lanes, pairs. `columns`: how many these are."""

    names: tuple[str, ...]
    across: frozenset[str]
    only: frozenset[str]
    pieces: tuple[int, ...]
    columns: int


def product_folds(sf: ScheduledFusion, products: Collection[str]) -> ProductFolds | str | None:
    """The folds of an unscheduled fusion; None where it has none, a reason where threads hold no whole parts."""
    names = tuple(op.output for op in sf.ops if op.kind in REDUCTIONS - CONTRACTIONS)
    if not names:
        return None
    after = frozenset[str]().union(*(computed_from(sf.ops, name) for name in products)) - {*products}
    across = frozenset(names).union(*(computed_from(sf.ops, name) for name in names))
    if not set(names) <= after:
        return "a reduction beside a product of matrices"
    folded = {tuple(d for d, a in enumerate(sf.tensor(name).logical) if a.is_reduction) for name in names}
    logical = sf.tensor(names[0]).logical
    (first, *others), *more = folded
    pieces = tuple(range(first, first + 3))
    if more or others != [first + 2] or [logical[d].extent for d in pieces[1:]] != [FRAGMENT_LANES, _PAIR]:
        return "a reduction of a product's elements that no thread has whole parts of"
    used, folded_of = (
        frozenset[str]().union(*(_made_of(sf, name) for name in of))
        for of in ([name for name in sf.outputs if name not in across], names)
    )
    before = frozenset[str]().union(*(_made_of(sf, name) for name in products))
    only = folded_of - used - across - before - {*sf.inputs}
    return ProductFolds(names, across, only, pieces, prod(logical[d].extent for d in pieces))


def _made_of(sf: ScheduledFusion, name: str) -> set[str]:
    """A tensor, and all that it is made of."""
    found, waiting = set[str](), [name]
    while waiting:
        x = waiting.pop()
        if x not in found:
            found.add(x)
            made = sf.producer(x)
            waiting += made.tensor_inputs if made is not None else ()
    return found
