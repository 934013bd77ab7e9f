"""The small binding: sizes as small as the schedule's class allows, found by construction and checked by its kernel.

Each run of dimensions keeps its remainder by the tile and at least two whole tiles where it has them, so that interior
and every boundary case occur; persistent blocks make as many rounds as their ring of stages has phases. The kernel at
these sizes must be of the class of the served one (`structure`): what cannot be kept is not claimed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product, zip_longest
from math import gcd, prod

from compiler.emit.cuda import emit
from compiler.errors import IllegalSchedule, InvalidStep, Unsupported
from compiler.ir.fusion import Fusion
from compiler.pipeline import Generated, generate
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from search.proof.small.resize import Dims
from search.proof.small.shrunk import shrunk
from search.proof.small.structure import structure
from search.proof.small.tiling import TiledRun, Tiling, tilings, with_grid

TRIES = 24
"""Sizes whose kernels are compared, smallest first; each takes 5 to 25 ms."""

MAX_ELEMS = 1 << 20
"""Elements of an output beyond which running it several times takes minutes."""

_WHOLE_TILES = 2
"""At least so many whole tiles along each run that has them: a tile with a neighbour on either side of an edge."""

_WIDEST = 16
"""Elements of the widest vector (16 bytes of one byte each): remainders by it decide which accesses are whole."""

_BLOCKS, _MORE_BLOCKS = (2, 3, 4, 6, 8), (9, 12)
"""Numbers of persistent blocks that are tried. The second ones only if they come to the same turns as those served."""

_FEW_CHOSEN = 7
"""Places that an index chooses from: a first and a last one, and others."""

_COMBINATIONS = 20_000
_FIX = "Verify it on a GPU."


@dataclass(frozen=True, slots=True)
class Small:
    """A kernel of the class of the served one, at sizes that can be run."""

    generated: Generated
    tilings: dict[str, Tiling]

    @property
    def fusion(self) -> Fusion:
        return self.generated.trace.fusion


def small_binding(served: Generated) -> Small:
    """The small binding of a kernel. Raises Unsupported if there is none in its class, saying so.

    Where each block's part of the outputs is known, sizes are made from that; else, and where none of these will do,
    every dimension is made smaller by trying.
    """
    try:
        return _by_tiles(served)
    except Unsupported:
        return Small(shrunk(served), {})


def _by_tiles(served: Generated) -> Small:
    if len(served.launches) != 1:
        raise Unsupported("sizing several launches by the tiles of one", _FIX)
    if any(isinstance(step, steps.Deal) for step in served.only.trace.steps):
        raise Unsupported("sizing shares of blocks in steps of tiles by the tiles", _FIX)
    found = tilings(served.only.trace)
    tiling = next(iter(found.values()))
    if any((t.shape, t.runs, t.grid) != (tiling.shape, tiling.runs, tiling.grid) for t in found.values()):
        raise Unsupported("sizing a kernel whose outputs are tiled differently by the tiles of one", _FIX)
    wanted = structure(served.kernel)
    trace = served.only.trace
    dims = Dims(trace.fusion)
    output = trace.fusion.outputs[0]
    fixed = [d for d in range(len(tiling.shape)) if dims.is_fixed((output, d))]
    shapes = (
        (shape, grid) for shape, grid in _shapes(trace, tiling) if all(shape[d] == tiling.shape[d] for d in fixed)
    )
    few = {dim: min(dims.free[dim], _FEW_CHOSEN) for dim in dims.chosen}
    for shape, grid in islice(shapes, TRIES):
        sizes = few | {dims.of((output, d)): n for d, n in enumerate(shape)}
        made = _generated(served, dims.resized(sizes), tiling.grid, grid)
        if made is not None and structure(made.kernel) == wanted:
            return Small(made, {name: t.with_shape(shape, grid) for name, t in found.items()})
    raise Unsupported(
        "emulating this kernel: no smaller sizes were found at which the schedule gives a kernel of the same form", _FIX
    )


def _generated(served: Generated, fusion: Fusion, before: int | None, after: int | None) -> Generated | None:
    """The kernel of the served one's steps on another binding, with its index width; None if they do not apply."""
    trace = served.only.trace
    made_of = trace.steps if before is None or after is None else with_grid(trace, before, after)
    try:
        made = generate(ScheduleTrace(fusion, made_of), served.arch)
    except (IllegalSchedule, InvalidStep, Unsupported):
        return None
    if made.kernel.index_bits == served.kernel.index_bits:
        return made
    kernel = replace(made.kernel, index_bits=served.kernel.index_bits)
    return replace(made, launches=(replace(made.only, kernel=kernel),), source=emit(kernel))


_Sized = tuple[tuple[int, ...], int | None]


def _shapes(trace: ScheduleTrace, tiling: Tiling) -> Iterator[_Sized]:
    """Shapes of the output with their persistent blocks, small ones first, each distinct."""
    joined = _joined(trace.fusion, trace.fusion.outputs[0])
    per_run = [list(_run_sizes(tiling, run, joined)) for run in tiling.runs]
    found: dict[_Sized, int] = {}
    alike: set[_Sized] = set()
    for choice in islice(product(*per_run), _COMBINATIONS):
        shape = [0] * len(tiling.shape)
        for sizes in choice:
            for d, n in sizes.items():
                shape[d] = n
        for grid in _grids(tiling):
            small = tiling.with_shape(tuple(shape), grid)
            turns_alike = _turns(small) == _turns(tiling)
            is_tried = turns_alike or grid not in _MORE_BLOCKS
            if prod(shape) <= MAX_ELEMS and is_tried and _is_like(tiling, small, _stages(trace)):
                found[small.shape, grid] = prod(shape) + shape.count(1)  # of equal ones, those without sizes of 1
                alike |= {(small.shape, grid)} if turns_alike else set()
    ordered = sorted(found, key=lambda one: found[one])
    # Smallest first, in turns with the smallest whose blocks turn over the runs as the served ones do: of most kernels
    # that is nowhere to be seen, of others no smaller ones have the same conditions.
    turns = zip_longest(ordered, (one for one in ordered if one in alike))
    return iter(dict.fromkeys(one for turn in turns for one in turn if one is not None))


