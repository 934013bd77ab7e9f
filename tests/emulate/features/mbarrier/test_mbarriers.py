"""mbarrier instructions in the three orders: values and phases, and each misuse beside its legal neighbour."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.features.copies import (
    CLUSTER_SYNC,
    FENCE_INIT,
    ORDERS,
    READ_SHARED,
    WRITE_SHARED,
    first_thread,
    run,
    wait,
)

in_orders = pytest.mark.parametrize("order", ORDERS)

ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%r4];"
LOAD = """
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {expected};
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 128, [%r4];
"""
STORE_STATE = """
  mul.wide.u32 %rd5, %r1, 4;
  add.u64 %rd6, %rd2, %rd5;
  st.global.u32 [%rd6], {value};
"""


@in_orders
@pytest.mark.parametrize(
    "arrive",
    [
        ARRIVE,
        "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r4];",
        "mbarrier.arrive.shared::cta.b64 %rd8, [%r4];",
        "mbarrier.arrive.shared::cta.b64 _, [%r4], 1;",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 0;",
        "mbarrier.arrive_drop.shared::cta.b64 _, [%r4];",
        "cvt.u64.u32 %rd8, %r4;\n  cvta.shared.u64 %rd8, %rd8;\n  mbarrier.arrive.b64 _, [%rd8];",
    ],
)
def test_arrivals_publish_what_threads_wrote(arrive: str, order: str) -> None:
    reverse = READ_SHARED.replace("shl.b32 %r5, %r1, 2;", "sub.u32 %r5, 63, %r1;\n  shl.b32 %r5, %r5, 2;")
    ran = run(WRITE_SHARED + arrive + wait() + reverse, order, threads=64, count=64)
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y, np.arange(64)[::-1])


@in_orders
def test_relaxed_arrivals_publish_nothing(order: str) -> None:
    reverse = READ_SHARED.replace("shl.b32 %r5, %r1, 2;", "sub.u32 %r5, 63, %r1;\n  shl.b32 %r5, %r5, 2;")
    relaxed = "mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [%r4];"
    assert run(WRITE_SHARED + relaxed + wait() + reverse, order, threads=64, count=64).kinds == {"race"}


@in_orders
def test_a_state_waits_for_its_phase_and_tells_the_count(order: str) -> None:
    body = (
        "mbarrier.arrive.shared::cta.b64 %rd8, [%r4];\n"
        "W1: mbarrier.test_wait.shared::cta.b64 %p7, [%r4], %rd8;\n  @!%p7 bra W1;\n"
        "mbarrier.pending_count.b64 %r6, %rd8;\n" + STORE_STATE.format(value="%r6")
    )
    ran = run(body, order, count=32)
    assert ran.faults == [], ran.told
    assert sorted(ran.y.tolist()) == list(range(1, 33))


@in_orders
def test_dropped_arrivals_are_not_waited_for_again(order: str) -> None:
    body = (
        """
  setp.lt.u32 %p2, %r1, 16;
  @%p2 mbarrier.arrive_drop.shared::cta.b64 _, [%r4];
  @%p2 bra DONE;
  mbarrier.arrive.shared::cta.b64 _, [%r4];
"""
        + wait(0)
        + ARRIVE
        + wait(1, label="W1")
        + "DONE:\n"
        + STORE_STATE.format(value="%r1")
    )
    ran = run(body, order, count=32)
    assert ran.faults == [], ran.told


@in_orders
def test_bytes_may_come_before_they_are_expected(order: str) -> None:
    body = first_thread(
        """
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 128, [%r4];
  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], 128;
  mbarrier.arrive.shared::cta.b64 _, [%r4];
