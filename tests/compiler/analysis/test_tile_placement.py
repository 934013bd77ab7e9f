"""Where tiles of the copy engine lie in shared memory: the documents' figures 13 to 15, and placement by definition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from compiler.analysis.memory.memory_order import as_allocated
from compiler.analysis.memory.swizzle import repeat_bytes, swizzled_address
from compiler.analysis.memory.tile_placement import TilePlacement
from compiler.arch import SWIZZLE_SPANS
from compiler.dtypes import DType
from compiler.errors import Kept, Stage, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import IdExpr, Merge, Resize, Split, Swizzle
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.size import Size
from compiler.legality.tile_placement import breaches
from compiler.schedule import steps as st
from compiler.schedule.steps import Step, Transform
from tests.compiler.analysis.tile_maps import placement, rules, with_unknown_sizes
from tests.compiler.scheduling import load, store

P = ParallelType
CONTIGUOUS, WHOLE = ["tile_is_contiguous_in_shared_memory"], ["shared_allocation_is_whole_tiles"]


def in_loop_order(tv: str, *order: int) -> st.SetAllocationDomain:
    return st.SetAllocationDomain(tv, order)


def on(tv: str, *types: P) -> list[Step]:
    return [st.Parallelize(tv, i, t) for i, t in enumerate(types) if t is not P.SERIAL]


def tiled(tv: str, columns: int, rows: int) -> list[Step]:
    """[rows outside, rows of the tile, columns outside, columns of the tile]."""
    return [st.Split(tv, 1, columns), st.Split(tv, 0, rows)]


def placed(sf: ScheduledFusion, *tile: int, swizzle: int = 0) -> TilePlacement:
    """`tile`: positions of the consumer's loop axes that are the tile, innermost first."""
    consumer = sf.tensor("s" if "s" in {op.output for op in sf.ops if op.via.is_bulk} else "v0")
    return placement(sf, [consumer.loop[i] for i in tile], swizzle)


# The documents' figures ----------------------------------------------------------------------------------------------

F64 = DType.F64
STRIDED: list[Step] = [st.Split("s", 1, 128), st.Split("s", 0, 4), st.Split("s", 1, 3)]
BY_TWO: list[Step] = [*tiled("s", 4, 4), st.Reorder("s", ((1, 2),))]
"""[rows outside, columns outside, 4, 4]."""

