"""Descriptors of operands, decoded, find the elements that tensor copies brought to shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.emulate.binder import UnknownForm
from compiler.emulate.features.mma.matrices import (
    chunks_along_k,
    chunks_along_rows,
    tensor_matrix,
    warpgroup_matrix,
)
from compiler.emulate.launch import EmulatedTensorMap
from tests.emulate.features.copies import READ_SHARED, first_thread, run, wait

Array = npt.NDArray[Any]

BASE = 8192
"""Where the image is taken to lie: a multiple of every pattern."""

SPANS = {"NONE": 16, "32B": 32, "64B": 64, "128B": 128}
DTYPES = {1: "u8", 2: "bf16", 4: "f32"}
LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"


def copied(lines: Array, swizzle: str, element: int) -> npt.NDArray[np.uint8]:
    """The image of a matrix of bytes, (lines, bytes), that boxes as wide as the swizzle's span bring side by side."""
    count, width = lines.shape
    span = SPANS[swizzle]
    boxes = EmulatedTensorMap(
        "x", DTYPES[element], (width // element, count), (width,), (span // element, count), (1, 1), swizzle=swizzle
    )
    copies = "".join(
        f"  add.u32 %r8, %r3, {at * count};\n  {LOAD} [%r8], [%rd3, {{{at // element}, 0}}], [%r4];\n"
        for at in range(0, width, span)
    )
    expect = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {lines.size};\n"
    ran = run(
        first_thread(expect + copies) + wait() + READ_SHARED,
        "eager",
        x=lines,
        y=np.zeros(lines.size // 4, np.uint32),
        threads=lines.size // 4,
        maps={"x": boxes},
    )
    assert ran.faults == [], ran.told
    image: npt.NDArray[np.uint8] = ran.y.view(np.uint8)
    return image


def found(image: npt.NDArray[np.uint8], chunks: Array) -> npt.NDArray[np.uint8]:
    """The bytes at chunks of 16, in their order: (…, bytes)."""
    data: npt.NDArray[np.uint8] = image[(chunks - BASE)[..., None] + np.arange(16)]
    return data.reshape(*chunks.shape[:-1], -1)


def encoded(start: int, leading: int, stride: int, swizzle: str) -> int:
    """A descriptor of wgmma."""
    code = {"NONE": 0, "128B": 1, "64B": 2, "32B": 3}[swizzle]
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | code << 62


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("swizzle", SPANS)
def test_k_major_operands(swizzle: str, element: int) -> None:
    rows, span = 24, SPANS[swizzle]
    matrix = np.random.default_rng(0).integers(0, 256, (rows, 128), np.uint8)
    image = copied(matrix, swizzle, element)
    for step in range(4):
        if swizzle == "NONE":
            bits = encoded(BASE + 2 * step * rows * 16, rows * 16, 128, swizzle)
        else:
            box, within = divmod(32 * step, span)
            bits = encoded(BASE + box * rows * span + within, 16, 8 * span, swizzle)
        chunks = chunks_along_k(warpgroup_matrix(bits), rows)
        np.testing.assert_array_equal(found(image, chunks), matrix[:, 32 * step : 32 * step + 32])


@pytest.mark.parametrize("swizzle", SPANS)
def test_mn_major_operands_of_16_bits(swizzle: str) -> None:
    rows, depth, span = 64, 32, SPANS[swizzle]
    matrix = np.random.default_rng(0).integers(0, 256, (depth, 2 * rows), np.uint8)
    image = copied(matrix, swizzle, 2)
    for step in range(2):
        if swizzle == "NONE":
            bits = encoded(BASE + step * 256, 128, depth * 16, swizzle)
        else:
            bits = encoded(BASE + step * 16 * span, depth * span, 8 * span, swizzle)
        chunks = chunks_along_rows(warpgroup_matrix(bits), rows, 16, 2)
        np.testing.assert_array_equal(found(image, chunks), matrix[16 * step : 16 * step + 16])


def test_a_bf16_descriptor_of_the_manual() -> None:
    matrix = warpgroup_matrix(0x4000004000010000 | 0x1400 >> 4)
    assert (matrix.start, matrix.leading, matrix.stride, matrix.swizzle.name) == (0x1400, 16, 1024, "128B")
    again = tensor_matrix(0x1400 >> 4 | 1 << 16 | 64 << 32 | 1 << 46 | 2 << 61)
    assert again == matrix


@pytest.mark.parametrize(
    ("bits", "problem"),
    [
        (1 << 14, "bits 15:14"),
        (1 << 31, "bits 31:30"),
        (1 << 46, "bits 48:46"),
        (1 << 61, "bits 61:52"),
        (encoded(1024 + 128, 16, 1024, "128B"), "line 1 of a pattern of 8 lines of 128"),
        (encoded(512 + 448, 16, 512, "64B"), "line 7 of a pattern of 8 lines of 64"),
        (encoded(256 + 32, 16, 256, "32B"), "line 1 of a pattern of 8 lines of 32"),
    ],
)
def test_what_no_descriptor_of_wgmma_holds(bits: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        warpgroup_matrix(bits)


@pytest.mark.parametrize(
    ("bits", "problem"),
    [
        (0, "bits 48:46 are 000"),
        (1 << 46 | 3 << 61, "the swizzle mode in bits 63:61 is 3"),
        (1 << 46 | 1 << 53, "bits 60:53"),
        (1 << 46 | 2 << 61 | (1024 + 128) >> 4, "line 1 of a pattern"),
    ],
)
def test_what_no_descriptor_of_tcgen05_holds(bits: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        tensor_matrix(bits)


@pytest.mark.parametrize(("swizzle", "base"), [("128B", 1), ("128B", 5), ("64B", 2), ("32B", 1)])
def test_a_base_offset_is_where_the_pattern_begins(swizzle: str, base: int) -> None:
    there = warpgroup_matrix(encoded(BASE, 16, 1024, swizzle))
    here = warpgroup_matrix(encoded(BASE + 128 * base, 16, 1024, swizzle) | base << 49)
    np.testing.assert_array_equal(chunks_along_k(here, 24), chunks_along_k(there, 24) + 128 * base)
    with pytest.raises(ValueError, match="base offset"):
        warpgroup_matrix(encoded(BASE, 16, 1024, swizzle) | 3 << 49)


def test_base_offsets_and_absolute_steps_of_tcgen05_are_not_known() -> None:
    with pytest.raises(UnknownForm, match="base offset"):
        tensor_matrix(1 << 46 | 1 << 49)
    with pytest.raises(UnknownForm, match="absolute leading offset"):
        tensor_matrix(1 << 46 | 1 << 52)


@pytest.mark.parametrize(("start", "legal"), [(96, True), (112, False)])
def test_a_k_step_stays_in_its_line(start: int, legal: bool) -> None:
    matrix = warpgroup_matrix(encoded(1024 + start, 16, 1024, "128B"))
    if legal:
        assert chunks_along_k(matrix, 8).shape == (8, 2)
    else:
        with pytest.raises(ValueError, match="leave the line of 128 bytes"):
            chunks_along_k(matrix, 8)


@pytest.mark.parametrize(("rows", "legal"), [(32, True), (40, False)])
def test_an_mn_major_operand_that_begins_in_a_line_ends_there(rows: int, legal: bool) -> None:
    matrix = warpgroup_matrix(encoded(1024 + 64, 4096, 1024, "128B"))
    if legal:
        assert chunks_along_rows(matrix, rows, 16, 2).shape == (16, rows // 8)
    else:
        with pytest.raises(ValueError, match="goes past its end"):
            chunks_along_rows(matrix, rows, 16, 2)
