from __future__ import annotations

import math

import numpy as np
import pytest

from compiler.dtypes import DType
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion, Literal, Op
from compiler.ir.ops import OpKind
from compiler.reference import evaluate
from fusetune.fusion import FusionBuilder
from search.proof.verify import expected as expected_module
from search.proof.verify.arrays import Array, Arrays, NumpyArrays, TorchArrays
from search.proof.verify.compare import compare, differing, first_fault, poisoned_holes
from search.proof.verify.expected import Expected, expect
from search.proof.verify.inputs import ALL_SETS, make_inputs
from search.proof.verify.tolerance import tolerance
from search.proof.verify.zones import POISONS
from tests.bound import dense
from tests.search.measure.kernels import fusion_of, value

HOST = NumpyArrays()
BOTH = pytest.mark.parametrize("arrays", [HOST, TorchArrays("cpu")], ids=["numpy", "torch"])


def negation(values: list[float], dtype: DType) -> tuple[Fusion, Array]:
    """A fusion whose only output is -values, and its input's storage."""
    shape = (len(values),)
    fusion = fusion_of(
        (value("i0", shape, dtype),), (value("v0", shape, dtype),), (Op(OpKind.NEG, ("i0",), "v0"),), "v0"
    )
    return fusion, HOST.store(-np.array(values), dtype)


def judged(values: list[float], output: float, dtype: DType) -> bool:
    """Whether `output` passes as the first element where the reference is `values`."""
    fusion, storage = negation(values, dtype)
    (want,) = expect(fusion, [storage], HOST)
    have = HOST.store(np.array([output, *values[1:]]), dtype)
    comparison = compare(want, have, HOST)
    if math.isfinite(output) and math.isfinite(values[0]):
        assert (int(comparison.wrong) == 0) == (float(comparison.worst_share) <= 1)
    return int(comparison.wrong) == 0


@pytest.mark.parametrize(
    ("dtype", "beside"),
    [
        pytest.param(DType.F32, 2.0**-23, id="f32"),
        pytest.param(DType.F16, 2.0**-10, id="f16"),
        pytest.param(DType.BF16, 2.0**-7, id="bf16"),
    ],
)
def test_what_nothing_rounds_is_known(dtype: DType, beside: float) -> None:
    assert judged([1.0, 0.5], 1.0, dtype)
    assert not judged([1.0, 0.5], 1.0 + beside, dtype)
    assert not judged([1.0, 0.5], 1.0 - beside / 2, dtype)


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("reference", "output", "right"),
    [
        (NAN, NAN, True),
        (NAN, 0.0, False),
        (0.0, NAN, False),
        (NAN, INF, False),
        (INF, INF, True),
        (-INF, -INF, True),
        (INF, -INF, False),
        (INF, NAN, False),
        (INF, 65504.0, False),
        (1.0, INF, False),
        (0.0, -0.0, False),
        (-0.0, -0.0, True),
        (65504.0, INF, False),
        (-65504.0, -INF, False),
        (65504.0, -INF, False),
        (65000.0, INF, False),
    ],
)
def test_nan_infinity_and_the_edge_of_f16(reference: float, output: float, right: bool) -> None:
    assert judged([reference, 1.0], output, DType.F16) is right


def test_a_value_too_large_for_the_dtype_must_be_infinite() -> None:
    fusion = fusion_of(
        (value("i0", (2,), DType.F16),), (value("v0", (2,), DType.F16),), (Op(OpKind.SQUARE, ("i0",), "v0"),), "v0"
    )
    (want,) = expect(fusion, [HOST.store(np.array([300.0, 1.0]), DType.F16)], HOST)
    for output, right in ((INF, True), (65504.0, False), (-INF, False), (NAN, False)):
        have = HOST.store(np.array([output, 1.0]), DType.F16)
        assert (int(compare(want, have, HOST).wrong) == 0) is right


def test_cancelling_terms_are_rounded_as_a_kernel_rounds_them() -> None:
    """(x + 1024) - 1024 in f32 is off by up to 2^-14 of x; what f32 makes of it is right, and nothing beside it."""
    ops = (
        Op(OpKind.ADD, ("i0", Literal(1024.0)), "v0"),
        Op(OpKind.SUB, ("v0", Literal(1024.0)), "v1"),
    )
    fusion = fusion_of((value("i0", (2,)),), (value("v0", (2,)), value("v1", (2,))), ops, "v1")
    x = np.array([0.001, 0.002], np.float32)
    (want,) = expect(fusion, [x], HOST)
    in_f32 = (x + np.float32(1024)) - np.float32(1024)
    assert abs(in_f32[0] - x[0]) > 2.0**-13 * x[0]
    assert int(compare(want, in_f32, HOST).wrong) == 0
    assert int(compare(want, np.nextafter(in_f32, np.float32(1)), HOST).wrong) == 2


