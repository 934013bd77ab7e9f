"""Which loops are one loop, what carries each axis, how large blocks and grid are, and indices in those terms."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.analysis.id.graph import id_graph
from compiler.analysis.id.indexing import Indexing, first_lane, lane_variable, lanes_are_consecutive
from compiler.analysis.loops.loop_nest import LANE, LoopNest, infer_loop_nest
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.ops import OpKind
from compiler.schedule.steps import (
    CacheInput,
    CacheOutput,
    InlineAt,
    Merge,
    SetAllocationDomain,
    Split,
    Step,
)
from tests.compiler.schedules import LOCAL, P, from_wire, parallel, unary
from tests.compiler.scheduling import load, scheduled

R = CacheInput("i0", "r", LOCAL)
Groups = dict[str, tuple[int | None, ...]]


@pytest.mark.parametrize(
    ("taken", "groups"),
    [
        pytest.param([R], {"r": (0, 1), "v0": (2, 3)}, id="apart"),
        pytest.param([R, InlineAt("r", 1)], {"r": (0, 1), "v0": (0, 2)}, id="one-shared"),
        pytest.param([R, InlineAt("r", 2)], {"r": (0, 1), "v0": (0, 1)}, id="all-shared"),
        pytest.param(
            [R, *parallel("r", P.BIDX, P.UNROLL), *parallel("v0", P.BIDX, P.TIDX), InlineAt("r", 1)],
            {"r": (None, 0), "v0": (None, None)},
            id="blocks-and-threads-have-no-loop",
        ),
        pytest.param(
            [R, *parallel("r", P.SERIAL, P.VECTORIZE), *parallel("v0", P.SERIAL, P.BULK)],
            {"r": (0, None), "v0": (1, None)},
            id="nor-have-vectors-and-bulk-copies",
        ),
        pytest.param(
            [R, Split("r", 1, 8), Split("v0", 1, 8), InlineAt("r", 1)],
            {"r": (0, None, 1), "v0": (0, None, 2)},
            id="nor-have-axes-of-extent-one",
        ),
        pytest.param(
            [R, CacheOutput("v0", "q", LOCAL), InlineAt("r", 2), InlineAt("q", 1)],
            {"r": (0, 1), "q": (0, 1), "v0": (0, 2)},
            id="through-a-chain",
        ),
    ],
)
def test_loop_groups(taken: list[Step], groups: Groups) -> None:
    assert nest_of(scheduled(unary((4, 8)), *taken)).group == groups


def nest_of(sf: ScheduledFusion) -> LoopNest:
    return infer_loop_nest(sf, id_graph(sf))


def test_tensors_inlined_into_one_consumer_share_its_loops() -> None:
    inputs = [{"name": n, "shape": [4, 8], "dtype": "f32"} for n in ("a", "b")]
    fusion = from_wire(inputs, [{"op": "add", "in": ["a", "b"], "out": "y"}], "y")
    caches = [CacheInput("i0", "r", LOCAL), CacheInput("i1", "q", LOCAL)]
    nest = nest_of(scheduled(fusion, *caches, InlineAt("r", 1), InlineAt("q", 2)))
    assert nest.group == {"r": (0, 1), "q": (0, 2), "v0": (0, 2)}


def test_a_tensor_inlined_into_two_consumers_makes_their_loops_one() -> None:
    inputs = [{"name": "a", "shape": [4, 8], "dtype": "f32"}]
    ops = [{"op": "exp", "in": ["a"], "out": "e"}, {"op": "neg", "in": ["a"], "out": "n"}]
    sf = scheduled(from_wire(inputs, ops, "e", "n"), R)
    assert nest_of(sf).group == {"r": (0, 1), "v0": (2, 3), "v1": (4, 5)}
    sf = scheduled(from_wire(inputs, ops, "e", "n"), R, InlineAt("r", 1))
    assert nest_of(sf).group == {"r": (0, 1), "v0": (0, 2), "v1": (0, 3)}


def test_broadcast_axes_have_a_loop_only_where_they_share_one() -> None:
    fusion = unary((8,), OpKind.BROADCAST_TO, dims=(1,), result=(4, 8))
    sf = scheduled(fusion)
    assert nest_of(sf).group == {"w0": (None, 0), "v0": (1, 2)}
    nest = nest_of(scheduled(fusion, InlineAt("w0", 2)))
    assert nest.group == {"w0": (0, 1), "v0": (0, 1)}
    t = sf.tensor("w0")
    assert nest_of(sf).variable(t, 0) == Expr()
    assert nest.variable(t, 0) == var(Var("k0", 4))


def test_a_broadcast_axis_has_no_loop_that_nothing_varies_along() -> None:
    """Inlined into each other beside a loop that only the last of them stands in."""
    inputs = [{"name": "a", "shape": [8], "dtype": "f32"}]
    ops: list[dict[str, Any]] = [
        {"op": "exp", "in": ["a"], "out": "e"},
        {"op": "neg", "in": ["e"], "out": "n"},
        {"op": "broadcast_to", "in": ["n"], "out": "y", "shape": [4, 8], "dims": [1]},
    ]
    fusion = from_wire(inputs, ops, "y")
    apart = nest_of(scheduled(fusion, InlineAt("w1", 2)))
    assert apart.group == {"w0": (None, 0), "w1": (None, 1), "w2": (None, 1), "v2": (2, 3)}
    inside = nest_of(scheduled(fusion, InlineAt("w2", 2), InlineAt("w1", 2)))
    assert inside.group == {"w0": (None, 0), "w1": (1, 2), "w2": (1, 2), "v2": (1, 2)}


def test_variables_paths_and_dimensions() -> None:
    types = (P.BIDY, P.TIDX, P.SERIAL, P.VECTORIZE)
    cut = [Split("r", 1, 4), Split("r", 1, 2), Split("v0", 1, 4), Split("v0", 1, 2)]
    sf = scheduled(unary((4, 64)), R, *cut, *parallel("r", *types), *parallel("v0", *types), InlineAt("r", 3))
    nest, t = nest_of(sf), sf.tensor("r")
    assert [nest.variable(t, i) for i in range(4)] == [
        var(Var("by", 4)),
        var(Var("tx", 8)),
        var(Var("k0", 2)),
        var(Var(LANE, 4)),
    ]
    assert nest.loop_index(t) == {a: nest.variable(t, i) for i, a in enumerate(t.loop)}
    assert nest.path(t) == nest.path(sf.tensor("v0")) == (0,)
    assert nest.dims == {P.BIDY: 4, P.TIDX: 8}
    assert (nest.grid(), nest.block()) == ((1, 4, 1), (8, 1, 1))


def test_dimensions_are_the_largest_of_any_tensor() -> None:
    sf = scheduled(unary((4, 8)), R, *parallel("r", P.TIDX), *parallel("v0", P.SERIAL, P.TIDX))
    assert nest_of(sf).block() == (8, 1, 1)


# Indices in terms of those variables ---------------------------------------------------------------------------------


def test_offsets_of_both_sides_of_a_copy() -> None:
    types = (P.BIDX, P.TIDX, P.VECTORIZE)
    cut = [Split("r", 1, 4), Split("v0", 1, 4)]
    sf = scheduled(unary((4, 64), strides=(80, 1)), R, *cut, *parallel("r", *types), *parallel("v0", *types))
    indexing = Indexing(sf, id_graph(sf))
    load_op, store_op = sf.producer("r"), sf.producer("v0")
    assert load_op is not None
    assert store_op is not None
    bx, tx, lane = var(Var("bx", 4)), var(Var("tx", 16)), var(Var(LANE, 4))
    assert indexing.read_offset(load_op, "i0") == bx * 80 + tx * 4 + lane
    assert indexing.write_offset(sf.tensor("r")) == lane
    assert indexing.read_offset(store_op, "r") == lane
    assert indexing.write_offset(sf.tensor("v0")) == bx * 64 + tx * 4 + lane
    assert indexing.logical(sf.tensor("v0")) == (bx, tx * 4 + lane)


def test_a_shared_tile_is_written_and_read_by_different_threads() -> None:
    """Rows written, columns read: both through the padded allocation of the tile."""
    taken = [SetAllocationDomain("s", (0, 1), (), (36, 1)), *parallel("s", P.SERIAL, P.TIDX)]
    sf = load((32, 32), *taken, *parallel("v0", P.TIDX))
    indexing = Indexing(sf, id_graph(sf))
    read = sf.producer("v0")
    assert read is not None
    k, tx = var(Var("k0", 32)), var(Var("tx", 32))
    assert indexing.write_offset(sf.tensor("s")) == k * 36 + tx
    assert indexing.read_offset(read, "s") == tx * 36 + var(Var("k1", 32))


@pytest.mark.parametrize(
    ("shape", "taken", "bounds"),
    [
        pytest.param((64,), [Split("v0", 0, 16)], [], id="even"),
        pytest.param((60,), [Split("v0", 0, 16)], ["(k0 * 16 + k1) < 60"], id="uneven"),
        pytest.param((60,), [Split("v0", 0, 4), Split("v0", 0, 4)], ["(k0 * 4 + k1) < 15"], id="uneven-tiles"),
        pytest.param(
            (6, 10), [Merge("v0", 0), Split("v0", 0, 16)], ["(k0 * 16 + k1) < 60"], id="of-the-merge-not-its-parts"
        ),
        pytest.param((60,), [Split("v0", 0, 64)], ["k0 < 60"], id="one-piece"),
        pytest.param(
            (10, 10),
            [Split("v0", 1, 4), Split("v0", 0, 4)],
            ["(k2 * 4 + k3) < 10", "(k0 * 4 + k1) < 10"],
            id="each-in-the-order-of-the-splits",
        ),
        pytest.param(
            (3,), [Split("v0", 0, 2), *parallel("v0", P.SERIAL, P.BULK)], [], id="a-bulk-axis-stands-at-its-start"
        ),
    ],
)
def test_bounds_are_of_the_sources_of_uneven_splits(
    shape: tuple[int, ...], taken: list[Step], bounds: list[str]
) -> None:
    sf = scheduled(unary(shape), *taken)
    assert [str(b) for b in Indexing(sf, id_graph(sf)).bounds(sf.tensor("v0"))] == bounds


@pytest.mark.parametrize(
    ("offset", "width", "consecutive"),
    [
        pytest.param(lambda x, lane: x * 4 + lane, 4, True, id="step-one"),
        pytest.param(lambda x, lane: x * 4 + lane * 2, 4, False, id="step-two"),
        pytest.param(lambda x, lane: x, 4, False, id="no-step"),
        pytest.param(lambda x, lane: x, 1, True, id="one-lane"),
        pytest.param(lambda x, lane: (x * 4 + lane) % 12, 4, True, id="lanes-stay-inside-a-remainder"),
        pytest.param(lambda x, lane: (x + lane) % 12, 4, False, id="lanes-may-wrap"),
    ],
)
def test_consecutive_lanes(offset: object, width: int, consecutive: bool) -> None:
    assert callable(offset)
    e = offset(var(Var("x", 30)), var(lane_variable(4)))
    assert isinstance(e, Expr)
    assert lanes_are_consecutive(e, width) is consecutive
    assert first_lane(e, 4) == e.substitute({Var(LANE, 4): const(0)})
