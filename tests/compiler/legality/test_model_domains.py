"""Rules on the domains of tensors: the nearest document that passes, and the one that only that rule refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.errors import Kept, Stage, Violation
from compiler.ir.tensor import Allocation, TensorView
from compiler.legality import domains
from compiler.legality.rules import MODEL, Schedule
from tests.compiler.legality.model_rules import kept_by, refused_by, rules_of
from tests.compiler.schedule.documents_of_steps import Json, after, chain, do, document, merge, op, split, tensor

RULES = rules_of(domains)


def allocated(tv: str, *axes: int) -> Json:
    return do("set_allocation_domain", tv, axes=list(axes) or "loop")


def bound(strides: list[int], *steps: Json, shape: list[int] | None = None, **input_: Any) -> Json:
    """a[4, 6] -> t0 -> z with a bound to these strides."""
    runtime = {"strides": strides} | ({} if shape is None else {"shape": shape})
    data = chain((4, 6), *steps) | {"runtime_inputs": {"a": runtime}}
    data["tensors"]["a"] |= input_
    return data


def viewed(**allocation: Any) -> Json:
    data = chain((4, 6))
    data["tensors"]["a"]["allocation"] = allocation
    return data


def transposed(rows: int, columns: int) -> Json:
    """z = a + p, p the transpose of a where that fits, of another input where it does not."""
    square = rows == columns
    tensors = {
        "a": tensor([rows, columns], "global"),
        "b": tensor([columns, rows], "global"),
        "p": tensor([rows, columns]),
        "z": tensor([rows, columns], "global"),
    }
    ops = [op("permute", "a" if square else "b", "p", dims=[1, 0]), op("add", "a p", "z")]
    return document(tensors, ops, "a" if square else "a b", "z")


def broadcast_transposed() -> Json:
    """The same with two broadcast axes, which hold no data."""
    data = transposed(3, 3)
    for t in data["tensors"].values():
        t |= {"shape": [1, 1]}
    return data


SIX = {"do": "split", "axis": 0, "factor": 6}
ROWS = [
    pytest.param(
        "allocations_are_equivalent_to_the_logical_domain",
        viewed(axes=[1, 0]),
        viewed(axes=[1]),
        Stage.COMPILE,
        id="an-axis-without-a-place",
    ),
    pytest.param(
        "contiguity_has_one_flag_an_axis",
        viewed(shape=[24], transforms=[SIX], contiguity=[True]),
        viewed(shape=[24], transforms=[SIX], contiguity=[True, True]),
        Stage.COMPILE,
        id="a-flag-too-many",
    ),
    pytest.param(
        "no_two_axes_of_a_tensor_are_one", transposed(4, 6), transposed(4, 4), Stage.COMPILE, id="plus-its-transpose"
    ),
    pytest.param(
        "bound_shapes_are_the_declared_ones",
        bound([6, 1], shape=[4, 6]),
        bound([6, 1], shape=[5, 6]),
        Stage.RUNTIME,
        id="another-extent",
    ),
    pytest.param(
        "bound_shapes_are_the_declared_ones",
        bound([7, 1], shape=[5, 7], symbolic=True, contiguity=[False, True]),
        bound([7, 1], shape=[5, 7], symbolic=[True, False], contiguity=[False, True]),
        Stage.RUNTIME,
        id="an-extent-that-is-known",
    ),
    pytest.param(
        "bound_shapes_are_the_declared_ones",
        bound([6, 1]),
        bound([24, 6, 1], shape=[1, 4, 6]),
        Stage.RUNTIME,
        id="another-rank",
    ),
    pytest.param(
        "allocation_splits_divide",
        chain((4, 6), split("a", 1, 3), allocated("a")),
        chain((4, 6), split("a", 1, 4), allocated("a")),
        Stage.RUNTIME,
        id="holes-in-an-input",
    ),
    pytest.param(
        "allocation_splits_divide",
        chain((4, 6), split("t0", 1, 4), allocated("t0")),
        chain((4, 6), split("z", 1, 4), allocated("z")),
        Stage.RUNTIME,
        id="holes-in-an-output",
    ),
    pytest.param(
        "allocation_splits_divide",
        chain((4, 6), split("z", 1, 3), allocated("z"), symbolic=True),
        chain((4, 6), split("z", 1, 4), allocated("z"), symbolic=True),
        Stage.RUNTIME,
        id="holes-at-this-launch",
    ),
    pytest.param(
        "merged_allocation_axes_are_adjacent",
        bound([12, 2], merge("a", 0), do("set_allocation_domain", "a", axes="loop", contiguity=False)),
        bound([12, 1], merge("a", 0), do("set_allocation_domain", "a", axes="loop", contiguity=False)),
        Stage.RUNTIME,
        id="merged-apart",
    ),
    pytest.param(
        "split_allocation_axes_have_adjacent_pieces",
        bound([6, 1], allocation={"shape": [24], "transforms": [SIX]}),
        bound([8, 1], allocation={"shape": [24], "transforms": [SIX]}),
        Stage.RUNTIME,
        id="pieces-apart",
    ),
    pytest.param(
        "strides_are_as_contiguity_says",
        bound([8, 1], contiguity=[False, True]),
        bound([8, 1], contiguity=[True, True]),
        Stage.RUNTIME,
        id="rows-apart",
    ),
    pytest.param(
        "strides_are_as_contiguity_says",
        bound([1, 4], allocated("a", 1, 0)),
        bound([6, 1], allocated("a", 1, 0)),
        Stage.RUNTIME,
        id="rows-first",
    ),
    # A launch that says nothing binds dense row-major tensors.
    pytest.param(
        "strides_are_as_contiguity_says",
        chain((4, 6), allocated("a", 0, 1)),
        chain((4, 6), allocated("a", 1, 0)),
        Stage.RUNTIME,
        id="rows-first-unless-a-launch-says-so",
    ),
    pytest.param(
        "strides_are_as_contiguity_says",
        chain((4, 6), split("a", 1, 3), allocated("a")),
        chain((4, 6), split("a", 1, 3), allocated("a", 0, 2, 1)),
        Stage.RUNTIME,
        id="pieces-swapped",
    ),
    pytest.param(
        "merged_allocation_axes_are_adjacent",
        chain((4, 6), merge("a", 0), do("set_allocation_domain", "a", axes="loop", contiguity=False)),
        chain((4, 6), merge("a", 1, 0), do("set_allocation_domain", "a", axes="loop", contiguity=False)),
        Stage.RUNTIME,
        id="merged-the-other-way-round",
    ),
    pytest.param(
        "strides_are_as_contiguity_says",
        chain((4, 6)) | {"runtime_inputs": {"z": {"strides": [6, 1]}}},
        chain((4, 6)) | {"runtime_inputs": {"z": {"strides": [8, 1]}}},
        Stage.RUNTIME,
        id="an-output-with-rows-apart",
    ),
    pytest.param(
        "bound_shapes_are_the_declared_ones",
        chain((4, 6)) | {"runtime_inputs": {"z": {"shape": [4, 6]}}},
        chain((4, 6)) | {"runtime_inputs": {"z": {"shape": [4, 7]}}},
        Stage.RUNTIME,
        id="an-output-of-another-extent",
    ),
]


@pytest.mark.parametrize(("rule", "legal", "illegal", "stage"), ROWS)
def test_the_nearest_documents(rule: str, legal: Json, illegal: Json, stage: Stage) -> None:
    assert refused_by(legal, RULES) == {}
    assert refused_by(illegal, RULES) == {rule: stage}


@pytest.mark.parametrize(
    "allocation",
    [
        {"axes": [1, 0]},
        {"axes": [1, 0], "transforms": [{"do": "split", "axis": 0, "factor": 2}]},
        {"axes": [1, 0], "transforms": [{"do": "merge", "axis": 0}]},
        {"shape": [24], "transforms": [SIX]},
        {"shape": [4, 3, 2], "transforms": [{"do": "merge", "axis": 1}]},
        {"shape": [6, 4], "transforms": [{"do": "reorder", "map": [1, 0]}, {"do": "split", "axis": 0, "factor": 2},
                                         {"do": "merge", "axis": 0}]},
    ],
)  # fmt: skip
def test_an_input_lies_as_it_is_declared_unless_a_launch_says_otherwise(allocation: Json) -> None:
    assert refused_by(viewed(**allocation), RULES) == {}


def test_a_launch_may_contradict_the_declaration() -> None:
    data = viewed(axes=[1, 0]) | {"runtime_inputs": {"a": {"strides": [6, 1]}}}
    assert refused_by(data, RULES) == {"strides_are_as_contiguity_says": Stage.RUNTIME}


def test_axes_that_hold_no_data_may_be_one() -> None:
    assert refused_by(broadcast_transposed(), RULES) == {}


def test_a_split_of_an_unknown_extent_is_a_guard() -> None:
    data = chain((4, 6), split("z", 1, 3), allocated("z"), symbolic=True)
    assert kept_by(data, "allocation_splits_divide") == ["size[0][1] % (3) == 0"]


# What steps keep from coming to be -----------------------------------------------------------------------------------


def found(name: str, change: Callable[[TensorView], TensorView]) -> list[str]:
    """What a rule finds where a tensor is not as steps make them."""
    sf = after(chain((4, 6), split("t0", 1, 2), allocated("t0")))
    broken = sf.with_tensor(change(sf.tensor("t0")))
    (rule,) = (rule for rule in MODEL if rule.__name__ == name)
    assert list(rule(Schedule(sf, arch_named("sm_90a")))) == []
    breaches: list[Violation | Kept] = list(rule(Schedule(broken, arch_named("sm_90a"))))
    assert all(isinstance(v, Violation) and v.rule == rule.__name__ for v in breaches)
    return [f"{v.where}: {v.found}" for v in breaches if isinstance(v, Violation)]


def allocation(t: TensorView) -> Allocation:
    assert t.allocation is not None
    return t.allocation


def test_loops_lack_and_repeat() -> None:
    rule = "loops_are_equivalent_to_the_logical_domain"
    assert found(rule, lambda t: replace(t, loop=t.loop[1:], types=t.types[1:])) == ["t0: loop domain: it0.0{4}"]
    twice = found(rule, lambda t: replace(t, loop=(*t.loop, t.logical[1]), types=(*t.types, t.types[0])))
    assert twice == ["t0: loop domain: it0.1{6}"]


def test_allocations_lack_and_repeat() -> None:
    rule = "allocations_are_equivalent_to_the_logical_domain"
    axes = found(rule, lambda t: replace(t, allocation=replace(allocation(t), axes=allocation(t).axes[:2])))
    assert axes == ["t0: allocation domain: it0.3{2}"]


@pytest.mark.parametrize(
    ("flags", "breaches"),
    [
        pytest.param((True, True), ["t0: 2"], id="too-few"),
        pytest.param((True, None, True), ["t0: it0.2{3}: None"], id="none-on-an-axis-that-holds-data"),
        pytest.param((True, False, True), [], id="each-has-its-own"),
    ],
)
def test_flags_of_an_allocation(flags: tuple[bool | None, ...], breaches: list[str]) -> None:
    rule = "contiguity_has_one_flag_an_axis"
    assert found(rule, lambda t: replace(t, allocation=replace(allocation(t), contiguity=flags))) == breaches
