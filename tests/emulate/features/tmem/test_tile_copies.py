"""tcgen05.cp, .shift and .commit: tiles of shared memory to tensor memory, told by an mbarrier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from compiler.emulate.features.mma.matrices import tensor_matrix
from compiler.emulate.launch import Completion
from tests.emulate.features.small_kernels import ALLOC, EVERY_ORDER, FREE, load_row, registers, run, store_row

TILE_BYTES = 16384
COLUMNS = 32

FILL_SHARED = (
    load_row(32)
    + "\n  mov.u32 %r10, tile;\n  shl.b32 %r11, %r1, 7;\n  add.u32 %r11, %r10, %r11;\n"
    + "\n".join(f"  st.shared.v4.u32 [%r11+{4 * i}], {registers(4, i)};" for i in range(0, 32, 4))
    + "\n"
)
"""Thread t puts row t of x, 128 bytes, into the tile."""

CLEAR = "  mov.u32 %v40, 0;\n" + "".join(
    f"  add.u32 %r7, %r6, {c};\n  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r7], {{%v40}};\n" for c in range(COLUMNS)
)
FENCES = "  fence.proxy.async.shared::cta;\n"
COPY = """
  mov.u64 %rd20, {descriptor};
  cvt.u64.u32 %rd21, %r10;
  shr.u64 %rd21, %rd21, 4;
  or.b64 %rd20, %rd20, %rd21;
  mov.u32 %r12, bar;
  @%p2 tcgen05.cp.cta_group::1.{shape} [%r5], %rd20;
"""
COMMIT = "  @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r12];\n"
WAIT = """
AGAIN:
  mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r12], 0;
  @!%p5 bra AGAIN;
"""
AFTER = "  tcgen05.fence::after_thread_sync;\n"
INIT = """
  mov.u32 %r12, bar;
  @%p2 mbarrier.init.shared::cta.b64 [%r12], 1;
  @%p2 fence.mbarrier_init.release.cluster;
"""
DUMP = (
    f"  tcgen05.ld.sync.aligned.32x32b.x{COLUMNS}.b32 {registers(COLUMNS)}, [%r6];\n"
    "  tcgen05.wait::ld.sync.aligned;\n" + store_row(COLUMNS) + "\n"
)


def kernel(shape: str, bits: int, **without: bool) -> str:
    """Fills the tile, clears tensor memory, copies, waits, dumps; parts named in `without` are left out."""
    return (
        INIT
        + ALLOC.format(columns=COLUMNS)
        + FILL_SHARED
        + CLEAR
        + "  tcgen05.wait::st.sync.aligned;\n"
        + ("" if without.get("proxy_fence") else FENCES)
        + "  tcgen05.fence::before_thread_sync;\n"
        + ("" if without.get("barrier") else "  bar.sync 0;\n")
        + AFTER
        + COPY.format(shape=shape, descriptor=bits)
        + ("" if without.get("commit") else COMMIT)
        + ("" if without.get("commit") or without.get("wait") else WAIT)
        + ("" if without.get("fence") else AFTER)
        + DUMP
        + FREE.format(columns=COLUMNS)
    )


def encoded(leading: int, stride: int, mode: int) -> int:
    """A descriptor without its start address; offsets in bytes."""
    return leading // 16 << 16 | stride // 16 << 32 | 1 << 46 | mode << 61


@dataclass(frozen=True)
class Layout:
    """A layout of rows in shared memory: the swizzle's mode bits, bytes from row to row, from chunk to chunk of 16
    bytes, from 8 rows to 8 rows; `xored`: how many address bits from `low` up are xored into those from bit 4 up."""

    mode: int
    row: int
    chunk: int
    group: int
    xored: int = 0
    low: int = 7


LAYOUTS = {
    "none, chunks side by side": Layout(0, 16, 128, 256),
    "none, chunks far apart": Layout(0, 16, 4096, 128),
    "32B": Layout(6, 32, 16, 256, 1),
    "64B": Layout(4, 64, 16, 512, 2),
    "128B": Layout(2, 128, 16, 1024, 3),
}


def one_lane(row: int) -> list[int]:
    """128 rows to 128 lanes."""
    return [row]


SHAPES: dict[str, tuple[int, int, Callable[[int], list[int]]]] = {
    # rows, chunks of 16 bytes, the lanes of a row
    "128x256b": (128, 2, one_lane),
    "128x128b": (128, 1, one_lane),
    "4x256b": (4, 2, lambda r: [32 * r]),
    "64x128b.warpx2::02_13": (64, 1, lambda r: [r, r + 64]),
    "64x128b.warpx2::01_23": (64, 1, lambda r: [64 * (r // 32) + r % 32, 64 * (r // 32) + r % 32 + 32]),
    "32x128b.warpx4": (32, 1, lambda r: [r, r + 32, r + 64, r + 96]),
}


def chunk_at(tile: npt.NDArray[np.uint8], layout: Layout, row: int, chunk: int) -> npt.NDArray[np.uint8]:
    """The 16 bytes of a row's chunk."""
    place = row // 8 * layout.group + row % 8 * layout.row + chunk * layout.chunk
    for bit in range(layout.xored):
        place ^= (place >> layout.low + bit & 1) << 4 + bit
    return tile[place : place + 16]