def _is_like(served: Tiling, small: Tiling, stages: int) -> bool:
    """Whether blocks have their share of tiles as in the served kernel."""
    if served.grid is None or small.grid is None:
        return True
    phases = 2 * stages  # rounds after which barriers are at their first phase again
    if small.trips < min(served.trips, max(stages + 2, phases + 1)):
        return False
    return bool(served.tiles % served.grid) == bool(small.tiles % small.grid)


def _turns(tiling: Tiling) -> tuple[tuple[bool, bool], ...]:
    """Of the tiles along each run and all runs inside it: whether persistent blocks are as many or more, and whether
    a block is at the same of them in every round. The conditions of a first round and of a loop depend on these."""
    grid = tiling.grid
    if grid is None:
        return ()
    inside = [prod(tiling.counts[at:]) for at in range(1, len(tiling.counts))]
    return tuple((grid >= tiles, grid % tiles == 0) for tiles in inside)


def _grids(tiling: Tiling) -> tuple[int | None, ...]:
    if tiling.grid is None:
        return (None,)
    return (1,) if tiling.grid == 1 else tuple(n for n in (*_BLOCKS, *_MORE_BLOCKS) if n <= tiling.grid)


def _stages(trace: ScheduleTrace) -> int:
    return max((s.stages for s in trace.steps if isinstance(s, steps.CircularBuffer)), default=1)


def _run_sizes(tiling: Tiling, run: TiledRun, joined: frozenset[int]) -> Iterator[dict[int, int]]:
    """Sizes for the dimensions of a run. Dimensions that every tensor sees as one are sized as one."""
    if run.is_whole:
        yield {d: tiling.shape[d] for d in run.dims}
        return
    groups: list[list[int]] = []
    for d in run.dims:
        if groups and groups[-1][-1] + 1 == d and d in joined:
            groups[-1].append(d)
        else:
            groups.append([d])
    extents = [prod(tiling.shape[d] for d in group) for group in groups]
    inner = [list(_inner_sizes(n, run.tile, i == len(groups) - 1)) for i, n in enumerate(extents)][1:]
    for rest in product(*inner):
        for first in _outer_sizes(tiling.extent(run), extents[0], prod(rest), run.tile):
            for spread in product(
                *(_spread(n, group, tiling.shape) for n, group in zip((first, *rest), groups, strict=True))
            ):
                yield {d: n for part in spread for d, n in part.items()}


def _inner_sizes(extent: int, tile: int, is_innermost: bool) -> Iterator[int]:
    """Sizes for a group that is not the outermost of its run."""
    sizes = {extent} if extent <= max(2 * tile, 64) else set()
    if is_innermost and tile > 1:
        sizes |= {extent % tile + whole * tile for whole in (1, 2, 3) if whole * tile <= extent}
    else:
        sizes |= {2, 3, 4, 5, extent % 8 + 8, extent % _WIDEST + _WIDEST}
    yield from sorted(n for n in sizes if n == extent or 1 < n < extent)


def _outer_sizes(total: int, extent: int, inner: int, tile: int) -> Iterator[int]:
    """Sizes for the outermost group of a run whose other groups have `inner` elements: enough tiles, cut alike."""
    least = min(total // tile, _WHOLE_TILES) * tile + total % tile if total >= tile else total
    if inner == 1 and tile > 1:
        wholes = [n for n in (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 32) if n * tile <= extent]
        yield from dict.fromkeys([*(extent % tile + n * tile for n in wholes)] if wholes[1:] else [extent])
        return
    period = tile // gcd(tile, inner)
    count = 0
    for size in range(max(1 if extent == 1 else 2, -(-least // inner)), extent + 1):
        alike = (size * inner % tile == 0) == (total % tile == 0)
        alike = alike and (tile == 1 or _whole(size * inner) == _whole(total))
        if alike or size == extent:
            yield size
            count += 1
        if count >= 12 or size > 64 * max(1, period, -(-least // inner)):
            return


def _whole(elems: int) -> int:
    """The widest vector that divides so many elements."""
    return gcd(elems, _WIDEST)


def _spread(total: int, group: list[int], shape: tuple[int, ...]) -> Iterator[dict[int, int]]:
    """Sizes of the dimensions of a group with this product: two rows where that is even, or all in one row."""
    real = [d for d in group if shape[d] > 1]
    ones = dict.fromkeys(group, 1)
    if total == prod(shape[d] for d in group):
        yield {d: shape[d] for d in group}
        return
    if len(real) > 1 and total % 2 == 0:
        yield {**ones, real[-2]: 2, real[-1]: total // 2}
    yield {**ones, real[-1]: total}


def _joined(fusion: Fusion, output: str) -> frozenset[int]:
    """Dimensions of the output that every input and output sees as one with the dimension before."""
    dims = Dims(fusion)
    rank = len(fusion.value(output).shape)
    found = set(range(1, rank))
    for value in (fusion.value(name) for name in (*fusion.inputs, *fusion.outputs)):
        places = {dims.of((value.name, d)): d for d in range(len(value.shape)) if value.shape[d] > 1}
        for d in range(1, rank):
            here, before = (places.get(dims.of((output, at))) for at in (d, d - 1))
            if here is None and before is None:
                continue
            if here is None or before is None or value.strides[before] != value.strides[here] * value.shape[here]:
                found.discard(d)
    return frozenset(found)