FIGURES = [
    pytest.param(
        load((16, 200), *STRIDED, *on("s", P.SERIAL, P.BULK, P.SERIAL, P.BIDX, P.BULK), dtype=F64),
        (4, 1),
        CONTIGUOUS,
        id="13a: the stride axis lies between",
    ),
    pytest.param(
        load(
            (16, 200),
            *STRIDED,
            st.Reorder("s", ((1, 2),)),
            *on("s", P.SERIAL, P.SERIAL, P.BULK, P.BIDX, P.BULK),
            dtype=F64,
        ),
        (4, 2),
        [],
        id="14a: the stride axis outside, and what lies between is not allocated",
    ),
    pytest.param(
        load((16, 10), *tiled("s", 6, 4), *on("s", P.BIDX, P.BULK, P.SERIAL, P.BULK), dtype=F64),
        (3, 1),
        CONTIGUOUS,
        id="13b: columns outside lie between",
    ),
    pytest.param(
        load((16, 10), *tiled("s", 10, 4), *on("s", P.BIDX, P.BULK, P.SERIAL, P.BULK), dtype=F64),
        (3, 1),
        [],
        id="14b: there is but one tile in a row",
    ),
    pytest.param(
        load((16, 200), *tiled("s", 128, 4), *on("s", P.SERIAL, P.BULK, P.TIDX, P.BULK), dtype=F64),
        (3, 1),
        CONTIGUOUS,
        id="13c: an axis on threads lies between",
    ),
    pytest.param(
        load((16, 200), *tiled("s", 128, 1), *on("s", P.SERIAL, P.BULK, P.TIDX, P.BULK), dtype=F64),
        (3, 1),
        [],
        id="14c: outside of all axes of the tile but one of extent 1",
    ),
    pytest.param(
        load((16, 200), *tiled("s", 128, 4), *on("s", P.SERIAL, P.BULK, P.BIDX, P.BULK), dtype=F64),
        (3, 1),
        [],
        id="13c on blocks: what lies between is not allocated",
    ),
    pytest.param(
        store((16, 12), *on("s", P.TIDX), *tiled("v0", 8, 4), dtype=F64), (3, 1), CONTIGUOUS, id="13d: part of a row"
    ),
    pytest.param(store((16, 12), *on("s", P.TIDX), *tiled("v0", 12, 4), dtype=F64), (3, 1), [], id="14d: whole rows"),
    pytest.param(
        store((16, 10), *tiled("s", 6, 4), *tiled("v0", 6, 4), *on("s", P.TIDX, P.SERIAL, P.TIDY), dtype=F64),
        (3, 1),
        CONTIGUOUS,
        id="13e: columns outside lie between",
    ),
    pytest.param(
        store((16, 10), *tiled("s", 16, 4), *tiled("v0", 16, 4), *on("s", P.TIDX, P.SERIAL, P.TIDY), dtype=F64),
        (3, 1),
        [],
        id="14e: one tile in a row, with holes past the tensor",
    ),
    pytest.param(
        load((16, 10), *BY_TWO, in_loop_order("s", 0, 1, 2, 3), dtype=F64), (3, 2), [], id="15a before the view"
    ),
    pytest.param(
        store((16, 12), st.Merge("s", 0), st.Split("s", 0, 2), st.Split("v0", 1, 4), dtype=F64),
        ((1, 2),),
        [],
        id="15b: a flat run cut by 2, stored by rows",
    ),
    pytest.param(
        store((15, 12), st.Merge("s", 0), st.Split("s", 0, 8), st.Split("v0", 1, 4), dtype=F64),
        ((1, 2),),
        WHOLE,
        id="15e: 23 x 8 elements for tiles of 12",
    ),
    pytest.param(
        store((16, 12), st.Merge("s", 0), st.Split("s", 0, 8), st.Split("v0", 1, 4), dtype=F64),
        ((1, 2),),
        [],
        id="15e of 16 rows: 24 x 8 elements",
    ),
]


@pytest.mark.parametrize(("sf", "tile", "breaks"), FIGURES)
def test_figures(sf: ScheduledFusion, tile: Sequence[int | Sequence[int]], breaks: list[str]) -> None:
    consumer = sf.tensor(next(op.output for op in sf.ops if op.via.is_bulk))
    axes = [consumer.loop[d] if isinstance(d, int) else [consumer.loop[i] for i in d] for d in tile]
    assert rules(placement(sf, axes)) == breaks


def view(*transforms: Step) -> tuple[ScheduledFusion, list[IterDomain]]:
    """A store of 4 x 4 tiles out of [rows outside, columns outside, 4, 4], after these steps."""
    sf = store((16, 10), *BY_TWO, *transforms, *tiled("v0", 4, 4), dtype=F64)
    return sf, [sf.tensor("v0").loop[3], sf.tensor("v0").loop[1]]


VIEWS = [
    pytest.param((st.Split("s", 3, 2), st.Merge("s", 2)), [], id="15a: cut by a divisor and merged"),
    pytest.param((st.Split("s", 3, 3), st.Merge("s", 2)), CONTIGUOUS, id="15c: an uneven cut makes holes inside"),
    pytest.param(
        (st.Split("s", 3, 3), st.Reorder("s", ((4, 3),)), st.Merge("s", 2)), CONTIGUOUS, id="15d: pieces swapped"
    ),
    pytest.param(
        (st.Split("s", 3, 2), st.Reorder("s", ((4, 3),)), st.Merge("s", 2)), CONTIGUOUS, id="15d with an even cut"
    ),
    pytest.param((st.Reorder("s", ((3, 2),)),), CONTIGUOUS, id="columns of the tile before its rows"),
    pytest.param((st.Split("s", 2, 3),), [], id="holes at the end of a tile: 4 rows rounded up to 6"),
    pytest.param(
        (st.Merge("s", 2), st.Split("s", 2, 5)), [], id="holes at the end of a flat tile: 16 rounded up to 20"
    ),
    pytest.param((st.Merge("s", 1), st.Split("s", 1, 8)), [], id="room for one more tile after every third"),
    pytest.param((st.Merge("s", 0), st.Split("s", 0, 5)), [], id="tiles in any order, with room for more"),
    pytest.param((st.Reorder("s", ((1, 0),)),), [], id="tiles in another order"),
]


