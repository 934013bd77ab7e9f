"""How the inputs of a random fusion lie in memory: what a binding says of them."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.search.random_fusions.known import NBYTES

ALIGNS = (1, 2, 4, 8, 16)


def random_layout(random: Random, shape: tuple[int, ...], dtype: str, most_span: int) -> dict[str, Any]:
    """An input's entry in a binding: dense most often; padded rows, other orders, steps, repeats; at any address.

    `most_span`: elements from the first to the last, at most.
    """
    found: dict[str, Any] = {}
    is_sliced = len(shape) > 1 and random.random() < 0.12
    strides = sliced_strides(random, shape) if is_sliced else random_strides(random, shape)
    if strides is not None and sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) < most_span:
        found["strides"] = strides
    if random.random() < (
        0.6 if is_sliced else 0.25
    ):  # a view into a larger tensor begins anywhere that holds an element
        found["align"] = random.choice([a for a in ALIGNS if a >= NBYTES[dtype]])
    return found


def sliced_strides(random: Random, shape: tuple[int, ...]) -> list[int]:
    """Strides of a slice of padded rows, of an odd number of elements each; sometimes of padded planes as well."""
    strides = [1] * len(shape)
    step = shape[-1] + random.choice((0, 0, 1, 2, 5, 12))
    for d in reversed(range(len(shape) - 1)):
        strides[d] = step | 1
        step = strides[d] * (shape[d] + random.choice((0, 0, 0, 1)))
    return strides


def random_strides(random: Random, shape: tuple[int, ...]) -> list[int] | None:
    """Strides in elements that no two elements share, but for stride 0; None is dense."""
    kind = random.choice(("dense",) * 6 + ("rows", "rows", "order", "gaps", "step", "zero"))
    if kind == "dense" or not shape:
        return None
    order = list(range(len(shape)))  # outermost first
    if kind == "order":
        random.shuffle(order)
    strides = [0] * len(shape)
    step = random.choice((2, 3, 5)) if kind == "step" else 1
    repeated = random.randrange(len(shape)) if kind == "zero" else None
    for place, d in enumerate(reversed(order)):
        if d == repeated:
            continue
        strides[d] = step
        step *= shape[d]
        if (kind == "rows" and place == 0) or (kind == "gaps" and random.random() < 0.6):
            step += random.choice((1, 3, 8, 16))
    return strides
