from __future__ import annotations

import numpy as np
import pytest

from compiler.dtypes import FLOAT_FORMATS, DType
from compiler.ir.fusion import Fusion, Literal, Op, storage_elems
from compiler.ir.ops import OpKind
from search.proof.verify.arrays import Array, Arrays, NumpyArrays, TorchArrays
from search.proof.verify.inputs import ALL_SETS, FOLDED_SETS, LONE, NEAR, PEAKS, input_sets, make_inputs
from tests.search.measure.kernels import fusion_of, value

HOST = NumpyArrays()


def unary(kind: OpKind, dtype: DType = DType.F32, elems: int = 4096) -> Fusion:
    op = Op(kind, ("i0",), "v0")
    return fusion_of((value("i0", (elems,), dtype),), (value("v0", (elems,), dtype),), (op,), "v0")


def made(fusion: Fusion, name: str, arrays: Arrays = HOST) -> np.ndarray:
    (storage,) = make_inputs(fusion, name, arrays)
    values: Array = arrays.load(storage, fusion.value("i0").dtype)
    return np.asarray(values)


@pytest.mark.parametrize("arrays", [HOST, TorchArrays("cpu")], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
@pytest.mark.parametrize("name", ALL_SETS)
def test_a_set_is_the_same_every_time_and_of_its_dtype(name: str, dtype: DType, arrays: Arrays) -> None:
    fusion = unary(OpKind.GELU, dtype)
    assert made(fusion, name, arrays).tobytes() == made(fusion, name, arrays).tobytes()
    (storage,) = make_inputs(fusion, name, arrays)
    assert arrays.bytes_of(storage).shape == (4096 * dtype.nbytes,)


@pytest.mark.parametrize("arrays", [HOST, TorchArrays("cpu")], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", [DType.F8E4M3, DType.F8E5M2])
@pytest.mark.parametrize("name", ALL_SETS)
def test_sets_of_8_bit_floats_are_of_several_numbers_in_range(name: str, dtype: DType, arrays: Arrays) -> None:
    cast = Op(OpKind.CAST, ("i0",), "v0")
    fusion = fusion_of((value("i0", (4096,), dtype),), (value("v0", (4096,)),), (cast,), "v0")
    found = made(fusion, name, arrays)
    assert len(np.unique(found[np.isfinite(found)])) >= 3
    assert np.isfinite(found).all() == (name != "inf_nan")


@pytest.mark.parametrize("dtype", [DType.F8E4M3, DType.F8E5M2])
def test_what_is_cast_to_8_bits_lies_past_its_largest_number_and_halfway(dtype: DType) -> None:
    cast = Op(OpKind.CAST, ("i0",), "v0")
    fusion = fusion_of((value("i0", (4096,)),), (value("v0", (4096,), dtype),), (cast,), "v0")
    form = FLOAT_FORMATS[dtype]
    assert (np.abs(made(fusion, "large")) > form.largest).mean() > 0.01
    assert 1.0 + form.unit_roundoff in made(fusion, NEAR)


def test_inputs_of_a_call_differ_from_each_other() -> None:
    op = Op(OpKind.ADD, ("i0", "i1"), "v0")
    fusion = fusion_of((value("i0", (64,)), value("i1", (64,))), (value("v0", (64,)),), (op,), "v0")
    first, second = make_inputs(fusion, "random", HOST)
    assert (first != second).all()


def test_random_is_ordinary() -> None:
    x = made(unary(OpKind.GELU), "random")
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 0.1
    assert 0.9 < x.std() < 1.1


@pytest.mark.parametrize("kind", [OpKind.LOG, OpKind.SQRT, OpKind.RSQRT])
def test_random_lies_where_the_operator_is_defined(kind: OpKind) -> None:
    x = made(unary(kind), "random")
    assert x.min() >= 0.1
    assert x.max() <= 2.0


@pytest.mark.parametrize(("dtype", "top"), [(DType.F16, 65504.0), (DType.F32, 1e4)])
def test_large_is_large_and_finite(dtype: DType, top: float) -> None:
    x = np.abs(made(unary(OpKind.GELU, dtype), "large"))
    assert 500 < x.max() < top


def test_large_stays_where_exp_is_finite_in_f32() -> None:
    x = made(unary(OpKind.EXP), "large")
    assert 60 < np.abs(x).max() <= 64


def test_tiny_is_tiny() -> None:
    assert 0 < np.abs(made(unary(OpKind.GELU), "tiny")).max() < 1e-5


def test_ties_repeat() -> None:
    assert len(np.unique(made(unary(OpKind.GELU), "ties"))) == 8


def test_zeros_have_both_signs() -> None:
    x = made(unary(OpKind.RECIPROCAL), "zeros")
    zeros = x[x == 0]
    assert set(np.signbit(zeros)) == {True, False}
    assert set(np.unique(np.abs(x))) == {0.0, 1.0}


def test_negative_zeros_are_left_out_where_their_sign_is_free_and_matters() -> None:
    ops = (Op(OpKind.RELU, ("i0",), "v0"), Op(OpKind.RECIPROCAL, ("v0",), "v1"))
    fusion = fusion_of((value("i0", (512,)),), (value("v0", (512,)), value("v1", (512,))), ops, "v1")
    x = made(fusion, "zeros")
    assert not np.signbit(x[x == 0]).any()


def test_inf_nan_has_all_three_among_ordinary_values() -> None:
    x = made(unary(OpKind.GELU), "inf_nan")
    assert np.isposinf(x).any()
    assert np.isneginf(x).any()
    assert np.isnan(x).any()
    assert np.isfinite(x).mean() > 0.8


@pytest.mark.parametrize(("kind", "exact"), [(OpKind.COPY, True), (OpKind.NEG, False), (OpKind.CAST, False)])
def test_only_moves_are_exact_and_have_one_set_with_everything_in_it(kind: OpKind, exact: bool) -> None:
    sets = input_sets(unary(kind))
    assert sets == (("random",) if exact else ALL_SETS)
    if exact:
        x = made(unary(kind), "random")
        assert np.isnan(x).any()
        assert np.isposinf(x).any()
        assert np.isneginf(x).any()
        assert np.signbit(x[x == 0]).any()


def test_holes_between_strided_elements_have_values_too() -> None:
    strided = value("i0", (4, 8), strides=(20, 2))
    fusion = fusion_of((strided,), (value("v0", (4, 8)),), (Op(OpKind.NEG, ("i0",), "v0"),), "v0")
    (storage,) = make_inputs(fusion, "random", HOST)
    assert storage.shape == (storage_elems((4, 8), (20, 2)),) == (75,)
    assert (storage != 0).all()


@pytest.mark.parametrize(
    ("bits", "nearest"),
    [
        pytest.param(0x3F808000, 0x3F80, id="tie-to-even-down"),
        pytest.param(0x3F818000, 0x3F82, id="tie-to-even-up"),
        pytest.param(0x3F808001, 0x3F81, id="just-above-a-tie"),
        pytest.param(0x3F807FFF, 0x3F80, id="just-below-a-tie"),
        pytest.param(0x7F7FFFFF, 0x7F80, id="overflow-to-infinity"),
        pytest.param(0xFF800000, 0xFF80, id="minus-infinity"),
        pytest.param(0x7F800001, 0x7FC0, id="nan-stays-nan"),
        pytest.param(0x80000000, 0x8000, id="minus-zero"),
    ],
)
def test_bf16_rounds_to_nearest_even_as_torch_does(bits: int, nearest: int) -> None:
    values = np.array([bits], np.uint32).view(np.float32)
    (stored,) = HOST.store(values, DType.BF16)
    assert stored == nearest
    torch_side = TorchArrays("cpu")
    as_torch = torch_side.store(torch_side.xp.from_numpy(values), DType.BF16)
    if not np.isnan(values[0]):
        assert int(torch_side.bits(as_torch)[0]) & 0xFFFF == nearest


def compared_with_positions(classes: int, dtype: DType) -> Fusion:
    """eq(i0, iota(classes)), the index cast on the way."""
    shape = (50, classes)
    ops = (
        Op(OpKind.CAST, ("i0",), "v0"),
        Op(OpKind.BROADCAST_TO, ("v0",), "v1", (0,)),
        Op(OpKind.IOTA, (), "v2", (1,)),
        Op(OpKind.EQ, ("v1", "v2"), "v3"),
    )
    i64 = DType.I64
    results = (
        value("v0", (50,), i64),
        value("v1", shape, i64),
        value("v2", shape, i64),
        value("v3", shape, DType.BOOL),
    )
    return fusion_of((value("i0", (50,), dtype),), results, ops, "v3")


@pytest.mark.parametrize("arrays", [HOST, TorchArrays("cpu")], ids=["numpy", "torch"])
@pytest.mark.parametrize("name", ALL_SETS)
def test_what_is_compared_with_positions_holds_indices(name: str, arrays: Arrays) -> None:
    found = made(compared_with_positions(7, DType.I32), name, arrays)
    inside = (found >= 0) & (found < 7)
    assert 0.2 < inside.mean() < 1
    assert {-1, 7} & set(found.tolist()), "and some that are none"


def rows_of(count: int, choices: int, dtype: DType, moved: int = 0) -> Fusion:
    """Rows of a table at i1, or at i1 + `moved`, squared."""
    ops = (
        Op(OpKind.ADD, ("i1", Literal(moved)), "v0"),
        Op(OpKind.TAKE, ("i0", "v0"), "v1", (0,)),
        Op(OpKind.SQUARE, ("v1",), "v2"),
    )
    inputs = (value("i0", (choices, 3)), value("i1", (count,), dtype))
    results = (value("v0", (count,), dtype), value("v1", (count, 3)), value("v2", (count, 3)))
    return fusion_of(inputs, results, ops, "v2")


@pytest.mark.parametrize("arrays", [HOST, TorchArrays("cpu")], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", [DType.I32, DType.I64])
@pytest.mark.parametrize("name", ALL_SETS)
def test_indices_are_in_range_with_the_ends_among_them_and_some_twice(name: str, dtype: DType, arrays: Arrays) -> None:
    for count, choices, moved in ((97, 1000, 0), (97, 7, 3), (3, 50, -4), (1, 5, 0)):
        _, storage = make_inputs(rows_of(count, choices, dtype, moved), name, arrays)
        found = [int(n) + moved for n in storage]
        assert min(found) >= 0
        assert max(found) < choices
        if count > 50:
            assert {0} <= set(found)
            assert choices - 1 in found or name in ("ties", "zeros")
            assert len(set(found)) < count


def test_what_is_compared_with_a_number_holds_it_often() -> None:
    op = Op(OpKind.NE, ("i0", Literal(-77)), "v0")
    fusion = fusion_of((value("i0", (400,), DType.I8),), (value("v0", (400,), DType.BOOL),), (op,), "v0")
    assert (made(fusion, "random") == -77).mean() > 0.1


@pytest.mark.parametrize("name", [*ALL_SETS, *FOLDED_SETS, *LONE[:4]])
def test_unsigned_integers_differ_in_every_set(name: str) -> None:
    x = made(reduction(OpKind.AMIN, (64, 64), DType.U8), name)
    assert x.dtype == np.uint8
    assert len(np.unique(x)) >= 3
    if name in ("large", "inf_nan"):
        assert {0, 255} <= set(x.tolist())


@pytest.mark.parametrize("dtype", [DType.I8, DType.I16, DType.I32, DType.I64])
@pytest.mark.parametrize(("name", "least"), [("random", 50), ("large", 100), ("inf_nan", 100), ("ties", 2)])
def test_integers_reach_far_enough(dtype: DType, name: str, least: int) -> None:
    x = made(unary(OpKind.NEG, dtype), name).astype(np.int64)
    assert x.min() < -least < least < x.max()


def test_large_integers_and_the_ends_are_of_the_whole_range() -> None:
    large, ends = (made(unary(OpKind.NEG, DType.I64), name) for name in ("large", "inf_nan"))
    assert float(large.max()) > 2.0**62
    assert {-(2**63), 2**63 - 1} <= set(ends.tolist())


def test_f64_values_are_more_than_f32_holds() -> None:
    x = made(unary(OpKind.COPY, DType.F64), "random")
    x = x[np.isfinite(x) & (x != 0)]
    assert (x != x.astype(np.float32)).mean() > 0.9


def reduction(kind: OpKind, shape: tuple[int, int], dtype: DType = DType.F32) -> Fusion:
    op = Op(kind, ("i0",), "v0", dims=(1,))
    return fusion_of((value("i0", shape, dtype),), (value("v0", shape[:1], dtype),), (op,), "v0")


def test_reductions_have_peaks_and_few_infinities() -> None:
    fusion = reduction(OpKind.SUM, (64, 1000))
    assert input_sets(fusion) == (*ALL_SETS, *FOLDED_SETS)
    peaks = made(fusion, PEAKS).reshape(64, 1000)
    assert (peaks[:, -1] == 3.0).all()
    assert 5 < (peaks[:-1] != 0).sum(axis=1).mean() < 60
    clean = np.isfinite(made(fusion, "inf_nan").reshape(64, 1000)).all(axis=1)
    assert 0.2 < clean.mean() < 0.9


@pytest.mark.parametrize(
    ("kinds", "is_positive"),
    [
        ((OpKind.LOG,), True),
        ((OpKind.SQUARE, OpKind.RSQRT), False),
        ((OpKind.EXP, OpKind.LOG), False),
        ((OpKind.NEG, OpKind.SQRT), True),
    ],
)
def test_values_are_positive_only_where_a_root_or_logarithm_needs_it(
    kinds: tuple[OpKind, ...], is_positive: bool
) -> None:
    names = ["i0", *(f"v{i}" for i in range(len(kinds)))]
    ops = tuple(Op(kind, (names[i],), names[i + 1]) for i, kind in enumerate(kinds))
    results = tuple(value(name, (256,)) for name in names[1:])
    x = made(fusion_of((value("i0", (256,)),), results, ops, names[-1]), "random")
    assert (x > 0).all() == is_positive


@pytest.mark.parametrize("arrays", [HOST, TorchArrays("cpu")], ids=["numpy", "torch"])
@pytest.mark.parametrize("name", LONE[:4])
def test_one_element_of_every_run_stands_alone(name: str, arrays: Arrays) -> None:
    fusion = reduction(OpKind.AMAX, (8, 500))
    assert set(LONE) <= set(input_sets(fusion))
    x = made(fusion, name, arrays).reshape(8, 500)
    assert ((np.abs(x) > 1) | np.isnan(x)).sum(axis=1).tolist() == [1] * 8


@pytest.mark.parametrize("dtype", [DType.I32, DType.F32, DType.BF16])
@pytest.mark.parametrize(("kind", "sign"), [(OpKind.AMAX, 1), (OpKind.AMIN, -1)])
def test_of_few_results_every_part_and_lane_has_its_turn_to_decide(kind: OpKind, sign: int, dtype: DType) -> None:
    """A warp of eight has every eighth run of 32 elements, a lane every 32nd element."""
    fusion = reduction(kind, (1, 2048), dtype)
    found = set()
    for name in LONE:
        x = sign * made(fusion, name).astype(np.float64)
        found.update(
            [int(np.flatnonzero(np.isnan(x))[0])] if np.isnan(x).any() else np.flatnonzero(x == x.max()).tolist()
        )
    assert len(found) > 56
    assert {n // 256 for n in found} == {n // 32 % 8 for n in found} == set(range(8))
    assert len({n % 32 for n in found}) > 24


def test_lone_elements_that_are_turned_round_are_great_and_small_in_turns() -> None:
    ops = (Op(OpKind.NEG, ("i0",), "v0"), Op(OpKind.AMAX, ("v0",), "v1", dims=(1,)))
    fusion = fusion_of((value("i0", (1, 500)),), (value("v0", (1, 500)), value("v1", (1,))), ops, "v1")
    small, great = (made(fusion, name) for name in LONE[2:4])
    assert (small.min(), great.max()) == (-4.0, 4.0)
    assert max(abs(small.max()), abs(great.min())) < 1


@pytest.mark.parametrize(("columns", "sets"), [(2**24, 64), (2**24 + 1, 63), (2**27, 8), (2**28, 8)])
def test_the_more_elements_there_are_the_fewer_lone_sets(columns: int, sets: int) -> None:
    assert sum(name in LONE for name in input_sets(reduction(OpKind.AMAX, (1, columns)))) == sets


def test_results_that_are_many_have_few_lone_sets() -> None:
    assert input_sets(reduction(OpKind.AMAX, (640, 50)))[-2:] == LONE[:2]
    assert not set(LONE) & set(input_sets(reduction(OpKind.SUM, (8, 500))))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
def test_near_values_lie_a_unit_apart_and_on_rounding_boundaries(dtype: DType) -> None:
    x = made(unary(OpKind.GELU, dtype), NEAR)
    unit = {DType.F32: 2.0**-23, DType.F16: 2.0**-10, DType.BF16: 2.0**-7}[dtype]
    assert {1.0, 1.0 + unit} <= set(x.astype(np.float64).tolist())
    assert (x == 0).any()
    if dtype is DType.F32:
        assert {1.0 + 2.0**-8, 1.0 + 2.0**-11} <= set(x.astype(np.float64).tolist())
