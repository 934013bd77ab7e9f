"""The fundamental theorem of TMA correctness, for every small size, box and element stride, against the engine."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.analysis.tma.fttc import Correctness, box_correctness
from tests.compiler.analysis.explicit_copies import bulk, document, inferred, merge, reorder, scheduled, split
from tests.compiler.analysis.tma_machine import Descriptor, load

BOUND = 13


def _by_definition(size: int, box: int, step: int) -> Correctness:
    """Loads every tile. A predicate can only turn a whole tile away, and only one without an element."""
    d = Descriptor((size,), (1,), (box,), (step,))
    memory = np.arange(1, size + 1)
    worst = Correctness.STRONG
    for coordinate in range(-(-size // box)):
        for s in range(step):
            tile = load(memory, d, (coordinate * box + s,))
            within = [t * step + s < box for t in range(len(tile))]
            if not any(v and not ok for v, ok in zip(tile, within, strict=True)):
                continue
            if any(v and ok for v, ok in zip(tile, within, strict=True)):
                return Correctness.WEAK
            worst = Correctness.STRONG_WITH_PREDICATE
    return worst


def test_every_small_dimension() -> None:
    seen = set()
    for size in range(1, BOUND):
        for box in range(1, BOUND):
            for step in range(1, BOUND):
                expect = _by_definition(size, box, step)
                assert box_correctness(size, box, step) is expect, (size, box, step)
                seen.add(expect)
    assert seen == set(Correctness)


@pytest.mark.parametrize(
    ("size", "box", "step", "expect"),
    [
        (16, 4, 2, "strong"),  # the stride divides the box
        (16, 4, 3, "weak"),  # figure 14a
        (4, 4, 3, "strong"),  # one box: its holes lie past the end
        (5, 4, 3, "weak"),
        (16, 4, 5, "strong_with_predicate"),  # tiles of one element
    ],
)
def test_a_schedule_has_the_correctness_of_its_strides(size: int, box: int, step: int, expect: str) -> None:
    steps = [split(0, box), split(1, step), *bulk(1, 3)]
    assert inferred(scheduled(document((size, 8), steps))).copy.correctness == expect


@pytest.mark.parametrize(
    ("steps", "expect"),
    [
        ([split(0, 8), split(0, 3), *bulk(2)], "strong"),  # the outer piece of a partitioned axis
        ([split(0, 8), split(0, 2), split(1, 3), *bulk(3)], "strong_with_predicate"),  # its inner piece: 2 into 3
        ([split(0, 16), split(1, 4), split(1, 3), *bulk(3)], "strong_with_predicate"),  # rotated: 4 into 2 x 3
        ([split(0, 8), split(0, 4, False), *bulk(2)], "strong"),  # 5 into 4 x 2, outermost
    ],
)
def test_a_loop_with_holes_that_the_guard_does_not_see_needs_a_predicate(
    steps: list[dict[str, object]], expect: str
) -> None:
    assert inferred(scheduled(document((40,), steps))).copy.correctness == expect


def test_merging_protects_only_by_the_outer_axis() -> None:
    """Tiles of rows and columns merged, then cut unevenly: those past the end have rows past the end, unless the merge
    takes an inner piece of the rows, whose places past the end are rows further on."""
    tiles = [split(1, 4), split(0, 2), reorder(0, 2, 1, 3)]
    whole = [*tiles, merge(0), split(0, 5), *bulk(2, 3)]
    assert inferred(scheduled(document((8, 12), whole))).copy.correctness == "strong"
    piece = [*tiles, split(0, 2), merge(1), split(1, 4), *bulk(3, 4)]
    assert inferred(scheduled(document((8, 12), piece))).copy.correctness == "strong_with_predicate"
