"""Bulk copies without a tensor map in the three orders: each form, and the nearest faults."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.features.copies import (
    ORDERS,
    READ_SHARED,
    WITHOUT_RACES,
    WRITE_SHARED,
    first_thread,
    run,
    wait,
)

in_orders = pytest.mark.parametrize("order", ORDERS)
in_all_orders = pytest.mark.parametrize("order", [*ORDERS, *WITHOUT_RACES])

LOAD_NAME = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
STORE_NAME = "cp.async.bulk.global.shared::cta.bulk_group"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;\n"
FENCED = "fence.proxy.async.shared::cta;\n  bar.sync 0;\n"
DONE = "\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\n"


@in_orders
@pytest.mark.parametrize(
    "copy",
    [
        f"{LOAD_NAME} [%r3], [%rd1], 128, [%r4];",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 128, [%r4];",
        "mov.u64 %rd8, 0;\n" + LOAD_NAME + ".L2::cache_hint [%r3], [%rd1], 128, [%r4], %rd8;",
        f"mov.u16 %h1, 1;\n{LOAD_NAME}.multicast::cluster [%r3], [%rd1], 128, [%r4], %h1;",
    ],
)
def test_a_load(copy: str, order: str) -> None:
    ran = run(first_thread(EXPECT + copy) + wait() + READ_SHARED, order)
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y, np.arange(32))


@in_orders
@pytest.mark.parametrize(
    ("copy", "kind"),
    [
        ("[%r3], [%rd1], %r6, [%r4];", "invalid_operand"),
        ("[%r3+8], [%rd1], 128, [%r4];", "misaligned"),
        ("[%r3], [%rd1+8], 128, [%r4];", "misaligned"),
        ("[%r3], [%rd1+16], 128, [%r4];", "out_of_bounds"),
        ("[%r3+20000], [%rd1], 128, [%r4];", "out_of_bounds"),
        ("[%r3], [%rd1], 128, [%r4+8];", "mbarrier_misuse"),
    ],
)
def test_operands_of_a_load(copy: str, kind: str, order: str) -> None:
    ran = run(first_thread(f"mov.u32 %r6, 120;\n{EXPECT}{LOAD_NAME} {copy}"), order)
    assert (kind, LOAD_NAME) in ran.faults, ran.told


@in_orders
def test_a_load_that_nobody_waits_for(order: str) -> None:
    ran = run(first_thread(f"{EXPECT}{LOAD_NAME} [%r3], [%rd1], 128, [%r4];"), order)
    assert ran.faults == [("in_flight_at_exit", LOAD_NAME)], ran.told


@in_orders
def test_one_thread_may_wait_for_all(order: str) -> None:
    load = first_thread(f"{EXPECT}{LOAD_NAME} [%r3], [%rd1], 128, [%r4];" + wait())
    assert run(load + "bar.sync 0;" + READ_SHARED, order).faults == []
    assert "race" in run(load + READ_SHARED, order).kinds


@in_orders
@pytest.mark.parametrize("wait_for", ["cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;"])
def test_a_store(wait_for: str, order: str) -> None:
    store = f"{STORE_NAME} [%rd2], [%r3], 128;\n  cp.async.bulk.commit_group;\n  {wait_for}"
    ran = run(WRITE_SHARED + FENCED + first_thread(store), order)
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y, np.arange(32))


@in_orders
@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("bar.sync 0;\n", DONE, "proxy_race"),
        ("fence.proxy.async.shared::cta;\n", DONE, "race"),
        (FENCED, "\n  cp.async.bulk.commit_group;\n", "in_flight_at_exit"),
        (FENCED, "\n  cp.async.bulk.wait_group 0;\n", "in_flight_at_exit"),
        (FENCED, "\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 1;\n", "in_flight_at_exit"),
        (FENCED, "\n  cp.async.bulk.commit_group;\n  st.shared.u32 [%r3], 1;\n  cp.async.bulk.wait_group 0;\n", "race"),
    ],
)
def test_what_a_store_needs(before: str, after: str, kind: str, order: str) -> None:
    ran = run(WRITE_SHARED + before + first_thread(f"{STORE_NAME} [%rd2], [%r3], 128;{after}"), order)
    assert kind in ran.kinds, ran.told


@in_orders
def test_read_frees_the_source_and_not_the_target(order: str) -> None:
    def body(wait_for: str) -> str:
        store = f"{STORE_NAME} [%rd2], [%r3], 128;\n  cp.async.bulk.commit_group;\n  cp.async.bulk.{wait_for} 0;\n"
        return WRITE_SHARED + FENCED + first_thread(store + "st.shared.u32 [%r3], 1;\n  ld.global.u32 %r6, [%rd2];")

    assert run(body("wait_group"), order).faults == []
    assert "race" in run(body("wait_group.read"), order).kinds


@in_orders
def test_the_oldest_groups_are_waited_for_first(order: str) -> None:
    two = (
        f"{STORE_NAME} [%rd2], [%r3], 64;\n  cp.async.bulk.commit_group;\n"
        f"{STORE_NAME} [%rd2+64], [%r3+64], 64;\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group.read 1;\n"
    )
    last = "\n  cp.async.bulk.wait_group.read 0;"
    assert run(WRITE_SHARED + FENCED + first_thread(two + "st.shared.u32 [%r3], 1;" + last), order).faults == []
    assert run(WRITE_SHARED + FENCED + first_thread(two + "st.shared.u32 [%r3+64], 1;" + last), order).kinds == {"race"}


@in_orders
@pytest.mark.parametrize(
    ("form", "expected"),
    [("add.u32", 7), ("add.s32", 7), ("min.u32", 3), ("max.s32", 4), ("and.b32", 0), ("or.b32", 7), ("xor.b32", 7)],
)
def test_a_reduction_to_global_memory(form: str, expected: int, order: str) -> None:
    reduce = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{form} [%rd2], [%r3], 128;{DONE}"
    x, y = np.full(32, 3, np.uint32), np.full(32, 4, np.uint32)
    ran = run(WRITE_SHARED + FENCED + first_thread(reduce), order, x=x, y=y, written=True)
    assert ran.faults == [], ran.told
    assert set(ran.y.tolist()) == {expected}


@in_orders
def test_reductions_of_many_blocks_do_not_race_and_stores_do(order: str) -> None:
    name = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
    y = np.zeros(32, np.uint32)
    added = run(
        WRITE_SHARED + FENCED + first_thread(f"{name} [%rd2], [%r3], 128;{DONE}"), order, blocks=4, y=y, written=True
    )
    assert added.faults == [], added.told
    np.testing.assert_array_equal(added.y, 4 * np.arange(32))
    stored = run(WRITE_SHARED + FENCED + first_thread(f"{STORE_NAME} [%rd2], [%r3], 128;{DONE}"), order, blocks=4, y=y)
    assert stored.kinds == {"race"}, stored.told


EXCHANGE = """
  xor.b32 %r9, %r2, 1;
  mapa.shared::cluster.u32 %r7, %r3, %r9;
  mapa.shared::cluster.u32 %r8, %r4, %r9;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;
  {copy}