@pytest.mark.parametrize(("transforms", "breaks"), VIEWS)
def test_views_of_a_tile(transforms: tuple[Step, ...], breaks: list[str]) -> None:
    sf, tile = view(*transforms)
    assert rules(placement(sf, tile)) == breaks


# Which memory order counts -------------------------------------------------------------------------------------------

COLUMNS_FIRST = st.SetAllocationDomain("s", (0, 2, 3, 1))
"""Of [rows outside, rows, columns outside, columns]: the tile's columns before its rows."""

ORDERS = [
    pytest.param((COLUMNS_FIRST,), False, id="a permutation of the loop domain"),
    pytest.param((COLUMNS_FIRST, st.Merge("s", 0)), True, id="neither"),
    pytest.param((COLUMNS_FIRST, st.Split("s", 3, 2), st.Parallelize("s", 1, P.BULK)), False, id="a Bulk axis in it"),
    pytest.param(
        (st.SetAllocationDomain("s", (0, 2, 3, 1), (st.Split("s", 3, 2), st.Swizzle("s", 1, 4))), st.Merge("s", 0)),
        False,
        id="a swizzle before it",
    ),
]


@pytest.mark.parametrize(("taken", "by_loops"), ORDERS)
def test_an_allocation_domain_of_a_load_counts_only_in_some_forms(taken: tuple[Step, ...], by_loops: bool) -> None:
    sf = load((16, 8), *tiled("s", 4, 4), *taken)
    assert (as_allocated(sf, sf.tensor("s")).allocation is None) is by_loops


def test_an_allocation_domain_counts_where_a_store_reads_it() -> None:
    taken = (*tiled("s", 4, 4), COLUMNS_FIRST, st.Merge("s", 0))
    stored = store((16, 8), *taken)
    assert as_allocated(stored, stored.tensor("s")).allocation is not None
    assert stored.tensor("v0") == as_allocated(stored, stored.tensor("v0"))


def test_an_order_that_does_not_count_places_no_tile() -> None:
    """The loop domain does: columns of the tile are innermost there, though the allocation domain says otherwise."""
    rows_of = (st.Split("s", 0, 4), st.Reorder("s", ((1, 2),)))
    order = st.SetAllocationDomain("s", (0, 2, 1))
    kept = load((16, 8), *rows_of[:1], order)
    assert rules(placed(kept, 2, 1)) == CONTIGUOUS
    dropped = load((16, 8), *rows_of[:1], order, st.Split("s", 0, 2))
    assert rules(placed(dropped, 3, 2)) == []


# Strides, inlining, sizes --------------------------------------------------------------------------------------------


def padded(*strides: int | None) -> ScheduledFusion:
    """Tiles of one row of 8, [16, 8], with these strides."""
    return load((16, 8), st.SetAllocationDomain("s", (0, 1), strides=strides))


@pytest.mark.parametrize(
    ("strides", "breaks"),
    [
        ((8, 1), []),
        ((12, 1), []),
        ((7, 1), WHOLE),
        ((16, 2), CONTIGUOUS),
        ((1, 16), CONTIGUOUS),
    ],
    ids=["dense", "room between tiles", "tiles overlap", "holes inside", "columns first"],
)
def test_given_strides(strides: tuple[int, int], breaks: list[str]) -> None:
    assert rules(placed(padded(*strides), 1)) == breaks


def test_only_what_is_right_of_compute_at_is_allocated() -> None:
    """13b with the columns outside in a loop that the copy is computed inside."""
    taken: list[Step] = [*tiled("s", 4, 4), *tiled("v0", 4, 4)]
    moved: list[Step] = [st.Reorder(tv, ((2, 1),)) for tv in ("s", "v0")]
    order = in_loop_order("s", 0, 2, 1, 3)
    assert rules(placed(load((16, 8), *taken, *moved, order), 3, 2)) == CONTIGUOUS
    assert rules(placed(load((16, 8), *taken, *moved, order, st.InlineAt("s", 2)), 3, 2)) == []


