"""wgmma.mma_async: every pair of types, layout and source of A gives the product of small integers, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.emulate.launch import Completion, Options
from tests.emulate.features.mma.values import ENCODE, SIZE, small
from tests.emulate.features.wgmma.images import MODES, Image
from tests.emulate.features.wgmma.kernel import (
    BAR,
    COMMIT,
    FENCE,
    PROXY_FENCE,
    Ran,
    filled,
    names,
    row,
    run,
    vector,
    wait,
)

Array = npt.NDArray[Any]
Types = tuple[str, str, str]

TYPES: list[Types] = [
    ("f32", "f16", "f16"),
    ("f16", "f16", "f16"),
    ("f32", "bf16", "bf16"),
    ("f32", "tf32", "tf32"),
    *((d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
]


def rows_of_thread(thread: int, columns: int) -> list[tuple[int, int]]:
    """(row, column) of each element of D that a thread holds (PTX ISA, "Register Fragments", D of m64nN)."""
    lane, warp = thread % 32, thread // 32
    return [
        (16 * warp + (lane >> 2) + 8 * ((i >> 1) & 1), 2 * (lane & 3) + (i & 1) + 8 * (i >> 2))
        for i in range(columns // 2)
    ]


def a_of_thread(thread: int, bits: int) -> list[tuple[int, int]]:
    """(row, k) of each element of A that a thread holds."""
    lane, first = thread % 32, 16 * (thread // 32) + (thread % 32 >> 2)
    match bits:
        case 16:
            return [(first + 8 * ((v >> 1) & 1), 2 * (lane & 3) + (v & 1) + 8 * (v >> 2)) for v in range(8)]
        case 32:
            return [(first + 8 * (v & 1), (lane & 3) + 4 * (v >> 1)) for v in range(4)]
        case _:
            return [(first + 8 * ((v >> 2) & 1), 4 * (lane & 3) + (v & 3) + 16 * (v >> 3)) for v in range(16)]


def registers_of(matrix: Array, places: list[list[tuple[int, int]]]) -> npt.NDArray[np.uint32]:
    """(threads, registers) that hold a matrix of words."""
    return np.array([[matrix[p] for p in mine] for mine in places], matrix.dtype).view(np.uint32)


def multiplied(
    types: Types,
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    mode: str = "64B",
    transposed: tuple[bool, bool] = (False, False),
    in_registers: bool = False,
    signs: tuple[int, int] = (1, 1),
    more: str = "",
    options: Options | None = None,
) -> tuple[Ran, Array]:
    """D of a (64, k) and b (columns, k), with c as accumulator if given: bits, (64, columns)."""
    d, kind_a, kind_b = types
    columns, depth = len(b), 32 // SIZE[kind_a]
    count = columns * SIZE[d] // 8
    words_a, words_b = ENCODE[kind_a](a), ENCODE[kind_b](b)
    left = Image(words_a, transposed[0], mode)
    right = Image(words_b, transposed[1], mode, -(-left.data.size // 1024) * 1024)
    image = np.zeros(right.offset + right.data.size, np.uint8)
    image[: left.data.size], image[right.offset :] = left.data, right.data
    parts = [image]
    body = filled(image.size) + PROXY_FENCE + BAR
    if c is not None:
        held = registers_of(ENCODE[d](c), [rows_of_thread(t, columns) for t in range(128)])
        body += row(names("d", count), "ld", image.size, "%rd1")
        parts.append(held.view(np.uint8).reshape(-1))
    steps = a.shape[1] // depth
    if in_registers:
        for step in range(steps):
            mine = words_a[:, step * depth : (step + 1) * depth]
            held = registers_of(mine, [a_of_thread(t, 8 * SIZE[kind_a]) for t in range(128)])
            body += row([f"%a{4 * step + i}" for i in range(4)], "ld", sum(p.size for p in parts), "%rd1")
            parts.append(held.view(np.uint8).reshape(-1))
    body += FENCE
    tail = "" if d == "s32" else f", {signs[0]}, {signs[1]}"
    if SIZE[kind_a] == 2:
        tail += f", {int(transposed[1])}" if in_registers else f", {int(transposed[0])}, {int(transposed[1])}"
    for step in range(steps):
        source = "{" + ", ".join(f"%a{4 * step + i}" for i in range(4)) + "}" if in_registers else "%rd4"
        body += left.part(step).code(4) + right.part(step).code(5)
        body += f"  setp.ne.u32 %p1, {int(step > 0 or c is not None)}, 0;\n"
        body += f"  wgmma.mma_async.sync.aligned.m64n{columns}k{depth}{more}.{d}.{kind_a}.{kind_b} "
        body += f"{vector('d', count)}, {source}, %rd5, %p1{tail};\n"
    body += COMMIT + wait() + row(names("d", count), "st", 0, "%rd2")
    ran = run(body, np.concatenate(parts), 128 * count, options=options)
    found = np.zeros((64, columns), f"u{SIZE[d]}")
    for thread, mine in enumerate(ran.y.reshape(128, count).view(found.dtype)):
        for value, place in zip(mine, rows_of_thread(thread, columns), strict=True):
            found[place] = value
    return ran, found


def check(types: Types, columns: int, steps: int = 2, **given: Any) -> None:
    """Multiplies random small integers, plus an accumulator, and compares all bits."""
    rng = np.random.default_rng(columns)
    depth = steps * 32 // SIZE[types[1]]
    a, b = small(types[1], (64, depth), rng), small(types[2], (columns, depth), rng)
    c = rng.integers(-99, 99, (64, columns)).astype(np.float64)
    sign = np.prod(given.get("signs", (1, 1)))
    ran, found = multiplied(types, a, b, c, **given)
    assert ran.faults == [], ran.outcome.faults
    np.testing.assert_array_equal(found, ENCODE[types[0]](sign * (a @ b.T) + c))


@pytest.mark.parametrize("in_registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("types", TYPES, ids=".".join)
def test_every_pair_of_types(types: Types, in_registers: bool) -> None:
    check(types, 16, in_registers=in_registers)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_every_layout_of_16_bit_elements(mode: str, transposed: tuple[bool, bool]) -> None:
    check(("f32", "bf16", "bf16"), 64, steps=4, mode=mode, transposed=transposed)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("types", [("f32", "tf32", "tf32"), ("s32", "s8", "u8")], ids=".".join)
def test_every_layout_along_k_of_other_elements(mode: str, types: Types) -> None:
    check(types, 24, steps=4, mode=mode)


@pytest.mark.parametrize("columns", [8, 24, 136, 256])
def test_widths(columns: int) -> None:
    check(("f32", "f16", "f16"), columns, steps=1, mode="32B")
    check(("s32", "u8", "s8"), columns if columns != 136 else 144, steps=1, mode="32B")


@pytest.mark.parametrize("signs", [(1, -1), (-1, 1), (-1, -1)])
def test_signs(signs: tuple[int, int]) -> None:
    check(("f32", "tf32", "tf32"), 8, signs=signs)


def test_transposed_b_with_a_in_registers() -> None:
    check(("f32", "f16", "f16"), 32, transposed=(False, True), in_registers=True)


def test_without_an_accumulator_registers_need_no_value() -> None:
    rng = np.random.default_rng(0)
    a, b = small("f16", (64, 32), rng), small("f16", (8, 32), rng)
    ran, found = multiplied(("f32", "f16", "f16"), a, b)
    assert ran.faults == []
    np.testing.assert_array_equal(found.view(np.float32), a @ b.T)


@pytest.mark.parametrize("order", [Options(Completion.LAZY), Options(Completion.RANDOM, seed=3)])
def test_every_order_of_completion(order: Options) -> None:
    check(("f32", "bf16", "bf16"), 16, steps=4, mode="128B", options=order)
    check(("f16", "f16", "f16"), 16, steps=4, in_registers=True, options=order)


def test_integers_wrap_or_saturate() -> None:
    a, b, c = np.full((64, 64), 127.0), np.full((8, 64), 127.0), np.full((64, 8), 2.0**31 - 5)
    _, wrapped = multiplied(("s32", "s8", "s8"), a, b, c)
    assert (wrapped.view(np.int32) == 64 * 127 * 127 + 2**31 - 5 - 2**32).all()
    _, clamped = multiplied(("s32", "s8", "s8"), a, b, c, more=".satfinite")
    assert (clamped.view(np.int32) == 2**31 - 1).all()
