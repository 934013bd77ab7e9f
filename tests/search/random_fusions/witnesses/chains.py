"""Chains of elementwise operators whose roundings show: products that meet sums, functions, casts, values less what
they come to."""

from __future__ import annotations

from collections.abc import Callable

from tests.search.random_fusions.witnesses.writer import Writer

Step = Callable[[Writer, str], str]

FUNCTIONS = ("tanh", "sigmoid", "silu", "gelu", "exp", "square", "exp2", "expm1", "erf", "gelu_erf", "sin", "cos")
OF_POSITIVE = ("sqrt", "rsqrt", "log", "reciprocal", "log2", "log1p")

NUMBERS = (0.7, 1.3, -0.9, 0.3, 1.7, 3.1)
"""None of few bits: every product and sum of them rounds."""


def grown(w: Writer, x: str) -> str:
    """`x`, or what it is as a float, after some steps."""
    if w.dtypes[x] not in ("f32", "f16", "bf16"):
        x = w.cast(x, "f32")
    for _ in range(w.random.randint(1, 4)):
        x = w.random.choice(STEPS)(w, x)
    return x


def operand(w: Writer, x: str) -> str | float:
    """A number, or an input brought to the shape of `x` along some of its dimensions."""
    shape = w.shapes[x]
    if w.random.random() < 0.3:
        return w.random.choice(NUMBERS)
    dims = [d for d in range(len(shape)) if w.random.random() < 0.5]
    dtype = w.random.choice(("f32", "f32", w.dtypes[x]))
    found = w.cast(w.input(tuple(shape[d] for d in dims), dtype), w.dtypes[x])
    return found if len(dims) == len(shape) else w.broadcast(found, shape, dims)


def scaled(w: Writer, x: str) -> str:
    return w.apply("mul", x, operand(w, x))


def shifted(w: Writer, x: str) -> str:
    y = operand(w, x)
    return w.apply(w.random.choice(("add", "sub")), *((x, y) if w.random.random() < 0.7 else (y, x)))


def scaled_and_shifted(w: Writer, x: str) -> str:
    """What a compiler may make one instruction of."""
    return shifted(w, scaled(w, x))


def difference_of_products(w: Writer, x: str) -> str:
    """Either product could go into the sum unrounded, and then the other could not."""
    return w.apply(w.random.choice(("add", "sub")), scaled(w, x), scaled(w, x))


def function(w: Writer, x: str) -> str:
    kind = w.random.choice((*FUNCTIONS, *OF_POSITIVE))
    if kind == "exp":
        x = w.apply("minimum", x, 4.0)
    elif kind in OF_POSITIVE:
        x = w.apply("add", w.apply("abs", x), 0.5)
    return w.apply(kind, x)


def rounded(w: Writer, x: str) -> str:
    """To another width, and half the time back."""
    before = w.dtypes[x]
    narrow = w.cast(x, w.random.choice([t for t in ("f32", "f16", "bf16") if t != before]))
    return w.cast(narrow, before) if w.random.random() < 0.5 else narrow


def centred(w: Writer, x: str) -> str:
    """Read by a reduction, and again after it."""
    dims = some_dims(w, x)
    return w.apply("sub", x, w.folded(w.random.choice(("mean", "amax", "amin", "sum")), x, dims))


def divided(w: Writer, x: str) -> str:
    """By what it comes to."""
    top = w.folded("amax", w.apply("abs", x), some_dims(w, x))
    return w.apply("div", x, w.apply("add", top, 0.5))


STEPS: tuple[Step, ...] = (
    scaled,
    shifted,
    scaled_and_shifted,
    scaled_and_shifted,
    scaled_and_shifted,
    difference_of_products,
    function,
    function,
    rounded,
    centred,
    divided,
)


def some_dims(w: Writer, x: str) -> list[int]:
    """Dimensions to reduce that have several elements together: the last, mostly."""
    shape = w.shapes[x]
    sized = [d for d, n in enumerate(shape) if n > 1]
    if w.random.random() < 0.6:
        return [sized[-1]]
    return sorted(w.random.sample(sized, w.random.randint(1, len(sized))))
