"""Threads that a try_wait suspends: woken by the phase that they wait for, and by nothing else that happens.

The hardware may suspend them until the phase is complete, or for a time of its own choice (PTX ISA,
"mbarrier.try_wait"), so a loop that looks at several barriers in turn must come to an end as well.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate.features.copies import FENCE_INIT, ORDERS, READ_SHARED, Ran, first_thread, run, wait

in_orders = pytest.mark.parametrize("order", ORDERS)

THREADS = 512
COPIES = 32


def filled(copies: int) -> Ran:
    """A tile of 512 words that `copies` copies bring, all of them to one phase; every thread waits for it."""
    nbytes = 4 * THREADS // copies
    load = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {4 * THREADS};\n"
    for number in range(copies):
        load += f"""
  add.u32 %r7, %r3, {number * nbytes};
  add.u64 %rd7, %rd1, {number * nbytes};
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%rd7], {nbytes}, [%r4];
"""
    return run(first_thread(load) + wait() + READ_SHARED, "lazy", threads=THREADS)


def test_waiting_costs_no_more_the_more_copies_a_phase_has() -> None:
    """Three instructions a copy in one warp; not a turn of the 16 waiting warps for each stage of each copy."""
    few, many = filled(1), filled(COPIES)
    for ran in (few, many):
        assert ran.faults == [], ran.told
        np.testing.assert_array_equal(ran.y, np.arange(THREADS))
    assert many.outcome.instructions - few.outcome.instructions == 3 * (COPIES - 1)


EITHER = """
  add.u32 %r8, %r4, 8;
  @!%p1 bra SET;
  mbarrier.init.shared::cta.b64 [%r8], 1;
  {fence}
SET:
  bar.sync 0;
  setp.lt.u32 %p2, %r1, 32;
  @%p2 bra LOOK;
  setp.ne.u32 %p3, %r1, 32;
  @%p3 bra DONE;
  mbarrier.arrive.shared::cta.b64 _, [{arrives}];
  bra.uni DONE;
LOOK:
  mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r4], 0;
  @%p7 bra DONE;
  mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r8], 0;
  @%p7 bra DONE;
  bra.uni LOOK;
DONE:
"""


@in_orders
@pytest.mark.parametrize("arrives", ["%r4", "%r8"])
def test_a_loop_that_waits_for_either_of_two_barriers_ends(arrives: str, order: str) -> None:
    ran = run(EITHER.format(fence=FENCE_INIT, arrives=arrives), order, threads=64)
    assert ran.faults == [], ran.told


@in_orders
def test_a_phase_that_never_completes_is_a_deadlock_of_those_who_wait_for_it(order: str) -> None:
    """The copy that comes completes the first phase; nothing arrives in the second, for which warp 1 waits."""
    load = """
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 128, [%r4];
"""
    late = "setp.lt.u32 %p2, %r1, 32;\n  @%p2 bra OUT;" + wait(1, label="W1") + "OUT:"
    ran = run(first_thread(load) + wait() + late, order, threads=64)
    (told,) = [f.message for f in ran.outcome.faults if f.kind == "deadlock"]
    assert not ran.outcome.met_limit
    assert "32 threads of warps 1 of block (0, 0, 0) turn in a loop that waits at `mbarrier.try_wait" in told
