"""Rules on multicasts: the nearest legal schedule beside the nearest illegal one, on a bias that two blocks share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.ir.fusion import Fusion
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, breaches, nearest
from tests.compiler.schedules import LOCAL, SHARED, P, from_wire, parallel, schedule


def biased(rows: int) -> Fusion:
    """v1 = i0 + i1 along its rows of 64, by way of w0."""
    shape = [rows, 64]
    inputs = [{"name": "x", "shape": shape, "dtype": "f32"}, {"name": "b", "shape": shape[1:], "dtype": "f32"}]
    ops: list[Mapping[str, Any]] = [
        {"op": "broadcast_to", "in": ["b"], "out": "w", "shape": shape, "dims": [1]},
        {"op": "add", "in": ["x", "w"], "out": "y"},
    ]
    return from_wire(inputs, ops, "y")


def shared_by(
    blocks: P = P.CLUSTER, *, at: int = 2, pieces: int = 1, via: CopyVia = CopyVia.TMA, rows: int = 8
) -> Schedule:
    """Two rows beside each other, on `blocks`, and rows of so many `pieces` in a loop. The bias comes to shared memory
    inside the first `at` loops."""
    steps: list[st.Step] = [
        st.SetMemory("w0", LOCAL if via is CopyVia.PLAIN else SHARED, via),
        st.Multicast("w0"),
        st.CacheInput("w0", "r", LOCAL),
        st.CacheInput("i0", "x", LOCAL),
        st.CacheOutput("v1", "y", LOCAL),
    ]
    for tv in ("w0", "r", "x", "y", "v1"):
        last = P.BULK if tv == "w0" and via.is_bulk else P.TIDX
        steps += [st.Split(tv, 1, 64 // pieces), st.Split(tv, 0, 2), *parallel(tv, P.BIDX, blocks, P.SERIAL, last)]
    inlined = [*(st.InlineAt(tv, 3) for tv in ("y", "r", "x")), st.InlineAt("w0", at)]
    return schedule(biased(rows), [*steps, *inlined])


def by_columns() -> Schedule:
    """The blocks of a cluster have halves of a row, and of the bias."""
    steps: list[st.Step] = [
        st.SetMemory("w0", SHARED, CopyVia.TMA),
        st.Multicast("w0"),
        st.CacheInput("w0", "r", LOCAL),
        st.CacheInput("i0", "x", LOCAL),
        st.CacheOutput("v1", "y", LOCAL),
    ]
    for tv in ("w0", "r", "x", "y", "v1"):
        steps += [st.Split(tv, 1, 32), *parallel(tv, P.BIDX, P.CLUSTER, P.BULK if tv == "w0" else P.TIDX)]
    return schedule(biased(8), [*steps, *(st.InlineAt(tv, 2) for tv in ("y", "r", "x", "w0"))])


CASES = (
    Case(
        "copied by the copy engine",
        shared_by,
        lambda: shared_by(via=CopyVia.PLAIN),
        (
            (
                "multicasts_are_bulk_loads",
                "w0",
                "a copy via plain to local memory",
                "a copy via tma or bulk1d from global to shared memory",
            ),
        ),
    ),
    Case(
        "the same for all blocks",
        shared_by,
        by_columns,
        (
            (
                "multicast_tiles_are_the_same_in_all_blocks",
                "w0",
                "iw0.2{2}",
                "a broadcast axis of 2 on Cluster",
            ),
        ),
    ),
    Case(
        "a cluster at all",
        shared_by,
        lambda: shared_by(P.BIDY),
        (
            (
                "multicast_tiles_are_the_same_in_all_blocks",
                "w0",
                "no axis on Cluster",
                "a broadcast axis of 2 on Cluster",
            ),
        ),
    ),
    Case(
        "filled once",
        lambda: shared_by(pieces=2),
        lambda: shared_by(pieces=2, at=3),
        (("multicasts_fill_their_tile_once", "w0", "inside the loop of iw0.2{2}", "one stage, in no loop"),),
    ),
    Case(
        "a run that nothing guards",
        lambda: shared_by(via=CopyVia.BULK1D),
        lambda: shared_by(via=CopyVia.BULK1D, rows=7),
        (
            (
                "multicasts_are_issued_in_all_blocks_or_none",
                "w0",
                "(bx * 2 + cx) < 7",
                "a condition that is the same in all blocks of a cluster",
            ),
        ),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)


def test_a_tile_of_a_map_that_clips_may_lie_beside_rows_that_are_not_there() -> None:
    """The blocks of the last cluster are as many as of any other, and all of them wait for the tile."""
    assert breaches(shared_by(rows=7)) == ()
