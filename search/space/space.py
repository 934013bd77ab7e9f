"""A scheduling space: the product of its knobs, less the points that its constraints refuse.

Nothing here ever holds one Python object per point. A constraint's mask is evaluated on the axes it names; masks meet
by broadcasting, block by block, where a block is a contiguous range of flat indices (row-major, last knob fastest).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.errors import Violation
from search.space.blocks import SPARSE, Block, BlockMasks, Corners, blocks_of, distances
from search.space.constraints import Constraint, Mask
from search.space.counted import MOST_COUNTED
from search.space.joined import MOST_JOINED, joined, looked_up
from search.space.knobs import Knob, KnobValue, Point
from search.space.products import nearest_in_parts, sample_parts

BLOCK_POINTS = 1 << 18
"""Points examined at once: a few hundred KiB of masks, which stay in a core's L2."""

KEPT_POINTS = 1 << 28
"""Up to this many points, what is legal is kept after its first use: a bit a point at most, 32 MiB in all. Of larger
spaces, the blocks with few legal points are."""

_RARE, _MANY = 256, 1 << 26
"""Fewer than one of so many points, on the way too: joining the knobs takes less time and memory than masks. Of more
points than the second, masks take seconds, whatever joining takes."""

DRAWN_POINTS = 1 << 22
"""Beyond this many points, a sample is drawn and tested instead of counted out."""

_DRAW_POINTS = 1 << 14
_DRAWS = 64

_MOST_POSITIONS = 1 << 21
"""Of all knobs of all legal points: so many are looked through in less time than blocks of them one after the other."""

_LOOKED_UP = 1 << 12
"""Combinations of values that a constraint is worked out for once: predicates may take 30 us for each."""


Rows = NDArray[np.int16]
"""Points, a row each, as the positions of the values of their knobs, in the order of the knobs."""