"""
AFTER_EXCHANGE = """
  mul.wide.u32 %rd7, %r2, 128;
  add.u64 %rd2, %rd2, %rd7;
  add.u32 %r3, %r3, {offset};
"""
LEAVE_TOGETHER = "\n  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n"
MY_WORDS = "mul.wide.u32 %rd7, %r2, 128;\n  add.u64 %rd1, %rd1, %rd7;\n" + WRITE_SHARED


@in_orders
def test_blocks_of_a_cluster_exchange_runs(order: str) -> None:
    name = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    copy = EXCHANGE.format(copy=f"{name} [%r7+128], [%r3], 128, [%r8];")
    body = MY_WORDS + FENCED + first_thread(copy) + wait() + AFTER_EXCHANGE.format(offset=128) + READ_SHARED
    ran = run(body + LEAVE_TOGETHER, order, blocks=2, cluster=2)
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y.reshape(2, 32), np.arange(64).reshape(2, 32)[::-1])


@in_orders
def test_blocks_of_a_cluster_add_to_each_other(order: str) -> None:
    name = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"
    copy = EXCHANGE.format(copy=f"{name} [%r7+128], [%r3], 128, [%r8];")
    both = WRITE_SHARED.replace("add.u32 %r5, %r5, %r3;", "add.u32 %r5, %r5, %r3;\n  add.u32 %r5, %r5, 128;")
    body = MY_WORDS + both + "fence.proxy.async;\n" + LEAVE_TOGETHER + first_thread(copy) + wait()
    ran = run(body + AFTER_EXCHANGE.format(offset=128) + READ_SHARED + LEAVE_TOGETHER, order, blocks=2, cluster=2)
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y, np.add(*np.arange(64).reshape(2, 32))[np.arange(64) % 32])


MULTICAST = """
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;
  setp.eq.u32 %p3, %r2, 0;
  mov.u16 %h1, {mask};
  @%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
    [%r3], [%rd1], 128, [%r4], %h1;
