"""Loops that wait: they give way to whom they wait for, across warps and blocks, and stand still only in a deadlock."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.launch import Completion, Options
from tests.emulate.machine.kernels import run

FLAG = """
        setp.ne.u32 %p1, %r1, {waiter};
        @%p1 bra SETTER;
        SPIN: ld.volatile.global.u32 %r6, [%rd2];
        setp.eq.u32 %p2, %r6, 0;
        @%p2 bra SPIN;
        bra.uni DONE;
        SETTER: setp.ne.u32 %p3, %r1, {setter};
        @%p3 bra DONE;
        mov.u32 %r7, 5;
        st.volatile.global.u32 [%rd2], %r7;
        DONE: ret;
"""


@pytest.mark.parametrize("completion", list(Completion))
@pytest.mark.parametrize(("waiter", "setter"), [(0, 63), (63, 0), (0, 1)])
def test_a_thread_that_waits_for_a_flag_gives_way_to_the_one_that_sets_it(
    waiter: int, setter: int, completion: Completion
) -> None:
    ran = run(FLAG.format(waiter=waiter, setter=setter), threads=64, options=Options(completion), poison=False)
    assert ran.kinds == []
    assert ran.y[0] == 5


def test_a_flag_that_nobody_sets_is_a_deadlock_and_says_who_waits_where() -> None:
    ran = run(FLAG.format(waiter=0, setter=99), threads=64, poison=False)
    (fault,) = ran.outcome.faults
    assert str(fault.kind) == "deadlock"
    assert fault.instruction == "ld.volatile.global.u32 %r6, [%rd2]"
    assert (fault.block, fault.thread) == ((0, 0, 0), (0, 0, 0))
    assert "1 threads of warps 0 of block (0, 0, 0)" in fault.message


ACROSS = """
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra DONE;
        sub.u32 %r8, 299, %r2;
        mul.wide.u32 %rd6, %r8, 4;
        add.u64 %rd6, %rd2, %rd6;
        mul.wide.u32 %rd7, %r2, 4;
        add.u64 %rd7, %rd2, %rd7;
        mov.u32 %r7, 1;
        atom.global.exch.b32 %r9, [%rd7], %r7;
        SPIN: ld.relaxed.gpu.global.u32 %r6, [%rd6];
        setp.eq.u32 %p2, %r6, 0;
        @%p2 bra SPIN;
        DONE: ret;
"""


def test_blocks_that_wait_for_blocks_of_a_later_batch_are_run_with_them() -> None:
    ran = run(ACROSS, threads=64, blocks=300, poison=False)
    assert ran.kinds == []
    assert (ran.y[:300] == 1).all()


def test_a_long_loop_that_only_computes_is_no_deadlock() -> None:
    ran = run(
        """
        mov.u32 %r6, 0;
        LOOP: add.u32 %r6, %r6, 1;
        setp.lt.u32 %p1, %r6, 3000;
        @%p1 bra LOOP;
        st.global.u32 [%rd5], %r6;
        ret;
        """
    )
    assert ran.kinds == []
    assert (ran.y == 3000).all()


def test_a_kernel_that_never_ends_is_stopped_at_the_limit() -> None:
    ran = run("mov.u32 %r6, 0;\nLOOP: add.u32 %r6, %r6, 1;\nbra.uni LOOP;", options=Options(max_instructions=5000))
    (fault,) = ran.outcome.faults
    assert str(fault.kind) == "deadlock"
    assert "5000" in fault.message
    assert ran.outcome.met_limit
    assert ran.outcome.instructions > 5000


def test_a_lock_is_taken_by_one_lane_after_the_other() -> None:
    """Two of a warp, one of the next, in each of two blocks."""
    ran = run(
        """
        setp.lt.u32 %p1, %r1, 30;
        @%p1 bra DONE;
        SPIN: atom.acquire.gpu.global.cas.b32 %r6, [%rd2], 0, 1;
        setp.ne.u32 %p1, %r6, 0;
        @%p1 bra SPIN;
        ld.global.u32 %r7, [%rd2+4];
        add.u32 %r7, %r7, 1;
        st.global.u32 [%rd2+4], %r7;
        atom.release.gpu.global.exch.b32 %r6, [%rd2], 0;
        DONE: ret;
        """,
        threads=33,
        blocks=2,
        poison=False,
    )
    assert ran.kinds == []
    assert ran.y[1] == 6
    assert np.count_nonzero(ran.y) == 1


@pytest.mark.parametrize(("who", "expected"), [(3, []), (0, ["race"]), (2, ["race"])])
def test_only_the_last_of_those_that_counted_may_set_the_counter_back(who: int, expected: list[str]) -> None:
    ran = run(
        f"""
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra DONE;
        atom.global.inc.u32 %r6, [%rd2], 99;
        setp.ne.u32 %p2, %r6, {who};
        @%p2 bra DONE;
        st.global.u32 [%rd2], 0;
        DONE: ret;
        """,
        blocks=4,
        poison=False,
    )
    assert ran.kinds == expected