@dataclass(frozen=True)
class Space:
    """The points of `knobs` that all of `constraints` allow. A point is a mapping of knob name to value.

    What is counted, drawn and searched for keeps to all constraints; a point at hand is legal if it breaks none but
    advice (`Constraint.refuses`).
    """

    name: str
    knobs: tuple[Knob, ...]
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        names = [knob.name for knob in self.knobs]
        if len(set(names)) != len(names):
            raise ValueError(f"space {self.name}: {names} names a knob twice. Rename one of them.")
        for constraint in self.constraints:
            for axis in constraint.axes:
                if axis not in names:
                    raise ValueError(f"space {self.name}: constraint {constraint.rule} reads {axis!r}, not a knob.")

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each knob."""
        return tuple(len(knob.values) for knob in self.knobs)

    @property
    def points(self) -> int:
        """Number of points, legal or not."""
        return prod(self.shape)

    # Counting -------------------------------------------------------------------------------------------------------

    @cached_property
    def legal(self) -> int:
        """Exact number of legal points.

        Knobs that no constraint ties together are counted apart: the counts of the groups multiply.
        """
        if not self._is_large_product and self._joined is not None:
            return len(self._joined)
        return prod(part._legal_by_blocks() for part in self._parts)

    @property
    def reasons(self) -> dict[str, str]:
        """Why each rule refuses points, in a sentence; of several constraints under one name, the first one's."""
        return {constraint.rule: constraint.reason for constraint in reversed(self.constraints)}

    @cached_property
    def refused(self) -> dict[str, int]:
        """For each rule, how many points it refuses. Rules overlap: the sum may exceed what is not legal."""
        rules = dict.fromkeys(constraint.rule for constraint in self.constraints)
        return {rule: self.refused_by([c for c in self.constraints if c.rule == rule]) for rule in rules}

    def refused_by(self, some: Sequence[Constraint]) -> int:
        """How many points some of the constraints refuse."""
        read = {axis for c in some for axis in c.axes}
        part = Space(self.name, tuple(k for k in self.knobs if k.name in read), tuple(some))
        return (part.points - part.legal) * (self.points // part.points)

    def having(self, settings: Point) -> Space:
        """The points that have these values of knobs."""
        knobs = (Knob(k.name, (settings[k.name],)) if k.name in settings else k for k in self.knobs)
        return replace(self, knobs=tuple(knobs))

    def legal_by(self, name: str) -> dict[KnobValue, int]:
        """For each value of one knob, exactly how many legal points have it."""
        values = next(knob.values for knob in self.knobs if knob.name == name)
        return {value: self.having({name: value}).legal for value in values}

    @property
    def reachable(self) -> Space:
        """The space; without advice, where that leaves nothing to draw."""
        if all(c.refuses for c in self.constraints) or self.has_legal:
            return self
        return replace(self, constraints=tuple(c for c in self.constraints if c.refuses))

    @cached_property
    def _parts(self) -> list[Space]:
        return self._independent_parts()

    @property
    def _is_large_product(self) -> bool:
        """Whether points are found part by part: the masks of the whole could not be kept."""
        return self.points > KEPT_POINTS and len(self._parts) > 1

    def _independent_parts(self) -> list[Space]:
        groups: list[set[str]] = [{knob.name} for knob in self.knobs]
        for constraint in self.constraints:
            tied = [group for group in groups if not group.isdisjoint(constraint.axes)]
            groups = [group for group in groups if group not in tied] + [set().union(*tied)]
        return [
            Space(
                self.name,
                tuple(k for k in self.knobs if k.name in group),
                tuple(c for c in self.constraints if group.issuperset(c.axes) and (c.axes or not group)),
            )
            for group in groups
        ]

    @cached_property
    def _joined(self) -> NDArray[np.int64] | None:
        """All legal points, ascending, where the knobs of a large space join to few points on the way."""
        if not BLOCK_POINTS < self.points <= MOST_COUNTED:
            return None
        most = MOST_JOINED if self.points > _MANY else min(MOST_JOINED, self.points // _RARE)
        return joined(self.knobs, self.constraints, self._allows, self._small_table, most)

    @cached_property
    def _joined_rows(self) -> Rows | None:
        """The positions of the knobs of all legal points, where they are at hand and few."""
        if self._joined is None or len(self._joined) * len(self.knobs) > _MOST_POSITIONS:
            return None
        return np.stack(np.unravel_index(self._joined, self.shape), axis=1).astype(np.int16)

    def _allows(self, number: int, positions: Mapping[str, NDArray[np.integer[Any]]]) -> Mask:
        """What one constraint says of single points, given by the positions of the knobs that it reads.

        Of fewer combinations of values than points, or of few, the answers are looked up: all combinations together
        are worked out by broadcasting, where each point by itself has its values, often texts, gathered first.
        """
        c = self.constraints[number]
        table = self._small_table(number)
        points = len(next(iter(positions.values()), ()))
        if table is None and self._combinations(number) <= points:
            table = c.on(self._arrays(number))
        if table is not None:
            return looked_up(table, [positions[name] for name in c.axes])
        values = {n: array[positions[n]] for array, n in zip(self._arrays(number), c.axes, strict=True)}
        return np.broadcast_to(c.holds(values), values[c.axes[0]].shape)

    def _legal_by_blocks(self) -> int:
        if not self.constraints:
            return self.points
        if self._joined is not None:
            return len(self._joined)
        return sum(len(offsets) for _, offsets in self._legal_blocks())

    # Points and indices ---------------------------------------------------------------------------------------------

    def positions(self, point: Point) -> tuple[int, ...]:
        """Position of each knob's value. Raises ValueError for a missing or unknown knob or value."""
        names = [knob.name for knob in self.knobs]
        if set(point) != set(names):
            raise ValueError(f"space {self.name}: found knobs {sorted(point)}, expected {sorted(names)}.")
        return tuple(knob.position(point[knob.name]) for knob in self.knobs)

    def at(self, positions: tuple[int, ...]) -> dict[str, KnobValue]:
        """The point at one position on each axis, in knob order."""
        return {knob.name: knob.values[i] for knob, i in zip(self.knobs, positions, strict=True)}

    def ravel(self, point: Point) -> int:
        """Flat index of a point."""
        flat = 0
        for size, position in zip(self.shape, self.positions(point), strict=True):
            flat = flat * size + position
        return flat

    def unravel(self, flat: int) -> dict[str, KnobValue]:
        """The point with this flat index. Raises IndexError outside of the space."""
        if not 0 <= flat < self.points:
            raise IndexError(f"space {self.name}: flat index {flat}, expected 0 to {self.points - 1}.")
        positions: list[int] = []
        for size in reversed(self.shape):
            flat, position = divmod(flat, size)
            positions.append(position)
        return self.at(tuple(reversed(positions)))

    # Legality -------------------------------------------------------------------------------------------------------

    @cached_property
    def has_legal(self) -> bool:
        """True if any point is legal; cheaper than counting them."""
        parts = self._parts if self._is_large_product else [self]
        return all(len(part._drawn_soon(1, np.random.default_rng(0))) for part in parts)

    def is_legal(self, point: Point) -> bool:
        """True if every constraint allows the point, but for advice."""
        return not any(c.refuses for c in self._broken(point))

    def around(self, point: Point) -> Callable[[Knob, KnobValue], bool]:
        """`is_legal` of points with another value of one knob: only constraints that read it are asked again."""
        positions = self._positions(point)
        broken = {n for n, c in enumerate(self.constraints) if c.refuses and not self._allows_point(n, positions)}

        def is_legal(knob: Knob, value: KnobValue) -> bool:
            readers = self._refusing[knob.name]
            changed = {**positions, knob.name: knob.position(value)}
            return broken <= readers and all(self._allows_point(number, changed) for number in readers)

        return is_legal

    @cached_property
    def _refusing(self) -> dict[str, frozenset[int]]:
        """By knob, the constraints that read it and are no advice."""
        refusing = [(number, c.axes) for number, c in enumerate(self.constraints) if c.refuses]
        return {knob.name: frozenset(n for n, axes in refusing if knob.name in axes) for knob in self.knobs}

    def is_drawn(self, point: Point) -> bool:
        """True if every constraint allows the point: it is one of those that are counted."""
        return next(self._broken(point), None) is None

    def violations(self, point: Point) -> tuple[Violation, ...]:
        """Every breach of the point, as data."""
        return tuple(
            Violation(
                rule=c.rule,
                where=f"{self.name}: {', '.join(c.axes)}",
                found=", ".join(f"{axis}={point[axis]}" for axis in c.axes),
                limit=c.reason,
                fix=f"Change {' or '.join(c.axes)}.",
            )
            for c in self._broken(point)
            if c.refuses
        )

    def _positions(self, point: Point) -> dict[str, int]:
        return dict(zip((knob.name for knob in self.knobs), self.positions(point), strict=True))

    def _broken(self, point: Point) -> Iterator[Constraint]:
        positions = self._positions(point)
        return (c for number, c in enumerate(self.constraints) if not self._allows_point(number, positions))

    def _allows_point(self, number: int, positions: Mapping[str, int]) -> bool:
        """What one constraint says of one point. Answers are kept: of a point and its neighbours most are the same."""
        own = tuple(positions[name] for name in self.constraints[number].axes)
        if (table := self._tables.get(number)) is not None:
            return bool(table[own])
        answers = self._answers.setdefault(number, {})
        if own not in answers:
            values = [array[i : i + 1] for array, i in zip(self._arrays(number), own, strict=True)]
            answers[own] = bool(self.constraints[number].on(values).item())
        return answers[own]

    @cached_property
    def _answers(self) -> dict[int, dict[tuple[int, ...], bool]]:
        """By constraint, what it said of the positions of the knobs that it reads."""
        return {}

    def legal_indices(self) -> NDArray[np.int64]:
        """Flat indices of all legal points, ascending."""
        if self._joined is not None:
            return self._joined.copy()
        found = [block.start + offsets for block, offsets in self._legal_blocks()]
        return np.concatenate(found).astype(np.int64)

    def sample(self, n: int, seed: int) -> list[dict[str, KnobValue]]:
        """`n` distinct legal points drawn evenly (all of them, if fewer), in random order; one seed, one answer."""
        rng = np.random.default_rng(seed)
        if self._is_large_product:
            return sample_parts(self, self._parts, n, rng)
        return [self.unravel(int(index)) for index in self._drawn(n, rng)]

    def draw(self, n: int, seed: int) -> Rows:
        """As `sample`, but fewer where the same is drawn twice of a product, and as positions: a row a point."""
        rng = np.random.default_rng(seed)
        if not self._is_large_product:
            return np.stack(np.unravel_index(self._drawn_soon(n, rng), self.shape), axis=1).astype(np.int16)
        place = {knob.name: i for i, knob in enumerate(self.knobs)}
        rows = np.zeros((n, len(self.knobs)), dtype=np.int16)
        for part in self._parts:
            own = part.draw(n, int(rng.integers(1 << 32)))
            if not len(own):
                return rows[:0]
            rows[:, [place[knob.name] for knob in part.knobs]] = own[rng.integers(0, len(own), n)]
        _, first = np.unique(rows, axis=0, return_index=True)
        return rows[np.sort(first)]

    def _drawn_soon(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """As `_drawn`, without joining the knobs of a large space where its points are drawn in less time."""
        drawn = self._draw(n, rng) if self.points > DRAWN_POINTS else None
        return self._drawn(n, rng) if drawn is None else drawn

    def _drawn(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Flat indices of `n` distinct legal points, in random order."""
        if self._joined is not None:
            return self._joined[rng.choice(len(self._joined), size=min(n, len(self._joined)), replace=False)]
        if self.points > DRAWN_POINTS and (drawn := self._draw(n, rng)) is not None:
            return drawn
        ranks = rng.choice(self.legal, size=min(n, self.legal), replace=False) if self.legal else np.empty(0, np.int64)
        order = np.argsort(ranks)
        wanted, flat, passed = ranks[order], np.empty(len(ranks), dtype=np.int64), 0
        for block, here in self._legal_blocks():
            low, high = np.searchsorted(wanted, (passed, passed + len(here)))
            flat[order[low:high]] = block.start + here[wanted[low:high] - passed]
            passed += len(here)
        return flat

    def _draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64] | None:
        """`n` points by drawing from all points and keeping the legal ones; None if these are too rare for that."""
        found: dict[int, None] = {}
        for drawn in range(1, _DRAWS + 1):
            flat = rng.integers(0, self.points, _DRAW_POINTS)
            found.update(dict.fromkeys(flat[self._legal_at(flat)].tolist()))
            if len(found) >= n:
                return np.fromiter(itertools.islice(found, n), dtype=np.int64, count=n)
            if len(found) * _DRAWS < n * drawn:
                return None  # at this rate the others would not be enough either
        return None

    def are_legal(self, rows: Rows) -> Mask:
        """`is_legal` of many points, each given by the positions of its knobs."""
        return self._mask(list(rows.T), [number for number, c in enumerate(self.constraints) if c.refuses])

    def _legal_at(self, flat: NDArray[np.int64]) -> Mask:
        """Legal mask of single points, given by flat index."""
        return self._mask(np.unravel_index(flat, self.shape), range(len(self.constraints)))

    def _mask(self, columns: Sequence[NDArray[np.integer[Any]]], numbers: Sequence[int]) -> Mask:
        """What some constraints say of single points, given by the positions of each knob.

        Constraints over few combinations of values are looked up; the others are asked of the points that are left.
        """
        positions = dict(zip((k.name for k in self.knobs), columns, strict=True))
        sizes = {knob.name: len(knob.values) for knob in self.knobs}
        left = np.arange(len(columns[0]))
        for number in sorted(
            numbers, key=lambda n: prod(sizes[name] for name in self.constraints[n].axes) > _LOOKED_UP
        ):
            left = left[self._allows(number, {name: positions[name][left] for name in self.constraints[number].axes})]
        legal = np.zeros(len(columns[0]), dtype=np.bool_)
        legal[left] = True
        return legal

    def _table(self, number: int) -> Mask:
        """What a constraint says of every combination of the knobs it names, in the order in which it names them."""
        if number not in self._tables:
            self._tables[number] = self.constraints[number].on(self._arrays(number))
        return self._tables[number]

    def _small_table(self, number: int) -> Mask | None:
        """The table of a constraint over few combinations of values."""
        return self._table(number) if self._combinations(number) <= _LOOKED_UP else None

    def _combinations(self, number: int) -> int:
        """How many combinations of values a constraint reads."""
        axes = self.constraints[number].axes
        return prod(len(knob.values) for knob in self.knobs if knob.name in axes)

    def _arrays(self, number: int) -> list[NDArray[np.generic]]:
        """The values of the knobs that a constraint names, in the order in which it names them."""
        arrays = {knob.name: knob.array for knob in self.knobs}
        return [arrays[name] for name in self.constraints[number].axes]

    @cached_property
    def _tables(self) -> dict[int, Mask]:
        return {}

    def nearest_legal(self, point: Point, exclude: Collection[int] = ()) -> dict[str, KnobValue] | None:
        """The legal point nearest to `point` whose flat index is not in `exclude`; None when all of them are.

        Distance is the sum over knobs of the steps between positions; of equals, the lowest flat index is taken (in a
        product of independent parts that is too large to be kept, any of them).
        """
        if self._is_large_product:
            return nearest_in_parts(self, self._parts, point, exclude)
        origin = self.positions(point)
        taken = np.fromiter(exclude, dtype=np.int64, count=len(exclude))
        if (rows := self._joined_rows) is not None:
            assert self._joined is not None
            away = np.abs(rows - np.array(origin, dtype=np.int16)).sum(axis=1, dtype=np.int32)
            away[np.isin(self._joined, taken, assume_unique=True)] = np.iinfo(np.int32).max
            nearest = int(np.argmin(away)) if len(away) > len(taken) else 0
            is_free = len(away) and away[nearest] != np.iinfo(np.int32).max
            return self.unravel(int(self._joined[nearest])) if is_free else None
        best: tuple[int, int] | None = None
        for bound, block in self._blocks_from(origin):
            start, end = block.start, block.start + prod(block.shape)
            if best is not None and (bound, start) > best:
                break
            legal = self._legal_in(block)
            out = taken[(taken >= start) & (taken < end)] - start if len(legal) else legal
            free = np.setdiff1d(legal, out, assume_unique=True) if len(out) else legal
            if len(free):
                steps = distances(block, free, origin)
                nearest = int(np.argmin(steps))
                found = (int(steps[nearest]), start + int(free[nearest]))
                best = found if best is None else min(best, found)
        return None if best is None else self.unravel(best[1])

    def nearest(self, point: Point, count: int) -> list[tuple[int, dict[str, KnobValue]]]:
        """Up to `count` legal points nearest to `point`, each with its distance, nearest first."""
        origin = self.positions(point)
        found: list[tuple[int, int]] = []
        for bound, block in self._blocks_from(origin):
            if len(found) == count and bound > found[-1][0]:
                break
            at = self._legal_in(block)
            steps = distances(block, at, origin)
            if len(at) > count:
                kept = np.argpartition(steps, count - 1)[:count]
                at, steps = at[kept], steps[kept]
            found = sorted([*found, *zip(steps.tolist(), (block.start + at).tolist(), strict=True)])[:count]
        return [(distance, self.unravel(flat)) for distance, flat in found]

    # Blocks ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _blocks(self) -> tuple[Block, ...]:
        return blocks_of(self.shape, BLOCK_POINTS)

    @cached_property
    def _corners(self) -> Corners:
        return Corners.of(self._blocks)

    def _blocks_from(self, origin: tuple[int, ...]) -> Iterator[tuple[int, Block]]:
        """Blocks, each with the least distance of its points from `origin`, the nearest first; of equals in order."""
        least = self._corners.least_distances(origin)
        return ((int(least[i]), self._blocks[i]) for i in np.argsort(least, kind="stable"))

    @cached_property
    def _masks(self) -> BlockMasks:
        return BlockMasks(self.knobs, self.constraints, BLOCK_POINTS)

    def _legal_blocks(self) -> Iterator[tuple[Block, NDArray[np.int64]]]:
        return ((block, self._legal_in(block)) for block in self._blocks)

    def _legal_in(self, block: Block) -> NDArray[np.int64]:
        """The legal points of a block, ascending, counted from its start."""
        kept = self._kept.get(block.start)
        if kept is not None:
            if kept.dtype == np.int32:
                return kept.astype(np.int64)
            return np.flatnonzero(np.unpackbits(kept.view(np.uint8), count=prod(block.shape)))
        if self._joined is not None:
            low, high = np.searchsorted(self._joined, (block.start, block.start + prod(block.shape)))
            found: NDArray[np.int64] = self._joined[low:high] - block.start
            return found
        offsets = self._masks.met(block)
        count = prod(block.shape)
        if SPARSE * len(offsets) < count:
            self._kept[block.start] = offsets.astype(np.int32)
        elif self.points <= KEPT_POINTS:
            mask = np.zeros(count, dtype=np.bool_)
            mask[offsets] = True
            self._kept[block.start] = np.packbits(mask)
        return offsets

    @cached_property
    def _kept(self) -> dict[int, NDArray[np.generic]]:
        return {}
