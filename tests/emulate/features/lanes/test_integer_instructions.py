"""Every integer, logic and bit instruction as PTX, against Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from tests.emulate.features.snippets import THREADS, computed

VALUES = {
    16: [0, 1, 2, 7, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF, 0x1234],
    32: [0, 1, 3, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0x00018000, 0x12345678, 0xDEADBEEF],
    64: [0, 1, 5, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**32, 0x123456789ABCDEF0, 0xFEDCBA9876543210],
}
PREFIX = {16: "%h", 32: "%w", 64: "%a"}


def pairs(size: int) -> list[tuple[int, int]]:
    chosen = list(product(VALUES[size], VALUES[size]))
    return [chosen[i * len(chosen) // THREADS] for i in range(THREADS)]


def signed(value: int, size: int) -> int:
    low = value & ((1 << size) - 1)
    return low - (1 << size) if low >> (size - 1) else low


def as_type(value: int, kind: str) -> int:
    size = int(kind[1:])
    return signed(value, size) if kind[0] == "s" else value & ((1 << size) - 1)


def widened(register: str, size: int) -> str:
    """%o from a result register, without its sign."""
    return f"mov.b64 %o, {register};" if size == 64 else f"cvt.u64.u{size} %o, {register};"


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


Two = Callable[[int, int, int], int]
ARITHMETIC: dict[str, tuple[list[str], Two]] = {
    "add": (["u16", "s16", "u32", "s32", "u64", "s64"], lambda a, b, n: a + b),
    "sub": (["u16", "s16", "u32", "s32", "u64", "s64"], lambda a, b, n: a - b),
    "mul.lo": (["u16", "s16", "u32", "s32", "u64", "s64"], lambda a, b, n: a * b),
    "mul.hi": (["u16", "s16", "u32", "s32", "u64", "s64"], lambda a, b, n: a * b >> n),
    "min": (["u16", "s16", "u32", "s32", "u64", "s64"], lambda a, b, n: min(a, b)),
    "max": (["u16", "s16", "u32", "s32", "u64", "s64"], lambda a, b, n: max(a, b)),
    "div": (["u16", "s16", "u32", "s32", "u64", "s64"], lambda a, b, n: truncated(a, b) if b else -1),
    "rem": (["u16", "s16", "u32", "s32", "u64", "s64"], lambda a, b, n: a - b * truncated(a, b) if b else -1),
    "add.sat": (["s32"], lambda a, b, n: max(-(2**31), min(2**31 - 1, a + b))),
    "sub.sat": (["s32"], lambda a, b, n: max(-(2**31), min(2**31 - 1, a - b))),
    "min.relu": (["s32"], lambda a, b, n: max(0, min(a, b))),
    "max.relu": (["s32"], lambda a, b, n: max(0, a, b)),
    "and": (["b16", "b32", "b64"], lambda a, b, n: a & b),
    "or": (["b16", "b32", "b64"], lambda a, b, n: a | b),
    "xor": (["b16", "b32", "b64"], lambda a, b, n: a ^ b),
}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, (kinds, _) in ARITHMETIC.items() for kind in kinds])
def test_two_operands(name: str, kind: str) -> None:
    size = int(kind[1:])
    p = PREFIX[size]
    result = "%d2" if size == 64 else f"{p}5"
    columns = pairs(size)
    found = computed(
        f"{name}.{kind} {result}, {p}0, {p}1; {widened(result, size)}", *map(list, zip(*columns, strict=True))
    )
    expected = [ARITHMETIC[name][1](as_type(a, kind), as_type(b, kind), size) for a, b in columns]
    assert found == [e & ((1 << size) - 1) for e in expected]


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
def test_wide_products(kind: str) -> None:
    size = int(kind[1:])
    p, (a, b) = PREFIX[size], map(list, zip(*pairs(size), strict=True))
    result = "%w5" if size == 16 else "%d2"
    found = computed(f"mul.wide.{kind} {result}, {p}0, {p}1; {widened(result, 2 * size)}", a, b)
    products = [as_type(x, kind) * as_type(y, kind) for x, y in zip(a, b, strict=True)]
    assert found == [v & ((1 << 2 * size) - 1) for v in products]
    addend = "%w1" if size == 16 else "%a1"
    found = computed(f"mad.wide.{kind} {result}, {p}0, {p}1, {addend}; {widened(result, 2 * size)}", a, b)
    assert found == [(v + y) & ((1 << 2 * size) - 1) for v, y in zip(products, b, strict=True)]


def sad(a: int, b: int) -> int:
    return abs(a - b)


def low24(value: int) -> int:
    return signed(value, 24)


ONE_WORD: dict[str, Callable[[int, int], int]] = {
    "mad.lo.s32 %w5, %w0, %w1, %w0": lambda a, b: a * b + a,
    "mad.hi.u32 %w5, %w0, %w1, 7": lambda a, b: (a * b >> 32) + 7,
    "mad.hi.s32 %w5, %w0, %w1, %w1": lambda a, b: (signed(a, 32) * signed(b, 32) >> 32) + b,
    "mad.hi.sat.s32 %w5, %w0, %w1, %w0": lambda a, b: max(
        -(2**31), min(2**31 - 1, (signed(a, 32) * signed(b, 32) >> 32) + signed(a, 32))
    ),
    "sad.u32 %w5, %w0, %w1, %w1": lambda a, b: sad(a, b) + b,
    "sad.s32 %w5, %w0, %w1, 1": lambda a, b: sad(signed(a, 32), signed(b, 32)) + 1,
    "mul24.lo.s32 %w5, %w0, %w1": lambda a, b: low24(a) * low24(b),
    "mul24.hi.u32 %w5, %w0, %w1": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16,
    "mad24.lo.u32 %w5, %w0, %w1, %w1": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) + b,
    "mad24.hi.s32 %w5, %w0, %w1, %w0": lambda a, b: (low24(a) * low24(b) >> 16) + a,
    "neg.s32 %w5, %w0": lambda a, b: -a,
    "abs.s32 %w5, %w0": lambda a, b: abs(signed(a, 32)),
    "not.b32 %w5, %w0": lambda a, b: ~a,
    "cnot.b32 %w5, %w0": lambda a, b: int(a == 0),
    "popc.b32 %w5, %w0": lambda a, b: a.bit_count(),
    "popc.b64 %w5, %a0": lambda a, b: a.bit_count(),
    "clz.b32 %w5, %w0": lambda a, b: 32 - a.bit_length(),
    "clz.b64 %w5, %a0": lambda a, b: 64 - a.bit_length(),
    "brev.b32 %w5, %w0": lambda a, b: int(f"{a:032b}"[::-1], 2),
    "bfind.u32 %w5, %w0": lambda a, b: a.bit_length() - 1,
    "bfind.s32 %w5, %w0": lambda a, b: (a ^ (0xFFFFFFFF if a >> 31 else 0)).bit_length() - 1,
    "bfind.shiftamt.u32 %w5, %w0": lambda a, b: 32 - a.bit_length() if a else -1,
    "shl.b32 %w5, %w0, %w1": lambda a, b: a << b if b < 32 else 0,
    "shr.u32 %w5, %w0, %w1": lambda a, b: a >> b if b < 32 else 0,
    "shr.s32 %w5, %w0, %w1": lambda a, b: signed(a, 32) >> min(b, 31),
    "shr.s32 %w5, %w0, 5": lambda a, b: signed(a, 32) >> 5,
    "shf.l.wrap.b32 %w5, %w0, %w1, 9": lambda a, b: (b << 32 | a) << 9 >> 32,
    "shf.r.wrap.b32 %w5, %w0, %w1, 40": lambda a, b: (b << 32 | a) >> 8,
    "shf.r.clamp.b32 %w5, %w0, %w1, 40": lambda a, b: b,
    "bfe.u32 %w5, %w0, 4, 12": lambda a, b: a >> 4 & 0xFFF,
    "bfe.s32 %w5, %w0, 4, 12": lambda a, b: signed(a >> 4, 12),
    "bfi.b32 %w5, %w0, %w1, 8, 16": lambda a, b: b & ~0xFFFF00 | (a & 0xFFFF) << 8,
    "prmt.b32 %w5, %w0, %w1, 0x5410": lambda a, b: (b & 0xFFFF) << 16 | a & 0xFFFF,
    "prmt.b32 %w5, %w0, %w1, 0x8888": lambda a, b: 0xFFFFFFFF if a >> 7 & 1 else 0,
    "prmt.b32.rc8 %w5, %w0, %w1, 2": lambda a, b: (a >> 16 & 0xFF) * 0x01010101,
    "bmsk.clamp.b32 %w5, 3, 9": lambda a, b: 0xFF8,
    "szext.wrap.s32 %w5, %w0, 7": lambda a, b: signed(a, 7),
    "lop3.b32 %w5, %w0, %w1, 0xFF00, 0xCA": lambda a, b: a & b | ~a & 0xFF00,
    "lop3.b32 %w5, %w0, %w1, %w0, 0x3C": lambda a, b: a ^ b,
    "add.u16x2 %w5, %w0, %w1": lambda a, b: ((a >> 16) + (b >> 16) << 16) & 0xFFFF0000 | (a + b) & 0xFFFF,
    "min.s16x2 %w5, %w0, %w1": lambda a, b: (
        (min(signed(a >> 16, 16), signed(b >> 16, 16)) & 0xFFFF) << 16 | min(signed(a, 16), signed(b, 16)) & 0xFFFF
    ),
    "max.relu.s16x2 %w5, %w0, %w1": lambda a, b: (
        max(signed(a >> 16, 16), signed(b >> 16, 16), 0) << 16 | max(signed(a, 16), signed(b, 16), 0)
    ),
    "dp4a.u32.u32 %w5, %w0, %w1, 1": lambda a, b: 1 + sum((a >> s & 255) * (b >> s & 255) for s in (0, 8, 16, 24)),
    "dp4a.s32.s32 %w5, %w0, %w1, %w0": lambda a, b: (
        a + sum(signed(a >> s, 8) * signed(b >> s, 8) for s in (0, 8, 16, 24))
    ),
    "dp2a.lo.s32.u32 %w5, %w0, %w1, 0": lambda a, b: signed(a, 16) * (b & 255) + signed(a >> 16, 16) * (b >> 8 & 255),
    "dp2a.hi.u32.s32 %w5, %w0, %w1, 0": lambda a, b: (a & 0xFFFF) * signed(b >> 16, 8) + (a >> 16) * signed(b >> 24, 8),
}


@pytest.mark.parametrize("instruction", ONE_WORD)
def test_results_of_one_word(instruction: str) -> None:
    columns = pairs(64 if "b64" in instruction else 32)
    found = computed(f"{instruction}; cvt.u64.u32 %o, %w5;", *map(list, zip(*columns, strict=True)))
    assert found == [ONE_WORD[instruction](a, b) & 0xFFFFFFFF for a, b in columns]


TWO_WORDS: dict[str, Callable[[int, int], int]] = {
    "neg.s64 %o, %a0": lambda a, b: -a,
    "abs.s64 %o, %a0": lambda a, b: abs(signed(a, 64)),
    "mad.lo.u64 %o, %a0, %a1, %a1": lambda a, b: a * b + b,
    "shl.b64 %o, %a0, 40": lambda a, b: a << 40,
    "shr.s64 %o, %a0, 70": lambda a, b: signed(a, 64) >> 63,
    "bfe.u64 %o, %a0, 20, 30": lambda a, b: a >> 20 & 0x3FFFFFFF,
    "bfi.b64 %o, %a0, %a1, 60, 20": lambda a, b: b & ~(0xF << 60) | (a & 0xF) << 60,
    "brev.b64 %o, %a0": lambda a, b: int(f"{a:064b}"[::-1], 2),
}


@pytest.mark.parametrize("instruction", TWO_WORDS)
def test_results_of_two_words(instruction: str) -> None:
    columns = pairs(64)
    found = computed(f"{instruction};", *map(list, zip(*columns, strict=True)))
    assert found == [TWO_WORDS[instruction](a, b) & (2**64 - 1) for a, b in columns]


def test_every_lop3_table() -> None:
    a, b, c = 0xF0, 0xCC, 0xAA
    code = """
        lop3.b32 %w5, {a}, {b}, {c}, {table};
        and.b32 %w5, %w5, 255;
        setp.ne.u32 %c0, %w5, {table};
        @%c0 add.u64 %o, %o, 1;
    """
    codes = [code.format(a=a, b=b, c=c, table=table) for table in range(256)]
    assert computed("\n".join(codes)) == [0] * THREADS, "0xF0, 0xCC and 0xAA give the table itself"


def test_lop3_with_a_predicate() -> None:
    columns = pairs(32)
    found = computed(
        """
        setp.eq.u32 %c1, %w1, 0;
        lop3.or.b32 %w5|%c0, %w0, %w1, 0, 0xC0, %c1;
        lop3.and.b32 _|%c2, %w0, %w1, 0, 0xC0, %c1;
        selp.u64 %o, 1, 0, %c0;
        @%c2 add.u64 %o, %o, 2;
        """,
        *map(list, zip(*columns, strict=True)),
    )
    assert found == [int(a & b != 0 or b == 0) + 2 * int(a & b != 0 and b == 0) for a, b in columns]


def test_a_sum_of_128_bits() -> None:
    columns = pairs(64)
    for first, second, sign in (("add.cc.u64", "addc.u64", 1), ("sub.cc.u64", "subc.u64", -1)):
        code = f"{first} %d2, %a0, %a1; {second} %o, %a1, %a0;"
        found = computed(code, *map(list, zip(*columns, strict=True)))
        wide = [(b << 64 | a) + sign * (a << 64 | b) for a, b in columns]
        assert found == [w >> 64 & (2**64 - 1) for w in wide]


def test_a_sum_after_a_difference_takes_a_carry_where_nothing_was_borrowed() -> None:
    """As the card has it, and NVRTC's division of 128-bit numbers counts on."""
    columns = pairs(64)
    found = computed("sub.cc.u64 %d2, %a0, %a1; addc.u64 %o, 0, 0;", *map(list, zip(*columns, strict=True)))
    assert found == [int(a >= b) for a, b in columns]


def test_a_product_of_128_bits_from_words() -> None:
    """Schoolbook multiplication of 64-bit factors with mad.cc and madc, whose upper half mul.hi gives at once."""
    columns = pairs(64)
    found = computed(
        """
        mov.b64 {%w5, %w6}, %a0;
        mov.b64 {%w7, %w8}, %a1;
        .reg .b32 %m<4>;
        mul.lo.u32 %m0, %w5, %w7;
        mul.hi.u32 %m1, %w5, %w7;
        mad.lo.cc.u32 %m1, %w5, %w8, %m1;
        madc.hi.u32 %m2, %w5, %w8, 0;
        mad.lo.cc.u32 %m1, %w6, %w7, %m1;
        madc.hi.cc.u32 %m2, %w6, %w7, %m2;
        addc.u32 %m3, 0, 0;
        mad.lo.cc.u32 %m2, %w6, %w8, %m2;
        madc.hi.u32 %m3, %w6, %w8, %m3;
        mov.b64 %o, {%m2, %m3};
        """,
        *map(list, zip(*columns, strict=True)),
    )
    assert found == [a * b >> 64 for a, b in columns]
