"""Tiles of an output, read from schedules: the blocks share the elements out, and boundaries are among those chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from compiler.arch import arch_named
from compiler.errors import IllegalSchedule, Unsupported
from compiler.ir.fusion import Fusion
from compiler.pipeline import Generated, generate
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.wire.binding import Binding
from search.proof.small.tiling import TiledRun, Tiling, tilings, with_grid
from search.space.schedulers import schedulers_for
from tests.cards import card_of
from tests.search.schedulers.fusions import add, silu_of_sum, two_outputs
from tests.search.schedulers.permute_fusions import permuted
from tests.search.schedulers.points import generated

ARCH = arch_named("sm_90a")
FUSIONS: dict[str, Fusion] = {
    "add": add([37, 96], "f32"),
    "padded": add([33, 64], "bf16", strides=[72, 1]),
    "broadcast": silu_of_sum([3, 5, 7, 64], [1], "f16"),
    "two_outputs": two_outputs([24, 40]),
}


def kernels(fusion: Fusion, count: int = 12) -> list[Generated]:
    found = []
    for scheduler in schedulers_for(fusion, card_of(ARCH, 2)):
        for point in scheduler.space(fusion, ARCH).sample(count, 5):
            try:
                found.append(generate(scheduler.trace(fusion, point), ARCH))
            except (IllegalSchedule, Unsupported):
                continue
    return found


@pytest.mark.parametrize("name", FUSIONS)
def test_blocks_share_out_all_elements(name: str) -> None:
    fusion = FUSIONS[name]
    made = kernels(fusion)
    assert len(made) >= 6
    for kernel in made:
        assert_blocks_share(kernel)


def assert_blocks_share(kernel: Generated) -> None:
    for output, tiling in tilings(kernel.only.trace).items():
        assert tiling.blocks == int(np.prod(kernel.kernel.grid))
        every = np.concatenate([tiling.elements([block]) for block in range(tiling.blocks)])
        np.testing.assert_array_equal(np.sort(every), np.arange(kernel.trace.fusion.value(output).elems))


@pytest.mark.parametrize("chunks", [1, 4, 16])
def test_blocks_share_out_all_chunks(chunks: int) -> None:
    assert_blocks_share(generated("chunks", permuted((37, 3, 12, 20), (0, 1, 3, 2)), chunks=chunks, threads=240))


def test_elements_of_a_tile() -> None:
    """3 x 5 elements in tiles of 2 x 2, the second faster: block 4 has the tile of row 2, columns 2 and 3."""
    tiling = Tiling((3, 5), (TiledRun((0,), 2), TiledRun((1,), 2)))
    assert (tiling.counts, tiling.blocks, tiling.trips) == ((2, 3), 6, 1)
    assert tiling.elements([4]).tolist() == [12, 13]
    assert tiling.elements([0, 5]).tolist() == [0, 1, 5, 6, 14]


def test_persistent_blocks_take_every_tile_that_is_theirs() -> None:
    tiling = Tiling((10,), (TiledRun((0,), 2),), grid=2)
    assert (tiling.tiles, tiling.blocks, tiling.trips) == (5, 2, 3)
    assert tiling.elements([1]).tolist() == [2, 3, 6, 7]


@pytest.mark.parametrize(
    ("tiling", "limit", "blocks"),
    [
        pytest.param(Tiling((4,), (TiledRun((0,), 4),)), 12, (0,), id="one"),
        pytest.param(Tiling((100,), (TiledRun((0,), 10),)), 12, (0, 8, 9), id="first-last-and-the-one-before"),
        pytest.param(
            Tiling((40, 50), (TiledRun((0,), 10), TiledRun((1,), 10))),
            12,
            (0, 3, 4, 10, 13, 14, 15, 18, 19),
            id="two-ways",
        ),
        pytest.param(
            Tiling((40, 50), (TiledRun((0,), 10), TiledRun((1,), 10))), 4, (0, 4, 15, 19), id="corners-before-edges"
        ),
        pytest.param(Tiling((100,), (TiledRun((0,), 10),), grid=4), 12, (0, 1, 3), id="persistent"),
    ],
)
def test_boundary_blocks(tiling: Tiling, limit: int, blocks: tuple[int, ...]) -> None:
    assert tiling.boundary_blocks(limit) == blocks


def test_the_grid_of_persistent_blocks_can_be_replaced() -> None:
    made = next(k for k in kernels(add([64, 4096], "f32"), 60) if next(iter(tilings(k.only.trace).values())).grid == 4)
    smaller = ScheduleTrace(made.trace.fusion, with_grid(made.only.trace, 4, 3))
    assert generate(smaller, ARCH).kernel.grid[0] == 3
    changed = [(a, b) for a, b in zip(made.only.trace.steps, smaller.steps, strict=True) if a != b]
    assert {(type(a), b.factor) for a, b in changed if isinstance(b, steps.Split)} == {(steps.Split, 3)}
    assert len(changed) == len({a.tv for a, _ in changed if isinstance(a, steps.Split)})


@pytest.mark.parametrize(
    "written",
    [
        pytest.param([steps.Split("v0", 0, 4)], id="tiles-on-two-axes"),
        pytest.param([steps.Split("v0", 0, 4, inner=False)], id="outer-split"),
        pytest.param([steps.Split("v0", 0, 4), steps.Merge("v0", 0)], id="merged-inside"),
    ],
)
def test_other_ways_to_cut_are_refused(written: list[Any]) -> None:
    with pytest.raises(Unsupported):
        tilings(ScheduleTrace(add([64, 96], "f32"), tuple(written)))


def test_a_run_merged_with_places_inside_a_tile_is_in_every_tile() -> None:
    """Tiles of four rows, whole: block 1 of three has elements 12 to 23 of 10 rows of 3, however it goes over them."""
    cuts = (steps.Split("v0", 0, 4), steps.Merge("v0", 1), steps.Split("v0", 1, 6))
    found = tilings(ScheduleTrace(add([10, 3], "f32"), cuts))["v0"]
    assert (found.runs, found.blocks) == ((TiledRun((0,), 4), TiledRun((1,), 3, is_whole=True)), 3)
    assert found.elements([1]).tolist() == list(range(12, 24))


@pytest.mark.parametrize("dims", [pytest.param((0, 1), id="rank-0"), pytest.param((1,), id="kept-with-size-1")])
def test_an_output_with_other_axes_than_its_dimensions_is_refused(dims: tuple[int, ...]) -> None:
    """The only axis of a whole sum is no dimension of it, and a dimension of size 1 that stays is no axis."""
    f = FusionBuilder()
    f.output(f.input("x", (64, 96), "f32").sum(dims, keepdim=dims == (1,)))
    fusion = bind(f.build(), Binding())
    with pytest.raises(Unsupported, match="other axes"):
        tilings(ScheduleTrace(fusion, ()))


def test_an_output_that_is_stored_in_parts_has_no_tiling() -> None:
    """Rows of two halves, each loaded and stored by itself: no tensor of the schedule is the whole output."""
    f = FusionBuilder()
    x, y = (f.input(name, (64, 512), "f32") for name in "xy")
    f.output(f.cat((x, y), dim=1))
    made = kernels(bind(f.build(), Binding()), 2)
    assert made
    for kernel in made:
        with pytest.raises(Unsupported, match="an output that is stored in parts"):
            tilings(kernel.only.trace)


@pytest.mark.parametrize("tile_out", [32, 64])
def test_tiles_of_rows_that_are_moved_as_wholes(tile_out: int) -> None:
    """Rows of 67 f32 begin 3 places later from one to the next, of 8 in a sector: row 1 is cut 3 places earlier."""
    point: dict[str, Any] = {
        "tile_in": 32,
        "tile_out": tile_out,
        "threads": 128,
        "lanes_out": 32,
        "shift_store": True,
        "halo": True,
    }
    made = generated("tile2d", permuted((67, 45), (1, 0), "f32"), layout="pad", load="vector", **point)
    (tiling,) = tilings(made.only.trace).values()
    assert tiling.blocks == int(np.prod(made.kernel.grid)) == 2 * -(-(67 + 8) // tile_out)
    every = np.concatenate([tiling.elements([block]) for block in range(tiling.blocks)])
    np.testing.assert_array_equal(np.sort(every), np.arange(67 * 45))
    first = tiling.elements([0])
    assert first[:tile_out].tolist() == list(range(tile_out))
    assert first[tile_out : 2 * tile_out - 3].tolist() == list(range(67, 67 + tile_out - 3))


@pytest.mark.parametrize(
    "steps_before",
    [
        pytest.param((steps.Shift("out", 1, (0,), (3,), 8), steps.Merge("out", 0)), id="a moved run merged"),
        pytest.param((steps.Split("out", 1, 4), steps.Shift("out", 1, (0,), (3,), 8)), id="tiles moved"),
    ],
)
def test_runs_moved_in_other_ways_are_refused(
    steps_before: tuple[steps.Shift | steps.Split | steps.Merge, ...],
) -> None:
    fusion = add([37, 96], "f32")
    named = tuple(replace(step, tv=fusion.outputs[0]) for step in steps_before)
    with pytest.raises(Unsupported):
        tilings(ScheduleTrace(fusion, named))
