"""Groups of operators with several reductions, or with a reduction that something of another shape goes on from.

One kernel holds few of these: most become several launches.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tests.search.random_fusions.grower import Grower
from tests.search.random_fusions.known import DTYPES, INTEGERS, Known
from tests.search.random_fusions.patterns import Pattern, causal_mask, reduced, wide

_MOST_INNER = 40
"""Elements of the dimension along which a result is broadcast."""


def both_ways(g: Grower, x: Known) -> Known:
    """Less what it comes to along one dimension and along another, in either order or one from the other."""
    x = wide(g, x)
    if x.rank < 2 or x.is_coarse:
        return g.unary("abs", x)
    first, second = g.random.sample(range(x.rank), 2)
    names = [g.random.choice(("amax", "amin", "mean")) for _ in range(2)]
    along = reduced(g, names[0], x, [first])
    other = along if g.random.random() < 0.3 else x
    across = reduced(g, names[1], other, [second])
    return g.binary("add", g.unary("abs", g.binary("sub", x, along)), across)


def two_sums(g: Grower, x: Known) -> Known:
    """Two reductions over different dimensions, brought together where both are small; else the last of them."""
    x = wide(g, x)
    if x.rank < 2 or x.is_coarse:
        return g.unary("neg", x)
    first, second = g.random.sample(range(x.rank), 2)
    one = g.reduce(g.random.choice(("sum", "mean", "amax")), x, [first], True)
    two = g.reduce(g.random.choice(("sum", "mean", "amin")), x, [second], True)
    shape = tuple(max(a, b) for a, b in zip(one.shape, two.shape, strict=True))
    if prod(shape) > g.limits.most_elems:
        return two
    one, two = (g.broadcast_to(v, shape, list(range(x.rank))) for v in (one, two))
    return g.binary("maximum", g.cast(one, two.dtype), two)


def spread(g: Grower, x: Known) -> Known:
    """A reduction over outer dimensions, broadcast along a new innermost one, with an input of that shape."""
    x = wide(g, x)
    if x.is_coarse:
        return g.unary("relu", x)
    dims = list(range(g.random.randint(1, x.rank)))
    total = g.reduce(g.random.choice(("sum", "amax", "mean")), x, dims, False)
    room = g.limits.most_elems // max(1, prod(total.shape))
    inner = g.random.randint(1, max(1, min(room, _MOST_INNER)))
    shape = (*total.shape, inner)
    wide_total = g.broadcast_to(total, shape, list(range(total.rank)))
    if len(g.inputs) == g.limits.most_inputs:
        return wide_total
    return g.binary("add", wide_total, g.cast(g.input(shape, g.random.choice(("f32", "f16"))), wide_total.dtype))


def counted(g: Grower, x: Known) -> Known:
    """How often a condition holds along some dimensions, or whether it does anywhere or everywhere."""
    mask = g.compare(g.random.choice(("lt", "ge", "ne")), x, 1) if x.is_exact else causal_mask(g, x)
    dims = sorted(g.random.sample(range(x.rank), g.random.randint(1, x.rank)))
    name = g.random.choice(("sum", "amax", "amin"))
    if name == "sum":
        mask = g.cast(mask, g.random.choice(("i32", "i64", "i8")))
    return g.reduce(name, mask, dims, g.random.random() < 0.4)


def integers(g: Grower, x: Known) -> Known:
    """An integer input of this shape, reduced along some dimensions: sums, largest and least elements are exact."""
    if len(g.inputs) < g.limits.most_inputs:
        x = g.input(x.shape, g.random.choice((*INTEGERS, "bool")))
    elif not x.is_exact:
        return g.unary("relu", x)
    dims = sorted(g.random.sample(range(x.rank), g.random.randint(1, x.rank)))
    return g.reduce(g.random.choice(("sum", "sum", "amax", "amin")), x, dims, g.random.random() < 0.4)


def to_a_number(g: Grower, x: Known) -> Known:
    """All of it reduced to a tensor without dimensions, which often everything is then scaled by."""
    x = wide(g, x)
    name = g.random.choice(("sum", "mean", "amax"))
    total = g.reduce(name, x, list(range(x.rank)), False)
    if g.random.random() < 0.5 or x.is_coarse:
        return total
    scale = g.unary("sigmoid", total)
    return g.fma(x, g.broadcast_to(scale, x.shape, []), 0.5)


def in_double(g: Grower, x: Known) -> Known:
    """In f64, reduced and brought back to its shape."""
    if x.dtype not in DTYPES or x.is_coarse or not (x.is_float or x.is_exact):
        return g.copy(x)
    x = g.small(g.cast(x, "f64"), 16.0)
    dims = sorted(g.random.sample(range(x.rank), g.random.randint(1, x.rank)))
    mean = reduced(g, g.random.choice(("mean", "sum", "amax")), x, dims)
    return g.binary("add", g.unary("abs", x), replace(mean, dtype="f64"))


def truths(g: Grower, x: Known) -> Known:
    """Whether any elements, or all, are other than 0, or how many of a mask are."""
    if not x.is_exact:
        x = causal_mask(g, x)
    dims = sorted(g.random.sample(range(x.rank), g.random.randint(1, x.rank)))
    keepdim = g.random.random() < 0.4
    if not x.is_float and g.random.random() < 0.4:
        return g.counted(x, dims, keepdim)
    if x.dtype != "bool" and g.random.random() < 0.5:  # most numbers are not 0
        kept = g.binary("maximum", x, 0)
        x = kept if kept.is_exact else x
    return g.truth(g.random.choice(("any", "all")), x, dims, keepdim)


def extreme_places(g: Grower, x: Known) -> Known:
    """Where the first extreme element lies, along a dimension or among all; of small integers many are equal."""
    if x.is_coarse or x.dtype == "bool":
        x = g.iota(x.shape, g.random.randrange(x.rank), "i32")
    if x.is_exact and g.random.random() < 0.4:
        x = g.clamp(x, -1, 1)
    dim = None if g.random.random() < 0.2 else g.random.randrange(x.rank)
    return g.arg(g.random.choice(("argmax", "argmin")), x, dim, g.random.random() < 0.4)


MIXTURES: tuple[Pattern, ...] = (
    both_ways,
    both_ways,
    two_sums,
    spread,
    spread,
    counted,
    integers,
    integers,
    to_a_number,
    in_double,
    in_double,
)
