"""A space in blocks, contiguous ranges of flat indices: where in each the constraints hold, by masks that broadcast.

A constraint's mask is evaluated on the axes it names. Those over few values come first; once few points are left, the
other constraints are asked of these alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from search.space.constraints import Constraint, Mask
from search.space.knobs import Knob

SPARSE = 32
"""Fewer than one legal point of so many: numbers of 32 bits for each take less than a bit for every point."""

_FEW = 1 << 12
"""Points from which on it pays to ask constraints of single points in place of all."""


@dataclass(frozen=True, slots=True)
class Block:
    """The points `start <= flat index < start + size`: a slice of each axis."""

    start: int
    slices: tuple[slice, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(s.stop - s.start for s in self.slices)


@dataclass(frozen=True, slots=True)
class Corners:
    """The first and the last position of blocks on each axis: a row for each block."""

    first: NDArray[np.int32]
    last: NDArray[np.int32]

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Corners:
        first = [[s.start for s in block.slices] for block in blocks]
        last = [[s.stop - 1 for s in block.slices] for block in blocks]
        return cls(np.array(first, dtype=np.int32), np.array(last, dtype=np.int32))

    def least_distances(self, origin: tuple[int, ...]) -> NDArray[np.int64]:
        """Least distance that any point of each block has from `origin`."""
        at = np.array(origin, dtype=np.int32)
        away = np.maximum(self.first - at, 0) + np.maximum(at - self.last, 0)
        return np.asarray(away.sum(axis=1), dtype=np.int64)


def distances(block: Block, offsets: NDArray[np.int64], origin: tuple[int, ...]) -> NDArray[np.int16]:
    """Distances from `origin` of points of a block, counted from its start: of few of them, of each by itself. Knobs
    have far fewer than 2^15 values in all."""
    if len(offsets) * SPARSE >= prod(block.shape):
        return _all_distances(block, origin)[offsets]
    total, left = np.zeros(len(offsets), dtype=np.int16), offsets
    for s, at in zip(reversed(block.slices), reversed(origin), strict=True):
        left, position = np.divmod(left, s.stop - s.start) if s.stop - s.start > 1 else (left, np.int64(0))
        total += np.abs(position + (s.start - at)).astype(np.int16)
    return total


def _all_distances(block: Block, origin: tuple[int, ...]) -> NDArray[np.int16]:
    total = np.zeros(1, dtype=np.int16)
    for s, at in zip(block.slices, origin, strict=True):
        steps = np.abs(np.arange(s.start, s.stop, dtype=np.int16) - at)
        total = (total[:, None] + steps[None, :]).reshape(-1)
    return total


def blocks_of(shape: Sequence[int], most: int) -> tuple[Block, ...]:
    """A space of this shape cut along its leading axes into contiguous ranges of at most `most` points (if one axis
    fits)."""
    cut = 0
    while cut < len(shape) and prod(shape[cut + 1 :]) > most:
        cut += 1
    trailing = tuple(slice(0, size) for size in shape[cut + 1 :])
    step = max(1, most // prod(shape[cut + 1 :]))
    axis = range(0, shape[cut], step) if shape else (0,)
    blocks: list[Block] = []
    start = 0
    for prefix in itertools.product(*(range(size) for size in shape[:cut])):
        for low in axis:
            here = (slice(low, min(low + step, shape[cut])),) if shape else ()
            block = Block(start, (*(slice(i, i + 1) for i in prefix), *here, *trailing))
            blocks.append(block)
            start += prod(block.shape)
    return tuple(blocks)


@dataclass(frozen=True)
class BlockMasks:
    """Where the constraints of a space hold. `block_points`: masks of whole constraints are kept up to this size."""

    knobs: tuple[Knob, ...]
    constraints: tuple[Constraint, ...]
    block_points: int
    _masks: dict[int, Mask | None] = field(default_factory=dict)
    _orders: dict[tuple[int, ...], list[int]] = field(default_factory=dict)

    def met(self, block: Block) -> NDArray[np.int64]:
        """Where in a block all constraints hold, counted from its start. Those over few values come first: their masks
        stay small as long as no other axis comes in, and leave few points, of which alone the others are asked."""
        legal: Mask = np.ones((1,) * len(block.shape), dtype=np.bool_)
        order = self._order(block.shape)
        for place, number in enumerate(order):
            legal = legal & self._mask(number, block)
            count = int(np.count_nonzero(legal))
            if not count:
                return np.empty(0, dtype=np.int64)
            if legal.size >= _FEW and count * SPARSE < legal.size:
                return self._left(block, legal, order[place + 1 :])
        return np.flatnonzero(np.broadcast_to(legal, block.shape))

    def _order(self, shape: tuple[int, ...]) -> list[int]:
        """The constraints by the number of values that each reads in a block of this shape."""

        def size(number: int) -> int:
            axes = self.constraints[number].axes
            return prod(n for knob, n in zip(self.knobs, shape, strict=True) if knob.name in axes)

        if shape not in self._orders:
            self._orders[shape] = sorted(range(len(self.constraints)), key=size)
        return self._orders[shape]

    def _left(self, block: Block, legal: Mask, numbers: list[int]) -> NDArray[np.int64]:
        """Of the points of a block in `legal` those that these constraints allow too."""
        positions = dict(
            zip((k.name for k in self.knobs), np.nonzero(np.broadcast_to(legal, block.shape)), strict=True)
        )
        values = {k.name: k.array[s] for k, s in zip(self.knobs, block.slices, strict=True)}
        for number in numbers:
            c = self.constraints[number]
            holds = c.holds({name: values[name][positions[name]] for name in c.axes})
            at = np.flatnonzero(np.broadcast_to(holds, next(iter(positions.values())).shape))
            positions = {name: p[at] for name, p in positions.items()}
        return np.ravel_multi_index(tuple(positions.values()), block.shape).astype(np.int64)

    def _mask(self, number: int, block: Block) -> Mask:
        """The points of a block that a constraint allows: part of what it allows of all, where that is not much."""
        constraint = self.constraints[number]
        if number not in self._masks:
            small = prod(len(knob.values) for knob in self.knobs if knob.name in constraint.axes) <= self.block_points
            every = tuple(slice(0, len(knob.values)) for knob in self.knobs)
            self._masks[number] = constraint.mask(self.knobs, every) if small else None
        whole = self._masks[number]
        if whole is None:
            return constraint.mask(self.knobs, block.slices)
        own = (s if n > 1 else slice(None) for s, n in zip(block.slices, whole.shape, strict=True))
        return whole[tuple(own)]