def transpose(shape: tuple[int, int], dtype: DType) -> Fusion:
    out = (shape[1], shape[0])
    op = Op(OpKind.PERMUTE, ("i0",), "v0", dims=(1, 0))
    return fusion_of((value("i0", shape, dtype),), (value("v0", out, dtype),), (op,), "v0")


@BOTH
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
def test_moves_are_exact_to_the_bit_but_for_nans(arrays: Arrays, dtype: DType) -> None:
    fusion = transpose((24, 40), dtype)
    (storage,) = make_inputs(fusion, "random", arrays)
    (want,) = expect(fusion, [storage], arrays)
    moved = arrays.copy(arrays.strided(storage, (40, 24), (1, 40)).reshape(-1))
    assert int(compare(want, moved, arrays).wrong) == 0
    finite = int(np.flatnonzero(np.isfinite(np.asarray(arrays.load(moved, dtype))))[0])
    arrays.bits(moved)[finite] ^= 1
    assert int(compare(want, moved, arrays).wrong) == 1
    fault = first_fault(want, moved, arrays)
    assert fault is not None
    assert fault.index == (finite // 24, finite % 24)
    assert fault.low == fault.high != fault.found


def test_a_move_that_loses_the_sign_of_zero_is_wrong() -> None:
    fusion = transpose((1, 2), DType.F32)
    (want,) = expect(fusion, [np.array([-0.0, 1.0], np.float32)], HOST)
    assert int(compare(want, np.array([-0.0, 1.0], np.float32), HOST).wrong) == 0
    assert int(compare(want, np.array([0.0, 1.0], np.float32), HOST).wrong) == 1


def test_a_zero_times_what_may_be_of_either_sign_is_a_zero_of_either_sign() -> None:
    """SiLU of a zero may err by so little that no sign is known; a number beside it keeps the ends apart."""
    f = FusionBuilder()
    x, y = f.input("x", (5,), "f32"), f.input("y", (5,), "f32")
    f.output(f.silu(x) * y)
    fusion = dense(f)
    gates, values = ([0.0, -0.0, 0.0, -0.0, 1.0], [0.0, 0.0, -0.0, -0.0, 1.0])
    (want,) = expect(fusion, [np.array(gates, np.float32), np.array(values, np.float32)], HOST)
    product = np.float32(1.0 / (1.0 + math.exp(-1.0)))
    for zeros in ([0.0, -0.0, -0.0, 0.0], [-0.0, 0.0, 0.0, -0.0]):
        assert int(compare(want, np.array([*zeros, product], np.float32), HOST).wrong) == 0


def test_numbers_made_of_a_comparison_are_added_as_numbers() -> None:
    """One that is not settled for some element has ends for all of them."""
    f = FusionBuilder()
    x, y = f.input("x", (3,), "f32"), f.input("y", (3,), "f32")
    holds = f.ge(x, f.exp(y)).cast("i32")
    f.output(holds + holds)
    fusion = dense(f)
    inputs = [np.array([3.0, 0.5, math.exp(1.0)], np.float32), np.array([1.0, 1.0, 1.0], np.float32)]
    (want,) = expect(fusion, inputs, HOST)
    assert int(compare(want, np.array([2, 0, 2], np.int32), HOST).wrong) == 0
    assert int(compare(want, np.array([1, 0, 2], np.int32), HOST).wrong) == 1


def bias_gelu(rows: int, columns: int, dtype: DType) -> Fusion:
    shape = (rows, columns)
    inputs = (value("i0", shape, dtype), value("i1", (columns,), dtype))
    results = tuple(value(f"v{i}", shape, d) for i, d in enumerate([dtype, DType.F32, DType.F32, dtype]))
    ops = (
        Op(OpKind.BROADCAST_TO, ("i1",), "v0", dims=(1,)),
        Op(OpKind.ADD, ("i0", "v0"), "v1"),
        Op(OpKind.GELU, ("v1",), "v2"),
        Op(OpKind.CAST, ("v2",), "v3"),
    )
    return fusion_of(inputs, results, ops, "v3")


@BOTH
@pytest.mark.parametrize("name", ALL_SETS)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
def test_the_rounded_reference_itself_passes_every_set(arrays: Arrays, name: str, dtype: DType) -> None:
    fusion = bias_gelu(32, 48, dtype)
    storages = make_inputs(fusion, name, arrays)
    (want,) = expect(fusion, storages, arrays)
    inputs = [arrays.load(storages[0], dtype).reshape(32, 48), arrays.load(storages[1], dtype)]
    (reference,) = evaluate(fusion, inputs, arrays.xp)
    have = arrays.store(reference.reshape(-1), dtype)
    comparison = compare(want, have, arrays)
    assert int(comparison.wrong) == 0
    assert 0 <= float(comparison.worst_share) <= 1
    assert first_fault(want, have, arrays) is None


@BOTH
def test_row_blocks_give_the_same_bounds(arrays: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    for fusion in (bias_gelu(17, 8, DType.BF16), transpose((8, 17), DType.F32)):
        storages = make_inputs(fusion, "random", arrays)
        (whole,) = expect(fusion, storages, arrays)
        with monkeypatch.context() as patch:
            patch.setattr(expected_module, "BLOCK_ELEMS", 24)
            (blocks,) = expect(fusion, storages, arrays)
        assert whole.tolerance == blocks.tolerance
        for a, b in ((whole.lower, blocks.lower), (whole.upper, blocks.upper)):
            assert np.asarray(arrays.bytes_of(a)).tobytes() == np.asarray(arrays.bytes_of(b)).tobytes()


def test_strided_inputs_are_read_by_their_strides() -> None:
    strided = value("i0", (2, 3), strides=(5, 1))
    fusion = fusion_of((strided,), (value("v0", (2, 3)),), (Op(OpKind.NEG, ("i0",), "v0"),), "v0")
    (want,) = expect(fusion, [np.arange(8, dtype=np.float32)], HOST)
    assert int(compare(want, -np.array([0, 1, 2, 5, 6, 7], np.float32), HOST).wrong) == 0


@BOTH
def test_writes_between_the_elements_of_a_strided_output_are_found(arrays: Arrays) -> None:
    want = Expected((2, 3), (5, 1), DType.F32, None, arrays.xp.zeros(6), arrays.xp.zeros(6))
    storage = arrays.store(arrays.xp.zeros(8), DType.F32)
    arrays.bytes_of(storage)[:] = POISONS[1]
    arrays.strided(storage, (2, 3), (5, 1))[...] = 0.0
    assert int(poisoned_holes(want, storage, arrays)) == 0
    arrays.bytes_of(storage)[13] = 0
    assert int(poisoned_holes(want, storage, arrays)) == 1


@BOTH
def test_two_runs_are_compared_bit_by_bit(arrays: Arrays) -> None:
    one = arrays.store(arrays.normal(1000, 1), DType.F32)
    assert int(differing(one, arrays.copy(one), arrays)) == 0
    other = arrays.copy(one)
    arrays.bits(other)[7] ^= 1
    arrays.bits(other)[999] ^= 1
    assert int(differing(one, other, arrays)) == 2


@BOTH
@pytest.mark.parametrize(
    ("value", "share"), [(0.5, 1.0), (0.625, 1.25), (-0.75, 1.5), (float("nan"), 2.0), (float("inf"), 2.0)]
)
def test_a_wrong_value_has_the_share_that_it_takes(value: float, share: float, arrays: Arrays) -> None:
    """Twice what there is where no number tells."""
    zeros, ones = arrays.xp.zeros(4), arrays.xp.ones(4)
    want = Expected((4,), (1,), DType.F32, tolerance(DType.F32, 1.0), ones * -0.5, ones * 0.5)
    have = zeros + 0
    have[2] = value
    comparison = compare(want, have, arrays)
    assert (int(comparison.wrong), float(comparison.worst_share)) == (int(share > 1.0), share)


@BOTH
def test_chunks_add_up(arrays: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.proof.verify.compare.CHUNK_ELEMS", 10)
    zeros, ones = arrays.xp.zeros(25), arrays.xp.ones(25)
    want = Expected((25,), (1,), DType.F32, tolerance(DType.F32, 1.0), ones * -0.5, ones * 0.5)
    have = zeros + 0
    have[3], have[14], have[24] = 0.75, 0.25, -1.0
    comparison = compare(want, have, arrays)
    assert int(comparison.wrong) == 2
    assert float(comparison.worst_share) == 2.0
    fault = first_fault(want, have, arrays)
    assert fault is not None
    assert str(fault) == "element [3] is 0.75, expected -0.5 to 0.5"
    assert int(differing(zeros, have, arrays)) == 3


def test_a_tensor_of_zeros_still_allows_the_smallest_numbers() -> None:
    assert tolerance(DType.F16, 0.0).atol == 2.0**-24
    assert tolerance(DType.F32, 0.0).atol == 2.0**-125


def test_integers_have_no_tolerance() -> None:
    with pytest.raises(Unsupported, match="i64"):
        tolerance(DType.I64, 1.0)
