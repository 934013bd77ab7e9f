"""Permutes moved up to the inputs: which fusions have some to move, and that the values stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.ir.ops import FOLDS, MathGrade, OpKind
from compiler.reference import evaluate
from search.launches import raise_permutes
from tests.search.launches.made import F32, S, Written, fusion_of, softmax, standardized, two_permutations

CUBE = (4, 6, 8)
TURNED = (6, 4, 8)


def turned_softmax() -> Fusion:
    return softmax(S, ("permute", ["v6"], "v7", S[::-1], F32, (1, 0)), outputs=("v7",))


def turned_twice() -> Fusion:
    """Permuted, worked on, and permuted back: nothing is left to permute."""
    back: list[Written] = [
        ("permute", ["v6"], "v7", S[::-1], F32, (1, 0)),
        ("exp", ["v7"], "v8", S[::-1], F32),
        ("permute", ["v8"], "v9", S, F32, (1, 0)),
    ]
    return softmax(S, *back, outputs=("v9",))


def heads_before_tokens() -> Fusion:
    """Rows over their sums, rotated by halves, times a weight of the last dimension, in another order."""
    half = (4, 6, 4)
    ops: list[Written] = [
        ("sum", ["i0"], "v0", (4, 6, 1), F32, (2,)),
        ("broadcast_to", ["v0"], "v1", CUBE, F32, (0, 1, 2)),
        ("div", ["i0", "v1"], "v2", CUBE, F32),
        ("slice", ["v2"], "v3", half, F32, (2,), 4),
        ("slice", ["v2"], "v4", half, F32, (2,), 0),
        ("cat", ["v3", "v4"], "v5", CUBE, F32, (2,)),
        ("broadcast_to", ["i1"], "v6", CUBE, F32, (1, 2)),
        ("mul", ["v5", "v6"], "v7", CUBE, F32),
        ("permute", ["v7"], "v8", TURNED, F32, (1, 0, 2)),
    ]
    return fusion_of([("i0", CUBE, F32), ("i1", (6, 8), F32)], ops, "v8")


def folded_in_the_middle() -> Fusion:
    """Sums along the middle, without that dimension, turned; and positions along what comes first then."""
    ops: list[Written] = [
        ("sum", ["i0"], "v0", (4, 8), F32, (1,)),
        ("permute", ["v0"], "v1", (8, 4), F32, (1, 0)),
        ("iota", [], "v2", (8, 4), DType.I64, (0,)),
        ("cast", ["v2"], "v3", (8, 4), F32),
        ("add", ["v1", "v3"], "v4", (8, 4), F32),
    ]
    return fusion_of([("i0", CUBE, F32)], ops, "v4")


def turned_back_beside() -> Fusion:
    """A result that is stored twice: as it is, and turned there and back."""
    back: list[Written] = [
        ("permute", ["v6"], "v7", S[::-1], F32, (1, 0)),
        ("permute", ["v7"], "v8", S, F32, (1, 0)),
    ]
    return softmax(S, *back, outputs=("v6", "v8"))


def input_turned_back_beside() -> Fusion:
    """An input there and back, which is the input, beside a result that is turned."""
    back: list[Written] = [
        ("permute", ["v6"], "v7", S[::-1], F32, (1, 0)),
        ("permute", ["i0"], "v8", S[::-1], F32, (1, 0)),
        ("permute", ["v8"], "v9", S, F32, (1, 0)),
    ]
    return softmax(S, *back, outputs=("v7", "v9"))


def both_orders() -> Fusion:
    """A result that is stored as it is, and turned."""
    return softmax(S, ("permute", ["v6"], "v7", S[::-1], F32, (1, 0)), outputs=("v6", "v7"))


def shares_in_both_orders() -> Fusion:
    """Rows over their sums, which keep their dimension, stored as they are, and turned."""
    ops: list[Written] = [
        ("sum", ["i0"], "v0", (S[0], 1), F32, (1,)),
        ("broadcast_to", ["v0"], "v1", S, F32, (0, 1)),
        ("div", ["i0", "v1"], "v2", S, F32),
        ("permute", ["v2"], "v3", S[::-1], F32, (1, 0)),
    ]
    return fusion_of([("i0", S, F32)], ops, "v2", "v3")


def greatest_in_both_orders() -> Fusion:
    """Rows less their greatest element, stored as they are, and turned: a maximum is one whoever finds it."""
    ops: list[Written] = [
        ("amax", ["i0"], "v0", (S[0], 1), F32, (1,)),
        ("broadcast_to", ["v0"], "v1", S, F32, (0, 1)),
        ("sub", ["i0", "v1"], "v2", S, F32),
        ("permute", ["v2"], "v3", S[::-1], F32, (1, 0)),
    ]
    return fusion_of([("i0", S, F32)], ops, "v2", "v3")


def behind_a_reshape() -> Fusion:
    ops: list[Written] = [
        ("reshape", ["v6"], "v7", (4, 16, 96), F32),
        ("permute", ["v7"], "v8", (16, 4, 96), F32, (1, 0, 2)),
    ]
    return softmax(S, *ops, outputs=("v8",))


def behind_a_scan() -> Fusion:
    """Sums before each element along the middle, less their greatest one, turned."""
    ops: list[Written] = [
        ("cumsum", ["i0"], "v0", CUBE, F32, (1,), 1),
        ("amax", ["v0"], "v1", (4, 6, 1), F32, (2,)),
        ("broadcast_to", ["v1"], "v2", CUBE, F32, (0, 1, 2)),
        ("sub", ["v0", "v2"], "v3", CUBE, F32),
        ("permute", ["v3"], "v4", (8, 4, 6), F32, (2, 0, 1)),
    ]
    return fusion_of([("i0", CUBE, F32)], ops, "v4")


@pytest.mark.parametrize(
    ("made", "permuted"),
    [
        pytest.param(turned_softmax, {"i0"}, id="softmax"),
        pytest.param(turned_twice, set(), id="there-and-back"),
        pytest.param(heads_before_tokens, {"i0"}, id="heads-before-tokens"),
        pytest.param(folded_in_the_middle, {"i0"}, id="folded-in-the-middle"),
        pytest.param(both_orders, {"i0"}, id="both-orders"),
        pytest.param(greatest_in_both_orders, {"i0"}, id="greatest-in-both-orders"),
        pytest.param(behind_a_scan, {"i0"}, id="behind-a-scan"),
    ],
)
def test_inputs_are_what_is_permuted(made: Callable[[], Fusion], permuted: set[str]) -> None:
    raised = raise_permutes(made())
    assert raised is not None
    assert {x for op in raised.ops if op.kind is OpKind.PERMUTE for x in op.tensor_inputs} == permuted


@pytest.mark.parametrize(
    "made",
    [
        turned_softmax,
        turned_twice,
        turned_back_beside,
        input_turned_back_beside,
        heads_before_tokens,
        folded_in_the_middle,
        both_orders,
        greatest_in_both_orders,
        behind_a_reshape,
        behind_a_scan,
    ],
)
def test_values_stay_what_they_are(made: Callable[[], Fusion]) -> None:
    fusion = made()
    raised = raise_permutes(fusion)
    assert raised is not None
    assert raised.inputs == fusion.inputs
    assert len({*raised.outputs, *raised.inputs}) == len(raised.outputs) + len(raised.inputs)
    draw = np.random.default_rng(7)
    inputs = [draw.standard_normal(fusion.value(name).shape) + 3.0 for name in fusion.inputs]
    for want, have in zip(
        evaluate(fusion, inputs, np, rounds=False), evaluate(raised, inputs, np, rounds=False), strict=True
    ):
        np.testing.assert_allclose(have, want, rtol=1e-12)


def test_a_reshape_stops_a_permute() -> None:
    raised = raise_permutes(behind_a_reshape())
    assert raised is not None
    kinds = [op.kind for op in raised.ops]
    assert max(kinds.index(kind) for kind in kinds if kind in FOLDS) < kinds.index(OpKind.PERMUTE)


@pytest.mark.parametrize("made", [softmax, standardized, two_permutations])
def test_where_nothing_is_permuted_after_a_reduction_nothing_is_raised(made: Callable[[], Fusion]) -> None:
    assert raise_permutes(made()) is None


def test_nothing_is_added_up_twice() -> None:
    """Two sums of the same terms, in two kernels, would leave two results that differ in their last bits."""
    assert raise_permutes(shares_in_both_orders()) is None
    raised = raise_permutes(both_orders())
    assert raised is not None
    assert [op.kind for op in raised.ops].count(OpKind.SUM) == 1


def test_how_exactly_a_value_is_computed_stays() -> None:
    fusion = turned_twice()
    graded = replace(
        fusion, ops=tuple(replace(op, grade=MathGrade.APPROX) if op.kind is OpKind.EXP else op for op in fusion.ops)
    )
    found = raise_permutes(graded)
    assert found is not None
    assert {op.grade for op in found.ops if op.kind is OpKind.EXP} == {MathGrade.APPROX}
