"""cp.async in the three orders: each form, groups, mbarriers, and the nearest faults."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.features.copies import ORDERS, first_thread, run, wait

in_orders = pytest.mark.parametrize("order", ORDERS)

PLACES = """
  shl.b32 %r5, %r1, 4;
  add.u32 %r5, %r5, %r3;
  mul.wide.u32 %rd5, %r1, 16;
  add.u64 %rd6, %rd1, %rd5;
  add.u64 %rd7, %rd2, %rd5;
"""
"""%r5 a thread's 16 bytes of shared memory, %rd6 those of x, %rd7 those of y."""

READ = """
  ld.shared.v4.u32 {%r12, %r13, %r14, %r15}, [%r5];
  st.global.v4.u32 [%rd7], {%r12, %r13, %r14, %r15};
"""
COPY = "cp.async.cg.shared.global [%r5], [%rd6], 16;"
GROUP = "\n  cp.async.commit_group;\n  cp.async.wait_group 0;\n"

X = np.arange(128, dtype=np.uint32)


@in_orders
@pytest.mark.parametrize("wait_for", [GROUP, "\n  cp.async.wait_all;\n"])
@pytest.mark.parametrize(
    "copy",
    [
        COPY,
        "cp.async.cg.shared::cta.global.L2::128B [%r5], [%rd6], 16;",
        "cp.async.ca.shared.global [%r5], [%rd6], 16;",
        "\n".join(f"cp.async.ca.shared.global [%r5+{n}], [%rd6+{n}], 4;" for n in (0, 4, 8, 12)),
        "\n".join(f"cp.async.ca.shared.global [%r5+{n}], [%rd6+{n}], 8;" for n in (0, 8)),
        "mov.u32 %r6, 16;\n  cp.async.cg.shared.global [%r5], [%rd6], 16, %r6;",
        "setp.ne.u32 %p2, %r1, %r1;\n  cp.async.cg.shared.global [%r5], [%rd6], 16, %p2;",
        "mov.u64 %rd8, 0;\n  cp.async.cg.shared.global.L2::cache_hint [%r5], [%rd6], 16, %rd8;",
    ],
)
def test_a_copy(copy: str, wait_for: str, order: str) -> None:
    ran = run(PLACES + copy + wait_for + READ, order, x=X, y=np.zeros(128, np.uint32))
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y, X)


@in_orders
def test_what_is_not_read_is_zeros_and_not_touched(order: str) -> None:
    """Thread t copies t % 5 words; the last one's source would lie outside."""
    sizes = "rem.u32 %r6, %r1, 5;\n  shl.b32 %r6, %r6, 2;\n  cp.async.cg.shared.global [%r5], [%rd6], 16, %r6;"
    ran = run(PLACES + sizes + GROUP + READ, order, x=X[:125], y=np.zeros(128, np.uint32))
    assert ran.faults == [], ran.told
    kept = np.arange(4) < (np.arange(32) % 5)[:, None]
    np.testing.assert_array_equal(ran.y.reshape(32, 4), np.where(kept, X.reshape(32, 4), 0))


@in_orders
def test_an_ignored_source_is_zeros(order: str) -> None:
    ignored = "setp.ge.u32 %p2, %r1, 16;\n  cp.async.cg.shared.global [%r5], [%rd6], 16, %p2;"
    ran = run(PLACES + ignored + GROUP + READ, order, x=X[:64], y=np.zeros(128, np.uint32))
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y, np.where(X < 64, X, 0))


@in_orders
@pytest.mark.parametrize(
    ("copy", "kind"),
    [
        ("cp.async.cg.shared.global [%r5+8], [%rd6], 16;", "misaligned"),
        ("cp.async.cg.shared.global [%r5], [%rd6+8], 16;", "misaligned"),
        ("cp.async.cg.shared.global [%r5], [%rd6+16], 16;", "out_of_bounds"),
        ("cp.async.cg.shared.global [%r5+20000], [%rd6], 16;", "out_of_bounds"),
        ("mov.u32 %r6, 17;\n  cp.async.cg.shared.global [%r5], [%rd6], 16, %r6;", "invalid_operand"),
        ("cp.async.cg.shared.global [%r5+4096], [%rd6], 16;", "uninitialized_read"),
    ],
)
def test_operands(copy: str, kind: str, order: str) -> None:
    ran = run(PLACES + copy + GROUP + READ, order, x=X, y=np.zeros(128, np.uint32))
    assert kind in ran.kinds, ran.told


@in_orders
@pytest.mark.parametrize(
    ("wait_for", "kinds"),
    [
        ("", {"race", "in_flight_at_exit"}),
        ("\n  cp.async.commit_group;\n", {"race", "in_flight_at_exit"}),
        ("\n  cp.async.wait_group 0;\n", {"race", "in_flight_at_exit"}),
        ("\n  cp.async.commit_group;\n  cp.async.wait_group 1;\n", {"race", "in_flight_at_exit"}),
        ("\n  cp.async.commit_group;\n  cp.async.commit_group;\n  cp.async.wait_group 1;\n", set()),
    ],
)
def test_what_a_copy_needs(wait_for: str, kinds: set[str], order: str) -> None:
    ran = run(PLACES + COPY + wait_for + READ, order, x=X, y=np.zeros(128, np.uint32))
    assert ran.kinds - {"uninitialized_read"} == kinds, ran.told


@in_orders
@pytest.mark.parametrize(("barrier", "kinds"), [("bar.sync 0;", set()), ("", {"race"})])
def test_others_see_it_after_a_barrier(barrier: str, kinds: set[str], order: str) -> None:
    theirs = "xor.b32 %r6, %r1, 1;\n  shl.b32 %r5, %r6, 4;\n  add.u32 %r5, %r5, %r3;\n"
    ran = run(PLACES + COPY + GROUP + barrier + theirs + READ, order, x=X, y=np.zeros(128, np.uint32))
    assert ran.kinds - {"uninitialized_read"} == kinds, ran.told


@in_orders
@pytest.mark.parametrize(("form", "count"), [("noinc.", 32), ("", 1)])
def test_copies_arrive_on_an_mbarrier(form: str, count: int, order: str) -> None:
    """Without .noinc the arrival is added to what the phase waits for, so another one must be pending meanwhile."""
    arrive = f"cp.async.mbarrier.arrive.{form}shared::cta.b64 [%r4];\n"
    own = first_thread("mbarrier.arrive.shared::cta.b64 _, [%r4];") if count == 1 else ""
    theirs = "xor.b32 %r6, %r1, 1;\n  shl.b32 %r5, %r6, 4;\n  add.u32 %r5, %r5, %r3;\n"
    ran = run(
        PLACES + COPY + arrive + own + wait() + theirs + READ, order, x=X, y=np.zeros(128, np.uint32), count=count
    )
    assert ran.faults == [], ran.told
    np.testing.assert_array_equal(ran.y.reshape(16, 2, 4), X.reshape(16, 2, 4)[:, ::-1])
