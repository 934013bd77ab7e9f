"""Branches, loops, tables, calls, exits: lanes part and meet again, and every lane does what it alone would do."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.launch import Completion, Options
from compiler.emulate.memory.build import BadLaunch
from tests.emulate.machine.kernels import run

ORDERS = [Options(c, seed=s) for c, s in ((Completion.EAGER, 0), (Completion.LAZY, 0), (Completion.RANDOM, 1))]


@pytest.mark.parametrize("options", ORDERS, ids=["eager", "lazy", "random"])
def test_lanes_that_part_at_a_branch_do_their_own_work_and_meet_again(options: Options) -> None:
    ran = run(
        """
        and.b32 %r5, %r1, 1;
        setp.eq.u32 %p1, %r5, 0;
        @%p1 bra EVEN;
        mul.lo.u32 %r6, %r1, 100;
        bra.uni DONE;
        EVEN: add.u32 %r6, %r1, 7;
        DONE: st.global.u32 [%rd5], %r6;
        ret;
        """,
        threads=96,
        blocks=3,
        options=options,
    )
    thread = np.tile(np.arange(96), 3)
    assert ran.kinds == []
    assert (ran.y == np.where(thread % 2 == 0, thread + 7, thread * 100)).all()


def test_divergence_is_counted_and_ends_where_lanes_meet() -> None:
    body = """
        setp.lt.u32 %p1, %r1, {bound};
        @%p1 bra LOW;
        add.u32 %r6, %r1, 1;
        bra.uni DONE;
        LOW: add.u32 %r6, %r1, 2;
        DONE: st.global.u32 [%rd5], %r6;
        ret;
    """
    apart, together = run(body.format(bound=5)), run(body.format(bound=32))
    assert apart.outcome.counters["instructions"]["divergent"] == 3  # addition and branch; addition
    assert together.outcome.counters["instructions"]["divergent"] == 0
    store = {"warp": 1, "thread": 32, "divergent": 0}
    assert apart.outcome.counters["instructions"]["by_class"]["store"] == store


@pytest.mark.parametrize("options", ORDERS, ids=["eager", "lazy", "random"])
def test_a_loop_runs_as_often_as_each_lane_asks(options: Options) -> None:
    ran = run(
        """
        mov.u32 %r6, 0;
        mov.u32 %r7, 0;
        LOOP: setp.ge.u32 %p1, %r6, %r1;
        @%p1 bra DONE;
        add.u32 %r7, %r7, %r6;
        add.u32 %r6, %r6, 1;
        bra.uni LOOP;
        DONE: st.global.u32 [%rd5], %r7;
        ret;
        """,
        threads=64,
        options=options,
    )
    thread = np.arange(64)
    assert ran.kinds == []
    assert (ran.y == thread * (thread - 1) // 2).all()


def test_a_table_of_branches() -> None:
    ran = run(
        """
        and.b32 %r5, %r1, 3;
        T: .branchtargets A, B, C, A;
        brx.idx %r5, T;
        A: mov.u32 %r6, 10;
        bra.uni DONE;
        B: mov.u32 %r6, 20;
        bra.uni DONE;
        C: mov.u32 %r6, 30;
        DONE: st.global.u32 [%rd5], %r6;
        ret;
        """
    )
    assert (ran.y == np.array([10, 20, 30, 10])[np.arange(32) % 4]).all()


def test_a_guarded_exit_ends_some_lanes_only() -> None:
    ran = run(
        """
        mov.u32 %r6, 1;
        st.global.u32 [%rd5], %r6;
        setp.lt.u32 %p1, %r1, 10;
        @%p1 exit;
        mov.u32 %r6, 2;
        st.global.u32 [%rd5], %r6;
        """
    )
    assert (ran.y == np.where(np.arange(32) < 10, 1, 2)).all()


CALLEE = """
.func (.param .b32 result) twice_plus(.param .b32 a, .param .b32 b)
{
  .reg .pred %p<2>;
  .reg .b32 %r<5>;
  ld.param.b32 %r1, [a];
  ld.param.b32 %r2, [b];
  setp.gt.u32 %p1, %r1, 15;
  mov.b32 %r3, 9999;
  @%p1 bra OUT;
  add.u32 %r3, %r1, %r1;
  add.u32 %r3, %r3, %r2;
  OUT: st.param.b32 [result], %r3;
  ret;
}
"""
CALL = """
        {
        .param .b32 in0;
        .param .b32 in1;
        .param .b32 out0;
        st.param.b32 [in0], %r1;
        st.param.b32 [in1], 5;
        call (out0), twice_plus, (in0, in1);
        ld.param.b32 %r6, [out0];
        }
"""


def test_calls_are_put_in_line_each_with_registers_of_its_own() -> None:
    ran = run(
        CALL
        + "mov.u32 %r7, %r6;"
        + CALL.replace("5;", "6;")
        + "add.u32 %r6, %r6, %r7;\nst.global.u32 [%rd5], %r6;\nret;",
        before=CALLEE,
    )
    thread = np.arange(32)
    assert ran.kinds == []
    assert (ran.y == np.where(thread > 15, 2 * 9999, 4 * thread + 11)).all()


def test_a_guarded_call_is_for_some_lanes_only() -> None:
    ran = run(
        "setp.lt.u32 %p1, %r1, 3;\nmov.u32 %r6, 0;\n"
        + CALL.replace("call", "@%p1 call").replace("ld.param.b32 %r6", "@%p1 ld.param.b32 %r6")
        + "st.global.u32 [%rd5], %r6;\nret;",
        before=CALLEE,
    )
    thread = np.arange(32)
    assert ran.kinds == []
    assert (ran.y == np.where(thread < 3, 2 * thread + 5, 0)).all()


def test_a_recursive_call_is_refused_where_it_is_reached() -> None:
    callee = CALLEE.replace("OUT: st", CALL.replace("{", "{ ").replace("%r1", "%r2").replace("%r6", "%r4") + "OUT: st")
    ran = run(CALL + "st.global.u32 [%rd5], %r6;\nret;", before=callee)
    assert ran.kinds == ["unsupported_instruction"]


def test_an_unknown_instruction_is_named_with_its_line_and_only_where_it_is_reached() -> None:
    odd = "istypep.samplerref %p1, %rd1;"
    reached = run(f"st.global.u32 [%rd5], %r1;\n{odd}\nret;")
    (fault,) = reached.outcome.faults
    assert (str(fault.kind), fault.instruction) == ("unsupported_instruction", odd.rstrip(";"))
    passed = run(f"bra.uni DONE;\n{odd}\nDONE: st.global.u32 [%rd5], %r1;\nret;")
    assert passed.kinds == []


@pytest.mark.parametrize("odd", ["mov.u32 %r6, %r1, %r1;", "add.u32 %r6;", "shl.b32 %r6, %r1;"])
def test_operands_of_no_form_are_reported(odd: str) -> None:
    """ptxas refuses them; the emulator must not fall over PTX that no ptxas has seen."""
    ran = run(f"st.global.u32 [%rd5], %r1;\n{odd}\nret;")
    assert ran.kinds == ["unsupported_instruction"]


def test_a_grid_too_large_to_list_is_refused() -> None:
    with pytest.raises(BadLaunch, match="too many to emulate"):
        run("ret;", blocks=(1 << 24) + 1, elements=1)
