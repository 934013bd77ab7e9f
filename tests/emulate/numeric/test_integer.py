"""Integer arithmetic and bit operations against Python's integers, which know no width."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.emulate.numeric import bits, integer, ordered

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the emulator runs with errstate(all="ignore")

TYPES = ["u2", "i2", "u4", "i4", "u8", "i8"]
WORDS = ["u4", "i4", "u8", "i8"]


def edges(name: str) -> st.SearchStrategy[int]:
    """Values of a type, its edges more often than chance has them."""
    limits = np.iinfo(name)
    low, high = int(limits.min), int(limits.max)
    special = {low, low + 1, 0, 1, 2, high - 1, high, high // 2} | ({-1, -2} if low < 0 else set())
    return st.one_of(st.sampled_from(sorted(special)), st.integers(low, high))


def wrapped(value: int, name: str) -> int:
    size = 8 * np.dtype(name).itemsize
    low = value & ((1 << size) - 1)
    return low - (1 << size) if name[0] == "i" and low >> (size - 1) else low


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY: dict[str, tuple[Callable[..., np.ndarray], Callable[[int, int, int], int]]] = {
    "mul_high": (integer.mul_high, lambda a, b, size: a * b >> size),
    "divide": (integer.divide, lambda a, b, size: truncated(a, b) if b else -1),
    "remainder": (integer.remainder, lambda a, b, size: a - b * truncated(a, b) if b else -1),
    "absolute_difference": (integer.absolute_difference, lambda a, b, size: abs(a - b)),
}


@pytest.mark.parametrize("operation", BINARY)
@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=40)
@given(data=st.data())
def test_two_operands(operation: str, name: str, data: st.DataObject) -> None:
    function, expected = BINARY[operation]
    pairs = data.draw(st.lists(st.tuples(edges(name), edges(name)), min_size=1, max_size=8))
    a, b = (np.array(column, name) for column in zip(*pairs, strict=True))
    found = function(a, b)
    assert found.dtype == np.dtype(name)
    assert found.tolist() == [wrapped(expected(x, y, 8 * a.dtype.itemsize), name) for x, y in pairs]
    assert function(a[0], b).tolist() == [
        wrapped(expected(int(a[0]), int(y), 8 * a.dtype.itemsize), name) for y in b
    ], "one value for all lanes"


@pytest.mark.parametrize("name", ["u2", "i2", "u4", "i4"])
@settings(max_examples=40)
@given(data=st.data())
def test_wide_product_and_saturation(name: str, data: st.DataObject) -> None:
    x, y = data.draw(edges(name)), data.draw(edges(name))
    a, b = np.array([x], name), np.array([y], name)
    limits = np.iinfo(name)

    def clamp(value: int) -> int:
        return max(int(limits.min), min(int(limits.max), value))

    assert integer.mul_wide(a, b).tolist() == [x * y]
    assert integer.add_saturated(a, b).tolist() == [clamp(x + y)]
    assert integer.sub_saturated(a, b).tolist() == [clamp(x - y)]


@pytest.mark.parametrize("name", ["u4", "i4"])
@pytest.mark.parametrize("high", [False, True])
@settings(max_examples=40)
@given(data=st.data())
def test_24_bits(name: str, high: bool, data: st.DataObject) -> None:
    x, y = data.draw(edges(name)), data.draw(edges(name))

    def low24(value: int) -> int:
        low = value & 0xFFFFFF
        return low - (1 << 24) if name == "i4" and low >> 23 else low

    product = low24(x) * low24(y)
    expected = wrapped(product >> 16 if high else product, name)
    assert integer.mul24(np.array([x], name), np.array([y], name), high).tolist() == [expected]


@pytest.mark.parametrize("name", ["u4", "u8"])
@settings(max_examples=40)
@given(data=st.data())
def test_carry_chain_is_one_long_sum(name: str, data: st.DataObject) -> None:
    size = 8 * np.dtype(name).itemsize
    words = st.tuples(edges(name), edges(name), edges(name))
    x, y = data.draw(words), data.draw(words)
    for function, sign in ((integer.add_with_carry, 1), (integer.sub_with_borrow, -1)):
        carry = np.zeros(1, np.bool_)
        found = 0
        for place, (a, b) in enumerate(zip(x, y, strict=True)):
            word, carry = function(np.array([a], name), np.array([b], name), carry)
            found |= int(word[0]) << size * place
        long = [sum(w << size * place for place, w in enumerate(v)) for v in (x, y)]
        total = long[0] + sign * long[1]
        assert found == total & ((1 << 3 * size) - 1)
        assert bool(carry[0]) == (total < 0 or total >> 3 * size == 1)


@settings(max_examples=40)
@given(a=edges("u4"), b=edges("u4"), c=edges("u4"))
def test_dot_products(a: int, b: int, c: int) -> None:
    def fields(word: int, size: int, signed: bool) -> list[int]:
        values = [word >> size * i & ((1 << size) - 1) for i in range(32 // size)]
        return [v - (1 << size) if signed and v >> (size - 1) else v for v in values]

    x, y, z = (np.array([v], "u4") for v in (a, b, c))
    for a_signed in (False, True):
        for b_signed in (False, True):
            b_type = "i1" if b_signed else "u1"
            right = fields(b, 8, b_signed)
            expected = sum(p * q for p, q in zip(fields(a, 8, a_signed), right, strict=True)) + c
            found = integer.dot4(x, y, z, "i1" if a_signed else "u1", b_type)
            assert found.tolist() == [wrapped(expected, "u4")]
            for high in (False, True):
                halves = fields(a, 16, a_signed)
                part = right[2:] if high else right[:2]
                expected = sum(p * q for p, q in zip(halves, part, strict=True)) + c
                found = integer.dot2(x, y, z, "i2" if a_signed else "u2", b_type, high)
                assert found.tolist() == [wrapped(expected, "u4")]


COUNTS = st.one_of(st.sampled_from([0, 1, 15, 16, 31, 32, 33, 63, 64, 65, 255, 256, 2**31, 2**32 - 1]), edges("u4"))


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=40)
@given(data=st.data())
def test_shifts(name: str, data: st.DataObject) -> None:
    value, count = data.draw(edges(name)), data.draw(COUNTS)
    a, n = np.array([value], name), np.array([count], "u4")
    by = min(count, 100)
    assert bits.shift_left(a, n).tolist() == [wrapped(value << by, name)]
    assert bits.shift_right(a, n).tolist() == [value >> by]
    assert bits.shift_right(a[0], n[0]) == value >> by


@settings(max_examples=40)
@given(low=edges("u4"), high=edges("u4"), count=COUNTS)
def test_funnel_shifts(low: int, high: int, count: int) -> None:
    both = high << 32 | low
    for clamp in (False, True):
        n = min(count, 32) if clamp else count & 31
        a, b, c = (np.array([v], "u4") for v in (low, high, count))
        assert bits.funnel_shift(a, b, c, True, clamp).tolist() == [(both << n) >> 32 & 0xFFFFFFFF]
        assert bits.funnel_shift(a, b, c, False, clamp).tolist() == [both >> n & 0xFFFFFFFF]


@pytest.mark.parametrize("name", WORDS)
@settings(max_examples=40)
@given(data=st.data())
def test_bit_fields(name: str, data: st.DataObject) -> None:
    """As the PTX ISA's program for bfe and bfi says, bit by bit; 64-bit fields do not take their counts modulo 256."""
    size = 8 * np.dtype(name).itemsize
    value, other = data.draw(edges(name)), data.draw(edges(name.replace("i", "u")))
    position, length = data.draw(COUNTS), data.draw(COUNTS)
    pos, count = (position, length) if size == 64 else (position & 255, length & 255)
    pos = min(pos, size)
    word = value & ((1 << size) - 1)
    sign = name[0] == "i" and count > 0 and bool(word >> min(pos + count - 1, size - 1) & 1)
    taken = [word >> (pos + i) & 1 if i < count and pos + i < size else sign for i in range(size)]
    p, n = np.array([position], "u4"), np.array([length], "u4")
    found = bits.extract_field(np.array([value], name), p, n)
    assert found.tolist() == [wrapped(sum(bit << i for i, bit in enumerate(taken)), name)]
    inserted = other
    for i in range(min(count, max(0, size - pos))):
        inserted = inserted & ~(1 << pos + i) | (word >> i & 1) << pos + i
    unsigned = f"u{size // 8}"
    found = bits.insert_field(np.array([word], unsigned), np.array([other], unsigned), p, n)
    assert found.tolist() == [inserted]