"""
    )
    ran = run(body + wait() + READ_SHARED, order)
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y, np.arange(32))


@in_orders
def test_complete_tx_counts_as_a_copy(order: str) -> None:
    body = first_thread(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 64;\n"
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r4], 64;"
    )
    assert run(body + wait(), order).faults == []


@in_orders
@pytest.mark.parametrize("expected", [112, 144, 0])
def test_wrong_bytes_are_told_where_they_are_expected(expected: int, order: str) -> None:
    ran = run(first_thread(LOAD.format(expected=expected)) + wait() + READ_SHARED, order)
    assert ("mbarrier_misuse", "mbarrier.arrive.expect_tx.shared::cta.b64") in ran.faults, ran.told


@in_orders
def test_the_first_phase_has_parity_0(order: str) -> None:
    ran = run(first_thread(LOAD.format(expected=128)) + wait(1) + READ_SHARED, order)
    assert ("mbarrier_misuse", "mbarrier.try_wait.parity.shared::cta.b64") in ran.faults, ran.told


@in_orders
@pytest.mark.parametrize(("second", "kinds"), [(1, set()), (0, {"mbarrier_misuse"})])
def test_the_parity_toggles(second: int, kinds: set[str], order: str) -> None:
    turn = first_thread(LOAD.format(expected=128), "T1") + wait(second, label="W1")
    ran = run(first_thread(LOAD.format(expected=128)) + wait() + "bar.sync 0;" + turn + READ_SHARED, order)
    assert kinds <= ran.kinds, ran.told
    if not kinds:
        assert ran.faults == [], ran.told


@in_orders
@pytest.mark.parametrize(("parity", "kinds"), [(1, []), (0, ["mbarrier_misuse", "in_flight_at_exit"])])
def test_a_wait_ahead_of_its_copy(parity: int, kinds: list[str], order: str) -> None:
    """Threads that wait for the old phase before the next copy is issued race with nothing, but wait for nothing."""
    again = wait(parity, label="W1") + READ_SHARED if parity else wait(parity, label="W1") + "bar.sync 0;"
    turn = first_thread(LOAD.format(expected=128), "T1")
    fenced = "fence.proxy.async.shared::cta;\n  bar.sync 0;"
    first = first_thread(LOAD.format(expected=128)) + wait() + READ_SHARED + fenced
    ran = run(first + (turn + again if parity else again + turn), order)
    assert [kind for kind, _ in ran.faults] == kinds, ran.told


@in_orders
@pytest.mark.parametrize(("second", "kinds"), [(1, []), (0, ["mbarrier_misuse", "deadlock"])])
def test_a_thread_ahead_of_its_phase_lets_others_wait(second: int, kinds: list[str], order: str) -> None:
    """32 threads arrive twice, and wait twice; who is told by a stale wait to go on does not arrive again."""
    body = ARRIVE + wait() + (ARRIVE if second else "") + wait(second, label="W1") + "bar.sync 1, {threads};"
    ran = run(body.format(threads=32 if second else 64), order, count=32)
    assert [kind for kind, _ in ran.faults] == kinds, ran.told


@in_orders
def test_a_fresh_barrier_has_the_phase_before_complete(order: str) -> None:
    assert run(wait(1) + ARRIVE + wait(0, label="W1"), order, count=32).faults == []


@in_orders
@pytest.mark.parametrize(
    ("body", "count", "kind", "instruction"),
    [
        (ARRIVE, 16, "mbarrier_misuse", "mbarrier.arrive"),
        ("mbarrier.arrive.noComplete.shared::cta.b64 %rd8, [%r4], 1;", 32, "mbarrier_misuse", "mbarrier.arrive"),
        ("mbarrier.arrive.shared::cta.b64 _, [%r4+8];", 1, "mbarrier_misuse", "mbarrier.arrive"),
        ("mbarrier.init.shared::cta.b64 [%r4], 1;", 1, "mbarrier_misuse", "mbarrier.init"),
        (first_thread("mbarrier.init.shared::cta.b64 [%r4], 1;"), 1, "mbarrier_misuse", "mbarrier.init"),
        (first_thread("mbarrier.init.shared::cta.b64 [%r4+8], 0;"), 1, "invalid_operand", "mbarrier.init"),
        (first_thread("mbarrier.init.shared::cta.b64 [%r4+12], 1;"), 1, "misaligned", "mbarrier.init"),
        ("st.shared.u32 [%r4+4], 0;", 1, "mbarrier_misuse", "st.shared"),
        ("ld.shared.u64 %rd8, [%r4];", 1, "mbarrier_misuse", "ld.shared"),
        (
            first_thread("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], 1048576;"),
            1,
            "mbarrier_misuse",
            "mbarrier.expect_tx",
        ),
    ],
    ids=str,
)
def test_misuse(body: str, count: int, kind: str, instruction: str, order: str) -> None:
    ran = run(body, order, count=count)
    assert any(k == kind and name.startswith(instruction) for k, name in ran.faults), ran.told


@in_orders
@pytest.mark.parametrize(
    "body",
    [
        "st.shared.u32 [%r4+8], 0;",
        first_thread("mbarrier.inval.shared::cta.b64 [%r4];\n  mbarrier.init.shared::cta.b64 [%r4], 7;"),
        first_thread("mbarrier.inval.shared::cta.b64 [%r4];\n  st.shared.u64 [%r4], 0;"),
        first_thread("mbarrier.init.shared::cta.b64 [%r4+8], 1048575;"),
        first_thread(
            "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], 1048575;\n"
            "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r4], 1048575;"
        ),
    ],
    ids=str,
)
def test_legal_neighbours_of_misuse(body: str, order: str) -> None:
    ran = run(body.replace("st.shared.u32 [%r4+8], 0;", first_thread("st.shared.u32 [%r4+8], 0;")), order)
    assert ran.faults == [], ran.told


@in_orders
def test_a_copy_onto_a_live_barrier(order: str) -> None:
    body = """
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 16;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4+16], [%rd1], 16, [%r4];
"""
    assert run(first_thread(body) + wait(), order).faults == []
    told = run(first_thread(body.replace("[%r4+16]", "[%r4]")) + wait(), order).faults
    assert ("mbarrier_misuse", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes") in told


@in_orders
@pytest.mark.parametrize(
    ("fence", "kinds"),
    [
        ("", {"proxy_race"}),
        ("fence.proxy.async;", set()),
        ("fence.proxy.async.shared::cta;", set()),
        ("fence.acq_rel.cta;", {"proxy_race"}),
    ],
)
def test_a_barrier_is_fenced_before_copies_use_it(fence: str, kinds: set[str], order: str) -> None:
    ran = run(first_thread(LOAD.format(expected=128)) + wait() + READ_SHARED, order, fence=fence)
    assert ran.kinds == kinds, ran.told


@in_orders
def test_remote_arrivals(order: str) -> None:
    """Block 0 waits for all threads of both blocks, which arrive on its barrier, and reads what block 1 wrote to it."""
    body = (
        """
  mapa.shared::cluster.u32 %r7, %r4, 0;
  mapa.shared::cluster.u32 %r8, %r3, 0;
  mov.u32 %r9, %ctaid.x;
  setp.eq.u32 %p2, %r9, 0;
  shl.b32 %r5, %r1, 2;
  add.u32 %r8, %r8, %r5;
  @!%p2 st.shared::cluster.u32 [%r8], %r1;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
  @!%p2 bra OVER;
