"""Steps as JSON: round trips, and what is refused with its place."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.size import Size
from compiler.ir.tensor import BufferKind, CachePolicy, CopyVia
from compiler.schedule import steps
from compiler.schedule.step_forms import MalformedStep, step_from_json, step_text, step_to_json
from compiler.schedule.steps import Step
from compiler.schedule.trace import steps_from_json

SAMPLES: list[Step] = [
    steps.Split("s", 1, 128),
    steps.Split("s", 1, 4, inner=False),
    steps.Merge("s", 0),
    steps.Merge("s", 2, 0),
    steps.Reorder("s", ((0, 2), (2, 0))),
    steps.Reorder("s", ()),
    steps.Swizzle("s", 1, 3),
    *(steps.Parallelize("s", 0, t) for t in ParallelType),
    steps.ParallelizeLoops("s", (ParallelType.BIDX, ParallelType.SERIAL, ParallelType.TIDX)),
    steps.Propagate("s", ("v0", "v1")),
    steps.ParallelizeLike("s", ("v0",)),
    steps.InlineSelectedAt(("s", "v0"), 2),
    steps.SetAllocationDomain("s", (1, 0)),
    steps.SetAllocationDomain("s", (0, 1), (), (36, 1)),
    steps.SetAllocationDomain(
        "s",
        (0, 1),
        (steps.Split("s", 1, 4), steps.Split("s", 0, 8), steps.Swizzle("s", 1, 2), steps.Reorder("s", ((0, 1),))),
        (None, None, 8, 1),
    ),
    steps.SetAllocationDomain("s", (0, 1), (steps.Resize("s", 1, 0, 3),), (), (False, None)),
    steps.SetAllocationDomain("s", (0, 1), (), (), False),
    steps.Resize("s", 1, -2, 3),
    steps.Shift("s", 1, (0, 2), (8191, 4), 32),
    steps.Shift("s", 1, (0,), (8191,), 32, 3),
    steps.Window("s", 1, 56, 64, 8),
    steps.Straddle("s"),
    steps.Multicast("s"),
    steps.TmemDimsep("s", -1),
    steps.InlineAt("s", 2),
    steps.InlineMost(),
    steps.ComputeAt("s", "v0", 1),
    steps.ComputeWith("s", 2),
    steps.CircularBuffer("s", 4),
    steps.CircularBuffer("s", 4, 2),
    steps.CircularBuffer(
        "s", 4, 2, BufferKind.WARP_SPECIALIZED, ParallelType.TIDY, (40, 232), slice_position=3, war_mbarrier=True
    ),
    *(steps.CacheInput("i0", "s", m, via) for m in MemoryType for via in CopyVia),
    steps.CacheOutput("v0", "s", MemoryType.SHARED, CopyVia.TMA),
    steps.SetMemory("v0", MemoryType.LOCAL),
    steps.Recompute("r", "v0", "r_p2"),
    steps.Recompute("r", "v0", "r_p2", ("v1", "v2")),
    steps.Online("m", ("s", "t")),
    *(steps.SetCache("r", p) for p in CachePolicy),
    steps.Park("r", 12),
    steps.ProductsInFlight("r", 2),
    steps.Deal("r", 132),
    steps.CapRegisters(128),
]


def test_the_samples_are_of_every_step() -> None:
    assert {type(s) for s in SAMPLES} == set(get_args(Step))


@pytest.mark.parametrize("step", SAMPLES, ids=step_text)
def test_json_round_trip(step: Step) -> None:
    document = json.loads(json.dumps(step_to_json(step)))
    found = step_from_json(document)
    assert found == step
    assert hash(found) == hash(step), "lists must come back as tuples"
    assert step_to_json(found) == document


def test_traces_of_steps_that_had_fewer_fields_keep_their_form() -> None:
    assert set(step_to_json(steps.SetAllocationDomain("s", (1, 0)))) == {"do", "tv", "axes", "transforms", "strides"}
    assert set(step_to_json(steps.CircularBuffer("s", 4))) == {"do", "tv", "stages", "prefetch"}
    assert set(step_to_json(steps.Recompute("r", "v0", "p"))) == {"do", "tensor", "consumer", "out"}


def test_a_factor_that_a_launch_gives_is_stored_as_its_value() -> None:
    assert step_to_json(steps.Split("s", 0, Size.symbol("n", 24)))["factor"] == 24


def test_left_out_fields_take_their_defaults() -> None:
    assert step_from_json({"do": "split", "tv": "s", "axis": 0, "factor": 8}) == steps.Split("s", 0, 8, inner=True)
    assert step_from_json({"do": "merge", "tv": "s", "axis": 0}) == steps.Merge("s", 0, None)
    assert step_from_json({"do": "circular_buffer", "tv": "s", "stages": 3}) == steps.CircularBuffer("s", 3, -1)


def split(**changes: Any) -> dict[str, Any]:
    document = {"do": "split", "tv": "s", "axis": 0, "factor": 8} | changes
    return {k: v for k, v in document.items() if v is not ...}


def allocation(*transforms: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"do": "set_allocation_domain", "tv": "s", "axes": [0, 1], "transforms": list(transforms)} | changes


@pytest.mark.parametrize(
    ("document", "where", "found", "expected"),
    [
        pytest.param(split(do="spilt"), "do", "'spilt'", "split, merge, reorder", id="unknown-step"),
        pytest.param(split(do=...), "do", "nothing", "split, merge, reorder", id="no-step"),
        pytest.param(split(do=["split"]), "do", "['split']", "split, merge, reorder", id="step-is-no-name"),
        pytest.param("split", "", "'split'", "an object", id="not-an-object"),
        pytest.param(split(factr=4), "factr", "unknown", "tv, axis, factor, inner", id="unknown-field"),
        pytest.param(split(factor=...), "factor", "nothing", "split", id="missing-field"),
        pytest.param(split(axis="1"), "axis", "'1'", "an integer", id="text-for-integer"),
        pytest.param(split(axis=None), "axis", "None", "an integer", id="null-for-integer"),
        pytest.param(split(axis=True), "axis", "True", "an integer", id="flag-for-integer"),
        pytest.param(split(factor=8.0), "factor", "8.0", "an integer", id="float-for-integer"),
        pytest.param(split(inner=1), "inner", "1", "true or false", id="integer-for-flag"),
        pytest.param(split(tv=3), "tv", "3", "a text", id="integer-for-name"),
        pytest.param(
            {"do": "parallelize", "tv": "s", "axis": 0, "type": "TIDw"},
            "type",
            "'TIDw'",
            "TIDx, TIDy, TIDz",
            id="unknown-parallel-type",
        ),
        pytest.param(
            {"do": "cache_input", "tensor": "i0", "out": "s", "memory": "texture"},
            "memory",
            "'texture'",
            "global, shared, local",
            id="unknown-memory",
        ),
        pytest.param(
            {"do": "reorder", "tv": "s", "moves": [[0, 1], [0, 1, 2]]},
            "moves[1]",
            "[0, 1, 2]",
            "a list of 2",
            id="a-move-is-a-pair",
        ),
        pytest.param(
            {"do": "reorder", "tv": "s", "moves": {"0": 1}}, "moves", "{'0': 1}", "a list", id="moves-are-a-list"
        ),
        pytest.param(allocation(axes=[0, None]), "axes[1]", "None", "an integer", id="an-axis-is-not-null"),
        pytest.param(allocation(strides=[None, 1.5]), "strides[1]", "1.5", "an integer or null", id="a-stride-may-be"),
        pytest.param(
            allocation(split(), split(factor="8")),
            "transforms[1].factor",
            "'8'",
            "an integer",
            id="a-fault-inside-transforms",
        ),
        pytest.param(
            allocation({"do": "parallelize", "tv": "s", "axis": 0, "type": "TIDx"}),
            "transforms[0].do",
            "'parallelize'",
            "split, merge, reorder, swizzle",
            id="parallelize-is-no-transform-of-an-allocation",
        ),
    ],
)
def test_what_does_not_fit_is_named(document: Any, where: str, found: str, expected: str) -> None:
    with pytest.raises(MalformedStep) as caught:
        step_from_json(document, "here")
    assert caught.value.where.removeprefix("here").removeprefix(".") == where
    assert found in caught.value.found
    assert expected in caught.value.expected
    assert str(caught.value).startswith(f"{caught.value.where}: found {caught.value.found}, expected ")


def test_a_list_of_steps_names_the_position() -> None:
    good = step_to_json(steps.Merge("s", 0))
    assert steps_from_json([good, good]) == (steps.Merge("s", 0), steps.Merge("s", 0))
    with pytest.raises(MalformedStep, match=r"^steps\[1\]\.do: found 'spilt', expected one of split, "):
        steps_from_json([good, split(do="spilt")])


def test_the_printed_form_is_one_line_with_every_field() -> None:
    nested = steps.SetAllocationDomain("s", (1, 0), (steps.Split("s", 1, 4),), (None, 8, 1))
    assert step_text(nested) == (
        "set_allocation_domain(tv=s, axes=[1, 0], "
        "transforms=[split(tv=s, axis=1, factor=4, inner=True)], strides=[None, 8, 1], contiguity=True)"
    )
    assert step_text(steps.Parallelize("s", 0, ParallelType.TIDX)) == "parallelize(tv=s, axis=0, type=TIDx)"
