"""Which loop a circular buffer turns with, and the shape of a specialised block."""

import pytest

from compiler.analysis.loops.axes import loop_map
from compiler.analysis.sync.circular_buffer import (
    barrier_position,
    barriers_of,
    circular_buffers,
    extra_threads,
    specialized_block,
)
from compiler.ir.iter_domain import ParallelType as P
from compiler.ir.tensor import BufferKind, CircularBuffer
from compiler.schedule.circular_buffer import buffered_position
from tests.compiler.model import buffer, copies, fusion, inline, scheduled, types

PIPELINED = CircularBuffer(4, 3)
SPECIALIZED = CircularBuffer(4, 3, BufferKind.WARP_SPECIALIZED, P.TIDX)


@pytest.mark.parametrize(
    ("names", "position", "inner", "outer"),
    [
        (("-", "-", "-"), 3, 2, 0),
        (("-", "-", "-"), 2, 1, 0),
        (("-", "-", "TIDx"), 3, 1, 0),
        (("BIDx", "-", "TIDx"), 3, 1, 1),
        (("BIDx", "TIDx", "-"), 2, None, None),
        (("-", "Unroll", "-"), 3, 0, 0),
        (("Unroll", "-", "-"), 3, None, None),
        (("Unswitch", "-", "-"), 1, 0, 0),
    ],
)
def test_the_loop(names: tuple[str, ...], position: int, inner: int | None, outer: int | None) -> None:
    document = scheduled(copies((4, 4, 4), "g s g"), types("tv1", *names), types("tv2", *names))
    t = fusion(scheduled(document, inline("tv1", position))).tensor("tv1")
    assert buffered_position(t, PIPELINED) == inner
    assert buffered_position(t, SPECIALIZED) == outer
    assert barrier_position(t, SPECIALIZED) == (inner if inner is not None else -1)


def test_a_broadcast_axis_is_no_loop() -> None:
    document = scheduled(copies((4, 1, 4), "g s g"), inline("tv1", 2))
    assert buffered_position(fusion(document).tensor("tv1"), PIPELINED) == 0


def test_nested_loops_are_two() -> None:
    document = scheduled(copies((4, 4, 4), "g s l g"), inline("tv1", 1), inline("tv2", 2))
    sf = fusion(scheduled(document, buffer("tv1", 2), buffer("tv2", 3)))
    found = circular_buffers(sf, loop_map(sf))
    assert [(loop.tensors, loop.positions) for loop in found.loops] == [(("tv1",), (0,)), (("tv2",), (1,))]
    assert found.without == ()


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (PIPELINED, 4),
        (CircularBuffer(4, 3, war_mbarrier=True), 8),
        (SPECIALIZED, 8),
    ],
)
def test_barriers(options: CircularBuffer, count: int) -> None:
    assert barriers_of(options) == count


def test_the_block() -> None:
    document = scheduled(copies((4, 2, 32), "g s=bulk1d g"), types("tv2", "-", "TIDy", "TIDx"), inline("tv1", 1))
    assert specialized_block(fusion(document)) is None
    assert extra_threads(fusion(document)) == 0
    loads = scheduled(document, types("tv1", "-", "-", "Bulk"), buffer("tv1", 2, kind="warp_specialized", on="TIDx"))
    block = specialized_block(fusion(loads))
    assert block is not None
    assert (block.threads, block.others) == ({P.TIDX: 32, P.TIDY: 2, P.TIDZ: 1}, 2)
    assert extra_threads(fusion(loads)) == 128
