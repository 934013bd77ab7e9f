"""Which threads are a warp: against the numbering of threads in a block, one by one."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis.id.graph import id_graph
from compiler.analysis.tmem.tmem import TensorMemoryPlan, TmemAccess
from compiler.analysis.tmem.warps import LANE_BITS, TmemWarps, block_shape, warps_of
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var
from compiler.ir.iter_domain import ParallelType
from compiler.ir.size import Size
from tests.compiler.analysis.tmem_cases import ALL, breaches_of, document, fusion_of, on, split, types

THREADS = ("TIDz", "TIDy", "TIDx")


def fusion(block: tuple[int, ...], extents: tuple[int, ...], own: tuple[bool, ...] = (True,) * 3) -> ScheduledFusion:
    """A copy of [z, y, x] in which a shared tensor takes all of a block's threads and the others the first `extents` of
    every dimension; on a dimension that is not their `own` they have no axis."""
    data = document(block, [])
    shared = {**data["tensors"]["tv1"], "memory": "shared"}
    ops = [{"op": "set", "in": ["tv0"], "out": "ts"}, {**data["ops"][0], "in": ["ts"]}, *data["ops"][1:]]
    inner = [split(2 * n, extent) for n, extent in enumerate(extents)]
    mine = [part for name, has in zip(THREADS, own, strict=True) for part in (None, name if has else None)]
    schedule = [*on("ts", *types(*THREADS)), *on(ALL, *inner, *types(*mine))]
    return fusion_of({**data, "tensors": data["tensors"] | {"ts": shared}, "ops": ops, "schedule": schedule})


def warps(sf: ScheduledFusion) -> tuple[TmemWarps, list[Expr]]:
    """The warps of tv2, and the index of its axis on x, y and z; zero where it has none."""
    graph = id_graph(sf)
    t = sf.tensor("tv2")
    found = warps_of(graph, block_shape(sf), t)
    index = []
    for name in reversed(THREADS):
        axes = t.axes_of(ParallelType(name))
        index.append(found.index.get(graph.group(axes[0]), Expr()) if axes else Expr())
    return found, index


def numbering(found: TmemWarps, index: list[Expr]) -> set[tuple[int, ...]]:
    """Warp, number in the warp, and x, y, z of every thread that the expressions describe."""
    assert found.warp is not None
    variables = {v for e in (*index, found.warp) for v in e.variables} | set(LANE_BITS)
    ordered: list[Var] = sorted(variables, key=lambda v: v.name)
    threads = set()
    for point in product(*(range(v.extent) for v in ordered)):
        at = {v.name: n for v, n in zip(ordered, point, strict=True)}
        lane = sum(at[b.name] << i for i, b in enumerate(LANE_BITS))
        threads.add((found.warp.evaluate(at), lane, *(e.evaluate(at) for e in index)))
    return threads


def counted(block: tuple[int, ...], extents: tuple[int, ...], own: tuple[bool, ...]) -> set[tuple[int, ...]]:
    """The same by the definition of a thread's number."""
    active = [extent if has else size for size, extent, has in zip(block, extents, own, strict=True)]
    threads = set()
    for z, y, x in product(*map(range, active)):
        number = x + block[2] * (y + block[1] * z)
        places = [at if has else 0 for at, has in zip((x, y, z), reversed(own), strict=True)]
        threads.add((number // 32, number % 32, *places))
    return threads


def whole(threads: set[tuple[int, ...]]) -> bool:
    members = defaultdict(set)
    for warp, lane, *_ in threads:
        members[warp].add(lane)
    return all(len(lanes) == 32 for lanes in members.values())


@st.composite
def blocks(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[bool, ...]]:
    block = tuple(draw(st.sampled_from([1, 2, 3, 4, 8, 16, 32, 33, 64])) for _ in range(3))
    block = block if block[0] * block[1] * block[2] <= 1024 else (1, *block[1:])
    extents = tuple(size if draw(st.booleans()) else draw(st.integers(1, size)) for size in block)
    own = tuple(draw(st.integers(0, 3)) > 0 for _ in range(3))
    return block, extents, own


@settings(max_examples=250)
@given(blocks())
def test_warps_are_those_of_the_numbering(
    case: tuple[tuple[int, ...], tuple[int, ...], tuple[bool, ...]],
) -> None:
    block, extents, own = case
    found, index = warps(fusion(block, extents, own))
    expected = counted(block, extents, own)
    assert (found.warp is None) == (not whole(expected))
    if found.warp is not None:
        assert numbering(found, index) == expected


@pytest.mark.parametrize(
    ("block", "extents", "rule"),
    [
        pytest.param((1, 1, 32), (1, 1, 32), None, id="a-warp"),
        pytest.param((2, 4, 4), (2, 4, 4), None, id="a-warp-of-three-dimensions"),
        pytest.param((1, 1, 1), (1, 1, 1), "tmem_access_is_warp_collective", id="one-thread"),
        pytest.param((1, 1, 33), (1, 1, 33), "tmem_access_is_warp_collective", id="33-threads"),
        pytest.param((1, 2, 16), (1, 1, 16), "tmem_access_is_warp_collective", id="half-a-warp"),
        pytest.param((1, 2, 33), (1, 1, 32), None, id="the-first-warp-of-rows-of-33"),
        pytest.param((1, 2, 33), (1, 2, 32), "tmem_outer_threads_start_at_a_warp", id="rows-of-33"),
        pytest.param((1, 2, 64), (1, 2, 32), None, id="every-other-warp"),
        pytest.param((2, 8, 8), (2, 4, 8), None, id="half-of-every-plane"),
        pytest.param((2, 5, 8), (2, 4, 8), "tmem_outer_threads_start_at_a_warp", id="planes-of-40"),
    ],
)
def test_whole_warps(block: tuple[int, ...], extents: tuple[int, ...], rule: str | None) -> None:
    found, _ = warps(fusion(block, extents))
    memory = TensorMemoryPlan(accesses=(TmemAccess("tv2", "tv2", 32, found),))
    assert breaches_of(memory) == ({rule} if rule else set())
    assert (found.warp is None) == (rule is not None)


def test_a_dimension_without_an_axis_repeats_the_work() -> None:
    """Every second warp does what the first does, so only one of them is in its own lanes."""
    found, index = warps(fusion((1, 2, 32), (1, 2, 32), (True, False, True)))
    assert {t[0] for t in numbering(found, index)} == {0, 1}


def specialized(on_type: str, block: tuple[int, ...]) -> dict[ParallelType, Size]:
    """Block shape with a shared tensor that warps of their own load, one row at a time."""
    data = document((4, *block), [])
    shared = {**data["tensors"]["tv1"], "memory": "shared"}
    ops: list[dict[str, Any]] = [
        {"op": "set", "in": ["tv0"], "out": "ts", "via": "tma"},
        {**data["ops"][0], "in": ["ts"]},
        *data["ops"][1:],
    ]
    bulk = [{"do": "parallelize", "axis": n, "type": "Bulk"} for n in (1, 2, 3)]
    steps = [*on(ALL, *types(None, *THREADS)), *on("ts", *bulk), *on("ts", {"do": "inline_at", "position": 1})]
    buffer = {"do": "circular_buffer", "stages": 2, "prefetch": 1, "kind": "warp_specialized", "on": on_type}
    schedule = [*steps, *on("ts", buffer)]
    return block_shape(
        fusion_of({**data, "tensors": data["tensors"] | {"ts": shared}, "ops": ops, "schedule": schedule})
    )


@pytest.mark.parametrize(
    ("on_type", "block", "expected"),
    [
        pytest.param("TIDy", (1, 2, 64), (1, 4, 64), id="two-rows-of-64"),
        pytest.param("TIDx", (1, 1, 256), (1, 1, 384), id="another-128"),
        pytest.param("TIDz", (2, 4, 32), (3, 4, 32), id="one-plane-of-128"),
    ],
)
def test_warp_specialisation_appends_threads(on_type: str, block: tuple[int, ...], expected: tuple[int, ...]) -> None:
    found = specialized(on_type, block)
    assert tuple(found.get(ParallelType(name), Size(1)).value for name in THREADS) == expected


def test_the_block_is_as_long_as_the_longest_axis() -> None:
    sf = fusion((1, 2, 64), (1, 1, 32))
    assert {type_.value: size.value for type_, size in block_shape(sf).items() if size != Size(1)} == {
        "TIDy": 2,
        "TIDx": 64,
    }


def test_an_unknown_thread_axis_makes_the_block_unknown() -> None:
    data = document((64, 4), on(ALL, *types("TIDx")))
    data["tensors"] = {n: {**t, "symbolic": [True, False]} for n, t in data["tensors"].items()}
    sf = fusion_of(data)
    assert str(block_shape(sf)[ParallelType.TIDX]) == "size[0][0]"
    graph = id_graph(sf)
    assert [str(s) for s in warps_of(graph, block_shape(sf), sf.tensor("tv2")).sizes] == ["size[0][0]"]
