"""The unscheduled form of fusions that fold rows and columns: which tensor has which dimensions; what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from tests.compiler.schedule.start_forms import broadcast, check_form, check_meaning, fusion_of, op, printed, reduce
from tests.compiler.schedules import from_wire

S = (3, 4, 5)
"""Groups, rows of a group, columns."""
SQUARE = (3, 4, 4)
"""Row and column folds of a group have the same shape."""


def grouped(*more: Any, outputs: Sequence[str] = ("c", "r"), kind: str = "sum") -> Fusion:
    """Row and column folds of a matrix seen in groups of rows."""
    ops = [{"op": "reshape", "in": ["x0"], "out": "g", "shape": list(S)}, reduce(kind, "c", "g", 1)]
    return fusion_of([(S[0] * S[1], S[2])], [*ops, reduce(kind, "r", "x0", 1), *more], *outputs)


def test_rows_and_columns_are_folded_over_one_space() -> None:
    fusion = grouped()
    sf = start(fusion)
    assert printed(sf) == [
        "v1_sum[3,r4,5] = sum(i0) [1]".removesuffix(" [1]"),
        "v1[3,5] = copy(v1_sum)",
        "v2_sum[3,4,r5] = sum(i0)",
        "v2[3,4] = copy(v2_sum)",
    ]
    assert tuple(a.extent for a in sf.tensor("i0").logical) == S
    check_form(fusion, sf)


def test_what_columns_are_folded_into_may_be_computed_with() -> None:
    fusion = grouped(op("exp", "e", "c"), outputs=("e", "r"))
    check_meaning(fusion, start(fusion))


def test_an_input_of_padded_rows_gets_the_axes_of_the_space() -> None:
    ops = [{"op": "reshape", "in": ["y"], "out": "g", "shape": list(S)}, reduce("sum", "c", "g", 1)]
    shape = [S[0] * S[1], S[2]]
    x = {"name": "x", "shape": shape, "dtype": "f32", "strides": [8, 1]}
    fusion = from_wire([x], [op("exp", "y", "x"), *ops, reduce("sum", "r", "y", 1)], "c", "r")
    allocation = start(fusion).tensor("i0").allocation
    assert allocation is not None
    assert allocation.strides == (32, 8, 1)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["sum", "mean", "amax", "amin"]),
    shape=st.tuples(st.integers(2, 4), st.integers(2, 4), st.integers(2, 4), st.integers(2, 4)),
    columns=st.sampled_from([(0,), (1,), (0, 1), (1, 2), (0, 2)]),
    keepdim=st.booleans(),
)
def test_forms_of_two_reductions_mean_the_fusion(
    kind: str, shape: tuple[int, ...], columns: tuple[int, ...], keepdim: bool
) -> None:
    """Of the innermost dimension, and of others; and an output of all, which the first is a part of."""
    folded = [1 if d == 3 else n for d, n in enumerate(shape)]
    ops = [
        op("exp", "y", "x0"),
        reduce(kind, "r", "y", 3, keepdim=True),
        broadcast("r", "b", shape, *range(4)),
        op("sub", "z", "y", "b"),
        reduce("sum", "c", "z", *columns, keepdim=keepdim),
    ]
    assert folded[3] == 1
    fusion = fusion_of([shape], ops, "z", "c")
    check_meaning(fusion, start(fusion))


@pytest.mark.parametrize(
    ("fusion", "reason"),
    [
        pytest.param(
            fusion_of([S], [reduce("sum", "c", "x0", 0, 1), reduce("sum", "r", "x0", 2)], "c", "r"),
            "output v1 of shape",
            id="nothing-is-kept-by-both",
        ),
        pytest.param(
            fusion_of([S], [reduce("sum", "c", "x0", 1, 2), reduce("sum", "r", "x0", 2)], "c", "r"),
            "output v1 of shape",
            id="sets-overlap",
        ),
        pytest.param(
            fusion_of([S], [reduce("sum", "c", "x0", 0), reduce("sum", "r", "x0", 1)], "c", "r"),
            "output v1 of shape",
            id="none-folds-the-innermost",
        ),
        pytest.param(
            fusion_of(
                [S],
                [
                    reduce("sum", "r", "x0", 2),
                    reduce("sum", "c", "x0", 1),
                    broadcast("c", "b", S, 0, 2),
                    op("sub", "z", "x0", "b"),
                ],
                "r",
                "z",
            ),
            "output v3 of shape",
            id="a-column-is-read-in-its-rows",
        ),
        pytest.param(
            fusion_of(
                [SQUARE],
                [
                    reduce("sum", "c", "x0", 1),
                    broadcast("c", "b", SQUARE, 0, 2),
                    op("sub", "z", "x0", "b"),
                    reduce("sum", "r", "z", 2),
                ],
                "r",
            ),
            "whose result is read where other dimensions are folded",
            id="rows-wait-for-columns",
        ),
    ],
)
def test_other_pairs_are_refused(fusion: Fusion, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        start(fusion)


def of_a_product(*ops: Any, outputs: Sequence[str]) -> Fusion:
    """A product of 6 by 16 elements, summed along 5, and what is behind it."""
    matmul = {"op": "matmul", "in": ["x0", "x1"], "out": "y", "dtype": "f32"}
    return fusion_of([(6, 5), (5, 16)], [matmul, *ops], *outputs)


PIECES = {"op": "reshape", "in": ["y"], "out": "g", "shape": [6, 2, 4, 2]}


def test_folds_of_a_product_have_nothing_of_what_it_sums_along() -> None:
    fusion = of_a_product(PIECES, reduce("sum", "s", "g", 1, 3), op("exp", "e", "s"), outputs=("y", "e"))
    sf = start(fusion)
    shown = [line for line in printed(sf) if "_sum" in line or "_matmul[" in line]
    assert shown == [
        "v0_matmul[6,2,4,2,r5] = matmul(w0, w1)",
        "v2_sum[6,r2,4,r2] = sum(v0_matmul)",
        "v3[6,4] = exp(v2_sum)",
    ]


def test_folds_of_a_product_along_different_dimensions_are_no_kernel() -> None:
    rows, columns = reduce("sum", "s", "y", 1), reduce("sum", "t", "y", 0)
    start(of_a_product(rows, outputs=("y", "s")))
    with pytest.raises(Unsupported):
        start(of_a_product(rows, columns, outputs=("y", "s", "t")))