@pytest.mark.parametrize("name", WORDS)
@settings(max_examples=40)
@given(data=st.data())
def test_scans(name: str, data: st.DataObject) -> None:
    size = 8 * np.dtype(name).itemsize
    value = data.draw(edges(name))
    word = value & ((1 << size) - 1)
    a, plain = np.array([value], name), np.array([word], f"u{size // 8}")
    assert bits.leading_zeros(plain).tolist() == [size - word.bit_length()]
    assert bits.reverse_bits(plain).tolist() == [int(f"{word:0{size}b}"[::-1], 2)]
    meaningful = (~value if value < 0 else value).bit_length()
    assert bits.highest_bit(a, False).tolist() == [meaningful - 1 if meaningful else 0xFFFFFFFF]
    assert bits.highest_bit(a, True).tolist() == [size - meaningful if meaningful else 0xFFFFFFFF]


# The selected bytes for control values 0 to 3, most significant first (PTX ISA, "prmt", table of modes).
MODES = {
    "f4e": ["3210", "4321", "5432", "6543"],
    "b4e": ["5670", "6701", "7012", "0123"],
    "rc8": ["0000", "1111", "2222", "3333"],
    "ecl": ["3210", "3211", "3222", "3333"],
    "ecr": ["0000", "1110", "2210", "3210"],
    "rc16": ["1010", "3232", "1010", "3232"],
}


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40)
@given(a=edges("u4"), b=edges("u4"), control=edges("u4"))
def test_permutation_modes(mode: str, a: int, b: int, control: int) -> None:
    source = (b << 32 | a).to_bytes(8, "little")
    expected = int.from_bytes(bytes(source[int(c)] for c in reversed(MODES[mode][control & 3])), "little")
    x, y, selection = (np.array([v], "u4") for v in (a, b, control))
    assert bits.permute_bytes(x, y, selection, mode).tolist() == [expected]
    assert bits.moved_bytes(x, y, bits.moves(control, mode)).tolist() == [expected]