def test_tiles_that_differ_in_kind_are_looked_at_one_by_one() -> None:
    """Rows of 6 in a run of 4 x 4: the cut falls inside some tiles and makes no difference, or holes in some."""
    flat: list[Step] = [st.Merge("s", 0)]
    even = store((4, 6), *flat, st.Split("s", 0, 4), st.Split("s", 0, 2))
    assert rules(placed(even, 1)) == []
    wide = st.SetAllocationDomain("s", (0, 1), strides=(5, 1))
    assert rules(placed(store((4, 6), *flat, st.Split("s", 0, 4), wide), 1)) == CONTIGUOUS


def test_what_is_not_recognised_says_so() -> None:
    """Too many tiles to look at, each different: no claim is made of any, and none is said to be impossible."""
    wide = st.SetAllocationDomain("s", (0, 1), strides=(5, 1))
    found = placed(store((1 << 18, 6), st.Merge("s", 0), st.Split("s", 0, 4), wide), 1)
    assert rules(found) == ["tile_is_found_in_shared_memory"]
    (breach,) = breaches(found)
    assert "not recognised" in breach.message
    assert found.swizzle is None


@pytest.mark.parametrize("taken", [(), (st.Merge("s", 0),), (st.Merge("s", 0), st.Split("s", 0, 3))], ids=len)
def test_tensors_past_64_bits(taken: tuple[Step, ...]) -> None:
    """A size typed wrong is a breach like any other, not an overflow."""
    sf = store((1 << 40, 1 << 40, 6), *taken, st.Split("v0", 2, 4))
    assert rules(placed(sf, 3)) != []


def test_a_breach_that_unknown_sizes_decide_is_one_of_this_launch() -> None:
    """[rows, columns] of unknown size: a row of 8 is a tile only while rows have 8 columns."""
    rows_of_8 = with_unknown_sizes(store((16, 8), st.Split("v0", 1, 8)))
    (kept,) = breaches(placed(rows_of_8, 2))
    assert isinstance(kept, Kept)
    assert kept.expr == "s_1 == 8"
    rows_of_12 = with_unknown_sizes(store((16, 12), *tiled("v0", 8, 4)))
    (breach,) = breaches(placed(rows_of_12, 3, 1))
    assert isinstance(breach, Violation)
    assert breach.stage is Stage.RUNTIME
    (same,) = breaches(placed(store((16, 12), *tiled("v0", 8, 4)), 3, 1))
    assert isinstance(same, Violation)
    assert same.stage is Stage.COMPILE


@pytest.mark.parametrize(("size", "stages"), [(96, []), (100, [Stage.RUNTIME])])
def test_whole_tiles_of_an_unknown_size_are_left_to_the_launch(size: int, stages: list[Stage]) -> None:
    found = breaches(placed(with_unknown_sizes(store((size,), st.Split("v0", 0, 32))), 1))
    assert [b.expr for b in found if isinstance(b, Kept)] == ["s_0 % (32) == 0"]
    assert [b.stage for b in found if isinstance(b, Violation)] == stages


def test_one_tile_of_an_unknown_size_with_holes_at_its_end() -> None:
    """12 elements in 2 x 8: right for this size; for others it would have to be looked at again."""
    cut = with_unknown_sizes(store((12,), st.Split("s", 0, 8)))
    assert [b.expr for b in breaches(placed(cut, 0)) if isinstance(b, Kept)] == [
        "((s_0 + 8 - 1) // 8) == 2",
        "s_0 == 12",
    ]


def test_an_outermost_axis_of_unknown_size_decides_nothing() -> None:
    rows = with_unknown_sizes(load((1024,), st.Split("s", 0, 128)))
    assert rows.tensor("s").loop[0].size.atoms != Size(8).atoms
    assert breaches(placed(rows, 1)) == ()


# By definition -------------------------------------------------------------------------------------------------------


