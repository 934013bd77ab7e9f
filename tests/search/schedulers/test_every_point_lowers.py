"""Every point of a space lowers: what the model of schedules refuses is no point, whatever the fusion.

The table has fusions of which some points were refused once; random ones are what nobody thought of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from compiler.arch import card_or_default
from compiler.errors import CompilerError
from compiler.ir.fusion import Fusion
from compiler.pipeline import generate
from search.space.groups import parts_in_tmem
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.plan import Plan
from tests.compiler.schedules import from_wire
from tests.search.random_fusions.cases import random_case
from tests.search.schedulers.inner_outer_fusions import cast, expand, fold, op
from tests.search.schedulers.row_fusions import spread, tensor

FEW_SMS = replace(card_or_default("H200"), sm_count=4)
"""A card that few rows fill, so that schedulers for many rows take small fusions."""


FEW_SMS_WITH_TMEM = replace(card_or_default("B200"), sm_count=4)


def operand_beside_columns() -> Fusion:
    """The largest element of each column of a group, but where that is the column's weight; beside shares of rows."""
    shape, small = (64, 5, 64), (64, 64)
    ops = [
        fold("amax", "x", "c", 1),
        expand("w", "b", small, 1),
        op("minimum", "l", "b", 4.0),
        op("ne", "n", "c", "l"),
        op("where", "y", "n", "c", 0.0),
        fold("sum", "x", "r", 2, keepdim=True),
        expand("r", "s", shape, 0, 1, 2),
        op("div", "z", "x", "s"),
    ]
    return from_wire([tensor("x", shape, "f32"), tensor("w", (64,), "f32")], ops, "y", "z")


def expanded_rows() -> Fusion:
    """Rows that are one row in memory, less their largest elements; and the least of these in each group."""
    ops = [
        fold("amax", "x", "m", 2, keepdim=True),
        expand("m", "b", (8, 6, 64), 0, 1, 2),
        op("sub", "y", "x", "b"),
        fold("amin", "b", "c", 1),
    ]
    return from_wire([tensor("x", (8, 6, 64), "f32", strides=[0, 0, 1])], ops, "y", "c")


def expanded_along_what_is_folded() -> Fusion:
    """Columns of which all rows are one in memory."""
    x = tensor("x", (24, 1, 24), "bf16", strides=[1, 0, 0])
    return from_wire([x], [fold("amax", "x", "y", 2)], "y")


def columns_of_bytes() -> Fusion:
    """Less their means, of few rows: tiles of a step may be as short as a row of a few columns."""
    ops = [
        cast("x", "f"),
        fold("mean", "f", "m", 0, keepdim=True),
        expand("m", "b", (3, 4224), 0, 1),
        op("sub", "y", "f", "b"),
    ]
    return from_wire([tensor("x", (3, 4224), "i8")], ops, "y")


def permute_of_whole_dimensions(dtype: str, shape: tuple[int, ...], *dims: int) -> Fusion:
    """A transpose that one tile may hold, of dimensions that lie together on each side."""
    ops = [op("permute", "p", "x", dims=list(dims)), op("add", "y", "p", 1)]
    return from_wire([tensor("x", shape, dtype)], ops, "y")


def sum_of_a_transposed_and_an_expanded_input() -> Fusion:
    """Both lie along the rows; the second repeats along a part of the columns."""
    shape = (64, 8, 32)
    ops = [
        op("permute", "p", "x", dims=[2, 1, 0]),
        op("permute", "q", "w", dims=[1, 0]),
        expand("q", "b", shape, 0, 2),
        op("add", "y", "p", "b"),
    ]
    return from_wire([tensor("x", (32, 8, 64), "f32"), tensor("w", (32, 64), "f32")], ops, "y")


def copy_between_online_folds() -> Fusion:
    """log-sum-exp of a copy that is stored as well."""
    ops = [
        cast("x", "f"),
        op("copy", "k", "f"),
        op("minimum", "l", "k", 9),
        fold("amax", "l", "m", 1, keepdim=True),
        expand("m", "b", (8, 128), 0, 1),
        op("sub", "d", "l", "b"),
        op("exp", "e", "d"),
        fold("sum", "e", "s", 1),
        op("log", "y", "s"),
    ]
    return from_wire([tensor("x", (8, 128), "i32")], ops, "y", "l")


def softmax_of_signs() -> Fusion:
    """Along rows. The signs, bytes, are stored as well."""
    shape = (8, 1000)
    ops = [
        op("sign", "g", "x"),
        cast("g", "f"),
        fold("amax", "f", "m", 1, keepdim=True),
        expand("m", "b", shape, 0, 1),
        op("sub", "d", "f", "b"),
        op("exp", "e", "d"),
        fold("sum", "e", "s", 1, keepdim=True),
        expand("s", "t", shape, 0, 1),
        op("div", "y", "e", "t"),
    ]
    return from_wire([tensor("x", shape, "i8")], ops, "g", "y")


