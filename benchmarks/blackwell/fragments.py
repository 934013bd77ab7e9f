"""Registers and tensor memory: lanes and columns of tcgen05.ld and .st, and their packing of halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.blackwell.code import (
    COLUMNS,
    block,
    declared,
    fill,
    load,
    program,
    registers_from_x,
    registers_to_y,
    show,
    store,
)
from benchmarks.blackwell.question import HardwareQuestion, Words

LANES = 128
WARP = 32
_HALF = 0xFFFF

Cell = tuple[int, int]


def contents(seed: int = 0, words: int = 0) -> Words:
    """What each lane and column holds, and `words` more for registers; no two halves of neighbours are equal."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 1 << 32, LANES * COLUMNS + words, np.uint32)


def cells(x: Words) -> Words:
    """The part of `x` that the kernels fill tensor memory with, a row a lane."""
    return x[: LANES * COLUMNS].reshape(LANES, COLUMNS)


# By the figures of the PTX ISA, "Data Movement Shape": strips of 32, 64, 128 and 256 bits a lane.

PATTERNS: dict[str, tuple[int, int, Callable[[int, int], Cell]]] = {
    "32x32b": (2, 2, lambda t, r: (t, r)),
    "16x64b": (2, 2, lambda t, r: (t // 4 + 8 * (t % 2), t % 4 // 2 + 2 * r)),
    "16x128b": (2, 4, lambda t, r: (t // 4 + 8 * (r % 2), t % 4 + 4 * (r // 2))),
    "16x256b": (2, 8, lambda t, r: (t // 4 + 8 * (r % 4 // 2), 2 * (t % 4) + r % 2 + 8 * (r // 4))),
    "16x32bx2": (4, 4, lambda t, r: (t % 16, r + 6 * (t // 16))),
}
"""By shape: its .num, registers a thread, and the lane and column of register r of thread t of a warp."""

SPLIT = 6
"""Columns from the first half of 16x32bx2 to the second: no multiple of the half's own, so that none is guessed."""


def questions() -> Iterator[HardwareQuestion]:
    """All of this module."""
    for shape, (num, count, _) in PATTERNS.items():
        split = SPLIT if shape == "16x32bx2" else None
        yield _loads(shape, num, count, split)
        yield _stores(shape, num, count, split)
    yield _pack()
    yield _unpack()
    yield _split_of_packed_load()
    yield _split_of_packed_store()


def _loads(shape: str, num: int, count: int, split: int | None) -> HardwareQuestion:
    x, (_, _, place) = contents(), PATTERNS[shape]
    found = np.zeros((LANES, count), np.uint32)
    for thread in range(LANES):
        for register in range(count):
            lane, column = place(thread % WARP, register)
            found[thread, register] = cells(x)[thread // WARP * WARP + lane, column]
    body = block(fill(), declared(count) + load(shape, num, count, "mine", split) + registers_to_y(count))
    asks = f"which lane and column a register of {shape}.x{num} is loaded from"
    return HardwareQuestion(f"ld {shape}", asks, program(body), x, {"as the figure has it": found})


def _stores(shape: str, num: int, count: int, split: int | None) -> HardwareQuestion:
    x, (_, _, place) = contents(1, LANES * count), PATTERNS[shape]
    given, after = x[LANES * COLUMNS :].reshape(LANES, count), cells(x).copy()
    for thread in range(LANES):
        for register in range(count):
            lane, column = place(thread % WARP, register)
            after[thread // WARP * WARP + lane, column] = given[thread, register]
    stored = registers_from_x(count, LANES * COLUMNS) + store(shape, num, count, "mine", split)
    asks = f"which lane and column a register of {shape}.x{num} is stored to"
    source = program(block(fill(), stored, show()))
    return HardwareQuestion(f"st {shape}", asks, source, x, {"as the figure has it": after})


def _pack() -> HardwareQuestion:
    x, count = contents(2), 4
    low = cells(x)[:, : 2 * count] & np.uint32(_HALF)
    answers = {
        "low half from the even column, high half from the odd one": low[:, ::2] | low[:, 1::2] << np.uint32(16),
        "low half from the odd column, high half from the even one": low[:, 1::2] | low[:, ::2] << np.uint32(16),
    }
    loaded = declared(count) + load("32x32b", count, count, "mine", packed=True) + registers_to_y(count)
    asks = "which columns pack::16b puts into a register"
    return HardwareQuestion("pack::16b", asks, program(block(fill(), loaded)), x, answers)


def _unpack() -> HardwareQuestion:
    count = 4
    x = contents(3, LANES * count)
    given, before = x[LANES * COLUMNS :].reshape(LANES, count), cells(x)
    halves = np.stack([given & _HALF, given >> 16], axis=2).reshape(LANES, 2 * count)
    answers = {}
    for name, kept in (("upper halves of the columns are cleared", 0), ("upper halves of the columns stay", 1)):
        after = before.copy()
        after[:, : 2 * count] = halves | (before[:, : 2 * count] & ~np.uint32(_HALF)) * np.uint32(kept)
        answers[name] = after
    stored = registers_from_x(count, LANES * COLUMNS) + store("32x32b", count, count, "mine", packed=True)
    asks = "what unpack::16b leaves in the upper half of a column"
    return HardwareQuestion("unpack::16b", asks, program(block(fill(), stored, show())), x, answers)


_NUM, _PACKED_SPLIT = 4, 10
"""Of the packed forms of 16x32bx2: their halves take 8 columns each."""

_SPLITS = {"the split counts columns of 32 bits": _PACKED_SPLIT, "the split counts pairs of columns": 2 * _PACKED_SPLIT}


def _packed_columns(thread: int, register: int, split: int) -> list[int]:
    return [2 * register + half + split * (thread % WARP // 16) for half in (0, 1)]


def _split_of_packed_load() -> HardwareQuestion:
    x, answers = contents(4), {}
    for name, split in _SPLITS.items():
        found = np.zeros((LANES, _NUM), np.uint32)
        for thread in range(LANES):
            for register in range(_NUM):
                lane = thread // WARP * WARP + thread % 16
                low, high = (cells(x)[lane, c] & _HALF for c in _packed_columns(thread, register, split))
                found[thread, register] = low | high << 16
        answers[name] = found
    loaded = declared(_NUM) + load("16x32bx2", _NUM, _NUM, "mine", _PACKED_SPLIT, packed=True) + registers_to_y(_NUM)
    asks = "what immHalfSplitoff of 16x32bx2 counts where halves are packed, in a load"
    return HardwareQuestion("half split of ld 16x32bx2.pack::16b", asks, program(block(fill(), loaded)), x, answers)


def _split_of_packed_store() -> HardwareQuestion:
    x, answers = contents(5, LANES * _NUM), {}
    given = x[LANES * COLUMNS :].reshape(LANES, _NUM)
    for name, split in _SPLITS.items():
        for kept, what in ((0, "clear"), (_HALF << 16, "keep")):
            after = cells(x).copy()
            for thread in range(LANES):
                for register in range(_NUM):
                    lane, word = thread // WARP * WARP + thread % 16, int(given[thread, register])
                    for half, column in enumerate(_packed_columns(thread, register, split)):
                        after[lane, column] = int(after[lane, column]) & kept | word >> 16 * half & _HALF
            answers[f"{name}; upper halves {what}" + ("ed" if kept == 0 else "")] = after
    stored = registers_from_x(_NUM, LANES * COLUMNS)
    stored += store("16x32bx2", _NUM, _NUM, "mine", _PACKED_SPLIT, packed=True)
    asks = "what immHalfSplitoff of 16x32bx2 counts where halves are packed, in a store"
    source = program(block(fill(), stored, show()))
    return HardwareQuestion("half split of st 16x32bx2.unpack::16b", asks, source, x, answers)
