"""What threads know of other clusters than their own: nothing in most kernels, else a few facts shared by many lanes.

A world maps clusters (by the linear index of their first block) to vector clocks. Worlds are numbered, 0 knows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from compiler.emulate.order.events import Clocks, Ints, Layer, Token

World = dict[int, Clocks]


class Worlds:
    """The worlds of a batch."""

    def __init__(self) -> None:
        self._worlds: list[World] = [{}]
        self._joins: dict[frozenset[int], int] = {}

    def __len__(self) -> int:
        return len(self._worlds)

    def __getitem__(self, number: int) -> World:
        return self._worlds[number]

    def add(self, world: World) -> int:
        """The number of a new world."""
        if not world:
            return 0
        self._worlds.append(world)
        return len(self._worlds) - 1

    def join(self, numbers: Iterable[int]) -> int:
        """The world that knows what each of these knows."""
        some = frozenset(numbers) - {0}
        if len(some) < 2:
            return next(iter(some), 0)
        known = self._joins.get(some)
        if known is None:
            world: World = {}
            for number in sorted(some):
                merge(world, self._worlds[number])
            known = self._joins[some] = self.add(world)
        return known

    def extended(self, number: int, more: Mapping[int, Clocks]) -> int:
        """The world that knows also `more`; the same number if that is nothing new."""
        world = dict(self._worlds[number])
        return self.add(world) if merge(world, more) else number

    def keep(self, used: Ints) -> Ints:
        """Forgets all worlds but these and 0; the new number of each old one."""
        numbers = np.zeros(len(self._worlds), np.int32)
        kept = [0, *(n for n in np.unique(used).tolist() if n)]
        numbers[kept] = np.arange(len(kept))
        self._worlds = [self._worlds[n] for n in kept]
        self._joins.clear()
        return numbers


def merge(world: World, more: Mapping[int, Clocks]) -> bool:
    """Adds what `more` knows to a world; True if anything is new."""
    is_new = False
    for cluster, clocks in more.items():
        known = world.get(cluster)
        if known is clocks:
            continue
        both = clocks if known is None else larger(known, clocks)
        if known is None or not np.array_equal(both, known):
            world[cluster] = both
            is_new = True
    return is_new


def larger(one: Clocks, other: Clocks) -> Clocks:
    """The larger of two vector clocks in each column. Vectors made before a column was added know nothing of it."""
    if len(one) < len(other):
        one, other = other, one
    both = one.copy()
    np.maximum(both[: len(other)], other, out=both[: len(other)])
    return both


def joined(tokens: list[Token]) -> Token:
    """A token for all of these."""
    if len(tokens) == 1:
        return tokens[0]
    found: dict[Layer, dict[int, dict[int, Clocks]]] = {}
    for token in tokens:
        for layer, parts in token.layers.items():
            of_layer = found.setdefault(layer, {})
            for cluster, clocks in parts.items():
                of_layer.setdefault(cluster, {})[id(clocks)] = clocks
    return Token(
        {
            layer: {cluster: _largest(list(some.values())) for cluster, some in parts.items()}
            for layer, parts in found.items()
        }
    )


def _largest(some: list[Clocks]) -> Clocks:
    """The largest of vector clocks in each column."""
    if len(some) == 1:
        return some[0]
    widths = {len(one) for one in some}
    if len(widths) == 1:
        both: Clocks = np.maximum.reduce(some)
        return both
    both = np.zeros(max(widths), some[0].dtype)
    for one in some:
        np.maximum(both[: len(one)], one, out=both[: len(one)])
    return both