def values_of(known: dict[IterDomain, int], exprs: Sequence[IdExpr], forward: bool) -> dict[IterDomain, int]:
    """Plain integer index maps, one element at a time."""
    index = dict(known)
    for e in exprs if forward else reversed(exprs):
        match e:
            case Split(source, outer, inner):
                if forward:
                    index[outer], index[inner] = divmod(index[source], inner.extent)
                else:
                    index[source] = index[outer] * inner.extent + index[inner]
            case Merge(outer, inner, out):
                if forward:
                    index[out] = index[outer] * inner.extent + index[inner]
                else:
                    index[outer], index[inner] = divmod(index[out], inner.extent)
            case Swizzle(x, y, out):
                target, source = (out, y) if forward else (y, out)
                index[target] = index[source] ^ index[x]
            case Resize():
                raise AssertionError("no step of these tests resizes")
    return index


def legal_by_definition(sf: ScheduledFusion, tile: Sequence[int], order: Sequence[IterDomain]) -> int | None:
    """The span of the mode by which every tile is contiguous and all are whole, by looking at every element.

    `tile`: loop positions of the consumer, innermost first; `order`: the allocated axes, dense.
    """
    op = next(op for op in sf.ops if op.via.is_bulk)
    consumer, shared = sf.tensor(op.output), sf.tensor("s")
    nbytes = shared.dtype.nbytes

    def offset(loops: dict[IterDomain, int]) -> int:
        if consumer is shared:
            index = values_of(loops, shared.allocation.exprs if shared.allocation else (), forward=True)
        else:
            logical = values_of(loops, consumer.exprs, forward=False)
            own = {p: logical[c] for p, c in zip(shared.logical, consumer.logical, strict=True)}
            index = values_of(own, shared.exprs, forward=True)
        at = 0
        for axis in order:
            at = at * axis.extent + index[axis]
        return at

    inside = [consumer.loop[i] for i in reversed(tile)]
    outside = [a for a in consumer.loop if a not in inside]
    total = int(np.prod([a.extent for a in order], dtype=np.int64))
    tiles = []
    for others in product(*(range(a.extent) for a in outside)):
        fixed = dict(zip(outside, others, strict=True))
        own = product(*(range(a.extent) for a in inside))
        tiles.append([offset({**fixed, **dict(zip(inside, t, strict=True))}) for t in own])
    runs = np.array(tiles)
    starts, n = runs[:, 0], runs.shape[1]
    for span in (0, *SWIZZLE_SPANS):
        if span and (consumer.loop[tile[0]].extent * nbytes != span or (starts * nbytes % repeat_bytes(span)).any()):
            continue
        wanted = swizzled_address(np.arange(n) * nbytes, span) + starts[:, None] * nbytes
        if np.array_equal(wanted, runs * nbytes):
            return span if gcd(total, *starts.tolist()) >= n else None
    return None


EXTENTS = some.integers(1, 12)


