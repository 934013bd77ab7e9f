"""Which axes of producer and consumer are the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compiler.analysis.correspondence import corresponding_axes
from compiler.ir.domain import ScheduledFusion
from compiler.ir.ops import OpKind
from compiler.schedule.steps import CacheInput, InlineAt, Merge, Parallelize, Reorder, Split, Step, Swizzle
from tests.compiler.schedules import LOCAL, P, unary
from tests.compiler.scheduling import scheduled


def same(sf: ScheduledFusion, output: str) -> dict[str, str]:
    """Consumer axis -> producer axis, by their numbers."""
    op = sf.producer(output)
    assert op is not None
    producer, consumer = sf.tensor(op.tensor_inputs[0]), sf.tensor(output)
    found = corresponding_axes(op, producer, consumer)
    return {c.name.removeprefix(f"{output}."): p.name.removeprefix(f"{producer.name}.") for c, p in found.items()}


ROOT = {"0": "0", "1": "1"}

CASES = [
    pytest.param([], ROOT, id="logical-axes"),
    pytest.param([Split("r", 1, 4), Split("v0", 1, 4)], {**ROOT, "2": "2", "3": "3"}, id="equal-splits"),
    pytest.param([Split("r", 1, 4), Split("v0", 1, 8)], ROOT, id="another-factor"),
    pytest.param([Split("r", 1, 4), Split("v0", 1, 4, inner=False)], {**ROOT, "2": "2", "3": "3"}, id="4-of-16-is-4"),
    pytest.param([Split("r", 1, 8), Split("v0", 1, 8, inner=False)], ROOT, id="8-outside-is-not-8-inside"),
    pytest.param([Split("r", 1, 4)], ROOT, id="one-side-split"),
    pytest.param([Merge("r", 0), Merge("v0", 0)], {**ROOT, "2": "2"}, id="equal-merges"),
    pytest.param([Merge("r", 0), Merge("v0", 1, 0)], ROOT, id="merged-the-other-way-round"),
    pytest.param([Swizzle("r", 0, 1), Swizzle("v0", 0, 1)], {**ROOT, "2": "2"}, id="equal-swizzles"),
    pytest.param([Swizzle("r", 0, 1), Swizzle("v0", 1, 0)], ROOT, id="swizzled-the-other-way-round"),
    pytest.param(
        [Split("r", 1, 4), Split("r", 0, 8), Split("v0", 0, 8), Split("v0", 2, 4)],
        {**ROOT, "2": "4", "3": "5", "4": "2", "5": "3"},
        id="the-order-of-steps-does-not-matter",
    ),
    pytest.param(
        [Split("r", 1, 4), Reorder("r", ((2, 0),)), Split("v0", 1, 4), Parallelize("v0", 0, P.BIDX)],
        {**ROOT, "2": "2", "3": "3"},
        id="nor-do-positions-and-types",
    ),
    pytest.param(
        [Merge("r", 0), Split("r", 0, 32), Merge("v0", 0), Split("v0", 0, 32), Split("v0", 0, 2), Split("r", 1, 4)],
        {**ROOT, "2": "2", "3": "3", "4": "4"},
        id="up-to-where-they-part",
    ),
]


@pytest.mark.parametrize(("taken", "expected"), CASES)
def test_copies(taken: list[Step], expected: dict[str, str]) -> None:
    assert same(scheduled(unary((16, 16)), CacheInput("i0", "r", LOCAL), *taken), "v0") == expected


@pytest.mark.parametrize(
    ("kind", "shape", "dims", "result", "expected"),
    [
        pytest.param(OpKind.PERMUTE, (4, 8), (1, 0), (8, 4), {"0": "1", "1": "0"}, id="permute"),
        pytest.param(OpKind.BROADCAST_TO, (8,), (1,), (4, 8), {"1": "0"}, id="broadcast"),
        pytest.param(OpKind.BROADCAST_TO, (1, 8), (0, 1), (4, 8), {"1": "1"}, id="an-expanded-axis-is-another"),
        pytest.param(OpKind.BROADCAST_TO, (1, 8), (0, 2), (1, 4, 8), {"0": "0", "2": "1"}, id="one-kept-as-one"),
    ],
)
def test_views(
    kind: OpKind, shape: Sequence[int], dims: tuple[int, ...], result: Sequence[int], expected: dict[str, str]
) -> None:
    assert same(scheduled(unary(shape, kind, dims=dims, result=result)), "w0") == expected


def test_splits_of_a_permute_correspond() -> None:
    fusion = unary((4, 8), OpKind.PERMUTE, dims=(1, 0), result=(8, 4))
    sf = scheduled(fusion, CacheInput("i0", "r", LOCAL), Split("r", 1, 4), Split("w0", 0, 4), InlineAt("r", 0))
    assert same(sf, "w0") == {"0": "1", "1": "0", "2": "2", "3": "3"}
