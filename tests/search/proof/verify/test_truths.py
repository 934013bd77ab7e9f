"""What is folded to one truth value is decided by one element, by the last one too, and in some folds by none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal, Op
from compiler.ir.ops import OpKind
from search.proof.verify.arrays import Array, Arrays, NumpyArrays, TorchArrays
from search.proof.verify.inputs import LONE, input_sets, make_inputs
from search.proof.verify.truths import DECIDING
from tests.search.measure.kernels import fusion_of, value

COMPARISONS: dict[OpKind, Callable[[Array, Array], Array]] = {
    OpKind.GT: np.greater, OpKind.GE: np.greater_equal, OpKind.LT: np.less,
    OpKind.LE: np.less_equal, OpKind.EQ: np.equal, OpKind.NE: np.not_equal,
}  # fmt: skip
SHAPES = {
    "rows": ((16, 70), (1,)),
    "columns": ((70, 16), (0,)),
    "all": ((40, 28), (0, 1)),
    "two": ((2, 9, 31), (1, 2)),
    "many_rows": ((640, 50), (1,)),
    "many_columns": ((50, 640), (0,)),
}


def folded(
    compare: OpKind, fold: OpKind, shape: str, dtype: DType = DType.F32, other: float | None = 1.0, gap: int = 0
) -> Fusion:
    """any or all of a comparison with a number, or with a second input. `gap`: elements between rows."""
    sizes, dims = SHAPES[shape]
    strides = (sizes[-1] + gap, 1) if gap else None
    inputs = [value("i0", sizes, dtype, strides=strides) if strides else value("i0", sizes, dtype)]
    right: Literal | str = "i1"
    if other is None:
        inputs.append(value("i1", sizes, dtype))
    else:
        right = Literal(other if dtype.is_float else int(other))
    kept = tuple(size for dim, size in enumerate(sizes) if dim not in dims)
    results = (value("v0", sizes, DType.BOOL), value("v1", kept, DType.BOOL))
    ops = (Op(compare, ("i0", right), "v0"), Op(fold, ("v0",), "v1", dims=dims))
    return fusion_of(tuple(inputs), results, ops, "v1")


def deciders(fusion: Fusion, name: str, arrays: Arrays) -> np.ndarray:
    """Which elements decide, for each result: [result, element]."""
    compare, fold = fusion.ops
    storages = make_inputs(fusion, name, arrays)
    seen = [
        np.asarray(arrays.load(arrays.strided(x, v.shape, v.strides), v.dtype))
        for x, v in zip(storages, map(fusion.value, fusion.inputs), strict=True)
    ]
    left = seen[0]
    right = seen[1] if len(seen) > 1 else next(x.value for x in compare.inputs if isinstance(x, Literal))
    truth = COMPARISONS[compare.kind](left, right)
    if fold.kind is OpKind.AMIN:
        truth = ~truth
    rest = tuple(dim for dim in range(truth.ndim) if dim not in fold.dims)
    results = int(np.prod([truth.shape[dim] for dim in rest], dtype=int))
    return np.asarray(truth.transpose(*rest, *fold.dims).reshape(results, -1))


def expect_decided(fusion: Fusion, arrays: Arrays | None = None) -> None:
    arrays = arrays or NumpyArrays()
    found = [deciders(fusion, name, arrays) for name in input_sets(fusion)]
    by_the_last = [one[:, -1] & (one.sum(axis=1) == 1) for one in found]
    assert any(map(np.any, by_the_last)), "the last element of a fold could be left out"
    assert any((~one).all(axis=1).any() for one in found), "no fold has none that decides"
    results = len(found[0])
    assert len(set(np.concatenate([one[one.sum(axis=1) == 1].argmax(axis=1) for one in found]).tolist())) >= 2
    for apart in (1, 2, 4, 5, 8, 25):
        if apart >= results or results == len(found[0][0]):
            continue
        met = [one[:-apart].any(axis=1) & ~one[apart:].any(axis=1) for one in found]
        assert any(map(np.any, met)), f"a fold could go on from the one {apart} before"


@pytest.mark.parametrize("fold", [OpKind.AMAX, OpKind.AMIN])
@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_one_element_decides(compare: OpKind, fold: OpKind, shape: str) -> None:
    expect_decided(folded(compare, fold, shape))


@pytest.mark.parametrize("fold", [OpKind.AMAX, OpKind.AMIN])
@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize("shape", ["rows", "all"])
def test_one_element_decides_of_two_tensors(compare: OpKind, fold: OpKind, shape: str) -> None:
    expect_decided(folded(compare, fold, shape, other=None))


@pytest.mark.parametrize(
    ("dtype", "other"),
    [(DType.I32, -77.0), (DType.U8, 0.0), (DType.I8, 127.0), (DType.BF16, 0.0), (DType.F16, 5.0), (DType.F64, -2.5)],
)
def test_one_element_decides_in_every_type(dtype: DType, other: float) -> None:
    expect_decided(folded(OpKind.NE, OpKind.AMAX, "rows", dtype, other))
    expect_decided(folded(OpKind.EQ, OpKind.AMIN, "rows", dtype, other))


def test_one_element_decides_in_rows_with_gaps_and_on_a_device() -> None:
    expect_decided(folded(OpKind.GT, OpKind.AMAX, "rows", gap=3), TorchArrays("cpu"))


def test_other_fusions_have_no_such_sets() -> None:
    plain = fusion_of(
        (value("i0", (8, 500)),), (value("v0", (8,)),), (Op(OpKind.AMAX, ("i0",), "v0", dims=(1,)),), "v0"
    )
    assert not set(DECIDING) & set(input_sets(plain))
    one, two = folded(OpKind.GT, OpKind.AMAX, "rows"), folded(OpKind.GT, OpKind.AMAX, "rows", other=None)
    assert input_sets(one)[-(len(LONE) + 12) :] == (*LONE, *DECIDING[:12])
    assert input_sets(two)[-24:] == DECIDING
    assert input_sets(folded(OpKind.GT, OpKind.AMAX, "many_rows"))[-4:] == DECIDING[:4]