def transforms(draw: some.DrawFn, tv: str, extents: list[int]) -> list[Transform]:
    """A few splits, merges, swizzles and moves of axes of these extents, which are kept up to date."""
    taken: list[Transform] = []
    for _ in range(draw(some.integers(0, 3))):
        i = draw(some.integers(0, len(extents) - 1))
        kind = draw(some.sampled_from(("split", "merge", "move", "swizzle")))
        if kind == "split":
            factor = draw(some.integers(1, extents[i]))
            taken.append(st.Split(tv, i, factor))
            extents[i : i + 1] = [-(-extents[i] // factor), factor]
        elif kind == "merge" and i + 1 < len(extents):
            taken.append(st.Merge(tv, i))
            extents[i : i + 2] = [extents[i] * extents[i + 1]]
        elif kind == "move":
            j = draw(some.integers(0, len(extents) - 1))
            taken.append(st.Reorder(tv, ((i, j),)))
            extents.insert(j, extents.pop(i))
        elif kind == "swizzle":
            same = [j for j, n in enumerate(extents) if j != i and n == extents[i] and n in (2, 4, 8)]
            if same:
                taken.append(st.Swizzle(tv, i, draw(some.sampled_from(same))))
    return taken


@some.composite
def loads(draw: some.DrawFn) -> tuple[ScheduledFusion, tuple[int, ...], tuple[IterDomain, ...]]:
    """A load of small tiles with some axes outside on blocks, and an allocation that views the rest as it likes."""
    rank = draw(some.integers(1, 3))
    shape = [draw(EXTENTS) for _ in range(rank)]
    box = [draw(some.integers(1, n)) for n in shape]
    taken: list[Step] = [st.Split("s", d, box[d]) for d in reversed(range(rank))]
    blocks = [d for d in range(rank) if draw(some.booleans())][:1]
    outside = [2 * d for d in range(rank) if d not in blocks]
    inside = [2 * d + 1 for d in range(rank)]
    order = [2 * d for d in blocks]
    order += (
        draw(some.permutations(outside)) + inside
        if draw(some.booleans())
        else draw(some.permutations(outside + inside))
    )
    extents = [-(-shape[p // 2] // box[p // 2]) if p % 2 == 0 else box[p // 2] for p in order]
    held = len(blocks)
    rest = extents[held:]
    views = [shifted(s, held) for s in transforms(draw, "s", rest)]
    taken += [st.SetAllocationDomain("s", tuple(order), tuple(views))]
    taken += [st.Parallelize("s", 2 * d, P.BIDX) for d in blocks]
    taken += [st.Parallelize("s", p, P.BULK) for p in inside]
    sf = load(shape, *taken, dtype=draw(some.sampled_from((DType.F32, DType.F64, DType.I8))))
    allocation = sf.tensor("s").allocation
    assert allocation is not None
    counts = set(allocation.axes) & set(sf.tensor("s").bulk_axes) or any(isinstance(v, st.Swizzle) for v in views)
    order_axes = allocation.axes[held:] if counts or set(allocation.axes) == set(sf.tensor("s").loop) else None
    loops = tuple(a for i, a in enumerate(sf.tensor("s").loop) if i not in [2 * d for d in blocks])
    return sf, tuple(reversed(inside)), loops if order_axes is None else order_axes


def shifted(s: Transform, by: int) -> Transform:
    match s:
        case st.Split(tv, axis, factor):
            return st.Split(tv, axis + by, factor)
        case st.Merge(tv, axis):
            return st.Merge(tv, axis + by)
        case st.Reorder(tv, moves):
            return st.Reorder(tv, tuple((a + by, b + by) for a, b in moves))
        case st.Swizzle(tv, x, y):
            return st.Swizzle(tv, x + by, y + by)
        case _:
            raise AssertionError(s)


@some.composite
def stores(draw: some.DrawFn) -> tuple[ScheduledFusion, tuple[int, ...], tuple[IterDomain, ...]]:
    """A store of small tiles out of a tensor whose loops are its own."""
    rank = draw(some.integers(1, 3))
    shape = [draw(EXTENTS) for _ in range(rank)]
    box = [draw(some.integers(1, n)) for n in shape]
    taken: list[Step] = [st.Split("v0", d, box[d]) for d in reversed(range(rank))]
    if draw(some.booleans()):
        taken += [st.Split("s", d, box[d]) for d in reversed(range(rank))]
        extents = [n for d in range(rank) for n in (-(-shape[d] // box[d]), box[d])]
    else:
        extents = list(shape)
    taken += transforms(draw, "s", extents)
    sf = store(shape, *taken, dtype=draw(some.sampled_from((DType.F32, DType.F64, DType.I8))))
    return sf, tuple(reversed([2 * d + 1 for d in range(rank)])), sf.tensor("s").loop


def agree(sf: ScheduledFusion, tile: tuple[int, ...], order: tuple[IterDomain, ...]) -> None:
    wanted = legal_by_definition(sf, tile, order)
    found = placed(sf, *tile, swizzle=wanted or 0)
    assert [b for b in breaches(found) if b.rule == "tile_is_found_in_shared_memory"] == []
    assert (breaches(found) == ()) == (wanted is not None), str(breaches(found))
    if wanted is not None:
        assert found.swizzle == wanted


@given(loads())
def test_loads_are_placed_as_looking_at_every_element_says(
    case: tuple[ScheduledFusion, tuple[int, ...], tuple[IterDomain, ...]],
) -> None:
    agree(*case)


@given(stores())
def test_stores_are_placed_as_looking_at_every_element_says(
    case: tuple[ScheduledFusion, tuple[int, ...], tuple[IterDomain, ...]],
) -> None:
    agree(*case)
