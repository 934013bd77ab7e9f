"""Copies through tensor maps in the three orders: each form, and the nearest faults."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.emulate.launch import EmulatedTensorMap
from tests.emulate.features.copies import ORDERS, READ_SHARED, WRITE_SHARED, first_thread, run, wait

in_orders = pytest.mark.parametrize("order", ORDERS)

LOAD_NAME = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
STORE_NAME = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
FENCED = "fence.proxy.async.shared::cta;\n  bar.sync 0;\n"
DONE = "\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\n"

ROWS = EmulatedTensorMap("x", "i32", (16, 8), (64,), (8, 4), (1, 1))
"""8 rows of 16 words, in tiles of 4 rows of 8."""

X = np.arange(128, dtype=np.uint32)


def loaded(
    copy: str,
    order: str,
    m: EmulatedTensorMap = ROWS,
    nbytes: int = 128,
    after: str = READ_SHARED,
    x: npt.NDArray[Any] = X,
) -> Any:
    expect = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {nbytes};\n"
    words = nbytes // 4
    return run(first_thread(expect + copy) + wait() + after, order, x=x, threads=words, maps={"x": m})


@in_orders
@pytest.mark.parametrize(
    "copy",
    [
        f"{LOAD_NAME} [%r3], [%rd3, {{8, 2}}], [%r4];",
        "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r3], [%rd3, {8, 2}], [%r4];",
        f"mov.u64 %rd8, 0;\n{LOAD_NAME}.L2::cache_hint [%r3], [%rd3, {{8, 2}}], [%r4], %rd8;",
        f"mov.u16 %h1, 1;\n{LOAD_NAME}.multicast::cluster [%r3], [%rd3, {{8, 2}}], [%r4], %h1;",
        f"prefetch.tensormap [%rd3];\n{LOAD_NAME} [%r3], [%rd3, {{8, 2}}], [%r4];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd3, {8, 2}];\n"
        f"{LOAD_NAME} [%r3], [%rd3, {{8, 2}}], [%r4];",
    ],
)
def test_a_load(copy: str, order: str) -> None:
    ran = loaded(copy, order)
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y.reshape(4, 8), X.reshape(8, 16)[2:6, 8:])


@in_orders
@pytest.mark.parametrize("dims", [1, 2, 3, 4, 5])
def test_every_rank(dims: int, order: str) -> None:
    shape = (8, 2, 2, 2, 2)[:dims]
    m = EmulatedTensorMap("x", "i32", shape, (32, 64, 128, 256)[: dims - 1], shape, (1,) * dims)
    name = LOAD_NAME.replace("2d", f"{dims}d")
    nbytes = 4 * int(np.prod(shape))
    ran = loaded(f"{name} [%r3], [%rd3, {{{', '.join('0' * dims)}}}], [%r4];", order, m, nbytes)
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y, np.arange(nbytes // 4))


@in_orders
def test_the_swizzle_takes_address_bits(order: str) -> None:
    m = EmulatedTensorMap("x", "i32", (32, 8), (128,), (32, 8), (1, 1), swizzle="128B")
    x = np.arange(256, dtype=np.uint32)
    for offset in (0, 384):
        copy = f"{LOAD_NAME} [%r3+{offset}], [%rd3, {{0, 0}}], [%r4];"
        ran = loaded(copy, order, m, 1024, f"add.u32 %r3, %r3, {offset};\n" + READ_SHARED, x)
        assert ran.faults == [], ran.told
        chunks = ran.y.reshape(8, 8, 4)
        for row in range(8):
            placed = np.arange(8) ^ (row + offset // 128 & 7)
            np.testing.assert_array_equal(chunks[row, placed], x.reshape(8, 8, 4)[row])


@in_orders
@pytest.mark.parametrize(("fill", "blank"), [("zero", 0.0), ("nan", np.nan)])
def test_what_is_out_of_bounds_is_filled_and_counts(fill: str, blank: float, order: str) -> None:
    m = replace(ROWS, dtype="f32", dims=(13, 7), oob_fill=fill)
    x = np.arange(128, dtype=np.float32)
    ran = loaded(f"{LOAD_NAME} [%r3], [%rd3, {{8, -1}}], [%r4];", order, m, x=x)
    assert ran.faults == [], ran.told
    expected = np.full((4, 8), blank, np.float32)
    expected[1:, :5] = x.reshape(8, 16)[:3, 8:13]
    np.testing.assert_array_equal(ran.y.view(np.float32).reshape(4, 8), expected)


MEASURED = json.loads((Path(__file__).parents[4] / "benchmarks" / "results" / "open-points-h200.json").read_text())


@in_orders
def test_a_map_of_tf32_rounds_as_a_card_does(order: str) -> None:
    """To nearest, ties to even, subnormal numbers too; NaN becomes one of them."""
    (found,) = (one["converted"] for one in MEASURED if one["name"] == "TFLOAT32 of special values")
    words, arrived = (np.array(column, np.uint32) for column in zip(*found, strict=True))
    for first in range(0, len(words), 32):
        x = np.zeros(128, np.uint32)
        part = words[first : first + 32]
        x.reshape(8, 16)[:4, :8].flat[: len(part)] = part
        ran = loaded(f"{LOAD_NAME} [%r3], [%rd3, {{0, 0}}], [%r4];", order, replace(ROWS, dtype="tf32"), x=x)
        assert ran.faults == [], ran.told
        np.testing.assert_array_equal(ran.y[: len(part)].view(np.uint32), arrived[first : first + 32])


@in_orders
def test_element_strides_skip_rows(order: str) -> None:
    m = replace(ROWS, box=(8, 7), element_strides=(1, 2))
    ran = loaded(f"{LOAD_NAME} [%r3], [%rd3, {{0, 1}}], [%r4];", order, m)
    assert ran.faults == [], ran.told
    expected = np.vstack([X.reshape(8, 16)[1::2, :8]])
    np.testing.assert_array_equal(ran.y.reshape(4, 8), expected)


@in_orders
@pytest.mark.parametrize(
    ("copy", "changes", "kind"),
    [
        ("[%r3], [%rd3, {8, 2}], [%r4];", {}, None),
        ("[%r3], [%rd3, {4, 2}], [%r4];", {}, None),
        ("[%r3], [%rd3, {6, 2}], [%r4];", {}, "invalid_operand"),
        ("[%r3+128], [%rd3, {8, 2}], [%r4];", {}, None),
        ("[%r3+64], [%rd3, {8, 2}], [%r4];", {}, "misaligned"),
        ("[%r3], [%rd4, {8, 2}], [%r4];", {}, "invalid_operand"),
        ("[%r3], [%rd3, {8, 2}], [%r4];", {"box": (6, 4)}, "invalid_operand"),
        ("[%r3], [%rd3, {8, 2}], [%r4];", {"dims": (8, 4, 4), "strides_bytes": (32, 128), "box": (8, 4, 1),
                                           "element_strides": (1, 1, 1)}, "invalid_operand"),
        ("[%r3], [%rd3, {8, 2}], [%r4];", {"dtype": "TFLOAT32"}, None),
        ("[%r3], [%rd3, {8, 2}], [%r4];", {"dtype": "TFLOAT32", "oob_fill": "nan"}, "unsupported_instruction"),
        ("[%r3], [%rd3, {8, 4}], [%r4];", {"dims": (16, 9)}, "out_of_bounds"),
        ("[%r3], [%rd3, {8, 3}], [%r4];", {"dims": (16, 9)}, None),
        ("[%r3], [%rd3, {8, 4}], [%r4];", {"dims": (16, 8)}, None),
    ],
    ids=str,
)  # fmt: skip
def test_operands_of_a_load(copy: str, changes: dict[str, Any], kind: str | None, order: str) -> None:
    bounds = copy if changes.get("dims") != (16, 9) else copy.replace("8, 4", "8, 6")
    ran = loaded(f"{LOAD_NAME} {bounds}", order, replace(ROWS, **changes), after="")
    assert ran.faults == ([] if kind is None else [(kind, LOAD_NAME)]), ran.told


STORED = EmulatedTensorMap("y", "i32", (16, 8), (64,), (8, 4), (1, 1))


def stored(
    copy: str,
    order: str,
    m: EmulatedTensorMap = STORED,
    y: npt.NDArray[Any] | None = None,
    *,
    x: npt.NDArray[Any] = X[:32],
) -> Any:
    y = np.full(128, 9, np.uint32) if y is None else y
    return run(WRITE_SHARED + FENCED + first_thread(copy + DONE), order, x=x, y=y, written=True, maps={"y": m})


@in_orders
@pytest.mark.parametrize("hint", [False, True])
def test_a_store_drops_what_is_out_of_bounds(hint: bool, order: str) -> None:
    name = f"mov.u64 %rd8, 0;\n{STORE_NAME}.L2::cache_hint" if hint else STORE_NAME
    ran = stored(f"{name} [%rd4, {{12, 6}}], [%r3]{', %rd8' if hint else ''};", order)
    assert ran.faults == [], ran.told
    expected = np.full((8, 16), 9, np.uint32)
    expected[6:, 12:] = np.arange(32).reshape(4, 8)[:2, :4]
    np.testing.assert_array_equal(ran.y.reshape(8, 16), expected)


@in_orders
@pytest.mark.parametrize(
    ("at", "changes", "length", "kind"),
    [
        ("-4, 0", {}, 128, "invalid_operand"),
        ("0, -1", {}, 128, "invalid_operand"),
        ("2, 0", {}, 128, "invalid_operand"),
        ("0, 0", {"dims": (14,), "strides_bytes": (), "box": (16,), "element_strides": (1,)}, 14, "out_of_bounds"),
        ("0, 0", {"dims": (12,), "strides_bytes": (), "box": (16,), "element_strides": (1,)}, 12, None),
    ],
)
def test_operands_of_a_store(at: str, changes: dict[str, Any], length: int, kind: str | None, order: str) -> None:
    name, place = (STORE_NAME.replace("2d", "1d"), "0") if "dims" in changes else (STORE_NAME, at)
    ran = stored(f"{name} [%rd4, {{{place}}}], [%r3];", order, replace(STORED, **changes), np.zeros(length, np.uint32))
    assert ran.kinds == (set() if kind is None else {kind}), ran.told


@in_orders
def test_a_store_reads_only_what_it_writes(order: str) -> None:
    """Rows 0 and 1 of the tile are written to shared memory; the other two lie outside of the tensor."""
    body = "setp.lt.u32 %p2, %r1, 16;\n@!%p2 bra NEXT;\n" + WRITE_SHARED + "NEXT:\n" + FENCED
    for row, faults in ((6, set()), (5, {"uninitialized_read"})):
        store = first_thread(f"{STORE_NAME} [%rd4, {{0, {row}}}], [%r3];{DONE}")
        y = np.zeros(128, np.uint32)
        assert run(body + store, order, x=X[:32], y=y, written=True, maps={"y": STORED}).kinds == faults


@in_orders
@pytest.mark.parametrize(
    ("operation", "dtype", "expected"),
    [
        ("add", "i32", 12),
        ("min", "i32", 3),
        ("max", "u32", 9),
        ("inc", "u32", 0),
        ("dec", "u32", 3),
        ("and", "i32", 1),
        ("or", "i32", 11),
        ("xor", "i32", 10),
        ("min", "f32", None),
        ("add", "u8", None),
    ],
)
def test_a_reduction_takes_its_type_from_the_map(operation: str, dtype: str, expected: int | None, order: str) -> None:
    name = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group"
    m = replace(STORED, dtype=dtype) if dtype != "u8" else replace(STORED, dtype="u8", dims=(64, 8), box=(32, 4))
    ran = stored(f"{name} [%rd4, {{0, 0}}], [%r3];", order, m, x=np.full(32, 3, np.uint32))
    if expected is None:
        assert ran.faults == [("invalid_operand", name)], ran.told
        return
    assert ran.faults == [], ran.told
    result = ran.y.reshape(8, 16)
    assert set(result[:4, :8].ravel().tolist()) == {expected}
    assert set(result[4:].ravel().tolist()) == {9}


@in_orders
def test_gather_and_scatter_rows(order: str) -> None:
    m = replace(ROWS, box=(8, 1))
    gather = (
        "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
        "[%r3], [%rd3, {8, 7, 0, 3, 3}], [%r4];"
    )
    scatter = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd4, {0, 1, 7, 2, 0}], [%r3];"
    expect = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;\n"
    body = first_thread(expect + gather) + wait() + first_thread(scatter + DONE, "T1")
    maps = {"x": m, "y": replace(m, tensor="y")}
    ran = run(body, order, x=X, y=np.zeros(128, np.uint32), maps=maps, written=True, target="sm_100a")
    assert ran.faults == [], ran.told
    rows = X.reshape(8, 16)
    expected = np.zeros((8, 16), np.uint32)
    expected[[1, 7, 2, 0], :8] = rows[[7, 0, 3, 3], 8:]
    np.testing.assert_array_equal(ran.y.reshape(8, 16), expected)


COPY_MAP = "\n".join(f"  ld.u64 %rd8, [%rd3+{8 * i}];\n  st.shared.u64 [%r3+{4096 + 8 * i}], %rd8;" for i in range(16))
REPLACED = """
  tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r3+4096], %rd1;
  tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r3+4096], 1;
  tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3+4096], 0, 16;
  tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3+4096], 1, 8;
  tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r3+4096], 0, 64;
  tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r3+4096], 0, 8;
  tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r3+4096], 1, 4;
  tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r3+4096], 1, 1;
  tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r3+4096], 3;
  tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r3+4096], 0;
  tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r3+4096], 0;
  tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r3+4096], 0;
