"""Which numbers inputs may hold so that no index is out of range, and what is refused since none would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.ir.index_ranges import index_ranges
from fusetune.fusion import FusionBuilder, Tensor
from tests.bound import dense

I32, I64 = ((-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (32, 64))
Index = Callable[[FusionBuilder, Tensor], Tensor]


def rows_at(index: Index, shape: tuple[int, ...] = (6,), rows: int = 10) -> Fusion:
    """Rows of ten, at what is made of input 1."""
    f = FusionBuilder()
    table = f.input("t", (rows, 4), "f32")
    f.output(f.take(table, index(f, f.input("i", shape, "i32"))))
    return dense(f)


def positions(f: FusionBuilder, count: int = 6) -> Tensor:
    return f.iota((count,), 0, "i32")


@pytest.mark.parametrize(
    ("index", "wanted"),
    [
        pytest.param(lambda f, i: i, (0, 9), id="as-it-is"),
        pytest.param(lambda f, i: i.cast("i64").reshape((2, 3)), (0, 9), id="moved-and-cast"),
        pytest.param(lambda f, i: i + 3, (-3, 6), id="moved-on"),
        pytest.param(lambda f, i: i - 3, (3, 12), id="moved-back"),
        pytest.param(lambda f, i: 9 - i, (0, 9), id="counted-from-the-end"),
        pytest.param(lambda f, i: -i, (-9, 0), id="negated"),
        pytest.param(lambda f, i: f.abs(i), (-9, 9), id="without-its-sign"),
        pytest.param(lambda f, i: i * 4, (0, 2), id="every-fourth"),
        pytest.param(lambda f, i: f.maximum(i, 0), (I32[0], 9), id="bounded-below"),
        pytest.param(lambda f, i: f.minimum(i, 9), (0, I32[1]), id="bounded-above"),
        pytest.param(lambda f, i: f.minimum(i, 11), (0, 9), id="bounded-too-far-above"),
        pytest.param(lambda f, i: f.minimum(f.maximum(f.square(i), 0), 9), I32, id="bounded-both-ways-of-anything"),
        pytest.param(
            lambda f, i: f.minimum(f.maximum(i + f.scalar("s", "i64"), 0), 9), I32, id="moved-by-a-scalar-and-bounded"
        ),
        pytest.param(lambda f, i: i + positions(f), (0, 4), id="and-a-position"),
        pytest.param(lambda f, i: f.remainder(f.square(i), 10), I32, id="what-a-quotient-leaves"),
        pytest.param(lambda f, i: f.floor_divide(i, 4), (0, 39), id="divided"),
        pytest.param(lambda f, i: f.bitwise_and(f.square(i), 7), I32, id="low-bits"),
        pytest.param(lambda f, i: f.bitwise_right_shift(i, 4), (0, 159), id="high-bits"),
        pytest.param(lambda f, i: f.bitwise_left_shift(i, 2), (0, 2), id="bits-moved-up"),
        pytest.param(lambda f, i: f.flip(i, (0,)), (0, 9), id="the-other-way-round"),
        pytest.param(lambda f, i: i + i, (0, 4), id="twice"),
        pytest.param(lambda f, i: f.where(f.lt(i, 0), 0, i), (0, 9), id="chosen-by-itself"),
        pytest.param(lambda f, i: f.amax(i.reshape((2, 3)), (1,)), (0, 9), id="the-greatest"),
        pytest.param(lambda f, i: f.cat([i, positions(f)], 0), (0, 9), id="and-positions-behind"),
        pytest.param(lambda f, i: f.flip(f.slice(i, 0, 0, 6, 2), (0,)), (0, 9), id="every-second-from-the-end"),
        pytest.param(lambda f, i: f.pad(i, (1,), (2,), 9), (0, 9), id="padded-with-the-last"),
        pytest.param(lambda f, i: f.maximum(i, f.full((6,), 9, "i32")), (0, 9), id="beside-a-constant"),
    ],
)
def test_the_range_of_an_index(index: Index, wanted: tuple[int, int]) -> None:
    assert index_ranges(rows_at(index)) == {"i1": wanted}


@pytest.mark.parametrize(
    ("index", "says"),
    [
        pytest.param(lambda f, i: i.cast("f32").cast("i32"), "floats decide an index", id="by-way-of-floats"),
        pytest.param(
            lambda f, i: f.where(f.lt(f.exp(i.cast("f32")), 0.5), i, i),
            "floats that are rounded decide an index",
            id="by-a-comparison-of-rounded-floats",
        ),
        pytest.param(lambda f, i: f.square(i), "no range", id="squared"),
        pytest.param(lambda f, i: f.pad(i, (1,), (2,), 10), "a number that is out", id="padded-past-the-end"),
        pytest.param(lambda f, i: f.pad(i, (1,), (2,), -1), "a number that is out", id="padded-with-minus-one"),
        pytest.param(lambda f, i: f.full((6,), 10, "i32"), "a number that is out", id="a-constant-past-the-end"),
        pytest.param(lambda f, i: f.remainder(i, 11), "a number that is out of range", id="of-a-larger-divisor"),
        pytest.param(lambda f, i: i - i, "no range", id="a-difference"),
        pytest.param(lambda f, i: f.bitwise_and(i, 15), "a number that is out", id="bits-of-larger-numbers"),
        pytest.param(lambda f, i: f.bitwise_and(i, -2), "no range", id="the-sign-too"),
        pytest.param(lambda f, i: i + -2147483648, "in range for all", id="moved-out-of-its-type"),
        pytest.param(lambda f, i: f.maximum(i, 10), "a number that is out of range", id="bounded-out-of-range"),
        pytest.param(lambda f, i: f.where(f.lt(i, 0), 10, i), "a number that is out", id="a-number-out-of-range"),
        pytest.param(lambda f, i: i + f.scalar("s", "i64"), "a scalar", id="moved-by-a-scalar"),
        pytest.param(lambda f, i: positions(f, 11), "positions that are out of range", id="positions-past-the-end"),
    ],
)
def test_an_index_of_which_none_is_known_to_be_in_range_is_refused(index: Index, says: str) -> None:
    with pytest.raises(Unsupported, match=says) as caught:
        rows_at(index)
    assert "Pass the index as an input" in caught.value.fix


def test_an_index_that_chooses_from_two_is_in_range_of_both() -> None:
    f = FusionBuilder()
    index = f.input("i", (5,), "i64")
    f.output(f.take(f.input("t", (7, 2), "f32"), index) + f.take(f.input("u", (3, 2), "f32"), index))
    found: Mapping[str, tuple[int, int]] = index_ranges(dense(f))
    assert found == {"i0": (0, 2)}


@pytest.mark.parametrize(
    ("index", "says"),
    [
        pytest.param(lambda f, x: f.argmax(x, 1), "", id="greatest"),
        pytest.param(lambda f, x: f.argmin(-f.abs(x.cast("f32")), 1), "", id="of-what-nothing-rounds"),
        pytest.param(lambda f, x: f.argmax(x), "out of range", id="of-all"),
        pytest.param(lambda f, x: f.argmax(x.permute((1, 0)), 1), "", id="of-fewer"),
        pytest.param(lambda f, x: f.argmax(x * 0.5, 1), "rounded", id="of-products"),
        pytest.param(lambda f, x: f.where(f.gt(x, 0.5), 1, f.iota((4, 9), 1, "i32")), "", id="compared"),
        pytest.param(lambda f, x: f.argmax(x, 1).cast("i8").cast("i64"), "", id="cast"),
        pytest.param(lambda f, x: f.argmax(x, 1) + 1, "out of range", id="moved"),
        pytest.param(lambda f, x: f.argmax(x, 1, keepdim=True) + f.input("k", (4, 1), "i64"), "", id="and-an-input"),
    ],
)
def test_the_place_of_an_extreme_is_in_range(index: Index, says: str) -> None:
    """Of a table of 9 rows, by what stands where in rows of 9 bf16."""
    f = FusionBuilder()
    x = f.input("x", (4, 9), "bf16")
    f.output(f.take(f.input("t", (9, 3), "f32"), index(f, x)))
    if says:
        with pytest.raises(Unsupported, match=says):
            dense(f)
        return
    found = index_ranges(dense(f))
    assert list(found.values()) in ([], [(0, 0)])


def test_numbers_of_a_table_that_choose_are_in_range_too() -> None:
    f = FusionBuilder()
    chosen = f.take(f.input("map", (20,), "i32"), f.input("i", (5,), "i64"))
    f.output(f.take(f.input("t", (7, 2), "f32"), chosen))
    assert index_ranges(dense(f)) == {"i0": (0, 6), "i1": (0, 19)}
