"""Where fusions are cut, what that costs, and that the launches give what the fusion gives."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator

import numpy as np
import pytest

from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind
from compiler.ir.touched import moved_bytes
from compiler.reference import evaluate
from search.cost.roofline import launch_us
from search.launches import Cut, cheapest_cut, cut_at
from search.launches.cheapest import _Segments
from tests.cards import H200
from tests.search.launches.made import (
    BF16,
    F32,
    S,
    Written,
    column_max_of_shares,
    fusion_of,
    one_fold,
    row_and_column_sums,
    run_launches,
    softmax,
    standardized,
    sum_of_squared_sums,
    two_permutations,
)

FULL = 4 * S[0] * S[1]
ROW, COLUMN = 4 * S[0], 4 * S[1]


def transposed_softmax() -> Fusion:
    return softmax(S, ("permute", ["v6"], "v7", S[::-1], F32, (1, 0)), outputs=("v7",))


def scaled_twice() -> Fusion:
    """Sums over rows and over columns of exp(x / 2): exp is in both launches, not in memory."""
    ops: list[Written] = [
        ("mul", ["i0", 0.5], "v0", S, F32),
        ("exp", ["v0"], "v1", S, F32),
        ("sum", ["v1"], "v2", (S[0],), F32, (1,)),
        ("sum", ["v1"], "v3", (S[1],), F32, (0,)),
    ]
    return fusion_of([("i0", S, F32)], ops, "v2", "v3")


def narrowed_between() -> Fusion:
    """A row sum that is cast to 16 bits before it is summed: the half is stored, not the float."""
    ops: list[Written] = [
        ("sum", ["i0"], "v0", (S[0],), F32, (1,)),
        ("cast", ["v0"], "v1", (S[0],), BF16),
        ("square", ["v1"], "v2", (S[0],), BF16),
        ("sum", ["v2"], "v3", (), BF16, (0,)),
    ]
    return fusion_of([("i0", S, F32)], ops, "v3")


def same_fold_far_apart() -> Fusion:
    """Two row reductions share a launch, though the chain of the first output stands between them."""
    ops: list[Written] = [
        ("sum", ["i0"], "v0", (S[0],), F32, (1,)),
        ("square", ["v0"], "v1", (S[0],), F32),
        ("sum", ["v1"], "v2", (), F32, (0,)),
        ("amax", ["i0"], "v3", (S[0],), F32, (1,)),
    ]
    return fusion_of([("i0", S, F32)], ops, "v2", "v3")


CASES: dict[str, tuple[Fusion, tuple[tuple[str, ...], ...], int]] = {
    "one-kernel": (softmax(), (("v6",),), 2 * FULL),
    "two-outputs": (row_and_column_sums(), (("v0",), ("v1",)), 2 * FULL + ROW + COLUMN),
    "chain": (column_max_of_shares(), (("v0",), ("v3",)), 2 * FULL + 2 * ROW + COLUMN),
    "permutations": (two_permutations(), (("v0",), ("v3",)), 5 * 4 * 16**3),
    "small-between": (sum_of_squared_sums(), (("v0",), ("v2",)), 4 * (8 * 6 * 32 + 2 * 8 * 6 + 6)),
    "recomputed": (scaled_twice(), (("v2",), ("v3",)), 2 * FULL + ROW + COLUMN),
    "narrowed": (narrowed_between(), (("v1",), ("v3",)), FULL + 2 * 2 * S[0] + 2),
    "far-apart": (same_fold_far_apart(), (("v0", "v3"), ("v2",)), FULL + 3 * ROW + 4),
    "held": (transposed_softmax(), (("v7",),), 2 * FULL),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fusion_is_cut_at_its_cheapest_place(name: str) -> None:
    fusion, stores, nbytes = CASES[name]
    cut = cheapest_cut(fusion, H200, one_fold)
    assert cut is not None
    assert (cut.stores, cut.moved_bytes) == (stores, nbytes)
    assert cut.us(H200) == pytest.approx(sum(launch_us(moved_bytes(part.fusion), H200) for part in cut.parts))


@pytest.mark.parametrize("name", CASES)
def test_the_launches_give_what_the_fusion_gives(name: str) -> None:
    fusion, stores, _ = CASES[name]
    agrees(fusion, cut_at(fusion, stores))


def test_what_is_read_in_one_order_is_stored_where_a_kernel_holds_no_transpose_beside_a_reduction() -> None:
    """Softmax stores two numbers a row, and the launch that transposes computes the rest again."""

    def apart(fusion: Fusion) -> bool:
        kinds = {op.kind for op in fusion.ops}
        return one_fold(fusion) and not (OpKind.PERMUTE in kinds and kinds & {OpKind.SUM, OpKind.AMAX})

    cut = cheapest_cut(transposed_softmax(), H200, apart)
    assert cut is not None
    assert (cut.stores, cut.moved_bytes) == ((("v0", "v4"), ("v7",)), 3 * FULL + 4 * ROW)
    assert cut.scratch == ("v0", "v4")
    agrees(transposed_softmax(), cut)


def test_an_operator_that_no_launch_holds_leaves_no_cut() -> None:
    assert cheapest_cut(standardized(), H200, lambda part: all(op.kind is not OpKind.DIV for op in part.ops)) is None


def test_launches_have_canonical_names_and_equal_ones_are_equal() -> None:
    """Two outputs, alike but for their inputs: their launches are one fusion."""
    ops: list[Written] = [
        ("sum", ["i1"], "v0", (S[0],), F32, (1,)),
        ("sum", ["i0"], "v1", (S[0],), F32, (1,)),
    ]
    fusion = fusion_of([("i0", S, F32), ("i1", S, F32)], ops, "v0", "v1")
    first, second = cut_at(fusion, [["v0"], ["v1"]]).parts
    assert first.fusion == second.fusion
    assert (first.reads, first.writes, second.reads, second.writes) == (("i1",), ("v0",), ("i0",), ("v1",))
    assert (first.fusion.inputs, first.fusion.outputs) == (("i0",), ("v0",))


@pytest.mark.parametrize(
    ("stores", "fault"),
    [
        pytest.param([["v0"]], "outputs", id="output-missing"),
        pytest.param([["v0", "v4"], ["v4", "v6"]], "stored once", id="twice"),
        pytest.param([["v6"], []], "stored once", id="empty"),
        pytest.param([["i0"], ["v6"]], "stored once", id="input"),
    ],
)
def test_what_is_no_cut(stores: list[list[str]], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        cut_at(softmax(), stores)


def test_a_sum_of_floats_is_folded_by_one_launch() -> None:
    fusion = softmax(S, ("log", ["v4"], "v7", S[:1], F32), outputs=("v6", "v7"))
    with pytest.raises(ValueError, match=r"folds \['v4'\] are folded by two launches each"):
        cut_at(fusion, [["v6"], ["v7"]])
    assert len(cut_at(fusion, [["v6", "v4"], ["v7"]]).parts) == 2


# Random graphs -------------------------------------------------------------------------------------------------------


def random_fusion(seed: int, count: int, shape: tuple[int, int], sums: float = 0.4) -> Fusion:
    """Sums over one dimension, broadcasts of them, and pairs of values added up; what nothing needs is an output."""
    draw = random.Random(seed)
    ops: list[Written] = []
    shapes: dict[str, tuple[int, ...]] = {"i0": shape, "i1": shape}
    unused: dict[str, None] = {}
    for n in range(count):
        name, operand = f"v{n}", draw.choice((*unused, *shapes)[-5:])
        unused.pop(operand, None)
        if draw.random() < sums and shapes[operand] == shape:
            d = draw.choice([0, 1])
            shapes[name] = tuple(1 if i == d else size for i, size in enumerate(shape))
            ops.append(("sum", [operand], name, shapes[name], F32, (d,)))
        elif shapes[operand] != shape:
            shapes[name] = shape
            ops.append(("broadcast_to", [operand], name, shape, F32, (0, 1)))
        else:
            other = draw.choice([x for x, size in shapes.items() if size == shape][-5:])
            unused.pop(other, None)
            shapes[name] = shape
            ops.append(("add", [operand, other], name, shape, F32))
        unused[name] = None
    return fusion_of([("i0", shape, F32), ("i1", shape, F32)], ops, *unused)


@pytest.mark.parametrize("seed", range(12))
def test_random_launches_give_what_the_fusion_gives(seed: int) -> None:
    fusion = random_fusion(seed, 4 + seed, (5, 7))
    cut = cheapest_cut(fusion, H200, one_fold)
    assert cut is not None
    assert all(one_fold(part.fusion) for part in cut.parts)
    agrees(fusion, cut)


@pytest.mark.parametrize("seed", range(8))
def test_no_other_choice_of_stored_values_is_cheaper(seed: int) -> None:
    """Every choice of values to store, in every order of launches, of fusions of four operators."""
    fusion = random_fusion(100 + seed, 4, (1024, 2048), sums=0.6)
    cut = cheapest_cut(fusion, H200, one_fold)
    assert cut is not None
    assert cut.us(H200) <= min(one.us(H200) for one in every_cut(fusion)) + 1e-9


def test_a_large_fusion_is_cut_with_few_questions() -> None:
    """64 operators, a dozen launches: at most 64 operators a question, and 4000 in all, but for single operators."""
    asked: list[int] = []

    def accepts(part: Fusion) -> bool:
        asked.append(len(part.ops))
        return one_fold(part)

    fusion = random_fusion(24, 64, (1024, 2048))
    begun = time.process_time()
    cut = cheapest_cut(fusion, H200, accepts)
    assert cut is not None
    assert len(cut.parts) > 3
    assert sum(asked) < 5000
    assert time.process_time() - begun < 5  # takes 1 s


def test_ways_around_what_was_refused_are_the_shortest_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are looked for again are all that get longer: found anew from the start they are the same."""
    asked: list[bool] = []
    around = _Segments._find_ways_around

    def compared(segments: _Segments, refused: set[int]) -> None:
        around(segments, refused)
        found = list(segments.shortest_from)
        segments._find_ways(segments.steps - 1)
        asked.append(found == segments.shortest_from)

    monkeypatch.setattr(_Segments, "_find_ways_around", compared)
    for seed in range(6):
        cheapest_cut(random_fusion(200 + seed, 14, (1024, 2048)), H200, one_fold)
    assert len(asked) > 6
    assert all(asked)


def every_cut(fusion: Fusion) -> Iterator[Cut]:
    """Every cut whose launches hold."""
    optional = [op.output for op in fusion.ops if op.output not in fusion.outputs]
    for count in range(len(optional) + 1):
        for extra in itertools.combinations(optional, count):
            for stores in partitions((*fusion.outputs, *extra)):
                try:
                    cut = cut_at(fusion, stores)
                except (KeyError, ValueError):  # a launch that reads what a later one writes, a sum folded twice
                    continue
                if all(one_fold(part.fusion) for part in cut.parts):
                    yield cut


def partitions(names: tuple[str, ...]) -> Iterator[list[tuple[str, ...]]]:
    """The ways to deal names out to launches in order."""
    if not names:
        yield []
    for count in range(1, len(names) + 1):
        for first in itertools.combinations(names, count):
            for rest in partitions(tuple(name for name in names if name not in first)):
                yield [first, *rest]


def agrees(fusion: Fusion, cut: Cut) -> None:
    draw = np.random.default_rng(7)
    inputs = [draw.standard_normal(fusion.value(name).shape) + 1.5 for name in fusion.inputs]
    expected = evaluate(fusion, inputs, np, rounds=False)
    for want, have in zip(expected, run_launches(cut, inputs), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12)