def x_tile() -> npt.NDArray[np.uint8]:
    """The bytes of the tile."""
    return np.random.default_rng(5).integers(0, 256, TILE_BYTES, np.uint8)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_copy_puts_rows_into_their_lanes(shape: str, layout: str) -> None:
    form, tile = LAYOUTS[layout], x_tile()
    rows, chunks, lanes = SHAPES[shape]
    ran = run(kernel(shape, encoded(form.chunk, form.group, form.mode)), tile, 128 * COLUMNS)
    assert ran.faults == []
    wanted = np.zeros((128, COLUMNS), np.uint32)
    for row in range(rows):
        for chunk in range(chunks):
            words = chunk_at(tile, form, row, chunk).copy().view(np.uint32)
            for lane in lanes(row):
                wanted[lane, 4 * chunk : 4 * chunk + 4] = words
    np.testing.assert_array_equal(ran.y.reshape(128, COLUMNS), wanted)


CP = "tcgen05.cp.cta_group::1.128x256b"
LD = f"tcgen05.ld.sync.aligned.32x32b.x{COLUMNS}.b32"

FAULTS = {
    "clean": ({}, []),
    "no proxy fence": ({"proxy_fence": True}, [("proxy_race", CP)]),
    "not waited for": ({"wait": True}, [("race", LD)]),
    "not fenced after": ({"fence": True}, [("race", LD)]),
    "not committed": ({"commit": True}, [("race", LD), ("in_flight_at_exit", CP)]),
}


@pytest.mark.parametrize(("completion", "seed"), EVERY_ORDER)
@pytest.mark.parametrize("name", FAULTS)
def test_a_copy_is_ordered_by_fences_and_its_mbarrier(name: str, completion: Completion, seed: int) -> None:
    without, expected = FAULTS[name]
    ran = run(
        kernel("128x256b", encoded(16, 1024, 2), **without), x_tile(), 128 * COLUMNS, completion=completion, seed=seed
    )
    found = {f for f in ran.faults if not f[1].startswith("tcgen05.dealloc")}
    assert found == set(expected)


@pytest.mark.parametrize(
    ("bits", "kind"),
    [
        (encoded(16, 1024, 2) & ~(1 << 46), "invalid_operand"),
        (encoded(16, 1024, 3), "invalid_operand"),
        (encoded(16, 1024, 2) | 1 << 55, "invalid_operand"),
        (encoded(16, 1024, 2) | 1 << 49, "unsupported_instruction"),
        (encoded(16, 2048, 2), "out_of_bounds"),
    ],
)
def test_a_descriptor_that_is_none_is_reported(bits: int, kind: str) -> None:
    ran = run(kernel("128x256b", bits), x_tile(), 128 * COLUMNS)
    assert (kind, CP) in ran.faults


def test_a_shift_moves_all_rows_but_the_last_to_the_next_lane() -> None:
    rows = np.random.default_rng(1).integers(0, 1 << 32, (128, 32), np.uint32)
    body = (
        INIT
        + ALLOC.format(columns=COLUMNS)
        + load_row(32)
        + f"\n  tcgen05.st.sync.aligned.32x32b.x32.b32 [%r6], {registers(32)};\n"
        + "  tcgen05.wait::st.sync.aligned;\n  tcgen05.fence::before_thread_sync;\n  bar.sync 0;\n"
        + AFTER
        + "  add.u32 %r13, %r5, 2097156;\n"
        + "  @%p2 tcgen05.shift.cta_group::1.down [%r13];\n"
        + COMMIT
        + WAIT
        + AFTER
        + DUMP
        + FREE.format(columns=COLUMNS)
    )
    ran = run(body, rows, 128 * COLUMNS)
    assert ran.faults == []
    wanted = rows.copy()
    wanted[33:64, 4:12] = rows[32:63, 4:12]
    np.testing.assert_array_equal(ran.y.reshape(128, COLUMNS), wanted)


def test_a_descriptor_has_its_fields_where_the_manual_has_them() -> None:
    found = tensor_matrix(encoded(256, 1024, 6) | 0x1230)
    assert (found.start, found.leading, found.stride, found.swizzle.name) == (0x12300, 256, 1024, "32B")
