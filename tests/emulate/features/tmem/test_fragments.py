"""tcgen05.ld and .st: every shape, count and packing, executed and held against where the manual's figures have it."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.features.tmem.layout import fragment, registers_of
from compiler.emulate.launch import Completion
from tests.emulate.features.small_kernels import EVERY_ORDER, Words, allocated, load_row, registers, run, store_row
from tests.shares import crossed

SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
COUNTS = {
    "32x32b": {1: 1, 2: 2, 4: 4, 8: 8, 16: 16, 32: 32, 64: 64, 128: 128},
    "16x64b": {1: 1, 2: 2, 4: 4, 8: 8, 16: 16, 32: 32, 64: 64, 128: 128},
    "16x128b": {1: 2, 2: 4, 4: 8, 8: 16, 16: 32, 32: 64, 64: 128},
    "16x256b": {1: 4, 2: 8, 4: 16, 8: 32, 16: 64, 32: 128},
    "16x32bx2": {1: 1, 2: 2, 4: 4, 8: 8, 16: 16, 32: 32, 64: 64, 128: 128},
}
"""Registers a thread by .num, from the table of the PTX ISA."""

WIDTHS = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 2}
"""Columns at x1; both halves of 16x32bx2."""

FORMS = [(shape, num) for shape in SHAPES for num in COUNTS[shape]]
COLUMNS = 512


def place(shape: str, num: int, thread: int, register: int, half: int, packed: bool) -> tuple[int, int]:
    """Lane and column of a register's half, written from the figures: strips of 32, 64, 128 and 256 bits a lane."""
    if shape == "32x32b":
        lane, column = thread, register
    elif shape == "16x64b":
        # Two columns a strip; pairs of threads share a lane, an odd pair is in the lower lanes.
        lane, column = thread // 4 + (8 if thread % 2 else 0), (1 if thread % 4 >= 2 else 0) + 2 * register
    elif shape == "16x128b":
        # Four columns a strip, a thread each; every other register is in the lower lanes.
        strip, lower = divmod(register, 2)
        lane, column = thread // 4 + 8 * lower, thread % 4 + 4 * strip
    elif shape == "16x256b":
        # Eight columns a strip, two a thread; registers 2 and 3 of four are in the lower lanes.
        strip, within = divmod(register, 4)
        lower, which = divmod(within, 2)
        lane, column = thread // 4 + 8 * lower, 2 * (thread % 4) + which + 8 * strip
    else:
        lane, column = thread % 16, register
    if packed:
        column = 2 * column + half
    if shape == "16x32bx2" and thread >= 16:
        column += split_of(num, packed)
    return lane, column


def split_of(num: int, packed: bool) -> int:
    """Columns from the first half to the second: next to it, where that fits, else on top of a part of it."""
    return min(num * (2 if packed else 1), 64)


def filled(rng: np.random.Generator) -> Words:
    """Contents of all lanes and columns."""
    return rng.integers(0, 1 << 32, (128, COLUMNS), np.uint32)


FILL = "\n".join(
    f"{load_row(128, row='%r7')}\n"
    f"  add.u32 %r9, %r6, {128 * part};\n"
    f"  tcgen05.st.sync.aligned.32x32b.x128.b32 [%r9], {registers(128)};\n"
    f"  tcgen05.wait::st.sync.aligned;\n"
    f"  add.u32 %r7, %r7, 1;"
    for part in range(4)
)
"""Copies row `lane` of x, 512 words, to each lane of tensor memory."""

DUMP = "\n".join(
    f"  add.u32 %r9, %r6, {128 * part};\n"
    f"  tcgen05.ld.sync.aligned.32x32b.x128.b32 {registers(128)}, [%r9];\n"
    f"  tcgen05.wait::ld.sync.aligned;\n"
    f"{store_row(128, row='%r7')}\n"
    f"  add.u32 %r7, %r7, 1;"
    for part in range(4)
)
START_ROW = "  shl.b32 %r7, %r1, 2;\n"


