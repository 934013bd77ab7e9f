"""Happens-before of asynchronous operations: each clean program beside the nearest one that races."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.order.order import Access
from compiler.emulate.report import FaultKind
from tests.emulate.order.bench import ATOMIC, PROXY_RACE, RACE, READ, WRITE, Bench, lanes
from tests.emulate.order.happens_before import instruction

# Asynchronous operations.


def test_an_operation_knows_what_its_issuer_did_before_but_not_after() -> None:
    b = Bench()
    b.touch(WRITE, 0, 0)
    b.order.proxy_fence(lanes(0))
    actor = b.order.start(0)
    b.touch(WRITE, 0, 4)
    b.order.actor_access(actor, b.tensor, READ, instruction(10), np.array([0]), 4)
    assert b.kinds() == []
    b.order.actor_access(actor, b.tensor, READ, instruction(10), np.array([4]), 4)
    assert b.kinds() == [RACE]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("write fence barrier issue", []),
        ("write barrier fence0 issue", []),
        ("write barrier issue", [PROXY_RACE]),
        ("fence write barrier issue", [PROXY_RACE]),
        ("write fence issue", [RACE]),
        ("write barrier issue fence0", [PROXY_RACE]),
        ("update barrier issue", [PROXY_RACE]),
        ("read fence barrier issue", []),
        ("read barrier fence0 issue", []),
        ("read barrier issue", [PROXY_RACE]),
        ("read barrier check issue", [PROXY_RACE]),
        ("read fence barrier check issue", []),
        ("write barrier check issue", [PROXY_RACE]),
        ("write fence read barrier check issue", [PROXY_RACE]),
        ("write read fence barrier check issue", []),
        ("fence read barrier issue", [PROXY_RACE]),
        ("read barrier issue fence0", [PROXY_RACE]),
        ("read read9 fence barrier issue", [PROXY_RACE]),
        ("read9 barrier fence issue", [PROXY_RACE]),
        ("read9 barrier fence barrier issue", []),
        ("read issue", [RACE]),
    ],
)
def test_a_copy_comes_after_ordinary_accesses_only_past_a_proxy_fence(steps: str, expected: list[FaultKind]) -> None:
    """Thread 5 accesses, or 9, and thread 0 issues a copy onto the byte."""
    b = Bench()
    for step in steps.split():
        match step:
            case "write" | "update" | "read":
                b.touch({"write": WRITE, "update": ATOMIC, "read": READ}[step], 5, where="shared")
            case "read9":
                b.touch(READ, 9, where="shared")
            case "check":
                b.order.flush()
            case "fence":
                b.order.proxy_fence(lanes(5))
            case "fence0":
                b.order.proxy_fence(lanes(0))
            case "barrier":
                b.block_barrier()
            case "issue":
                actor = b.order.start(0)
    b.order.actor_access(actor, b.shared, WRITE, instruction(20), np.array([0]), 64)
    assert b.kinds() == expected


@pytest.mark.parametrize(("first", "second"), [(WRITE, READ), (WRITE, WRITE), (READ, WRITE), (READ, ATOMIC)])
def test_generic_operations_need_no_proxy_fence(first: Access, second: Access) -> None:
    """`st.async` and `red.async` (PTX ISA: weak operations of the generic proxy)."""
    b = Bench()
    b.touch(first, 0)
    actor = b.order.start(0, uses_async_proxy=False)
    b.order.actor_access(actor, b.tensor, second, instruction(20), np.array([0]), 4)
    assert b.kinds() == []


def test_the_fault_says_who_read_and_what_is_missing() -> None:
    b = Bench()
    b.touch(READ, 5, where="shared", insn=instruction(3, "ld.shared.u32 %r1, [%r2]"))
    b.block_barrier()
    actor = b.order.start(0)
    b.order.actor_access(actor, b.shared, WRITE, instruction(20, "cp.async.bulk [%r2]"), np.array([0]), 64)
    b.order.flush()
    (fault,) = b.report.faults
    assert (fault.instruction, fault.thread) == ("cp.async.bulk [%r2]", (0, 0, 0))
    for words in ("thread (5, 0, 0)", "read at `ld.shared.u32 %r1, [%r2]`", "still be under way", "fence.proxy.async"):
        assert words in fault.message, fault.message


@pytest.mark.parametrize(("waits", "expected"), [(True, []), (False, [RACE])])
@pytest.mark.parametrize("access", [READ, WRITE])
def test_what_an_operation_wrote_is_seen_by_who_waited_without_a_fence(
    waits: bool, expected: list[FaultKind], access: Access
) -> None:
    b = Bench()
    actor = b.order.start(0)
    b.order.actor_access(actor, b.shared, WRITE, instruction(20), np.array([0]), 64)
    if waits:
        b.order.acquire(lanes(0), b.order.finish(actor))
        b.block_barrier()
    b.touch(access, 33, 60, where="shared")
    assert b.kinds() == expected


def test_a_wait_for_the_source_is_none_for_the_target() -> None:
    b = Bench()
    actor = b.order.start(0)
    b.order.actor_access(actor, b.shared, READ, instruction(20), np.array([0]), 16)
    b.order.actor_access(actor, b.tensor, WRITE, instruction(20), np.array([0]), 16)
    b.order.acquire(lanes(0), b.order.finish(actor, source_only=True))
    b.touch(WRITE, 0, where="shared")
    assert b.kinds() == []
    b.touch(READ, 0)
    assert b.kinds() == [RACE]


@pytest.mark.parametrize("copy_lands_first", [True, False])
def test_the_fault_is_where_the_thread_did_not_wait_whenever_the_copy_lands(copy_lands_first: bool) -> None:
    b = Bench()
    actor, insn = b.order.start(0), instruction(20, "cp.async.bulk [smem], [x]")
    for step in (0, 1):
        if (step == 0) == copy_lands_first:
            b.order.actor_access(actor, b.shared, WRITE, insn, np.array([0]), 16)
        else:
            b.touch(READ, 7, 8, where="shared")
    b.order.flush()
    (fault,) = b.report.faults
    assert (fault.kind, fault.ptx_line, fault.thread) == (RACE, 1, (7, 0, 0))
    assert "cp.async.bulk" in fault.message
    assert "line 120" in fault.message


def test_an_operation_under_way_keeps_what_it_may_race_with() -> None:
    """It was issued before the write, and lands after everybody has seen it."""
    b = Bench()
    actor = b.order.start(0)
    b.touch(WRITE, 3, where="shared")
    b.block_barrier()
    b.order.flush()
    b.order.actor_access(actor, b.shared, READ, instruction(20), np.array([0]), 16)
    assert b.kinds() == [RACE]


def test_an_actor_is_a_thread_of_its_issuer_with_all_that_it_knows_of_other_clusters() -> None:
    for is_told in (True, False):
        b = Bench()
        b.touch(WRITE, 0)
        b.order.proxy_fence(lanes(0))
        if is_told:
            b.order.acquire(lanes(64), b.order.release(lanes(0)))
        actor = b.order.start(64)
        b.order.actor_access(actor, b.tensor, READ, instruction(20), np.array([0]), 4)
        token = b.order.finish(actor)
        assert b.kinds() == [RACE] * (not is_told)
        b.order.acquire(lanes(70), token)
        b.touch(READ, 70)
        assert b.kinds() == [RACE] * (2 * (not is_told))


def test_columns_of_operations_are_used_again() -> None:
    b = Bench()
    for n in range(2500):
        actor = b.order.start(0)
        b.order.actor_access(actor, b.shared, WRITE, instruction(20), np.array([n % 16 * 16]), 16)
        b.order.acquire(lanes(0), b.order.finish(actor))
    assert b.kinds() == []
    b.touch(READ, 1, where="shared")
    assert b.kinds() == [RACE]


# cp.async.


@pytest.mark.parametrize(
    ("steps", "reader", "expected"),
    [
        ("copy wait", 0, []),
        ("copy wait", 1, [RACE]),
        ("copy wait barrier", 1, []),
        ("copy barrier", 1, [RACE]),
        ("copy barrier wait", 1, [RACE]),
        ("copy", 0, [RACE]),
    ],
)
def test_copies_of_lanes_end_for_each_lane_by_its_own_wait(steps: str, reader: int, expected: list[FaultKind]) -> None:
    b = Bench()
    everyone = lanes(*range(64))
    for step in steps.split():
        match step:
            case "copy":
                actor = b.order.start_copies(everyone)
                b.order.actor_access(actor, b.shared, WRITE, instruction(20), everyone * 4, 4)
            case "wait":
                b.order.finish_copies(actor, everyone)
            case "barrier":
                b.block_barrier()
    b.touch(READ, reader, 0, where="shared")
    assert b.kinds() == expected


@pytest.mark.parametrize(("waits", "expected"), [(True, []), (False, [RACE])])
def test_a_lane_writes_over_its_copy_only_after_the_wait(waits: bool, expected: list[FaultKind]) -> None:
    """The copy lands late: what its thread did after the issue is not before it."""
    b = Bench()
    actor = b.order.start_copies(lanes(0))
    if waits:
        b.order.actor_access(actor, b.shared, WRITE, instruction(20), np.array([0]), 4)
        b.order.finish_copies(actor, lanes(0))
    b.touch(WRITE, 0, where="shared")
    if not waits:
        b.order.actor_access(actor, b.shared, WRITE, instruction(20), np.array([0]), 4)
    assert b.kinds() == expected


@pytest.mark.parametrize(("steps", "expected"), [("wait fence", []), ("fence wait", [PROXY_RACE])])
def test_what_cp_async_wrote_needs_a_proxy_fence_after_the_wait(steps: str, expected: list[FaultKind]) -> None:
    b = Bench()
    copies = b.order.start_copies(lanes(0, 1))
    b.order.actor_access(copies, b.shared, WRITE, instruction(20), np.array([0, 4]), 4)
    for step in steps.split():
        if step == "wait":
            b.order.finish_copies(copies, lanes(0, 1))
        else:
            b.order.proxy_fence(lanes(0, 1))
    b.block_barrier()
    actor = b.order.start(0)
    b.order.actor_access(actor, b.shared, READ, instruction(21), np.array([0]), 8)
    assert b.kinds() == expected


def test_two_parts_of_one_copy_do_not_race_and_two_copies_do() -> None:
    b = Bench()
    first, second = (b.order.start_copies(lanes(0)) for _ in range(2))
    for _ in range(2):
        b.order.actor_access(first, b.shared, WRITE, instruction(20), np.array([0]), 4)
    assert b.kinds() == []
    b.order.actor_access(second, b.shared, WRITE, instruction(21), np.array([0]), 4)
    assert b.kinds() == [RACE]