@settings(max_examples=40)
@given(a=edges("u4"), b=edges("u4"), control=edges("u4"))
def test_permutation(a: int, b: int, control: int) -> None:
    source = (b << 32 | a).to_bytes(8, "little")
    picked = []
    for place in range(4):
        nibble = control >> 4 * place & 15
        byte = source[nibble & 7]
        picked.append((255 if byte > 127 else 0) if nibble > 7 else byte)
    expected = int.from_bytes(bytes(picked), "little")
    x, y, selection = (np.array([v], "u4") for v in (a, b, control))
    assert bits.permute_bytes(x, y, selection).tolist() == [expected]
    assert bits.moved_bytes(x, y, bits.moves(control)).tolist() == [expected]


@settings(max_examples=40)
@given(position=COUNTS, length=COUNTS, value=edges("u4"))
def test_masks_and_extension(position: int, length: int, value: int) -> None:
    ones = 0xFFFFFFFF
    p, n = np.array([position], "u4"), np.array([length], "u4")
    for clamp in (False, True):
        # The PTX ISA's program for bmsk: what begins at the position, without what begins where the mask ends.
        start, end = position & 31, (position & 31) + (length & 31)
        begins = 0 if clamp and position >= 32 else ones << start & ones
        past = 0 if end >= 32 or (clamp and (position >= 32 or length >= 32)) else ones << end & ones
        assert bits.bit_mask(p, n, clamp).tolist() == [begins & ~past]
        width = min(length, 32) if clamp else length & 31
        low = value & ((1 << width) - 1)
        extended = low - (1 << width) if width and low >> (width - 1) else low
        assert bits.extend(np.array([value], "u4"), n, clamp).tolist() == [low]
        signed = np.array([value], "u4").view("i4")
        assert bits.extend(signed, n, clamp).tolist() == [wrapped(extended, "i4")]


@settings(max_examples=40)
@given(st.lists(st.floats(width=32), min_size=1, max_size=6))
def test_floats_in_order(values: list[float]) -> None:
    given_values = np.array(values, np.float32)
    numbers = [v for v in values if v == v]
    for reduce, choose in ((np.minimum, min), (np.maximum, max)):
        for nan_wins in (False, True):
            keys = ordered.keys(given_values.view("u4"), nan_wins == (choose is min))
            found = ordered.floats(np.array([reduce.reduce(keys)], "u4")).view("f4")[0]
            if not numbers or (nan_wins and len(numbers) < len(values)):
                assert np.isnan(found)
            else:
                expected = choose(numbers, key=lambda v: (v, np.copysign(1, v)))
                assert (found, np.signbit(found)) == (expected, np.signbit(expected))