@pytest.mark.parametrize(("form", "packed"), crossed(FORMS, [False, True], 2))
def test_a_form_loads_and_stores_the_cells_of_its_fragment(form: tuple[str, int], packed: bool) -> None:
    """Loads from known contents, stores other values, and dumps all of tensor memory."""
    shape, num = form
    count, halves = COUNTS[shape][num], 2 if packed else 1
    rng = np.random.default_rng(num)
    contents, given = filled(rng), rng.integers(0, 1 << 32, (128, count), np.uint32)
    if shape == "16x32bx2" and split_of(num, packed) < num * halves:  # the halves overlap: equal values everywhere
        given[:] = 7 | 7 << 16 if packed else 7
    split = f", {split_of(num, packed)}" if shape == "16x32bx2" else ""
    body = START_ROW + FILL + "\n"
    body += f"  tcgen05.ld.sync.aligned.{shape}.x{num}{'.pack::16b' * packed}.b32 {registers(count)}, [%r6]{split};\n"
    body += "  tcgen05.wait::ld.sync.aligned;\n" + store_row(count)
    body += f"\n  add.u64 %rd2, %rd2, {given.nbytes};\n  add.u64 %rd1, %rd1, {contents.nbytes};\n" + load_row(count)
    body += (
        f"\n  tcgen05.st.sync.aligned.{shape}.x{num}{'.unpack::16b' * packed}.b32 [%r6]{split}, {registers(count)};\n"
    )
    body += "  tcgen05.wait::st.sync.aligned;\n" + START_ROW + DUMP
    ran = run(allocated(body), np.concatenate([contents.ravel(), given.ravel()]), given.size + contents.size)
    assert ran.faults == []
    lanes, columns = np.zeros((2, 128, count, halves), np.intp)
    for thread in range(128):
        for register in range(count):
            for half in range(halves):
                lane, column = place(shape, num, thread % 32, register, half, packed)
                lanes[thread, register, half], columns[thread, register, half] = 32 * (thread // 32) + lane, column
    cells = contents[lanes, columns]
    loaded = cells[..., 0] if not packed else cells[..., 0] & 0xFFFF | (cells[..., 1] & 0xFFFF) << 16
    np.testing.assert_array_equal(ran.y[: given.size].reshape(128, count), loaded)
    after = contents.copy()
    after[lanes, columns] = given[..., None] if not packed else np.stack([given & 0xFFFF, given >> 16], axis=2)
    np.testing.assert_array_equal(ran.y[given.size :].reshape(128, COLUMNS), after)


@pytest.mark.parametrize(("completion", "seed"), EVERY_ORDER)
@pytest.mark.parametrize(
    ("stored", "loaded"),
    [
        ("16x256b.x8", "32x32b.x64"),
        ("32x32b.x64", "16x128b.x16"),
        ("16x64b.x32", "16x256b.x8"),
        ("16x128b.x4", "16x64b.x8"),
    ],
)
def test_what_one_shape_stores_another_loads(stored: str, loaded: str, completion: Completion, seed: int) -> None:
    def pieces(form: str) -> tuple[int, list[int]]:
        shape, num = form.split(".x")
        return COUNTS[shape][int(num)], [0] if shape == "32x32b" else [0, 16 << 16]

    (given, parts), (taken, halves) = pieces(stored), pieces(loaded)
    rows, columns = 32, given * 32 * len(parts) // 32
    rng = np.random.default_rng(3)
    x = rng.integers(0, 1 << 32, (128, given * len(parts)), np.uint32)
    body = load_row(given * len(parts))
    for index, part in enumerate(parts):
        body += f"\n  add.u32 %r9, %r6, {part};"
        body += f"\n  tcgen05.st.sync.aligned.{stored}.b32 [%r9], {registers(given, index * given)};"
    body += "\n  tcgen05.wait::st.sync.aligned;"
    for index, half in enumerate(halves):
        body += f"\n  add.u32 %r9, %r6, {half};"
        body += f"\n  tcgen05.ld.sync.aligned.{loaded}.b32 {registers(taken, index * taken)}, [%r9];"
    body += "\n  tcgen05.wait::ld.sync.aligned;\n" + store_row(taken * len(halves))
    ran = run(allocated(body), x, 128 * taken * len(halves), completion=completion, seed=seed)
    assert ran.faults == []
    assert taken * len(halves) == given * len(parts), "both cover the whole quarter"
    memory = np.zeros((4, rows, columns), np.uint32)
    for thread in range(128):
        for register in range(x.shape[1]):
            piece, within = divmod(register, given)
            shape, num = stored.split(".x")
            lane, column = place(shape, int(num), thread % 32, within, 0, False)
            memory[thread // 32, lane + 16 * piece, column] = x[thread, register]
    found = ran.y.reshape(128, -1)
    for thread in range(128):
        for register in range(found.shape[1]):
            piece, within = divmod(register, taken)
            shape, num = loaded.split(".x")
            lane, column = place(shape, int(num), thread % 32, within, 0, False)
            assert found[thread, register] == memory[thread // 32, lane + 16 * piece, column]


@pytest.mark.parametrize(("shape", "num"), [(s, n) for s in SHAPES for n in (1, 2, 4, 8, 16, 32, 64, 128)])
def test_a_fragment_covers_each_of_its_cells_once(shape: str, num: int) -> None:
    if num not in COUNTS[shape]:
        with pytest.raises(ValueError, match=shape):
            registers_of(shape, num)
        return
    for packed in (False, True):
        width = num * WIDTHS[shape] * (2 if packed else 1)
        form = fragment(shape, num, packed, width // 2)
        cells = form.lanes * 10_000 + form.columns
        assert len(np.unique(cells)) == cells.size == form.rows * width
        assert form.rows == (32 if shape == "32x32b" else 16)
        assert (form.columns.min(), form.columns.max()) == (0, width - 1)