"""
PUBLISH = """
  bar.warp.sync 0xffffffff;
  add.u32 %r5, %r3, 4096;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2+128], [%r5], 128;
  add.u64 %rd9, %rd2, 128;
"""


@in_orders
@pytest.mark.parametrize("is_acquired", [True, False])
def test_a_map_made_on_the_device(is_acquired: bool, order: str) -> None:
    """Thread 0 changes a copy of another map in shared memory, and its warp publishes it to 128 bytes of y."""
    change = first_thread(COPY_MAP + REPLACED, "T1")
    publish = PUBLISH + ("fence.proxy.tensormap::generic.acquire.gpu [%rd9], 128;\n" if is_acquired else "")
    expect = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;\n"
    load = first_thread(f"{expect}{LOAD_NAME} [%r3], [%rd9, {{8, 2}}], [%r4];")
    body = change + publish + load + wait() + READ_SHARED
    other = EmulatedTensorMap("x", "u8", (64, 2, 2), (64, 128), (16, 1, 1), (1, 1, 1), swizzle="32B", oob_fill="zero")
    ran = run(body, order, x=X, y=np.zeros(64, np.uint32), maps={"x": other})
    if is_acquired:
        assert ran.faults == [], ran.told
    else:
        assert ran.faults == [("proxy_race", LOAD_NAME)], ran.told
    np.testing.assert_array_equal(ran.y[:32].reshape(4, 8), X.reshape(8, 16)[2:6, 8:])


@pytest.mark.parametrize(
    "form",
    [
        "3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r3], [%rd3, {0, 0, 0}], [%r4], {%h1};",
        "2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r3], [%rd3, {0, 0}], [%r4];",
    ],
)
def test_forms_that_are_not_executed_are_named(form: str) -> None:
    ran = run(first_thread(f"cp.async.bulk.tensor.{form}"), "eager", maps={"x": ROWS}, target="sm_100a")
    assert ran.kinds == {"unsupported_instruction"}
