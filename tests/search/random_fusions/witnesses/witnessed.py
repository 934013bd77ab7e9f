"""Random fusions with witnesses: one seed, one case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from math import prod
from random import Random

from tests.search.random_fusions.cases import LIMITS, Case, grown
from tests.search.random_fusions.grower import Limits
from tests.search.random_fusions.witnesses import chains
from tests.search.random_fusions.witnesses.readers import are_read_alike
from tests.search.random_fusions.witnesses.witness import Law, Witness
from tests.search.random_fusions.witnesses.writer import View, Writer

MOST_MOVES = 3
"""Of the random fusion that a chain goes on from."""

MOST_WITNESSES = 3


@dataclass(frozen=True)
class Witnessed:
    """A case with what must hold of its outputs."""

    case: Case
    witnesses: tuple[Witness, ...]


def witnessed(seed: int, limits: str) -> Witnessed:
    """The case of a seed, within the limits of that name."""
    for attempt in count():
        random = Random(f"witness:{limits}:{seed}:{attempt}")
        if (found := _drawn(random, limits, f"{limits}:{seed}")) is not None:
            return found
    raise AssertionError("a random fusion has a value of several elements sooner or later")


def _drawn(random: Random, limits: str, name: str) -> Witnessed | None:
    base = grown(random, _short(limits), name)
    w = Writer(base, random)
    sized = [x for x, shape in w.shapes.items() if shape and prod(shape) > 1 and w.dtypes[x] != "f64"]
    if not sized:
        return None
    values = [chains.grown(w, random.choice(sized[-6:]))]
    if random.random() < 0.3:
        values.append(chains.grown(w, values[0]))
    outputs = [random.choice(base.document["outputs"])["name"]] if random.random() < 0.4 else []
    witnesses = []
    for law, written in random.sample(LAWS, random.randint(1, MOST_WITNESSES)):
        value = random.choice(values)
        dim, names = written(w, value)
        outputs += [x for x in names if x not in outputs]
        witnesses.append(Witness(law, value, tuple(outputs.index(x) for x in names), dim))
    case = w.case(name, outputs)
    return Witnessed(case, tuple(witnesses)) if are_read_alike(case.document, w.dtypes, w.copies) else None


def _short(limits: str) -> Limits:
    return replace(LIMITS[limits], most_moves=MOST_MOVES)


# What is written of a value: the dimension of an index, and the outputs.


def hit(w: Writer, v: str) -> tuple[int, list[str]]:
    """`any(v == amax(v))` of every row, or of amin."""
    dims = chains.some_dims(w, v)
    equal = w.compare("eq", v, w.folded(w.random.choice(("amax", "amax", "amin")), v, dims))
    return 0, [_any(w, equal, dims), _any(w, w.compare("ne", v, v), dims)]


def same(w: Writer, v: str) -> tuple[int, list[str]]:
    """Whether v differs from v where it is a number: element by element, or anywhere in a row."""
    differs = w.apply("minimum", w.compare("ne", v, once_more(w, v)), w.compare("eq", v, v))
    if w.random.random() < 0.5:
        return 0, [w.cast(differs, "i32")]
    return 0, [_any(w, differs, chains.some_dims(w, v))]


def twice(w: Writer, v: str) -> tuple[int, list[str]]:
    return 0, [v, once_more(w, v)]


def index(w: Writer, v: str) -> tuple[int, list[str]]:
    """The first position of the largest element."""
    dim = chains.some_dims(w, v)[-1]
    shape = w.shapes[v]
    equal = w.compare("eq", v, w.folded("amax", v, [dim]))
    return dim, [v, w.reduce("amin", w.apply("where", equal, w.iota(shape, dim), shape[dim]), [dim])]


LAWS: tuple[tuple[Law, Callable[[Writer, str], tuple[int, list[str]]]], ...] = (
    (Law.HIT, hit),
    (Law.HIT, hit),
    (Law.SAME, same),
    (Law.TWICE, twice),
    (Law.INDEX, index),
)


def _any(w: Writer, flags: str, dims: list[int]) -> str:
    return w.reduce("amax", w.cast(flags, "i32"), dims)


def once_more(w: Writer, v: str) -> str:
    """`v` worked out again from another view, so that nothing takes it for what it is."""
    depth = w.random.randint(1, 6)
    shape = w.shapes[v]
    kind = w.random.choice(("plain", "permuted", "flat", "halves"))
    if kind == "permuted" and len(shape) > 1:
        order = w.random.sample(range(len(shape)), len(shape))
        back = [order.index(d) for d in range(len(shape))]
        return w.permute(w.again(v, depth, lambda x: w.permute(x, order)), back)
    if kind == "flat" and len(shape) > 1:
        return w.reshape(w.again(v, depth, lambda x: w.reshape(x, (prod(shape),))), shape)
    if kind == "halves":
        dim = w.random.choice([d for d, n in enumerate(shape) if n > 1])
        cut = w.random.randint(1, shape[dim] - 1)
        return w.cat([w.again(v, depth, _part(w, dim, *ends)) for ends in ((0, cut), (cut, shape[dim]))], dim)
    return w.again(v, depth, lambda x: x)


def _part(w: Writer, dim: int, start: int, stop: int) -> View:
    return lambda x: w.slice(x, dim, start, stop)
