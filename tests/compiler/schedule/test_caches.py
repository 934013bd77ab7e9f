"""Caches of inputs, intermediates and outputs: where the copy goes, and who reads what."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compiler.errors import InvalidStep
from compiler.ir.domain import ScheduledFusion, extents
from compiler.ir.fusion import Fusion
from compiler.ir.tensor import CopyVia
from compiler.schedule.apply import apply
from compiler.schedule.steps import CacheInput, CacheOutput, SetMemory, Split, Step
from tests.compiler.schedules import LOCAL, SHARED, from_wire
from tests.compiler.scheduling import load, scheduled


def fusion_of(inputs: int, ops: Sequence[dict[str, object]], *outputs: str, shape: tuple[int, ...] = (4, 8)) -> Fusion:
    tensors = [{"name": f"x{i}", "shape": list(shape), "dtype": "f32"} for i in range(inputs)]
    return from_wire(tensors, ops, *outputs)


def op(kind: str, out: str, *ins: str) -> dict[str, object]:
    return {"op": kind, "in": list(ins), "out": out}


def graph(sf: ScheduledFusion) -> list[str]:
    """One line an op; the way of a copy where it is not plain."""
    return [
        f"{o.output} = {o.kind}({', '.join(map(str, o.inputs))}){'' if o.via is CopyVia.PLAIN else f' via {o.via}'}"
        for o in sf.ops
    ]


TWO_READERS = [op("exp", "e", "x0"), op("neg", "n", "x0"), op("add", "y", "e", "n")]
OUTPUT_READ_INSIDE = [op("exp", "e", "x0"), op("neg", "y", "e")]

CACHES = [
    pytest.param(
        fusion_of(1, TWO_READERS, "y"),
        [CacheInput("i0", "r", LOCAL)],
        ["r = copy(i0)", "v0 = exp(r)", "v1 = neg(r)", "v2 = add(v0, v1)"],
        id="input-with-several-consumers",
    ),
    pytest.param(
        fusion_of(1, [op("add", "y", "x0", "x0")], "y"),
        [CacheInput("i0", "r", LOCAL)],
        ["r = copy(i0)", "v0 = add(r, r)"],
        id="input-read-twice-by-one-op",
    ),
    pytest.param(
        fusion_of(1, TWO_READERS, "y"),
        [CacheInput("i0", "r", LOCAL), CacheInput("i0", "s", SHARED, CopyVia.TMA)],
        ["s = copy(i0) via tma", "r = copy(s)", "v0 = exp(r)", "v1 = neg(r)", "v2 = add(v0, v1)"],
        id="a-second-cache-goes-before-the-first",
    ),
    pytest.param(
        fusion_of(1, TWO_READERS, "y"),
        [CacheInput("v0", "t", SHARED)],
        ["v0 = exp(i0)", "v1 = neg(i0)", "t = copy(v0)", "v2 = add(t, v1)"],
        id="an-intermediate-goes-before-its-first-reader",
    ),
    pytest.param(
        fusion_of(1, OUTPUT_READ_INSIDE, "e", "y"),
        [CacheInput("v0", "t", LOCAL)],
        ["v0 = exp(i0)", "t = copy(v0)", "v1 = neg(t)"],
        id="an-output-for-its-readers",
    ),
    pytest.param(
        fusion_of(1, TWO_READERS, "y"),
        [CacheOutput("v2", "r", LOCAL)],
        ["v0 = exp(i0)", "v1 = neg(i0)", "r = add(v0, v1)", "v2 = copy(r)"],
        id="output",
    ),
    pytest.param(
        fusion_of(1, TWO_READERS, "y"),
        [CacheOutput("v2", "r", LOCAL), CacheOutput("v2", "s", SHARED, CopyVia.TMA)],
        ["v0 = exp(i0)", "v1 = neg(i0)", "r = add(v0, v1)", "s = copy(r)", "v2 = copy(s) via tma"],
        id="a-second-output-cache-goes-after-the-first",
    ),
    pytest.param(
        fusion_of(1, OUTPUT_READ_INSIDE, "e", "y"),
        [CacheOutput("v0", "r", LOCAL)],
        ["r = exp(i0)", "v0 = copy(r)", "v1 = neg(r)"],
        id="readers-of-an-output-read-the-cache",
    ),
    pytest.param(
        fusion_of(1, OUTPUT_READ_INSIDE, "y", "e"),
        [CacheOutput("v0", "r", LOCAL), CacheOutput("v1", "q", LOCAL)],
        ["r = exp(i0)", "v0 = copy(r)", "q = neg(r)", "v1 = copy(q)"],
        id="two-outputs",
    ),
]


@pytest.mark.parametrize(("fusion", "taken", "expected"), CACHES)
def test_caches_rewire_the_graph(fusion: Fusion, taken: list[Step], expected: list[str]) -> None:
    sf = scheduled(fusion, *taken)
    assert graph(sf) == expected
    assert (sf.inputs, sf.outputs) == (fusion.inputs, fusion.outputs)
    for step in taken:
        assert isinstance(step, CacheInput | CacheOutput)
        cached, like = sf.tensor(step.out), sf.tensor(step.tensor)
        assert cached.memory is step.memory
        assert cached.dtype is like.dtype
        assert [a.extent for a in cached.logical] == [a.extent for a in like.logical]
        assert not set(cached.logical) & set(like.logical)
        assert (cached.loop, cached.exprs, cached.allocation) == (cached.logical, (), None)


def test_a_cache_of_a_scheduled_tensor_starts_from_its_logical_axes() -> None:
    sf = load((4, 8), Split("s", 1, 2), CacheInput("s", "r", LOCAL))
    assert extents(sf.tensor("r").loop) == (4, 8)
    assert extents(sf.tensor("s").loop) == (4, 4, 2)


def test_a_computed_tensor_does_not_move_to_shared_memory() -> None:
    sf = scheduled(fusion_of(1, [op("exp", "e", "x0"), op("copy", "c", "e"), op("neg", "y", "c")], "y"))
    with pytest.raises(InvalidStep, match=r"v0 is computed by exp\. Cache its output in shared memory instead"):
        apply(sf, SetMemory("v0", SHARED))
    after = apply(sf, SetMemory("v1", SHARED, CopyVia.BULK1D))
    assert after.tensor("v1").memory is SHARED
    assert graph(after) == ["v0 = exp(i0)", "v1 = copy(v0) via bulk1d", "v2 = neg(v1)"]
