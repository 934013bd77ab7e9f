"""Groups of operators that real fusions are made of, on any value of any shape: each returns its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from tests.search.random_fusions.grower import Grower
from tests.search.random_fusions.known import HALVES, INTEGERS, Known

Pattern = Callable[[Grower, Known], Known]


def wide(g: Grower, x: Known) -> Known:
    """`x` as a float that arithmetic does not make coarse."""
    if x.dtype in HALVES and not x.is_coarse:
        return g.cast(x, "f32")
    return g.computable(x) if x.is_float else g.cast(x, "f32")


def dims_of(g: Grower, x: Known) -> list[int]:
    """Dimensions to reduce: the last, the first, some, all."""
    rank = x.rank
    kind = g.random.choice(("last", "last", "last", "first", "some", "all"))
    if kind == "last" or rank == 1:
        return [rank - 1]
    if kind == "first":
        return [0]
    if kind == "all":
        return list(range(rank))
    return sorted(g.random.sample(range(rank), g.random.randint(1, rank)))


def reduced(g: Grower, name: str, x: Known, dims: Sequence[int]) -> Known:
    """The reduction of `x`, seen in the shape of `x` again: by keepdim, or by a broadcast of what is left."""
    keeps = g.random.random() < 0.6
    found = g.reduce(name, x, dims, keeps)
    places = range(x.rank) if keeps else [d for d in range(x.rank) if d not in dims]
    return g.broadcast_to(found, x.shape, list(places))


def softmax(g: Grower, x: Known) -> Known:
    x = g.small(wide(g, x), 16.0)
    if x.is_coarse:
        return g.unary("abs", x)
    dims = dims_of(g, x)
    if g.random.random() < 0.3:
        mask = causal_mask(g, x)
        x = g.where(mask, x, -16.0) if g.random.random() < 0.5 else g.masked_out(mask, x)
    shifted = g.binary("sub", x, reduced(g, "amax", x, dims))
    e = g.unary("exp", _at_most(shifted, 0.0))
    total = reduced(g, "sum", e, dims)
    # The largest element's exponential is 1.
    total = _at_least(g, total, 1.0)
    if g.random.random() < 0.4:
        return _within(g, g.binary("mul", e, g.unary("reciprocal", total)), 0.0, 1.0)
    return _within(g, g.binary("div", e, total), 0.0, 1.0)


def logsumexp(g: Grower, x: Known) -> Known:
    x = g.small(wide(g, x), 16.0)
    if x.is_coarse:
        return g.unary("neg", x)
    dims = dims_of(g, x)
    top = g.reduce("amax", x, dims, True)
    e = g.unary("exp", _at_most(g.binary("sub", x, g.broadcast_to(top, x.shape, list(range(x.rank)))), 0.0))
    total = _at_least(g, g.reduce("sum", e, dims, True), 1.0)
    return g.binary("add", g.unary("log", total), top)


def layernorm(g: Grower, x: Known) -> Known:
    x = g.small(wide(g, x), 16.0)
    dims = _varying(dims_of(g, x), x)
    if x.is_coarse or not dims:
        return rmsnorm(g, x)
    centred = g.binary("sub", x, reduced(g, "mean", x, dims))
    variance = g.reduce("mean", g.unary("square", g.small(centred, 16.0)), dims, True)
    scale = g.unary("rsqrt", g.binary("add", variance, 0.125))
    normal = g.binary("mul", centred, g.broadcast_to(scale, x.shape, list(range(x.rank))))
    return affine(g, normal)


def rmsnorm(g: Grower, x: Known) -> Known:
    x = g.small(wide(g, x), 16.0)
    if x.is_coarse:
        return g.unary("abs", x)
    dims = dims_of(g, x)
    mean = g.reduce("mean", g.unary("square", x), dims, True)
    scale = g.unary("rsqrt", g.binary("add", mean, 0.125))
    return affine(g, g.binary("mul", x, g.broadcast_to(scale, x.shape, list(range(x.rank)))))


def affine(g: Grower, x: Known) -> Known:
    """Times a weight and plus a bias along the last dimension."""
    if g.random.random() < 0.5 or len(g.inputs) + 2 > g.limits.most_inputs:
        return x
    shape = x.shape[-1:]
    weight, bias = (wide(g, g.input(shape, g.random.choice(("f32", "bf16", "f16")))) for _ in range(2))
    last = [x.rank - 1]
    weight, bias = (g.cast(v, x.dtype) for v in (weight, bias))
    return g.binary(
        "add", g.binary("mul", x, g.broadcast_to(weight, x.shape, last)), g.broadcast_to(bias, x.shape, last)
    )


def causal_mask(g: Grower, x: Known) -> Known:
    """Whether one position is at most another, or a number: a triangle, or a band, or the first few columns."""
    dtype = g.random.choice(("i32", "i64", "i32", "f32"))
    last = g.random.randrange(x.rank)
    columns = g.iota(x.shape, last, dtype)
    if x.rank > 1 and g.random.random() < 0.6:
        other = g.random.choice([d for d in range(x.rank) if d != last])
        rows = g.cast(g.iota(x.shape, other, dtype), columns.dtype)
        return g.compare(g.random.choice(("le", "lt", "ge")), columns, rows)
    return g.compare(g.random.choice(("lt", "le", "gt", "ne")), columns, g.random.randrange(x.shape[last] + 1))


def masked(g: Grower, x: Known) -> Known:
    return g.where(causal_mask(g, x), x, g.random.choice((0, 0, 1)))


def one_hot(g: Grower, x: Known) -> Known:
    """The elements of `x` whose position along a dimension is that of an integer input, summed: chosen by index."""
    dim = g.random.randrange(x.rank)
    kept = [d for d in range(x.rank) if d != dim]
    # Indices far outside select nothing; the small range of an i8 makes hits likely.
    index = g.input(tuple(x.shape[d] for d in kept), g.random.choice(("i8", "i32", "i64")))
    if index.dtype != "i8":
        index = g.clamp(index, 0, x.shape[dim] - 1)
    positions = g.iota(x.shape, dim, index.dtype)
    index = g.cast(index, positions.dtype)
    hit = g.compare("eq", positions, g.broadcast_to(index, x.shape, kept))
    if x.dtype == "bool":
        return g.where(hit, x, 0)
    return g.reduce("sum", g.where(hit, x, 0), [dim], g.random.random() < 0.3)


def scaled_activation(g: Grower, x: Known) -> Known:
    """Bias, then an activation."""
    x = wide(g, x)
    if len(g.inputs) < g.limits.most_inputs and not x.is_coarse:
        dim = g.random.randrange(x.rank)
        bias = g.cast(g.input((x.shape[dim],), g.random.choice(("f32", "bf16"))), x.dtype)
        x = g.binary("add", x, g.broadcast_to(bias, x.shape, [dim]))
    return g.unary(g.random.choice(("gelu", "silu", "sigmoid", "tanh", "relu")), x)


def centred(g: Grower, x: Known) -> Known:
    """Less its least element, or its mean."""
    x = wide(g, x)
    dims = _varying(dims_of(g, x), x)
    if not dims:
        return g.unary("tanh", x)
    return g.binary("sub", x, reduced(g, g.random.choice(("amin", "mean", "amax")), x, dims))


def swiglu(g: Grower, x: Known) -> Known:
    """The first half of a dimension, gated by the second."""
    x = wide(g, x)
    even = [d for d, n in enumerate(x.shape) if n % 2 == 0]
    if not even:
        return g.unary("silu", x)
    dim = g.random.choice(even)
    half = x.shape[dim] // 2
    left, right = g.slice(x, dim, 0, half), g.slice(x, dim, half, 2 * half)
    return g.binary("mul", g.unary("silu", left), right)


def rotated(g: Grower, x: Known) -> Known:
    """Halves of a dimension exchanged, the second negated: what rotary embeddings do."""
    x = g.computable(x)
    if x.dtype not in (*INTEGERS, "bool"):
        sized = [d for d, n in enumerate(x.shape) if n > 1]
        if sized:
            dim = g.random.choice(sized)
            cut = g.random.randint(1, x.shape[dim] - 1)
            left, right = g.slice(x, dim, 0, cut), g.slice(x, dim, cut, x.shape[dim])
            return g.cat((g.unary("neg", right), left), dim)
    return g.copy(x)


PATTERNS: tuple[Pattern, ...] = (
    softmax,
    softmax,
    logsumexp,
    layernorm,
    layernorm,
    rmsnorm,
    masked,
    one_hot,
    scaled_activation,
    scaled_activation,
    centred,
    swiglu,
    rotated,
)


def _varying(dims: list[int], x: Known) -> list[int]:
    """The dimensions, if the elements along each differ and there are several: else all would be their own mean."""
    real = [d for d in dims if x.shape[d] > 1]
    return dims if prod(x.shape[d] for d in dims) > 2 and real and all(x.varies[d] for d in real) else []


def _at_most(x: Known, high: float) -> Known:
    """`x`, of which more is known than its bounds say."""
    return replace(x, high=min(x.high, high), low=max(x.low, -32.0))


def _at_least(g: Grower, x: Known, low: float) -> Known:
    return replace(x, low=max(x.low, low), high=max(x.high, low))


def _within(g: Grower, x: Known, low: float, high: float) -> Known:
    """The last value, of which more is known."""
    known = replace(x, low=low, high=high)
    if g.values[-1].name == x.name:
        g.values[-1] = known
    return known
