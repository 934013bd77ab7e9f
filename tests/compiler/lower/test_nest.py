"""The loop tree: order within a body, loads together on a barrier, where registers are declared."""

from __future__ import annotations

import pytest

from compiler.analysis.facts import Facts
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.ir.tensor import CopyVia
from compiler.lower.nest import AsyncLoads, Leaf, Nested, Node, build_nest, declaration_depth
from compiler.schedule import steps as st
from tests.compiler.lower.kernels import MADE, staged
from tests.compiler.schedules import LOCAL, SHARED, P, Steps, from_wire, parallel, schedule, unary


def shape_of(nodes: tuple[Node, ...]) -> list[object]:
    """The tree as nested lists: tensor names, loads as sets, loops as [extent, body...]."""
    out: list[object] = []
    for node in nodes:
        match node:
            case Leaf():
                out.append(node.op.output)
            case AsyncLoads():
                out.append(set(node.tensors))
            case Nested():
                out.append([node.extent, *shape_of(node.body)])
    return out


def add() -> Fusion:
    """v0 = i0 + i1 over 64 elements."""
    inputs = [{"name": n, "shape": [64], "dtype": "f32"} for n in "xy"]
    return from_wire(inputs, [{"op": "add", "in": ["x", "y"], "out": "o"}], "o")


def added(first: str, second: str) -> Steps:
    """Both inputs of `add` through shared memory, one box of 16 a block, in this order of caching."""
    steps: Steps = []
    for name in (first, second):
        steps += [st.CacheInput(name, f"{name}_s", SHARED, CopyVia.TMA), st.CacheInput(f"{name}_s", f"{name}_r", LOCAL)]
    steps += [st.CacheOutput("v0", "q", LOCAL)]
    for tv in ("i0_s", "i1_s", "i0_r", "i1_r", "q", "v0"):
        steps += [st.Split(tv, 0, 16), st.Parallelize(tv, 0, P.BIDX)]
    for tv in ("i0_s", "i1_s"):
        steps += [st.Parallelize(tv, 1, P.BULK), st.InlineAt(tv, 1)]
    return steps


INLINED: Steps = [st.InlineAt(tv, 2) for tv in ("i0_r", "i1_r", "q")]


def whole(*tensors: str) -> Steps:
    """These tensors' own loops, unrolled, in the block's body."""
    return [s for tv in tensors for s in (st.Parallelize(tv, 1, P.UNROLL), st.InlineAt(tv, 1))]


@pytest.mark.parametrize("order", [("i0", "i1"), ("i1", "i0")], ids=str)
def test_bulk_loads_stand_first_and_together(order: tuple[str, str]) -> None:
    facts = schedule(add(), [*added(*order), *INLINED])
    (loads, loop) = shape_of(build_nest(facts))
    assert loads == {"i0_s", "i1_s"}
    assert loop == [16, "i0_r", "i1_r", "q", "v0"] if order[0] == "i0" else [16, "i1_r", "i0_r", "q", "v0"]


def test_loads_stand_before_the_rest() -> None:
    """A load from global memory overtakes arithmetic that is ready earlier."""
    inputs = [{"name": n, "shape": [8], "dtype": "f32"} for n in "xy"]
    ops = [{"op": "relu", "in": ["x"], "out": "a"}, {"op": "add", "in": ["a", "y"], "out": "o"}]
    steps: Steps = [st.CacheInput("i0", "i0_r", LOCAL), st.CacheInput("i1", "i1_r", LOCAL)]
    fusion = from_wire(inputs, ops, "o")
    steps += [st.CacheOutput(fusion.outputs[0], "q", LOCAL)]
    middle = fusion.ops[0].output
    assert [op.kind.value for op in fusion.ops] == ["relu", "add"]
    steps += [st.InlineAt(tv, 1) for tv in ("i0_r", "i1_r", middle, "q")]
    facts = schedule(fusion, steps)
    made = [op.output for op in facts.sf.ops]
    assert made.index(middle) < made.index("i1_r"), "in the order of the ops the arithmetic comes first"
    assert shape_of(build_nest(facts)) == [[8, "i0_r", "i1_r", middle, "q", fusion.outputs[0]]]


def test_a_tensor_that_is_not_inlined_has_its_own_loop() -> None:
    facts = schedule(add(), [*added("i0", "i1"), *whole("i0_r", "i1_r"), st.InlineAt("q", 2)])
    assert shape_of(build_nest(facts)) == [{"i0_s", "i1_s"}, [16, "i0_r"], [16, "i1_r"], [16, "q", "v0"]]
    assert [declaration_depth(facts, facts.sf.tensor(t)) for t in ("i0_r", "q")] == [0, 1]


def test_ring_loads_carry_their_depth() -> None:
    facts = Facts(MADE["ring of 3"]()[0].sf)
    (tile,) = build_nest(facts)
    assert isinstance(tile, Nested)
    assert (tile.extent, tile.unroll) == (11, False)
    loads = tile.body[0]
    assert isinstance(loads, AsyncLoads)
    assert (loads.tensors, loads.stages, loads.prefetch) == (("s",), 3, 2)
    assert declaration_depth(facts, facts.sf.tensor("r")) == 1


def test_loads_of_different_rings_have_barriers_of_their_own() -> None:
    facts = schedule(add(), [*added("i0", "i1"), *INLINED, st.CircularBuffer("i0_s", 2)])
    kinds = [type(node).__name__ for node in build_nest(facts)]
    assert kinds == ["AsyncLoads", "AsyncLoads", "Nested"]


def test_an_unrolled_axis_of_one_tensor_unrolls_the_shared_loop() -> None:
    facts = schedule(unary((8,)), [st.CacheInput("i0", "r", LOCAL), *parallel("v0", P.UNROLL), st.InlineAt("r", 0)])
    (load, store) = build_nest(facts)
    assert isinstance(load, Nested)
    assert isinstance(store, Nested)
    assert (load.unroll, store.unroll) == (False, True)


def test_a_loop_that_is_needed_twice_is_named() -> None:
    """r stands in the loop of a and in that of q; b, which reads all of a and is read by q, would be between them."""
    inputs = [{"name": "x", "shape": [8], "dtype": "f32"}]
    ops = [
        {"op": "relu", "in": ["x"], "out": "a"},
        {"op": "neg", "in": ["a"], "out": "b"},
        {"op": "add", "in": ["x", "b"], "out": "o"},
    ]
    fusion = from_wire(inputs, ops, "o")
    a, b, o = (op.output for op in fusion.ops)
    steps: Steps = [st.CacheInput("i0", "r", LOCAL), st.CacheOutput(o, "q", LOCAL)]
    facts = schedule(fusion, [*steps, st.InlineAt("r", 1), st.InlineAt("q", 1)])
    with pytest.raises(Unsupported, match=f"needs a loop around .*{b}.* twice"):
        build_nest(facts)
    assert shape_of(build_nest(schedule(fusion, [*steps, st.InlineAt("q", 1)]))) == [
        [8, "r"],
        [8, a],
        [8, b],
        [8, "q", o],
    ]


def test_staged_tiles_are_one_loop() -> None:
    facts = schedule(unary((1000,)), staged(32, 3, store=True))
    assert shape_of(build_nest(facts)) == [[11, {"s"}, "r", "o", "v0"]]
