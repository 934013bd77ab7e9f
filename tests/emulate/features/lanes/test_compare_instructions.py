"""setp, set, selp and slct as PTX, for every type and comparison."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from itertools import product

import pytest

from tests.emulate.features.snippets import THREADS, computed

ORDERED = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
UNSIGNED = {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
INTEGERS = [0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**63, 2**64 - 1]


def chosen(values: list[int]) -> list[tuple[int, int]]:
    pairs = list(product(values, values))
    return [pairs[i * len(pairs) // THREADS] for i in range(THREADS)]


def as_type(value: int, kind: str) -> int:
    size = int(kind[1:])
    low = value & ((1 << size) - 1)
    return low - (1 << size) if kind[0] == "s" and low >> (size - 1) else low


REGISTER = {"16": "%h", "32": "%w", "64": "%a"}
FORMS = [(op, kind) for op in ORDERED for kind in ("s16", "u16", "s32", "u32", "s64", "u64")]
FORMS += [(op, kind) for op in UNSIGNED for kind in ("u16", "u32", "u64")]
FORMS += [(op, kind) for op in ("eq", "ne") for kind in ("b16", "b32", "b64")]


@pytest.mark.parametrize(("op", "kind"), FORMS)
def test_integers(op: str, kind: str) -> None:
    columns = chosen(INTEGERS)
    r = REGISTER[kind[1:]]
    code = f"setp.{op}.{kind} %c0|%c1, {r}0, {r}1; selp.u64 %o, 1, 0, %c0; @%c1 add.u64 %o, %o, 2;"
    compare = (ORDERED | UNSIGNED)[op]
    assert computed(code, *map(list, zip(*columns, strict=True))) == [
        1 if compare(as_type(a, kind), as_type(b, kind)) else 2 for a, b in columns
    ]


def compared(op: str, a: float, b: float) -> bool:
    unordered = math.isnan(a) or math.isnan(b)
    if op in ("num", "nan"):
        return unordered == (op == "nan")
    if op in ORDERED:
        return not unordered and ORDERED[op](a, b)
    return unordered or ORDERED[op.removesuffix("u")](a, b)


FLOAT_OPS = [*ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
FLOATS = [0.0, -0.0, 1.0, -1.0, 2.5, math.inf, -math.inf, math.nan]


def encoded(value: float, kind: str) -> int:
    if kind == "bf16":
        return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16
    pack, unpack = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}[kind]
    return int(struct.unpack(unpack, struct.pack(pack, value))[0])


@pytest.mark.parametrize("op", FLOAT_OPS)
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_floats(op: str, kind: str) -> None:
    pairs = list(product(FLOATS, repeat=2))
    r = {"f16": "%h", "bf16": "%h", "f32": "%w", "f64": "%a"}[kind]
    columns = [[encoded(v, kind) for v in column] for column in zip(*pairs, strict=True)]
    found = computed(f"setp.{op}.{kind} %c0, {r}0, {r}1; selp.u64 %o, 1, 0, %c0;", *columns)
    assert found == [int(compared(op, a, b)) for a, b in pairs]


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
def test_packed_floats(kind: str) -> None:
    half = kind.removesuffix("x2")
    pairs = list(product(FLOATS, repeat=2))
    swapped = [(b, a) for a, b in pairs]
    words = [
        [encoded(low[i], half) | encoded(high[i], half) << 16 for low, high in zip(pairs, swapped, strict=True)]
        for i in (0, 1)
    ]
    found = computed(
        f"""
        setp.lt.{kind} %c0|%c1, %w0, %w1;
        selp.u64 %o, 1, 0, %c0;
        @%c1 add.u64 %o, %o, 2;
        set.lt.u32.{kind} %w5, %w0, %w1;
        set.lt.{kind}.{kind} %w6, %w0, %w1;
        setp.eq.u32 %c2, %w5, 0xFFFF0000;
        @%c2 add.u64 %o, %o, 4;
        setp.eq.u32 %c2, %w6, {encoded(1.0, half)};
        @%c2 add.u64 %o, %o, 8;
        """,
        *words,
    )
    expected = []
    for (a, b), (c, d) in zip(pairs, swapped, strict=True):
        low, high = compared("lt", a, b), compared("lt", c, d)
        expected.append(low + 2 * high + 4 * (high and not low) + 8 * (low and not high))
    assert found == expected


def test_subnormal_numbers_are_zeros_with_ftz() -> None:
    tiny = [encoded(1e-40, "f32"), encoded(-1e-40, "f32"), encoded(1.5e-38, "f32")]
    code = "setp.eq{}.f32 %c0, %w0, 0f00000000; selp.u64 %o, 1, 0, %c0;"
    assert computed(code.format(".ftz"), tiny) == [1, 1, 0]
    assert computed(code.format(""), tiny) == [0, 0, 0]
    halves = [encoded(2.0**-15, "f16"), encoded(-(2.0**-24), "f16"), encoded(2.0**-14, "f16")]
    code = "mov.b16 %h5, 0; setp.eq{}.f16 %c0, %h0, %h5; selp.u64 %o, 1, 0, %c0;"
    assert computed(code.format(".ftz"), halves) == [1, 1, 0]
    assert computed(code.format(""), halves) == [0, 0, 0]


@pytest.mark.parametrize(("word", "combine"), [("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)])
@pytest.mark.parametrize("negation", ["", "!"])
def test_combination_with_a_predicate(word: str, combine: Callable[[bool, bool], bool], negation: str) -> None:
    a, b = zip(*product(range(4), repeat=2), strict=True)
    found = computed(
        f"""
        setp.ne.u32 %c2, %w1, 2;
        setp.lt.{word}.u32 %c0|%c1, %w0, %w1, {negation}%c2;
        selp.u64 %o, 1, 0, %c0;
        @%c1 add.u64 %o, %o, 2;
        set.lt.{word}.u32.u32 %w5, %w0, %w1, {negation}%c2;
        setp.eq.u32 %c0, %w5, 0xFFFFFFFF;
        @%c0 add.u64 %o, %o, 4;
        """,
        a,
        b,
    )
    expected = []
    for x, y in zip(a, b, strict=True):
        other = (y != 2) != bool(negation)
        held, opposite = combine(x < y, other), combine(not x < y, other)
        expected.append(5 * held + 2 * opposite)
    assert found == expected


SET = {
    "set.gt.u32.s32 %w5, %w0, 0": 0xFFFFFFFF,
    "set.gt.f32.s32 %w5, %w0, 0": 0x3F800000,
    "set.gt.s32.s32 %w5, %w0, 0": 0xFFFFFFFF,
}


@pytest.mark.parametrize("instruction", SET)
def test_set(instruction: str) -> None:
    assert computed(f"{instruction}; cvt.u64.u32 %o, %w5;", [5, 0, -5]) == [SET[instruction], 0, 0]


def test_selection() -> None:
    code = """
        setp.lt.s32 %c0, %w0, 0;
        selp.b32 %w5, 11, %w1, %c0;
        selp.f64 %g0, 0d3FF0000000000000, 0d0000000000000000, %c0;
        selp.b16 %h5, 3, 4, %c0;
        slct.u32.s32 %w6, 100, 200, %w0;
        mov.b64 %o, %g0;
        shr.u64 %o, %o, 32;
        cvt.u64.u32 %d2, %w5; add.u64 %o, %o, %d2;
        cvt.u64.u16 %d2, %h5; add.u64 %o, %o, %d2;
        cvt.u64.u32 %d2, %w6; add.u64 %o, %o, %d2;
    """
    assert computed(code, [-1, 1], [40, 40]) == [0x3FF00000 + 11 + 3 + 200, 40 + 4 + 100]


def test_selection_by_the_sign_of_a_float() -> None:
    values = [encoded(v, "f32") for v in (1.0, -1.0, 0.0, -0.0, math.nan, -1e-40)]
    code = "slct{}.u32.f32 %w5, 1, 2, %w0; cvt.u64.u32 %o, %w5;"
    assert computed(code.format(""), values) == [1, 2, 1, 1, 2, 2]
    assert computed(code.format(".ftz"), values) == [1, 2, 1, 1, 2, 1]


def test_logic_of_predicates() -> None:
    a, b = zip(*product(range(2), repeat=2), strict=True)
    found = computed(
        """
        setp.ne.u32 %c0, %w0, 0;
        setp.ne.u32 %c1, %w1, 0;
        and.pred %c2, %c0, %c1;
        @%c2 add.u64 %o, %o, 1;
        or.pred %c2, %c0, %c1;
        @%c2 add.u64 %o, %o, 2;
        xor.pred %c2, %c0, %c1;
        @%c2 add.u64 %o, %o, 4;
        not.pred %c2, %c0;
        @%c2 add.u64 %o, %o, 8;
        mov.pred %c3, %c1;
        @!%c3 add.u64 %o, %o, 16;
        """,
        a,
        b,
    )
    assert found == [
        (x & y) + 2 * (x | y) + 4 * (x ^ y) + 8 * (1 - x) + 16 * (1 - y) for x, y in zip(a, b, strict=True)
    ]
