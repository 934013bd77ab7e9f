"""Which part of an output each tile is, read from the steps of a schedule.

The steps of an output merge its dimensions into runs, cut some runs into tiles, merge the tile numbers into one axis,
and may split that axis among a fixed number of persistent blocks. What follows cuts inside a tile and is of no concern.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from compiler.errors import Unsupported
from compiler.schedule import steps
from compiler.schedule.start import start
from compiler.schedule.trace import ScheduleTrace

_FIX = "Verify the kernel on a GPU."


@dataclass(frozen=True, slots=True)
class TiledRun:
    """Dimensions of the output that the schedule sees as one, outermost first, in tiles of `tile` elements.

    `modulus`: of a run that is moved row by row before it is cut, by the sum of index times factor over `by` modulo it,
    where each of `by` is dimensions counted as one, outermost first, and their factor; 0 of a run that is not.
    `is_whole`: every tile has all of it, because the schedule merges it with places inside a tile.
    """

    dims: tuple[int, ...]
    tile: int = 1
    modulus: int = 0
    by: tuple[tuple[tuple[int, ...], int], ...] = ()
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tiles of one output: their number is made of that of each run, the first run outermost.

    `grid`: the persistent blocks, of which block b takes the tiles b, b + grid, …; None where each tile has a block.
    """

    shape: tuple[int, ...]
    runs: tuple[TiledRun, ...]
    grid: int | None = None

    def extent(self, run: TiledRun) -> int:
        """Elements along a run."""
        return prod(self.shape[d] for d in run.dims)

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles along each run."""
        return tuple(-(-(self.extent(run) + run.modulus) // run.tile) for run in self.runs)

    @property
    def tiles(self) -> int:
        return prod(self.counts)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.tiles if self.grid is None else self.grid

    @property
    def trips(self) -> int:
        """Tiles of the block that has most."""
        return -(-self.tiles // self.blocks)

    def with_shape(self, shape: tuple[int, ...], grid: int | None) -> Tiling:
        """The same tiles on another shape."""
        return replace(self, shape=shape, grid=grid)

    def tiles_of(self, block: int) -> range:
        """The tiles that a block makes."""
        return range(block, self.tiles, self.blocks)

    def elements(self, blocks: Iterable[int]) -> npt.NDArray[np.int64]:
        """Row-major positions of the elements that these blocks write, in order."""
        parts = [self._tile(tile) for block in blocks for tile in self.tiles_of(block)]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def boundary_blocks(self, limit: int) -> tuple[int, ...]:
        """The first and the last block, and those of the first, last and last but one tile of every run, corners too.

        Not more than `limit`: first and last come first, and the block of the last tile, then corners, then the rest.
        """
        counts = self.counts
        ends = [tuple(dict.fromkeys((0, n - 1))) for n in counts]
        near = [tuple(dict.fromkeys((0, n - 1, max(0, n - 2)))) for n in counts]
        chosen = [0, self.blocks - 1, (self.tiles - 1) % self.blocks]
        for places in (*product(*ends), *product(*near)):
            chosen.append(int(np.ravel_multi_index(places, counts)) % self.blocks)
        return tuple(sorted(list(dict.fromkeys(chosen))[:limit]))

    def _tile(self, tile: int) -> npt.NDArray[np.int64]:
        """Row-major positions of a tile's elements."""
        dims = [d for run in self.runs for d in run.dims]
        strides = {d: prod(self.shape[d + 1 :]) for d in dims}
        index = {d: np.zeros(1, np.int64) for d in dims}
        at = dict(zip(self.runs, np.unravel_index(tile, self.counts), strict=True))
        for run in sorted(self.runs, key=lambda run: run.modulus > 0):  # rows before what their phases move
            places = int(at[run]) * run.tile - self._phases(run, index)[:, None] + np.arange(run.tile)
            row, _ = np.nonzero((places >= 0) & (places < self.extent(run)))
            inside = places[(places >= 0) & (places < self.extent(run))]
            index = {d: found[row] for d, found in index.items()}
            index |= zip(run.dims, np.unravel_index(inside, [self.shape[d] for d in run.dims]), strict=True)
        found = np.zeros(1, np.int64)
        return found + sum(index[d] * strides[d] for d in dims)

    def _phases(self, run: TiledRun, index: dict[int, npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        """By how many places each of the rows at `index` is moved."""
        found = np.zeros(len(index[run.dims[0]]), np.int64)
        for dims, factor in run.by:
            counted = np.ravel_multi_index([index[d] for d in dims], [self.shape[d] for d in dims])
            found += factor * counted
        return found % run.modulus if run.modulus else found


def tilings(trace: ScheduleTrace) -> dict[str, Tiling]:
    """The tiling of every output. Raises Unsupported for steps that cut it otherwise than the module says, and for an
    output whose axes are not its dimensions, or that is stored in parts."""
    shapes = {name: trace.fusion.value(name).shape for name in trace.fusion.outputs}
    unscheduled = start(trace.fusion)
    for name, shape in shapes.items():
        if name not in unscheduled.by_name:
            raise Unsupported("a schedule of an output that is stored in parts", _FIX)
        if tuple(axis.extent for axis in unscheduled.tensor(name).logical) != shape:
            raise Unsupported("a schedule on other axes than the dimensions of its outputs", _FIX)
    axes = {name: _Axes(shape) for name, shape in shapes.items()}
    for name, found in axes.items():
        for step in trace.transforms_of(name):
            if isinstance(step, steps.Split | steps.Merge | steps.Reorder | steps.Shift):
                found.apply(step)
    return {name: found.tiling() for name, found in axes.items()}


def with_grid(trace: ScheduleTrace, before: int, after: int) -> tuple[steps.Step, ...]:
    """The steps with `after` persistent blocks in place of `before`: in the last split of the tile numbers of every
    tensor that has steps of its own."""
    last: dict[str, int] = {}
    for number, step in enumerate(trace.steps):
        if isinstance(step, steps.Split) and step.axis == 0 and step.factor == before:
            last[step.tv] = number
    return tuple(
        replace(step, factor=after) if isinstance(step, steps.Split) and last.get(step.tv) == number else step
        for number, step in enumerate(trace.steps)
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    """Runs that an axis counts: whole ones, or tiles of them. `is_inside`: places inside a tile."""

    runs: tuple[TiledRun, ...] = ()
    is_tiles: bool = False
    is_inside: bool = False


class _Axes:
    """The loop axes of one output while its steps are read."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._axes = [_Axis((TiledRun((d,)),)) for d in range(len(shape))]
        self._tiles: _Axis | None = None
        self._grid: int | None = None
        self._whole: list[TiledRun] = []

    def apply(self, step: steps.Split | steps.Merge | steps.Reorder | steps.Shift) -> None:
        match step:
            case steps.Shift():
                self._shift(step)
            case steps.Merge():
                self._merge(step)
            case steps.Split():
                self._split(step)
            case steps.Reorder():
                self._reorder(step)

    def tiling(self) -> Tiling:
        """What the steps came to. Raises Unsupported where the tile numbers are not one axis."""
        outside = [axis for axis in self._axes if not axis.is_inside]
        tiles = self._tiles if self._grid is not None else outside[0] if len(outside) == 1 else None
        runs = (*tiles.runs, *self._whole) if tiles is not None else ()
        if tiles is None or sorted(d for run in runs for d in run.dims) != list(range(len(self._shape))):
            raise Unsupported("a schedule whose tiles are not numbered along one axis", _FIX)
        return Tiling(self._shape, runs, self._grid)

    def _merge(self, step: steps.Merge) -> None:
        other = step.axis + 1 if step.other is None else step.other
        first, second = self._axes[step.axis], self._axes[other]
        if first.is_inside and second.is_inside:
            joined = first
        elif first.is_inside and not second.is_tiles and not second.runs[0].modulus:
            dims = second.runs[0].dims
            self._whole.append(TiledRun(dims, prod(self._shape[d] for d in dims), is_whole=True))
            joined = first
        elif first.is_inside or second.is_inside or self._grid is not None:
            raise Unsupported("a schedule that merges tile numbers with places inside a tile", _FIX)
        elif first.is_tiles or second.is_tiles:
            joined = _Axis(first.runs + second.runs, is_tiles=True)
        elif any(run.modulus for run in first.runs + second.runs):
            raise Unsupported("a schedule that merges a run which it has moved", _FIX)
        else:
            joined = _Axis((TiledRun(first.runs[0].dims + second.runs[0].dims),))
        self._axes[min(step.axis, other)] = joined
        del self._axes[max(step.axis, other)]

    def _split(self, step: steps.Split) -> None:
        axis, inside = self._axes[step.axis], _Axis(is_inside=True)
        if axis.is_inside:
            self._axes.insert(step.axis, inside)
            return
        if not step.inner or not isinstance(step.factor, int) or self._grid is not None:
            raise Unsupported("a schedule that splits an axis of tiles in this way", _FIX)
        if axis.is_tiles:
            self._tiles, self._grid = axis, step.factor
            self._axes[step.axis : step.axis + 1] = [inside, inside]
        else:
            outer = _Axis((replace(axis.runs[0], tile=step.factor),), is_tiles=True)
            self._axes[step.axis : step.axis + 1] = [outer, inside]

    def _shift(self, step: steps.Shift) -> None:
        """Moves a whole run by the phases of whole runs; places inside a tile stay in it."""
        axis, by = self._axes[step.axis], [self._axes[at] for at in step.by]
        if axis.is_inside:
            return
        if step.start or any(a.is_tiles or a.is_inside or a.runs[0].modulus for a in (axis, *by)):
            raise Unsupported("a schedule that moves the tiles of a run", _FIX)
        phases = tuple((a.runs[0].dims, factor) for a, factor in zip(by, step.factors, strict=True))
        self._axes[step.axis] = _Axis((replace(axis.runs[0], modulus=step.modulus, by=phases),))

    def _reorder(self, step: steps.Reorder) -> None:
        """Moves the named axes; the others fill the free places in their order, as the step says."""
        placed: dict[int, _Axis] = {new: self._axes[old] for old, new in step.moves}
        moved = {old for old, _ in step.moves}
        rest = iter(axis for i, axis in enumerate(self._axes) if i not in moved)
        self._axes = [placed[i] if i in placed else next(rest) for i in range(len(self._axes))]
