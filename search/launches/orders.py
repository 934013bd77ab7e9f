"""Topological orders of a fusion's operators in which launches may be segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import CONTRACTIONS, FOLDS

_SUMS = FOLDS | CONTRACTIONS


def orders(fusion: Fusion) -> Iterator[tuple[Op, ...]]:
    """The fusion's own order, depth first from the outputs; and orders in which what could share a launch is together.

    One goes on with operators that the same reduction needs, or one of the same dimensions, as long as there are any.
    In the others, operators are sorted by level: how many reductions lie before them, as early or as late as may be.
    Orders that are equal are given once. What is written into an input comes behind all that reads it, if it can.
    """
    classes = _classes(fusion)
    given = [fusion.ops, _by_class(fusion, classes), *(_by_level(fusion, level(fusion)) for level in (_after, _before))]
    yield from dict.fromkeys(_written_last(fusion, order) for order in given)


def late_order(fusion: Fusion) -> tuple[Op, ...]:
    """All as late as the reductions allow that need it, and what none needs beside what it is made of: the second steps
    of folds stand together at the end."""
    return _written_last(fusion, _by_level(fusion, _late_levels(fusion)))


def steps_of_folds(fusion: Fusion, order: Sequence[Op]) -> tuple[int, ...]:
    """Places in that order at which the number of reductions that wait for an operator changes; its start and its end
    too."""
    level = dict(zip((op.output for op in fusion.ops), _late_levels(fusion), strict=True))
    inner = (n for n in range(1, len(order)) if level[order[n - 1].output] != level[order[n].output])
    return (0, *inner, len(order))


def _late_levels(fusion: Fusion) -> list[int]:
    levels = _before(fusion)
    made: dict[str, int] = {}
    for n, op in enumerate(fusion.ops):
        if not levels[n]:
            levels[n] = max((made[x] for x in op.tensor_inputs if x in made), default=0)
        made[op.output] = levels[n]
    return levels


def _by_level(fusion: Fusion, level: Sequence[int]) -> tuple[Op, ...]:
    classes = _classes(fusion)
    return _repaired(fusion, sorted(range(len(fusion.ops)), key=lambda n: (level[n], classes[n], n)))


def _by_class(fusion: Fusion, classes: Sequence[tuple[int, ...]]) -> tuple[Op, ...]:
    """Of the operators whose producers are placed, the first of the class of the last one placed; else the first."""
    producers = {op.output for op in fusion.ops}
    waiting = [{x for x in op.tensor_inputs if x in producers} for op in fusion.ops]
    left = list(range(len(fusion.ops)))
    placed: list[int] = []
    while left:
        ready = [n for n in left if not waiting[n]]
        n = next((n for n in ready if placed and classes[n] == classes[placed[-1]]), ready[0])
        left.remove(n)
        placed.append(n)
        for needs in waiting:
            needs.discard(fusion.ops[n].output)
    return tuple(fusion.ops[n] for n in placed)


def _after(fusion: Fusion) -> list[int]:
    """For each operator, the most reductions on a way from an input to it, itself left out."""
    past: dict[str, int] = {}
    levels: list[int] = []
    for op in fusion.ops:
        level = max((past.get(x, 0) for x in op.tensor_inputs), default=0)
        levels.append(level)
        past[op.output] = level + (op.kind in _SUMS)
    return levels


def _before(fusion: Fusion) -> list[int]:
    """The same, counted from the outputs: as late as the operators that need it allow."""
    ahead: dict[str, int] = {}
    levels = [0] * len(fusion.ops)
    for n in reversed(range(len(fusion.ops))):
        op = fusion.ops[n]
        levels[n] = -(ahead.get(op.output, 0) + (op.kind in _SUMS))
        for x in op.tensor_inputs:
            ahead[x] = max(ahead.get(x, 0), -levels[n])
    return levels


def _classes(fusion: Fusion) -> list[tuple[int, ...]]:
    """For each operator, the first reduction that needs it: the sizes before it, and the dimensions that it folds.

    Empty where none needs it.
    """
    next_fold: dict[str, tuple[int, ...]] = {}
    classes: list[tuple[int, ...]] = [()] * len(fusion.ops)
    for n in reversed(range(len(fusion.ops))):
        op = fusion.ops[n]
        classes[n] = next_fold.get(op.output, ())
        if op.kind in _SUMS:
            classes[n] = (*fusion.value(op.tensor_inputs[0]).shape, -1, *op.dims)
        if classes[n]:
            next_fold.update(dict.fromkeys(op.tensor_inputs, classes[n]))
    return classes


def _written_last(fusion: Fusion, order: Sequence[Op]) -> tuple[Op, ...]:
    """The same order, in which the results that are written into an input wait for what reads it: a launch that reads
    it comes before the one that writes. Two that wait for each other are left as they are."""
    into = dict(fusion.aliases)
    if not into:
        return tuple(order)
    waits: dict[str, list[Op]] = {}
    for output, name in into.items():
        later = _made_of(order, output)
        waits[output] = [op for op in order if name in op.tensor_inputs and op.output not in later]
    made = {op.output: op for op in order}
    done: dict[Op, None] = {}
    under_way: set[str] = set()

    def place(op: Op) -> None:
        if op in done or op.output in under_way:
            return
        under_way.add(op.output)
        for other in waits.get(op.output, ()):
            place(other)
        for x in op.tensor_inputs:
            if x in made:
                place(made[x])
        done.setdefault(op)

    for op in order:
        place(op)
    return tuple(done) if _is_topological(list(done)) else tuple(order)


def _made_of(order: Sequence[Op], name: str) -> set[str]:
    """The results that are made of a value, itself among them."""
    found = {name}
    for op in order:
        if not found.isdisjoint(op.tensor_inputs):
            found.add(op.output)
    return found


def _is_topological(order: Sequence[Op]) -> bool:
    place = {op.output: n for n, op in enumerate(order)}
    return all(place.get(x, -1) < n for n, op in enumerate(order) for x in op.tensor_inputs)


def _repaired(fusion: Fusion, wanted: list[int]) -> tuple[Op, ...]:
    """The operators in the wanted order as far as producers allow: one that comes too early draws its own along."""
    producers: Mapping[str, int] = {op.output: n for n, op in enumerate(fusion.ops)}
    done: dict[int, None] = {}

    def place(n: int) -> None:
        for x in fusion.ops[n].tensor_inputs:
            if x in producers and producers[x] not in done:
                place(producers[x])
        done.setdefault(n)

    for n in wanted:
        place(n)
    return tuple(fusion.ops[n] for n in done)
