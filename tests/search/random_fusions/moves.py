"""What may be done next to a random fusion: one operator, or a pattern, on values that are there."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import get_args

from fusetune.wire.fusion import (
    FLOAT_ONLY,
    INTEGER_ONLY,
    TAKES_BOOL,
    BinaryName,
    CompareName,
    ReduceName,
    UnaryName,
)
from tests.search.random_fusions.grower import MOST_RANK, Grower, has_meaning
from tests.search.random_fusions.known import DTYPES, FLOATS, FP8, HALVES, INTEGERS, Known
from tests.search.random_fusions.mixtures import MIXTURES, extreme_places, truths
from tests.search.random_fusions.patterns import PATTERNS, wide
from tests.search.random_fusions.shapes import placement, random_shape, reshaped
from tests.search.random_fusions.whole import has_whole_answer, whole

Move = Callable[[Grower, Known], Known]

UNARY: tuple[str, ...] = get_args(UnaryName)
BINARY: tuple[str, ...] = get_args(BinaryName)
COMPARE: tuple[str, ...] = get_args(CompareName)
REDUCE: tuple[str, ...] = get_args(ReduceName)


def number(g: Grower, x: Known) -> float:
    """A number that every float dtype holds, or a small integer."""
    if x.dtype == "bool":
        return g.random.randint(0, 1)
    if not x.is_float:
        return g.random.randint(0 if x.dtype == "u8" else -10, 10)
    return g.random.choice((0.5, 1.5, -0.75, 2, -3, 0.125, 1, 4.25))


def partner(g: Grower, x: Known) -> Known | float:
    """A value of the shape and dtype of `x`: one that is there, brought to them, a new input, or a number."""
    kind = g.random.random()
    if kind < 0.2:
        return number(g, x)
    others = [v for v in g.values if v.name != x.name or g.random.random() < 0.1]
    g.random.shuffle(others)
    for v in others:
        y = brought(g, v, x)
        if y is not None:
            return y
    if len(g.inputs) < g.limits.most_inputs:
        return g.cast(new_operand(g, x.shape), x.dtype)
    return number(g, x)


def new_operand(g: Grower, shape: tuple[int, ...]) -> Known:
    """A new input of the shape, or one that a broadcast or a permutation brings to it."""
    dtype = random_dtype(g)
    kind = g.random.random()
    rank = len(shape)
    if kind < 0.35 and rank:
        dims = [d for d in range(rank) if g.random.random() < 0.5]
        sizes = tuple(1 if g.random.random() < 0.2 else shape[d] for d in dims)
        return g.broadcast_to(g.input(sizes, dtype), shape, dims)
    if kind < 0.5 and rank > 1:
        order = list(range(rank))
        g.random.shuffle(order)
        source = [0] * rank
        for to, of in enumerate(order):
            source[of] = shape[to]
        return g.permute(g.input(tuple(source), dtype), order)
    return g.input(shape, dtype)


def random_dtype(g: Grower) -> str:
    return g.random.choice(
        ("f32",) * 6
        + ("bf16",) * 4
        + ("f16",) * 3
        + ("f64",) * 3
        + ("i32", "i32", "i64", "i16", "i8", "i8", "u8", "u8", "f8e4m3", "f8e4m3", "f8e5m2", "bool")
    )


def brought(g: Grower, v: Known, x: Known) -> Known | None:
    """`v` in the shape and dtype of `x`, or None."""
    if v.dtype != x.dtype and not (v.is_float and x.is_float) and not v.is_exact:
        return None
    if v.is_coarse and v.dtype != x.dtype:
        return None
    if v.shape != x.shape:
        places = placement(g.random, v.shape, x.shape)
        if places is not None:
            v = g.broadcast_to(v, x.shape, places)
        elif prod(v.shape) == prod(x.shape):
            v = g.reshape(v, x.shape)
        elif sorted(v.shape) == sorted(x.shape):
            return None
        else:
            return None
    v = g.cast(v, x.dtype)
    return v if v.dtype == x.dtype else None


def unary(g: Grower, x: Known) -> Known:
    x = g.arithmetic(x)
    if x.dtype in HALVES and g.random.random() < 0.6:
        x = wide(g, x)
    return g.unary(g.random.choice([name for name in UNARY if has_meaning(name, x)]), x)


def binary(g: Grower, x: Known) -> Known:
    x = g.computable(x)
    foreign = INTEGER_ONLY if x.is_float else FLOAT_ONLY
    known = TAKES_BOOL if x.dtype == "bool" else frozenset(BINARY) - foreign
    name = g.random.choice([name for name in BINARY if name in known])
    if has_whole_answer(name, x):
        return whole(g, name, x)
    if x.dtype in HALVES and g.random.random() < 0.6:
        x = wide(g, x)
    y = partner(g, x)
    if isinstance(y, Known) and g.random.random() < 0.5 and name not in ("div", "pow"):
        return g.binary(name, y, x)
    return g.binary(name, x, y)


def compare(g: Grower, x: Known) -> Known:
    """A mask of an exact value, and often a choice by it."""
    if not x.is_exact:
        return masked_partner(g, x)
    y = partner(g, x)
    if isinstance(y, Known) and not y.is_exact:
        y = number(g, x)
    mask = g.compare(g.random.choice(COMPARE), x, y)
    return masked_partner(g, x, mask) if g.random.random() < 0.7 else mask


def masked_partner(g: Grower, x: Known, mask: Known | None = None) -> Known:
    """`x` or another, by a mask of the same shape."""
    masks = [v for v in g.values if v.dtype == "bool" and v.shape == x.shape and v.name != x.name]
    if mask is None:
        if masks:
            mask = g.random.choice(masks)
        else:
            source = g.iota(x.shape, g.random.randrange(x.rank), "i32") if x.rank else g.input((), "i32")
            mask = g.compare(g.random.choice(COMPARE), source, g.random.randint(0, 3))
    if g.random.random() < 0.1:
        return g.one_of(mask, number(g, x), number(g, x), x.dtype)
    y = partner(g, x)
    return g.where(mask, x, y) if isinstance(y, Known) or g.random.random() < 0.5 else g.where(mask, y, x)


def chosen_by_own(g: Grower, x: Known) -> Known:
    """`x` or another, by a mask that is there or by a comparison with a number."""
    masks = [v for v in g.values if v.dtype == "bool" and v.shape == x.shape and v.name != x.name]
    exact = [v for v in g.values if v.shape == x.shape and v.is_exact and v.dtype != "bool"]
    if exact and (not masks or g.random.random() < 0.5):
        other = g.computable(g.random.choice(exact))
        return masked_partner(g, x, g.compare(g.random.choice(COMPARE), other, number(g, other)))
    return masked_partner(g, x, g.random.choice(masks)) if masks else g.copy(x)


def cast(g: Grower, x: Known) -> Known:
    if x.is_coarse:
        return g.copy(x)
    if x.is_exact:
        return g.cast(x, g.random.choice([d for d in DTYPES if d != x.dtype]))
    return g.cast(x, g.random.choice([d for d in FLOATS if d != x.dtype]))


def copy(g: Grower, x: Known) -> Known:
    return g.copy(x)


def broadcast(g: Grower, x: Known) -> Known:
    """New dimensions, and sizes of 1 expanded."""
    shape, dims = list(x.shape), list(range(x.rank))
    shape = [g.random.choice(g.limits.sizes) if n == 1 and g.random.random() < 0.6 else n for n in shape]
    for _ in range(g.random.randint(0, 2)):
        if len(shape) < 5:
            at = g.random.randint(0, len(shape))
            shape.insert(at, g.random.choice(g.limits.sizes[:8]))
            dims = [d + (d >= at) for d in dims]
    if prod(shape) > g.limits.most_elems or tuple(shape) == x.shape:
        return permute(g, x)
    return g.broadcast_to(x, tuple(shape), dims)


def permute(g: Grower, x: Known) -> Known:
    order = list(range(x.rank))
    g.random.shuffle(order)
    return g.permute(x, order) if x.rank > 1 else g.copy(x)


def reshape(g: Grower, x: Known) -> Known:
    return g.reshape(x, reshaped(g.random, x.shape))


def slice_(g: Grower, x: Known) -> Known:
    sized = [d for d, n in enumerate(x.shape) if n > 1]
    if not sized:
        return g.copy(x)
    dim = g.random.choice(sized)
    start = g.random.randrange(x.shape[dim] - 1)
    step = g.random.choice((2, 2, 3, 4, x.shape[dim])) if g.random.random() < 0.4 else 1
    return g.slice(x, dim, start, g.random.randint(start + 1, x.shape[dim]), step)


def flip(g: Grower, x: Known) -> Known:
    if not x.rank:
        return g.copy(x)
    return g.flip(x, sorted(g.random.sample(range(x.rank), g.random.randint(1, min(2, x.rank)))))


def pad(g: Grower, x: Known) -> Known:
    """Places around a value, seldom as many as it has itself, mostly zeros."""
    if not x.rank:
        return g.copy(x)
    low, high = ([0] * x.rank for _ in range(2))
    for dim in g.random.sample(range(x.rank), g.random.randint(1, min(2, x.rank))):
        sizes = (0, 1, 1, 2, 3, 4, 8, x.shape[dim])
        low[dim], high[dim] = g.random.choice(sizes), g.random.choice(sizes)
    return g.pad(x, low, high, 0 if g.random.random() < 0.6 else number(g, x))


def rolled(g: Grower, x: Known) -> Known:
    """Shifted around a dimension: what leaves at one end comes in at the other."""
    sized = [d for d, n in enumerate(x.shape) if n > 1]
    if not sized:
        return g.copy(x)
    dim = g.random.choice(sized)
    at = g.random.randint(1, x.shape[dim] - 1)
    return g.cat([g.slice(x, dim, at, x.shape[dim]), g.slice(x, dim, 0, at)], dim)


def full(g: Grower, x: Known) -> Known:
    """A constant, alone or beside a value of its shape."""
    value = number(g, x)
    constant = g.full(x.shape, value, x.dtype)
    if g.random.random() < 0.2:
        return constant
    return g.binary(g.random.choice(("maximum", "minimum") if x.dtype == "bool" else BINARY[:3]), x, constant)


def cat(g: Grower, x: Known) -> Known:
    """With itself, with a part of itself, or with another of its shape."""
    if not x.rank:
        return g.copy(x)
    dim = g.random.randrange(x.rank)
    parts = [x]
    for _ in range(g.random.randint(1, 2)):
        kind = g.random.random()
        y = partner(g, x) if kind < 0.6 else x
        y = x if not isinstance(y, Known) else y
        if kind > 0.3 and y.shape[dim] > 1:
            y = g.slice(y, dim, 0, g.random.randint(1, y.shape[dim] - 1))
        parts.append(y)
    g.random.shuffle(parts)
    return g.cat(parts, dim)


def iota(g: Grower, x: Known) -> Known:
    """Positions, alone or added to a value of their shape."""
    shape = x.shape if x.rank else random_shape(g.random, g.limits.sizes, g.limits.most_elems, 3) or (3,)
    places = g.iota(shape, g.random.randrange(len(shape)), g.random.choice((*INTEGERS, "f32", "bf16")))
    if x.rank and x.dtype != "bool" and g.random.random() < 0.7:
        other = g.cast(places, x.dtype)
        return g.binary("add", g.small(other, 16.0), x)
    return places


def by_extremes(g: Grower, x: Known) -> Known | None:
    """Elements of a value, or its rows, where those of an input are greatest or least; None if there is no such one.

    Of what was rounded there is more than one right place.
    """
    given = {one["name"] for one in g.inputs}
    told = [v for v in g.values if v.name in given and v.rank and v.dtype not in ("bool", *FP8)]
    fit = [(v, d, dim) for v in told for d, n in enumerate(v.shape) for dim, m in enumerate(x.shape) if n == m]
    if not fit:
        return None
    y, d, dim = g.random.choice(fit)
    if g.random.random() < 0.4:
        y = g.clamp(y, 0 if y.dtype == "u8" else -1, 1)
    name = g.random.choice(("argmax", "argmin"))
    if d == dim and y.shape == x.shape and g.random.random() < 0.7:
        return g.gather(x, g.arg(name, y, d, True), d)
    index = g.arg(name, y, d, False)
    fits = prod(x.shape) // x.shape[dim] * prod(index.shape) <= g.limits.most_elems
    return g.take(x, index, dim) if fits and x.rank + index.rank <= MOST_RANK + 1 else None


def chosen(g: Grower, x: Known) -> Known:
    """Rows of a value, or elements along one of its dimensions, that an input says, or that are worked out of one."""
    if g.random.random() < 0.5 and (found := by_extremes(g, x)) is not None:
        return found
    if not x.rank or len(g.inputs) >= g.limits.most_inputs:
        return slice_(g, x)
    dim, dtype = g.random.randrange(x.rank), g.random.choice(("i32", "i64"))
    rest, top = prod(x.shape) // x.shape[dim], x.shape[dim] - 1
    is_gathered = g.random.random() < 0.4
    if is_gathered:
        sizes = [n if g.random.random() < 0.7 else g.random.randint(1, n) for n in x.shape]
        sizes[dim] = g.random.randint(1, max(1, min(2 * x.shape[dim], g.limits.most_elems // rest)))
    else:
        sizes = list(random_shape(g.random, g.limits.sizes, max(1, g.limits.most_elems // rest), 2))
    index = g.input(tuple(sizes), dtype)
    kind = g.random.random()
    if kind < 0.2:
        index = g.clamp(g.binary("add", index, g.random.randint(-3, 3)), 0, top)
    elif kind < 0.4:
        index = g.binary("sub", index, g.random.randint(0, 9))
    return g.gather(x, index, dim) if is_gathered else g.take(x, index, dim)


def drawn(g: Grower, x: Known) -> Known:
    """Random numbers, or what a mask of them leaves of a value."""
    if len(g.inputs) + 2 > g.limits.most_inputs:
        return g.copy(x)
    numbers = g.rand(x.shape)
    if x.dtype not in ("f32", "f64", *HALVES) or g.random.random() < 0.3:
        return numbers
    return g.where(g.compare("ge", numbers, 0.25), x, 0.0)


def scaled(g: Grower, x: Known) -> Known:
    """A value times a number that the call tells."""
    return g.scaled(x) if x.dtype in ("f32", "f64", *HALVES) else g.copy(x)


def fused(g: Grower, x: Known) -> Known:
    """A product and a sum in one."""
    y = partner(g, x)
    return g.fma(x, y if isinstance(y, Known) else x, 0.5) if x.dtype in ("f32", "f64") else g.copy(x)


def reduce(g: Grower, x: Known) -> Known:
    if not x.rank:
        return g.copy(x)
    name = g.random.choice(REDUCE)
    dims = g.random.sample(range(x.rank), g.random.randint(1, min(2, x.rank)))
    if g.random.random() < 0.1:
        dims = list(range(x.rank))
    if name in ("sum", "mean", "prod") and x.dtype in HALVES and g.random.random() < 0.5:
        x = wide(g, x)
    return g.reduce(name, x, dims, g.random.random() < 0.4)


def pattern(g: Grower, x: Known) -> Known:
    return g.random.choice(PATTERNS)(g, x) if x.rank else unary(g, x)


def mixture(g: Grower, x: Known) -> Known:
    return g.random.choice(MIXTURES)(g, x) if x.rank else unary(g, x)


def truth(g: Grower, x: Known) -> Known:
    return truths(g, x) if x.rank else g.copy(x)


def cumsum(g: Grower, x: Known) -> Known:
    if not x.rank or x.is_coarse:
        return g.copy(x)
    x = wide(g, x) if x.dtype in HALVES and g.random.random() < 0.5 else x
    return g.cumsum(x, g.random.randrange(x.rank))


def place(g: Grower, x: Known) -> Known:
    return extreme_places(g, x) if x.rank else g.copy(x)


MOVES: tuple[tuple[Move, int], ...] = (
    (unary, 10),
    (binary, 10),
    (compare, 2),
    (masked_partner, 2),
    (cast, 2),
    (copy, 1),
    (broadcast, 2),
    (permute, 2),
    (reshape, 2),
    (slice_, 2),
    (flip, 1),
    (pad, 2),
    (rolled, 1),
    (full, 1),
    (cat, 1),
    (iota, 1),
    (chosen, 2),
    (drawn, 1),
    (scaled, 1),
    (fused, 1),
    (reduce, 5),
    (truth, 1),
    (cumsum, 1),
    (place, 2),
    (pattern, 7),
    (mixture, 2),
)
"""Every kind of operator, with how often it is chosen."""

OF_ELEMENTS: tuple[tuple[Move, int], ...] = (
    (unary, 8),
    (binary, 10),
    (chosen_by_own, 4),
    (cast, 3),
    (copy, 1),
    (scaled, 3),
    (fused, 2),
)
"""Moves that lists of tensors allow: an element of the result is made of those at its place."""

OFTEN: tuple[tuple[Move, int], ...] = ((cat, 12), (slice_, 8), (pad, 3), (flip, 3), (reshape, 6), (permute, 6))
"""Moves that make one value another's pieces, for fusions that shall have many of them."""
