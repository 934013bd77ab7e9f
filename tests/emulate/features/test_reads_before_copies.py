"""Ordinary reads, then a copy onto what they read: which fence orders the two, and where it must stand.

The threads of a block read what a copy brought, and a second copy of thread 0 brings the next words to the same place.
PTX ISA, "Async proxy", and "Causality order", proxy-preserved: accesses through different proxies need a proxy fence
besides what synchronises their threads, writes after reads too. CUTLASS fences in each reader before it releases a
stage of its epilogue's loads (fence_view_async_shared, then consumer_release).
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.features.copies import ORDERS, READ_SHARED, first_thread, run, wait

in_orders = pytest.mark.parametrize("order", ORDERS)

FENCE = "fence.proxy.async.shared::cta;\n"
LOAD = """
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1{source}], 128, [%r4];
"""
SETUP = """
  add.u32 %r9, %r4, 8;
  and.b32 %r10, %r1, 1;
  setp.eq.u32 %p2, %r10, 0;
"""
FREE_COUNT = first_thread(
    "mbarrier.init.shared::cta.b64 [%r9], {free};\n  fence.mbarrier_init.release.cluster;", label="T1"
)

ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%r9];\n"
FREED = wait(0, barrier="%r9", label="W1")
BY_WARP = "bar.warp.sync 0xffffffff;\n  @%p1 " + ARRIVE
SYNCS: dict[str, tuple[int, str, str]] = {
    "bar.sync": (1, "bar.sync 0;\n", ""),
    "mbarrier": (32, ARRIVE, FREED),
    "mbarrier of a warp": (1, BY_WARP, FREED),
}
"""How thread 0 learns that all have read: arrivals that the mbarrier takes, what all do, what thread 0 waits for."""

WHERE: dict[str, tuple[dict[str, str], bool]] = {
    "nowhere": ({}, False),
    "in the readers": ({"readers": FENCE}, True),
    "in the readers, of all spaces": ({"readers": "fence.proxy.async;\n"}, True),
    "in the issuer, past its wait": ({"issuer": FENCE}, True),
    "in every second reader": ({"readers": "@%p2 " + FENCE}, False),
    "in one reader": ({"readers": "@%p1 " + FENCE}, False),
    "in the readers, before they read": ({"early": FENCE}, False),
    "in the readers, past their arrival": ({"late": "@!%p1 " + FENCE}, False),
    "in the issuer, past the issue": ({"after": FENCE}, False),
    "none, but of the generic proxy": ({"readers": "membar.cta;\n"}, False),
    "none, but of the generic proxy, in the issuer": ({"issuer": "fence.acq_rel.cta;\n"}, False),
}
"""Where the fence stands, and whether that is enough."""


def body(sync: str, **fences: str) -> str:
    """Two turns: load, read, and again from 128 bytes on."""
    free, read, freed = SYNCS[sync]
    parts = (
        SETUP,
        FREE_COUNT.replace("{free}", str(free)),
        "bar.sync 0;\n",
        first_thread(LOAD.format(source="")),
        wait(),
        fences.get("early", ""),
        READ_SHARED,
        fences.get("readers", ""),
        read,
        fences.get("late", ""),
        first_thread(freed + fences.get("issuer", "") + LOAD.format(source="+128") + fences.get("after", ""), "T2"),
        wait(1, label="W2"),
        READ_SHARED,
    )
    return "\n".join(parts)


@in_orders
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("sync", SYNCS)
def test_a_copy_over_what_was_read(sync: str, where: str, order: str) -> None:
    fences, is_enough = WHERE[where]
    x = np.arange(64, dtype=np.uint32)
    ran = run(body(sync, **fences), order, x=x, y=np.zeros(32, np.uint32))
    assert ran.kinds == (set() if is_enough else {"proxy_race"}), ran.told
    if is_enough:
        np.testing.assert_array_equal(ran.y, x[32:])


@in_orders
def test_the_fence_of_the_lane_that_arrives_covers_what_its_warp_has_read(order: str) -> None:
    """It comes after their reads, by bar.warp.sync, and before its arrival."""
    fenced = body("mbarrier of a warp").replace("@%p1 " + ARRIVE, FENCE + "  @%p1 " + ARRIVE)
    assert run(fenced, order, x=np.arange(64, dtype=np.uint32), y=np.zeros(32, np.uint32)).faults == []


@in_orders
@pytest.mark.parametrize(("fence", "kinds"), [(FENCE, set()), ("", {"proxy_race"})])
def test_a_store_over_what_was_read_of_its_tensor(fence: str, kinds: set[str], order: str) -> None:
    """In place: threads read y, and a bulk store of other bytes, which were there before, overwrites it."""
    read = """
  mul.wide.u32 %rd5, %r1, 4;
  add.u64 %rd6, %rd2, %rd5;
  ld.global.u32 %r6, [%rd6];
"""
    store = (
        "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r3], 128;\n"
        "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\n"
    )
    loaded = first_thread(LOAD.format(source="")) + wait()
    ran = run(loaded + read + fence + "bar.sync 0;\n" + first_thread(store, "T2"), order, written=True)
    assert ran.kinds == kinds, ran.told


@in_orders
@pytest.mark.parametrize("sync", ["", "bar.sync 0;\n"])
def test_what_a_bulk_store_has_read_is_free_without_a_fence(sync: str, order: str) -> None:
    """PTX ISA, "cp.async.bulk.wait_group": .read waits until the sources have been read; nothing is under way then."""
    store = (
        "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r3], 128;\n"
        "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group.read 0;\n"
    )
    loaded = first_thread(LOAD.format(source="")) + wait()
    again = first_thread(store, "T2") + sync + first_thread("st.shared.u32 [%r3], %r1;\n", "T3")
    assert run(loaded + again, order).faults == []
