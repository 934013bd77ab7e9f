"""tcgen05.mma: every kind, shape, layout and source of A gives the product of small integers, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.emulate.launch import Completion
from tests.emulate.features.mma.values import ENCODE, SIZE, small
from tests.emulate.features.small_kernels import EVERY_ORDER, Ran, allocated, load_row, registers, run, store_row
from tests.emulate.features.wgmma.images import Image

Array = npt.NDArray[Any]

TILE = 16384
NUMBERS = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "u8": 0, "s8": 1}
KINDS = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4", "u8": "i8", "s8": "i8"}
RESULTS = {"f16": 0, "f32": 1, "s32": 2}
TYPES = [
    ("f32", "f16", "f16"),
    ("f16", "f16", "f16"),
    ("f32", "bf16", "bf16"),
    ("f32", "tf32", "tf32"),
    *((d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
]

INIT = """
  mov.u32 %r10, tile;
  mov.u32 %r12, bar;
  @%p2 mbarrier.init.shared::cta.b64 [%r12], 1;
  @%p2 fence.mbarrier_init.release.cluster;
"""
FILL = (
    load_row(32)
    + "\n  shl.b32 %r11, %r1, 7;\n  add.u32 %r11, %r10, %r11;\n"
    + "\n".join(f"  st.shared.v4.u32 [%r11+{4 * i}], {registers(4, i)};" for i in range(0, 32, 4))
    + f"\n  add.u64 %rd1, %rd1, {TILE};\n"
)
"""x to the tile, and %rd1 to what follows in x."""
FENCES = "  fence.proxy.async.shared::cta;\n  tcgen05.fence::before_thread_sync;\n"
BAR = "  bar.sync 0;\n"
AFTER = "  tcgen05.fence::after_thread_sync;\n"
COMMIT = "  @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r12];\n"
WAIT = """
AGAIN:
  mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r12], 0;
  @!%p5 bra AGAIN;