"""
        + wait().replace("try_wait.parity.", "try_wait.parity.acquire.cluster.")
        + READ_SHARED
        + """
OVER:
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
"""
    )
    ran = run(body, order, blocks=2, cluster=2, count=64, y=np.zeros(32, np.uint32))
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y, np.arange(32))


@in_orders
@pytest.mark.parametrize(
    ("end", "kinds"),
    [
        ("barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;", set()),
        (wait().replace("try_wait.parity.", "try_wait.parity.acquire.cluster."), set()),
        ("", {"out_of_bounds"}),
    ],
    ids=["cluster barrier", "wait", "none"],
)
def test_a_block_outlives_the_arrivals_at_its_barriers(end: str, kinds: set[str], order: str) -> None:
    body = """
  xor.b32 %r9, %r2, 1;
  mapa.shared::cluster.u32 %r7, %r4, %r9;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
"""
    ran = run(body + end, order, blocks=2, cluster=2, count=32)
    assert ran.kinds == kinds, ran.told


ARRIVE_REMOTELY = """
  xor.b32 %r9, %r2, 1;
  mapa.shared::cluster.u32 %r7, %r4, %r9;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
"""
WAIT_FOR_THE_CLUSTER = wait().replace("try_wait.parity.", "try_wait.parity.acquire.cluster.")
RELAXED = "barrier.cluster.arrive.relaxed.aligned;\n  barrier.cluster.wait.acquire.aligned;"


@in_orders
@pytest.mark.parametrize(
    ("fence", "sync", "kinds"),
    [
        (FENCE_INIT, RELAXED, set()),
        (FENCE_INIT, CLUSTER_SYNC, set()),
        ("", CLUSTER_SYNC, set()),
        ("", RELAXED, {"race"}),
        ("fence.proxy.async;", RELAXED, {"race"}),
    ],
    ids=["fenced, relaxed", "fenced, released", "released", "relaxed", "another fence, relaxed"],
)
def test_other_blocks_find_a_barrier_initialised(fence: str, sync: str, kinds: set[str], order: str) -> None:
    """PTX ISA, "membar/fence": fence.mbarrier_init orders mbarrier.init before what its thread does next."""
    ran = run(ARRIVE_REMOTELY + WAIT_FOR_THE_CLUSTER, order, blocks=2, cluster=2, count=32, fence=fence, sync=sync)
    assert ran.kinds == kinds, ran.told


@in_orders
@pytest.mark.parametrize(("sync", "kinds"), [(CLUSTER_SYNC, set()), (RELAXED, {"race"})], ids=["released", "relaxed"])
def test_a_fence_for_barriers_shows_nothing_else(sync: str, kinds: set[str], order: str) -> None:
    """What the thread that initialises and fences has written before is still to be released."""
    write = "st.shared.u32 [%r3], %r1;"
    read = """
  xor.b32 %r9, %r2, 1;
  mapa.shared::cluster.u32 %r8, %r3, %r9;
  ld.shared::cluster.u32 %r6, [%r8];
"""
    body = read + ARRIVE_REMOTELY + WAIT_FOR_THE_CLUSTER
    ran = run(body, order, blocks=2, cluster=2, count=32, fence=f"{write}\n  {FENCE_INIT}", sync=sync)
    assert ran.kinds == kinds, ran.told
