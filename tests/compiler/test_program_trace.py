"""Traces of several launches as documents, and the kernels that they replay to."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.errors import InvalidFusion
from compiler.ir.fusion import Fusion
from compiler.nvrtc import Compiled, KernelResources
from compiler.pipeline import artifact, generate
from compiler.schedule.trace import ProgramTrace, launches_of
from compiler.wire import artifact_from_json, trace_from_json, trace_to_json
from fusetune.wire.artifact import ScratchArg, TensorArg
from search.launches import cut_at, program_trace
from search.space.schedulers.flat import Flat
from tests.search.launches.made import F32, Written, fusion_of

HOPPER = arch_named("sm_90a")


def twice(n: int = 4096) -> Fusion:
    """exp(x) + y, then its tanh, and the same plus y: three values that may be stored."""
    ops: list[Written] = [
        ("exp", ["i0"], "v0", (n,), F32),
        ("add", ["v0", "i1"], "v1", (n,), F32),
        ("tanh", ["v1"], "v2", (n,), F32),
        ("mul", ["v2", "i1"], "v3", (n,), F32),
    ]
    return fusion_of([("i0", (n,), F32), ("i1", (n,), F32)], ops, "v1", "v3")


def program(*stores: list[str], vector: int = 4) -> ProgramTrace:
    fusion = twice()
    cut = cut_at(fusion, stores)
    flat = Flat(132)
    traces = []
    for part in cut.parts:
        space = flat.space(part.fusion, HOPPER)
        wanted = {knob.name: knob.values[0] for knob in space.knobs} | {"vector": vector}
        point = space.nearest_legal(wanted)
        assert point is not None
        traces.append(flat.trace(part.fusion, point))
    return program_trace(fusion, cut, traces)


THREE = program(["v0"], ["v1"], ["v2"], ["v3"])


def test_a_trace_of_launches_survives_the_wire() -> None:
    document = json.loads(json.dumps(trace_to_json(THREE)))
    assert document["format"] == "fusetune.trace/2"
    assert [(one["reads"], one["writes"]) for one in document["launches"]] == [
        (["i0"], ["s0"]),
        (["i1", "s0"], ["v1"]),
        (["v1"], ["s1"]),
        (["i1", "s1"], ["v3"]),
    ]
    back = trace_from_json(document)
    assert (back, back.hash) == (THREE, THREE.hash)
    assert generate(back, HOPPER).source == generate(THREE, HOPPER).source


def test_one_launch_keeps_its_format_and_its_kernel() -> None:
    (only,) = program(["v1", "v3"]).launches
    assert trace_to_json(only.trace)["format"] == "fusetune.trace/1"
    made = generate(only.trace, HOPPER)
    assert [one.trace for one in launches_of(only.trace)] == [only.trace]
    assert "fusetune_kernel(" in made.source
    assert (made.scratch, made.kernel) == ((), made.launches[0].kernel)


def test_kernels_of_several_launches_are_one_translation_unit() -> None:
    made = generate(THREE, HOPPER)
    assert made.source.count("__global__") == 4
    assert [made.source.count(f"fusetune_kernel_{n}(") for n in range(5)] == [1, 1, 1, 1, 0]
    with pytest.raises(ValueError, match="4 launches"):
        made.kernel  # noqa: B018 (a property that raises)


def test_an_artifact_has_its_launches_in_order_over_scratch() -> None:
    """A scratch value is where the launch before wrote it; guards are those of all launches."""
    made = generate(program(["v0"], ["v1"], ["v2"], ["v3"], vector=2), HOPPER)
    entries = tuple(f"fusetune_kernel_{n}" for n in range(4))
    resources = KernelResources(40, 0, 0, 0, 0, 1)
    compiled = Compiled(entries[0], "sm_90a", b"cubin", "", "", resources, "c0de", "13.0", 0.1, entries=entries)
    a = artifact_from_json(artifact(made, compiled).model_dump_json())
    i0, i1, v1, v3 = (TensorArg(position=p) for p in range(4))
    s0, s1 = ScratchArg(index=0), ScratchArg(index=0)
    assert [launch.args for launch in a.launches] == [(i0, s0), (i1, s0, v1), (v1, s1), (i1, s1, v3)]
    assert tuple(launch.entry for launch in a.launches) == entries
    assert [(one.bytes, one.align, one.init) for one in a.scratch] == [(4 * 4096, 256, "none")]
    assert sorted(guard.expr for guard in a.guards) == [f"ptr[{p}] % 8 == 0" for p in range(4)]
    assert a.deterministic
    assert trace_from_json(a.trace) == made.trace


Change = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("change", "where", "expected"),
    [
        pytest.param(lambda d: d.update(launches=[]), "launches", "at least one", id="none"),
        pytest.param(lambda d: d.update(format="fusetune.trace/3"), "format", "trace/2", id="format"),
        pytest.param(lambda d: d.update(steps=[]), "'steps'", "launches", id="field"),
        pytest.param(lambda d: d["launches"].append(7), "launches[4]", "an object", id="no-object"),
        pytest.param(lambda d: d["launches"][1].pop("reads"), "launches[1].reads", "a list", id="no-reads"),
        pytest.param(lambda d: d["launches"][1].update(more=1), "launches[1].'more'", "steps", id="more"),
        pytest.param(lambda d: d["launches"][0].update(reads=[3]), "launches[0].reads[0]", "name", id="no-name"),
        pytest.param(lambda d: d["launches"][0].update(reads=["s1"]), "launches[0].reads[0]", "i0, i1", id="too-early"),
        pytest.param(lambda d: d["launches"][0].update(reads=[]), "launches[0].reads", "1, one for each", id="short"),
        pytest.param(lambda d: d["launches"][2].update(writes=["s0"]), "launches[2].writes[0]", "once", id="twice"),
        pytest.param(lambda d: d["launches"][2].update(writes=["i0"]), "launches[2].writes[0]", "output", id="input"),
        pytest.param(lambda d: d["launches"].pop(), "launches", "one launch for each output", id="output-missing"),
        pytest.param(
            lambda d: d["launches"][3]["steps"].append({"do": "x"}), "launches[3].steps[", "one of", id="step"
        ),
        pytest.param(
            lambda d: d["launches"][2].update(d["launches"][2] | {"fusion": smaller(d["launches"][2]["fusion"])}),
            "launches[2].reads[0]",
            "[4096]",
            id="shape",
        ),
    ],
)
def test_what_is_no_trace_says_where(change: Change, where: str, expected: str) -> None:
    document = json.loads(json.dumps(trace_to_json(THREE)))
    change(document)
    with pytest.raises(InvalidFusion) as caught:
        trace_from_json(document)
    first = caught.value.problems[0]
    assert first.where.startswith(where)
    assert expected in first.expected


def smaller(fusion: dict[str, Any]) -> dict[str, Any]:
    """The same fusion over half as many elements."""
    text = json.dumps(fusion).replace("4096", "2048")
    return dict(json.loads(text))