"""


def idesc(types: tuple[str, str, str], rows: int, columns: int, transposed: tuple[bool, bool] = (False, False)) -> int:
    """An instruction descriptor."""
    d, a, b = types
    bits = RESULTS[d] << 4 | NUMBERS[a] << 7 | NUMBERS[b] << 10 | columns >> 3 << 17 | rows >> 4 << 24
    return bits | int(transposed[0]) << 15 | int(transposed[1]) << 16


def descriptor(image: Image, step: int) -> str:
    """Computes the descriptor of part of an operand into %rd20 (A) or %rd21 (B), by what is in the tile first."""
    part = image.part(step)
    mode = {0: 0, 1: 2, 2: 4, 3: 6}[part.mode]
    bits = part.leading >> 4 << 16 | part.stride >> 4 << 32 | 1 << 46 | mode << 61
    register = "%rd20" if image.offset == 0 else "%rd21"
    return (
        f"  add.u32 %r20, %r10, {part.offset};\n  shr.u32 %r20, %r20, 4;\n  cvt.u64.u32 {register}, %r20;\n"
        f"  or.b64 {register}, {register}, {bits:#x};\n"
    )


def lane_of(row: int, rows: int, start: int) -> int:
    """The lane of a row of D, or of A."""
    return row if rows == 128 else 32 * (row // 16) + row % 16 + start


def multiplied(
    types: tuple[str, str, str],
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    mode: str = "64B",
    transposed: tuple[bool, bool] = (False, False),
    in_tensor_memory: bool = False,
    start: int = 0,
    masks: tuple[int, ...] = (),
    scale: int | None = None,
    sign: int = 0,
    completion: Completion = Completion.EAGER,
    seed: int = 0,
) -> tuple[Ran, Array]:
    """D of a (rows, k) and b (columns, k), with c as accumulator if given: words, (rows, columns)."""
    d, kind_a, kind_b = types
    (rows, columns), depth = (len(a), len(b)), 32 // SIZE[kind_a]
    words_a, words_b = ENCODE[kind_a](a), ENCODE[kind_b](b)
    left = Image(words_a, transposed[0], mode)
    right = Image(words_b, transposed[1], mode, -(-left.data.size // 1024) * 1024)
    image = np.zeros(TILE, np.uint8)
    image[: left.data.size] = left.data
    image[right.offset : right.offset + right.data.size] = right.data
    lanes = [lane_of(row, rows, start) for row in range(rows)]
    parts = [image]
    body = INIT + FILL
    steps = a.shape[1] // depth
    if c is not None:
        held = np.zeros((128, columns), np.uint32)
        held[lanes] = ENCODE[d](c).astype(np.uint32)
        parts.append(held.view(np.uint8).reshape(-1))
        body += load_row(columns) + f"\n  add.u64 %rd1, %rd1, {held.nbytes};\n"
        body += f"  tcgen05.st.sync.aligned.32x32b.x{columns}.b32 [%r6], {registers(columns)};\n"
        body += "  tcgen05.wait::st.sync.aligned;\n"
    if in_tensor_memory:
        held = np.zeros((128, 8 * steps), np.uint32)
        held[lanes] = np.ascontiguousarray(words_a).view(np.uint32)
        parts.append(held.view(np.uint8).reshape(-1))
        body += load_row(8 * steps) + "\n  add.u32 %r15, %r6, 128;\n"
        body += f"  tcgen05.st.sync.aligned.32x32b.x{8 * steps}.b32 [%r15], {registers(8 * steps)};\n"
        body += "  tcgen05.wait::st.sync.aligned;\n"
    body += FENCES + BAR + AFTER
    body += f"  mov.u32 %r16, {idesc(types, rows, columns, transposed) | sign << 13:#x};\n"
    body += f"  add.u32 %r17, %r5, {start << 16};\n"
    mask = "".join(f"  mov.u32 %v{130 + i}, {m:#x};\n" for i, m in enumerate(masks))
    for step in range(steps):
        body += descriptor(left, step) + descriptor(right, step) + mask
        body += f"  setp.ne.u32 %p6, {int(step > 0 or c is not None)}, 0;\n"
        body += f"  add.u32 %r18, %r17, {128 + 8 * step};\n"
        body += f"  @%p2 tcgen05.mma.cta_group::1.kind::{KINDS[kind_a]} [%r17], "
        body += f"{'[%r18]' if in_tensor_memory else '%rd20'}, %rd21, %r16"
        body += (f", {registers(4, 130)}" if masks else "") + ", %p6" + ("" if scale is None else f", {scale}") + ";\n"
    body += COMMIT + WAIT + AFTER
    body += f"  tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {registers(columns)}, [%r6];\n"
    body += "  tcgen05.wait::ld.sync.aligned;\n" + store_row(columns) + "\n"
    if c is None:  # all lanes are loaded, and with 64 rows half of them are nobody's
        clear = "".join(f"  mov.u32 %v{i}, 0;\n" for i in range(columns))
        clear += f"  tcgen05.st.sync.aligned.32x32b.x{columns}.b32 [%r6], {registers(columns)};\n"
        body = clear + "  tcgen05.wait::st.sync.aligned;\n" + body
    ran = run(allocated(body, 256), np.concatenate(parts), 128 * columns, completion=completion, seed=seed)
    return ran, ran.y.reshape(128, columns)[lanes]


def check(types: tuple[str, str, str], rows: int, columns: int, steps: int = 2, **given: Any) -> None:
    """Multiplies random small integers, plus an accumulator, and compares all bits."""
    rng = np.random.default_rng(columns)
    depth = steps * 32 // SIZE[types[1]]
    a, b = small(types[1], (rows, depth), rng), small(types[2], (columns, depth), rng)
    c = rng.integers(-99, 99, (rows, columns)).astype(np.float64)
    ran, found = multiplied(types, a, b, c, **given)
    assert ran.faults == [], ran.outcome.faults
    factor = -1 if given.get("sign") in (1, 2) else 1
    expected = ENCODE[types[0]](factor * (a @ b.T) + c * 2.0 ** -(steps * (given.get("scale") or 0)))
    np.testing.assert_array_equal(found, expected.astype(np.uint32))


@pytest.mark.parametrize("in_tensor_memory", [False, True], ids=["shared", "tensor"])
@pytest.mark.parametrize("types", TYPES, ids=".".join)
def test_every_pair_of_types(types: tuple[str, str, str], in_tensor_memory: bool) -> None:
    check(types, 128, 16, in_tensor_memory=in_tensor_memory)


@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_every_layout_of_16_bit_elements(mode: str, transposed: tuple[bool, bool]) -> None:
    check(("f32", "bf16", "bf16"), 64, 64, steps=4, mode=mode, transposed=transposed)


@pytest.mark.parametrize("transposed", [(False, True), (True, False), (True, True)])
def test_bytes_may_lie_along_the_other_axis(transposed: tuple[bool, bool]) -> None:
    check(("s32", "s8", "u8"), 64, 64, mode="64B", transposed=transposed)
    check(("f32", "e4m3", "e5m2"), 128, 64, mode="32B", transposed=transposed)


@pytest.mark.parametrize("in_tensor_memory", [False, True], ids=["shared", "tensor"])
@pytest.mark.parametrize("start", [0, 16])
def test_sixty_four_rows_take_half_of_the_lanes(start: int, in_tensor_memory: bool) -> None:
    check(("f32", "f16", "f16"), 64, 8, start=start, in_tensor_memory=in_tensor_memory)


@pytest.mark.parametrize("columns", [8, 32, 128])
def test_widths(columns: int) -> None:
    check(("f32", "f16", "f16"), 64, columns, steps=1, mode="32B")
    check(("s32", "u8", "s8"), 64, columns, steps=1, mode="32B")


@pytest.mark.parametrize("sign", [1, 2, 3])
def test_signs(sign: int) -> None:
    check(("f32", "tf32", "tf32"), 64, 8, sign=sign)


def test_the_accumulator_is_scaled() -> None:
    check(("f32", "f16", "f16"), 128, 16, steps=1, mode="32B", scale=3)


def test_lanes_that_are_masked_keep_what_they_have() -> None:
    rng = np.random.default_rng(0)
    a, b = small("f16", (128, 16), rng), small("f16", (16, 16), rng)
    c = rng.integers(-9, 9, (128, 16)).astype(np.float64)
    ran, found = multiplied(("f32", "f16", "f16"), a, b, c, mode="32B", masks=(1, 0, 0, 0x80000000))
    assert ran.faults == []
    expected = a @ b.T + c
    expected[[0, 127]] = c[[0, 127]]
    np.testing.assert_array_equal(found.view(np.float32), expected)


def test_without_an_accumulator_it_needs_no_value() -> None:
    rng = np.random.default_rng(0)
    a, b = small("f16", (128, 32), rng), small("f16", (16, 32), rng)
    ran, found = multiplied(("f32", "f16", "f16"), a, b)
    assert ran.faults == []
    np.testing.assert_array_equal(found.view(np.float32), a @ b.T)


@pytest.mark.parametrize(("completion", "seed"), EVERY_ORDER)
def test_every_order_of_completion(completion: Completion, seed: int) -> None:
    given: dict[str, Any] = {"completion": completion, "seed": seed}
    check(("f32", "bf16", "bf16"), 64, 16, steps=4, mode="128B", **given)
    check(("f32", "f16", "f16"), 64, 16, in_tensor_memory=True, **given)
