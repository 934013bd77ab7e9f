"""The hardware's swizzle patterns, and which allocation domains are one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.memory.swizzle import repeat_bytes, swizzle_mode, swizzled_address
from compiler.dtypes import DType
from compiler.ir.algebra import forward
from compiler.ir.expr import Expr, Var, var
from compiler.ir.tensor import TensorView
from compiler.schedule.steps import Merge, Reorder, SetAllocationDomain, Split, Swizzle
from tests.compiler.scheduling import load

Transform = Split | Merge | Reorder | Swizzle

SPANS = (32, 64, 128)


# Addresses -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "by_32", "by_64", "by_128"),
    [
        (0x000, 0x000, 0x000, 0x000),
        (0x070, 0x070, 0x070, 0x070),
        (0x080, 0x090, 0x090, 0x090),
        (0x0C0, 0x0D0, 0x0D0, 0x0D0),
        (0x1B0, 0x1A0, 0x180, 0x180),
        (0x3F0, 0x3E0, 0x3C0, 0x380),
        (0x7A4, 0x7B4, 0x794, 0x7D4),
    ],
    ids=hex,
)
def test_addresses(address: int, by_32: int, by_64: int, by_128: int) -> None:
    """Bits of the 16-byte chunk are xored with the address bits from 128 bytes up: 1, 2 or 3 of them (PTX ISA)."""
    one = np.array([address])
    assert [int(swizzled_address(one, span)[0]) for span in (0, *SPANS)] == [address, by_32, by_64, by_128]


@pytest.mark.parametrize(
    ("span", "rows_in_a_line", "chunks"), [(32, 4, 2), (64, 2, 4), (128, 1, 8)], ids=["32B", "64B", "128B"]
)
def test_chunks_of_a_row(span: int, rows_in_a_line: int, chunks: int) -> None:
    """Chunk c of row y lies in chunk c xor (y / rows in a line) mod chunks, of the same row."""
    y, c = np.meshgrid(np.arange(64), np.arange(chunks), indexing="ij")
    found = swizzled_address(y * span + c * 16, span)
    np.testing.assert_array_equal(found, y * span + (c ^ (y // rows_in_a_line % chunks)) * 16)


@pytest.mark.parametrize("span", [0, *SPANS])
def test_the_pattern_is_its_own_inverse_and_repeats(span: int) -> None:
    addresses = np.arange(8192)
    np.testing.assert_array_equal(swizzled_address(swizzled_address(addresses, span), span), addresses)
    repeat = repeat_bytes(span)
    np.testing.assert_array_equal(
        swizzled_address(addresses + repeat, span), swizzled_address(addresses, span) + repeat
    )


@pytest.mark.parametrize("span", SPANS)
def test_no_shorter_repeat(span: int) -> None:
    addresses = np.arange(8192)
    half = repeat_bytes(span) // 2
    assert (swizzled_address(addresses + half, span) != swizzled_address(addresses, span) + half).any()


@pytest.mark.parametrize(("span", "nbytes"), [(0, 128), (32, 256), (64, 512), (128, 1024)])
def test_repeats(span: int, nbytes: int) -> None:
    assert repeat_bytes(span) == nbytes


# Recognition ---------------------------------------------------------------------------------------------------------


def tile(shape: Sequence[int], *transforms: Transform, dtype: DType = DType.F32, **given: Any) -> TensorView:
    """A shared tile whose allocation is its axes in order, then these transforms."""
    axes = tuple(range(len(shape)))
    return load(shape, SetAllocationDomain("s", axes, transforms, **given), dtype=dtype).tensor("s")


def swizzle(span: int, dtype: DType, phase: int | None = None, at: int = 0) -> tuple[Transform, ...]:
    """The document's recipe on [.., rows, columns], rows at `at`: view as [-1, s, 8/s, s, 16 bytes], xor 1 and 3."""
    s = span // 16
    return (
        Split("s", at + 1, 16 // dtype.nbytes),
        Split("s", at, 8 // s if phase is None else phase),
        Split("s", at, s),
        Swizzle("s", at + 1, at + 3),
    )


def recognised(t: TensorView, order: Sequence[int] | None = None) -> int | None:
    """The mode for a tile walked innermost first, by default the loop axes from the last to the first."""
    assert t.allocation is not None
    axes = tuple(reversed(t.loop)) if order is None else tuple(t.loop[i] for i in order)
    indices = tuple(Var(f"t{i}", a.extent) for i, a in enumerate(axes))
    known = dict.fromkeys(t.loop, Expr()) | {a: var(v) for a, v in zip(axes, indices, strict=True)}
    offset = layout_of(t).offset(forward(known, t.allocation.exprs))
    return swizzle_mode(offset, indices, axes[0].extent, t.dtype)


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.F64, DType.I8])
@pytest.mark.parametrize("rows", [8, 16, 64, 256])
def test_the_recipe_is_the_hardware_mode(span: int, dtype: DType, rows: int) -> None:
    assert recognised(tile((rows, span // dtype.nbytes), *swizzle(span, dtype), dtype=dtype)) == span


@pytest.mark.parametrize(("rows", "span"), [(3, 128), (12, 128), (5, 64), (18, 64), (9, 32)])
def test_rows_need_not_fill_the_pattern(rows: int, span: int) -> None:
    """Holes at the end of a tile are harmless: a tile of 3 rows is laid out as the first 3 of 8."""
    assert recognised(tile((rows, span // 4), *swizzle(span, DType.F32))) == span


@pytest.mark.parametrize("span", SPANS)
def test_outer_dimensions_of_a_box_are_rows_too(span: int) -> None:
    """The pattern sees the tile as rows of one span, whatever the rank of the box."""
    t = tile((4, 16, span // 4), *swizzle(span, DType.F32, at=1))
    assert recognised(t) == span
    merged = tile((4, 6, span // 4), Merge("s", 0), *swizzle(span, DType.F32))
    assert recognised(merged) == span


F32 = DType.F32

NEAR_MISSES = [
    pytest.param(tile((16, 8)), 0, id="dense-is-no-swizzle"),
    pytest.param(tile((16, 8), *swizzle(32, F32)), 32, id="32B"),
    pytest.param(tile((16, 8), *swizzle(32, F32, phase=1)), None, id="32B-phase-of-every-row"),
    pytest.param(tile((16, 8), *swizzle(32, F32, phase=2)), None, id="32B-phase-of-two-rows"),
    pytest.param(tile((16, 16), *swizzle(64, F32, phase=1)), None, id="64B-phase-of-every-row"),
    pytest.param(tile((16, 32), *swizzle(128, F32, phase=4)), None, id="128B-phase-of-vector-blocks"),
    pytest.param(tile((16, 32), *swizzle(128, F32, phase=1)), 128, id="128B-phase-of-every-row-is-the-mode"),
    pytest.param(tile((8, 64), *swizzle(128, F32, phase=1)[:3]), 0, id="splits-alone-change-nothing"),
    pytest.param(
        tile((16, 32), Split("s", 1, 16), Split("s", 2, 4), Split("s", 0, 4), Swizzle("s", 1, 3)),
        None,
        id="64B-pattern-in-rows-of-128-bytes",
    ),
    pytest.param(
        tile((16, 64), Split("s", 1, 32), Split("s", 2, 4), Split("s", 0, 8), Swizzle("s", 1, 3)),
        None,
        id="128B-pattern-in-rows-of-256-bytes",
    ),
    pytest.param(
        tile((16, 32), Split("s", 1, 4), Split("s", 0, 8), Swizzle("s", 2, 1)), None, id="rows-xored-with-chunks"
    ),
    pytest.param(tile((16, 32), Split("s", 1, 8), Split("s", 0, 4), Swizzle("s", 1, 2)), None, id="chunks-of-32-bytes"),
    pytest.param(tile((16, 32), strides=(36, 1)), None, id="padded"),
    pytest.param(tile((1, 32), strides=(36, 1)), 0, id="padding-of-one-row-is-none"),
    pytest.param(tile((8, 32), *swizzle(128, F32), strides=(None, 36, None, 4, 1)), None, id="swizzled-and-padded"),
    pytest.param(tile((16, 32), Reorder("s", ((1, 0),))), None, id="columns-first"),
    pytest.param(tile((16, 32), Split("s", 1, 4), Reorder("s", ((1, 0),))), None, id="chunk-columns-first"),
]


@pytest.mark.parametrize(("t", "mode"), NEAR_MISSES)
def test_near_misses(t: TensorView, mode: int | None) -> None:
    assert recognised(t) == mode


def test_the_order_of_the_tile_counts() -> None:
    t = tile((16, 32))
    assert recognised(t, (1, 0)) == 0
    assert recognised(t, (0, 1)) is None
    assert recognised(tile((16, 32), Reorder("s", ((1, 0),))), (0, 1)) == 0


def test_axes_outside_the_tile_do_not_count() -> None:
    """[boxes, rows, columns] with a tile of the last two: each box by itself is swizzled."""
    t = tile((3, 16, 32), *swizzle(128, F32, at=1))
    assert recognised(t, (2, 1)) == 128
    between = load((16, 64), Split("s", 1, 32), SetAllocationDomain("s", (0, 1, 2))).tensor("s")
    assert recognised(between, (2, 0)) is None


def test_a_tile_past_any_shared_memory_is_not_enumerated() -> None:
    """Its elements are not even listed: a whole tensor marked Bulk by mistake must not take the memory of the host."""
    assert recognised(tile((1 << 20, 1 << 30))) == 0
    assert recognised(tile((1 << 20, 1 << 30), Reorder("s", ((1, 0),)))) is None
