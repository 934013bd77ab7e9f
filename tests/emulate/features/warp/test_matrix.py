"""ldmatrix, stmatrix, movmatrix against element-by-element readings of the manual's figures."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from compiler.emulate.features.warp.matrix import layout
from tests.emulate.features.small_kernels import load_row, registers, run, store_row

Bytes = npt.NDArray[np.uint8]

RNG = np.random.default_rng(9)

SHARED = "  mov.u32 %r10, tile;\n"
ROW_ADDRESS = (
    "  mov.u64 %rd20, 0;\n  mul.wide.u32 %rd20, %r1, 4;\n  add.u64 %rd20, %rd20, %rd1;\n"
    "  ld.global.u32 %r12, [%rd20+{at}];\n  add.u32 %r12, %r12, %r10;\n"
)
"""%r12: the row address of the lane, from the offsets that stand in x from byte `at`."""


def lane_rows(warps: int = 1) -> npt.NDArray[np.uint32]:
    """Shuffled 16-byte rows of the tile, one a lane: rows need not be neighbours."""
    return (16 * RNG.permutation(128)[: 32 * warps]).astype(np.uint32)


FILL = (
    load_row(16)
    + "\n  shl.b32 %r11, %r1, 6;\n  add.u32 %r11, %r10, %r11;\n"
    + "\n".join(f"  st.shared.v4.u32 [%r11+{4 * i}], {registers(4, i)};" for i in range(0, 16, 4))
    + "\n  bar.sync 0;\n"
)
"""Thread t puts 64 bytes of x to tile + 64 t."""


def element(tile: Bytes, rows: npt.NDArray[np.uint32], matrix: int, row: int, column: int) -> int:
    """A 16-bit element of an 8x8 matrix whose row addresses lanes 8*matrix… give."""
    place = int(rows[8 * matrix + row]) + 2 * column
    return int(tile[place]) | int(tile[place + 1]) << 8


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_spreads_rows_of_sixteen_bytes(count: int, transposed: bool) -> None:
    tile = RNG.integers(0, 256, 32 * 64, np.uint8)
    rows = lane_rows()
    name = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    body = (
        SHARED + FILL + ROW_ADDRESS.format(at=tile.size) + f"  {name} {registers(count)}, [%r12];\n" + store_row(count)
    )
    ran = run(body, np.concatenate([tile.view(np.uint32), rows]), 32 * count, threads=32)
    assert ran.faults == []
    for lane in range(32):
        for matrix in range(count):
            line, first = lane // 4, 2 * (lane % 4)
            low, high = (
                element(tile, rows, matrix, *((c, line) if transposed else (line, c))) for c in (first, first + 1)
            )
            assert ran.y[lane * count + matrix] == low | high << 16


def test_ldmatrix_of_several_warps_at_once() -> None:
    tile = RNG.integers(0, 256, 96 * 64, np.uint8)
    rows = lane_rows(3)
    body = SHARED + FILL + ROW_ADDRESS.format(at=tile.size) + "  ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
    body += f"{registers(4)}, [%r12];\n" + store_row(4)
    ran = run(body, np.concatenate([tile.view(np.uint32), rows]), 96 * 4, threads=96)
    assert ran.faults == []
    for warp in range(3):
        mine = rows[32 * warp : 32 * warp + 32]
        for lane in range(32):
            got = ran.y[(32 * warp + lane) * 4 + 3]
            low, high = (element(tile, mine, 3, lane // 4, 2 * (lane % 4) + i) for i in (0, 1))
            assert got == low | high << 16


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_is_the_inverse_of_ldmatrix(count: int, transposed: bool) -> None:
    given = RNG.integers(0, 1 << 32, (32, count), np.uint32)
    rows = lane_rows()
    trans = ".trans" if transposed else ""
    body = (
        SHARED
        + load_row(count)
        + "\n"
        + ROW_ADDRESS.format(at=given.nbytes)
        + f"  stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r12], {registers(count)};\n"
        + "  bar.sync 0;\n"
        + f"  ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {registers(count, 8)}, [%r12];\n"
        + store_row(count, 8)
    )
    ran = run(body, np.concatenate([given.ravel(), rows]), 32 * count, threads=32)
    assert ran.faults == []
    np.testing.assert_array_equal(ran.y.reshape(32, count), given)


def test_movmatrix_transposes() -> None:
    matrix = RNG.integers(0, 1 << 16, (8, 8), np.uint16)
    body = load_row(1) + "\n  movmatrix.sync.aligned.m8n8.trans.b16 %v1, %v0;\n" + store_row(1, 1)
    ran = run(body, matrix, 32, threads=32)
    assert ran.faults == []
    np.testing.assert_array_equal(ran.y.view(np.uint16).reshape(8, 8), matrix.T)


@pytest.mark.parametrize("count", [1, 2])
def test_ldmatrix_of_bytes_transposes_sixteen_by_sixteen(count: int) -> None:
    tile = RNG.integers(0, 256, 32 * 64, np.uint8)
    rows = lane_rows()
    body = (
        SHARED
        + FILL
        + ROW_ADDRESS.format(at=tile.size)
        + f"  ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8 {registers(2 * count)}, [%r12];\n"
        + store_row(2 * count)
    )
    ran = run(body, np.concatenate([tile.view(np.uint32), rows]), 64 * count, threads=32)
    assert ran.faults == []
    got = ran.y.view(np.uint8).reshape(32, count, 2, 4)
    for lane in range(32):
        for matrix in range(count):
            for half in range(2):
                for byte in range(4):
                    row = 16 * matrix + 4 * (lane % 4) + 2 * half + byte % 2
                    column = lane // 4 + 8 * (byte // 2)
                    assert got[lane, matrix, half, byte] == tile[int(rows[row]) + column]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_of_bytes_transposes_sixteen_by_eight(count: int) -> None:
    given = RNG.integers(0, 1 << 32, (32, count), np.uint32)
    body = (
        SHARED
        + load_row(count)
        + "\n  shl.b32 %r12, %r1, 4;\n  add.u32 %r12, %r12, %r10;\n"
        + f"  stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%r12], {registers(count)};\n"
        + "  bar.sync 0;\n"
        + f"  setp.lt.u32 %p3, %r1, {8 * count};\n"
        + f"  @%p3 ld.shared.v4.u32 {registers(4, 8)}, [%r12];\n"
        + "  mul.wide.u32 %rd12, %r1, 16;\n  add.u64 %rd13, %rd2, %rd12;\n"
        + f"  @%p3 st.global.v4.u32 [%rd13], {registers(4, 8)};\n"
    )
    ran = run(body, given, 32 * count, threads=32)
    assert ran.faults == []
    rows = ran.y.view(np.uint8).reshape(8 * count, 16)
    held = given.view(np.uint8).reshape(32, count, 4)
    for lane in range(32):
        for matrix in range(count):
            for byte in range(4):
                row, column = 8 * matrix + 2 * (lane % 4) + byte % 2, lane // 4 + 8 * (byte // 2)
                assert rows[row, column] == held[lane, matrix, byte]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("  add.u32 %r12, %r12, 8;\n  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {regs}, [%r12];\n", "misaligned"),
        ("  add.u32 %r12, %r12, 16384;\n  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {regs}, [%r12];\n", "out_of_bounds"),
        (
            "  add.u32 %r12, %r12, 4096;\n  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {regs}, [%r12];\n",
            "uninitialized_read",
        ),
        (
            "  setp.lt.u32 %p3, %r1, 8;\n  @%p3 ldmatrix.sync.aligned.m8n8.x4.shared.b16 {regs}, [%r12];\n",
            "divergent_collective",
        ),
        (
            "  setp.ge.u32 %p3, %r1, 8;\n  @%p3 exit;\n  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {regs}, [%r12];\n",
            "divergent_collective",
        ),
        ("  ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {regs}, [%r12];\n", "unsupported_instruction"),
    ],
)
def test_wrong_matrices_are_reported(body: str, kind: str) -> None:
    tile = np.zeros(32 * 64, np.uint8)
    text = SHARED + FILL + ROW_ADDRESS.format(at=tile.size) + body.format(regs=registers(4)) + "  bar.sync 0;\n"
    ran = run(text, np.concatenate([tile.view(np.uint32), lane_rows()]), 32, threads=32)
    assert kind in {k for k, _ in ran.faults}


def test_only_the_lanes_that_give_rows_need_valid_addresses() -> None:
    tile = np.arange(32 * 64, dtype=np.uint8)
    body = SHARED + FILL + "  shl.b32 %r12, %r1, 4;\n  add.u32 %r12, %r12, %r10;\n"
    body += "  setp.ge.u32 %p3, %r1, 8;\n  @%p3 mov.u32 %r12, 3;\n"
    body += f"  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {registers(1)}, [%r12];\n" + store_row(1)
    assert run(body, tile, 32, threads=32).faults == []


@pytest.mark.parametrize(
    ("shape", "counts", "is_transposed"),
    [
        ("m8n8", (1, 2, 4), False),
        ("m8n8", (1, 2, 4), True),
        ("m16n8", (1, 2, 4), True),
        ("m16n16", (1, 2), True),
    ],
)
def test_a_layout_holds_each_byte_once(shape: str, counts: tuple[int, ...], is_transposed: bool) -> None:
    for count in counts:
        form = layout(shape, count, is_transposed)
        assert form is not None
        places = np.sort((16 * form.row + form.byte).ravel())
        np.testing.assert_array_equal(places, np.arange(16 * form.rows))
        assert 128 * form.registers == 16 * form.rows
