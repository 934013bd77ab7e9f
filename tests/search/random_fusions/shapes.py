"""Random shapes, and the views that bring one shape to another."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from random import Random

Shape = tuple[int, ...]


def random_shape(random: Random, sizes: Sequence[int], most_elems: int, most_rank: int = 6) -> Shape:
    """Rank 0 rarely, 1 to 6 otherwise, middle ranks most; dimensions drawn from `sizes` while they fit."""
    rank = random.choice((1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 6)) if random.random() < 0.98 else 0
    shape: list[int] = []
    for _ in range(min(rank, most_rank)):
        room = most_elems // prod(shape)
        fitting = [n for n in sizes if n <= room]
        shape.append(random.choice(fitting) if fitting else 1)
    random.shuffle(shape)
    return tuple(shape)


def placement(random: Random, inner: Shape, outer: Shape) -> tuple[int, ...] | None:
    """Ascending dimensions of `outer` that the dimensions of `inner` may become in a broadcast; None if there are none.

    A dimension of size 1 may become any, others one of their size.
    """
    found: list[int] = []

    def place(i: int, least: int) -> bool:
        if i == len(inner):
            return True
        options = [d for d in range(least, len(outer) - len(inner) + i + 1) if inner[i] in (1, outer[d])]
        random.shuffle(options)
        for d in options:
            found.append(d)
            if place(i + 1, d + 1):
                return True
            found.pop()
        return False

    return tuple(found) if place(0, 0) else None


def reshaped(random: Random, shape: Shape) -> Shape:
    """Another shape of the same elements: dimensions merged, split, added or taken away, or all of them anew."""
    kind = random.choice(("merge", "split", "flat", "ones", "anew"))
    if kind == "merge" and len(shape) > 1:
        d = random.randrange(len(shape) - 1)
        return (*shape[:d], shape[d] * shape[d + 1], *shape[d + 2 :])
    if kind == "split" and 0 < len(shape) < 6:
        d = random.randrange(len(shape))
        factor = random.choice([n for n in range(1, shape[d] + 1) if shape[d] % n == 0])
        pair = [factor, shape[d] // factor]
        random.shuffle(pair)
        return (*shape[:d], *pair, *shape[d + 1 :])
    if kind == "ones":
        kept = [n for n in shape if n > 1]
        while len(kept) < 6 and random.random() < 0.4:
            kept.insert(random.randint(0, len(kept)), 1)
        return tuple(kept)
    if kind == "anew":
        return factors(random, prod(shape), random.randint(1, 4))
    return (prod(shape),)


def factors(random: Random, total: int, count: int) -> Shape:
    """`count` numbers of this product."""
    found: list[int] = []
    for _ in range(count - 1):
        options = [n for n in range(1, min(total, 4096) + 1) if total % n == 0]
        found.append(random.choice(options))
        total //= found[-1]
    found.append(total)
    random.shuffle(found)
    return tuple(found)