"""


@in_orders
def test_a_multicast_reaches_the_blocks_of_its_mask(order: str) -> None:
    body = first_thread(MULTICAST.format(mask=3)) + wait() + AFTER_EXCHANGE.format(offset=0) + READ_SHARED
    ran = run(body + LEAVE_TOGETHER, order, blocks=2, cluster=2)
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y, np.arange(64) % 32)


@in_orders
@pytest.mark.parametrize(("mask", "kind"), [(1, "mbarrier_misuse"), (7, "invalid_operand"), (0, "invalid_operand")])
def test_wrong_masks_of_a_multicast(mask: int, kind: str, order: str) -> None:
    body = first_thread(MULTICAST.format(mask=mask)) + wait() + LEAVE_TOGETHER
    assert kind in run(body, order, blocks=2, cluster=2).kinds


@in_orders
def test_a_masked_store_writes_the_bytes_of_its_mask(order: str) -> None:
    store = f"mov.u16 %h1, 0xF00F;\n{STORE_NAME}.cp_mask [%rd2], [%r3], 128, %h1;{DONE}"
    y = np.full(32, 9, np.uint32)
    ran = run(WRITE_SHARED + FENCED + first_thread(store), order, y=y, written=True, target="sm_100a")
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y, np.where(np.isin(np.arange(32) % 4, (0, 3)), np.arange(32), 9))


@in_orders
def test_a_prefetch_changes_nothing(order: str) -> None:
    ran = run(first_thread("cp.async.bulk.prefetch.L2.global [%rd1], 128;") + WRITE_SHARED + READ_SHARED, order)
    assert ran.faults == [], ran.told


REMOTE_STORE = """
  xor.b32 %r9, %r2, 1;
  mapa.shared::cluster.u32 %r7, %r3, %r9;
  mapa.shared::cluster.u32 %r8, %r4, %r9;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {expected};
  mul.wide.u32 %rd5, %r2, 128;
  add.u64 %rd1, %rd1, %rd5;
  mul.wide.u32 %rd5, %r1, 4;
  add.u64 %rd6, %rd1, %rd5;
  ld.global.u32 %r6, [%rd6];
  shl.b32 %r5, %r1, 2;
  add.u32 %r7, %r7, %r5;
  {store}
"""


@in_all_orders
@pytest.mark.parametrize(("expected", "kind"), [(128, None), (124, "mbarrier_misuse"), (132, "mbarrier_misuse")])
def test_threads_store_to_another_block(expected: int, kind: str | None, order: str) -> None:
    store = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r6, [%r8];"
    body = REMOTE_STORE.format(expected=expected, store=store) + wait() + AFTER_EXCHANGE.format(offset=0) + READ_SHARED
    ran = run(body + LEAVE_TOGETHER, order, blocks=2, cluster=2)
    if kind:
        assert kind in ran.kinds, ran.told
        return
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y.reshape(2, 32), np.arange(64).reshape(2, 32)[::-1])


@in_all_orders
def test_a_store_and_its_barrier_are_of_one_block(order: str) -> None:
    store = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r6, [%r4];"
    ran = run(REMOTE_STORE.format(expected=128, store=store) + wait() + LEAVE_TOGETHER, order, blocks=2, cluster=2)
    assert ran.kinds == {"invalid_operand"}, ran.told


@in_all_orders
@pytest.mark.parametrize(
    ("to", "barrier", "kind"),
    [
        pytest.param("%r7+1", "%r8", "misaligned", id="misaligned"),
        pytest.param("%r7+20000", "%r8", "out_of_bounds", id="out-of-bounds"),
        pytest.param("%r7", "%r8+8", "mbarrier_misuse", id="no-barrier"),
    ],
)
def test_operands_of_a_store_to_another_block(to: str, barrier: str, kind: str, order: str) -> None:
    store = f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [{to}], %r6, [{barrier}];"
    ran = run(REMOTE_STORE.format(expected=128, store=store) + LEAVE_TOGETHER, order, blocks=2, cluster=2)
    assert kind in ran.kinds, ran.told


@in_all_orders
def test_stores_to_one_place_come_one_after_another(order: str) -> None:
    """Of all threads to the first word: one of them is the last. Only a search for races can tell."""
    store = (
        "sub.u32 %r7, %r7, %r5;\n  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r6, [%r8];"
    )
    body = REMOTE_STORE.format(expected=128, store=store) + wait() + AFTER_EXCHANGE.format(offset=0)
    ran = run(body + first_thread(READ_SHARED, "T1") + LEAVE_TOGETHER, order, blocks=2, cluster=2)
    assert ran.kinds == (set() if order in WITHOUT_RACES else {"race"}), ran.told
    assert ran.y[0] in range(32, 64)
    assert ran.y[32] in range(32)


@in_all_orders
def test_threads_add_to_another_block(order: str) -> None:
    add = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r7], %r6, [%r8];"
    body = WRITE_SHARED + LEAVE_TOGETHER + REMOTE_STORE.format(expected=256, store=f"{add}\n  {add}")
    ran = run(
        body + wait() + AFTER_EXCHANGE.format(offset=0) + READ_SHARED + LEAVE_TOGETHER, order, blocks=2, cluster=2
    )
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y, np.arange(64) % 32 + 2 * np.concatenate([np.arange(32, 64), np.arange(32)]))