def columns_with_a_bias_of_rows() -> Fusion:
    """Less their means. The bias is one value for a whole row, as its exponential is."""
    shape = (24, 136)
    ops = [
        expand("w", "b", shape, 0),
        op("exp", "e", "b"),
        op("add", "a", "x", "e"),
        fold("mean", "a", "m", 0, keepdim=True),
        expand("m", "c", shape, 0, 1),
        op("sub", "y", "a", "c"),
    ]
    return from_wire([tensor("x", shape, "f32"), tensor("w", (24,), "f32")], ops, "y")


ONCE_REFUSED = {
    "operand-beside-columns": operand_beside_columns(),
    "expanded-rows": expanded_rows(),
    "expanded-along-what-is-folded": expanded_along_what_is_folded(),
    "source-dimensions-in-one-tile": permute_of_whole_dimensions("f16", (8, 32, 2), 1, 2, 0),
    "columns-of-bytes": columns_of_bytes(),
    "tiles-across-dimensions": permute_of_whole_dimensions("f16", (8, 7, 16, 33, 64), 4, 0, 3, 1, 2),
    "output-dimensions-in-one-tile": permute_of_whole_dimensions("f64", (2, 2, 128), 2, 0, 1),
    "expanded-along-a-part-of-the-columns": sum_of_a_transposed_and_an_expanded_input(),
    "copy-between-online-folds": copy_between_online_folds(),
}


def refused(fusion: Fusion, count: int, seed: int) -> list[str]:
    """What the compiler refuses of so many points of each scheduler."""
    plan = Plan.of(fusion, FEW_SMS)
    return _refused(plan, plan.sample(count, seed))


def refused_in_tmem(fusion: Fusion, count: int, seed: int) -> list[str]:
    """The same of so many points of each use of tensor memory that a scheduler has."""
    plan = Plan.of(fusion, FEW_SMS_WITH_TMEM)
    parts = [(name, part) for name, space in plan.spaces.items() for part in parts_in_tmem(space)]
    return _refused(plan, [Candidate.of(name, point) for name, part in parts for point in part.sample(count, seed)])


def _refused(plan: Plan, candidates: Iterable[Candidate]) -> list[str]:
    found = []
    for candidate in candidates:
        try:
            generate(plan.schedulers[candidate.scheduler].trace(plan.fusion, candidate.knobs), plan.arch)
        except CompilerError as error:
            found.append(f"{candidate}: {error}")
    return found


@pytest.mark.parametrize("name", ONCE_REFUSED)
def test_every_point_of_these_lowers(name: str) -> None:
    assert refused(ONCE_REFUSED[name], 8, seed=5) == []


ONCE_REFUSED_IN_TMEM = {
    "a-part-of-what-a-pass-over-columns-reads": spread((200, 512), 0),
    "a-part-of-what-a-pass-over-rows-reads": spread((200, 512), 1),
    "bytes-that-are-stored-as-well": softmax_of_signs(),
    "one-value-for-a-row": columns_with_a_bias_of_rows(),
}
"""Of `spread`, e goes to tensor memory, and c, which it is made of, is read before it and after."""


@pytest.mark.parametrize("name", ONCE_REFUSED_IN_TMEM)
def test_every_point_of_these_lowers_with_tensor_memory(name: str) -> None:
    assert refused_in_tmem(ONCE_REFUSED_IN_TMEM[name], 4, seed=5) == []


@pytest.mark.parametrize(("limits", "seeds"), [("tiny", 10), ("small", 3), ("large", 1)])
def test_every_point_of_random_fusions_lowers(limits: str, seeds: int) -> None:
    for seed in range(seeds):
        case = random_case(seed, limits)
        assert refused(case.bound(), 2, seed) == [], str(case)


@pytest.mark.long
@pytest.mark.parametrize("limits", ["tiny", "small", "large"])
@pytest.mark.parametrize("first", range(20_000, 20_300, 50))
def test_every_point_of_many_random_fusions_lowers(limits: str, first: int) -> None:
    for seed in range(first, first + 50):
        case = random_case(seed, limits)
        assert refused(case.bound(), 6, seed) == [], str(case)


@pytest.mark.long
@pytest.mark.parametrize("limits", ["tiny", "small", "large"])
@pytest.mark.parametrize("first", range(20_000, 20_300, 50))
def test_every_point_of_many_random_fusions_with_tensor_memory_lowers(limits: str, first: int) -> None:
    for seed in range(first, first + 50):
        case = random_case(seed, limits)
        assert refused_in_tmem(case.bound(), 3, seed) == [], str(case)
