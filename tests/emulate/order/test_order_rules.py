"""Happens-before of threads: each clean program beside the nearest one that races; and what is said of races."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.emulate.order.order import Access, Conflict, GlobalHistory, Order
from compiler.emulate.report import FaultKind, Report
from compiler.emulate.threads import Threads
from tests.emulate.order.bench import ATOMIC, RACE, READ, WRITE, Bench, lanes
from tests.emulate.order.happens_before import instruction, region

# Threads.


def _barrier(b: Bench) -> None:
    b.block_barrier()


def _warp_barrier(b: Bench) -> None:
    b.order.barrier(b.threads.real, b.threads.real // 32)


def _token(b: Bench) -> None:
    b.order.acquire(lanes(1, 40), b.order.release(lanes(0)))


def _early_token(b: Bench) -> None:
    b.order.acquire(lanes(1), b.order.release(lanes(1)))


@pytest.mark.parametrize(
    ("between", "reader", "expected"),
    [
        (None, 0, []),
        (None, 1, [RACE]),
        (_barrier, 1, []),
        (_barrier, 64, [RACE]),
        (_warp_barrier, 31, []),
        (_warp_barrier, 32, [RACE]),
        (_token, 40, []),
        (_token, 41, [RACE]),
        (_early_token, 1, [RACE]),
    ],
)
@pytest.mark.parametrize(("first", "second"), [(WRITE, READ), (READ, WRITE), (WRITE, WRITE), (ATOMIC, READ)])
def test_two_threads(
    between: Callable[[Bench], None] | None, reader: int, expected: list[FaultKind], first: Access, second: Access
) -> None:
    b = Bench()
    b.touch(first, 0)
    if between is not None:
        between(b)
    b.touch(second, reader)
    assert b.kinds() == expected


@pytest.mark.parametrize(
    ("first", "second", "is_race"),
    [
        ((READ, False), (READ, False), False),
        ((ATOMIC, False), (ATOMIC, False), False),
        ((ATOMIC, True), (WRITE, True), False),
        ((WRITE, True), (READ, True), False),
        ((WRITE, True), (READ, False), True),
        ((WRITE, False), (READ, True), True),
        ((READ, False), (ATOMIC, True), True),
        ((READ, True), (WRITE, False), True),
    ],
)
def test_strong_accesses_do_not_race_with_one_another(
    first: tuple[Access, bool], second: tuple[Access, bool], is_race: bool
) -> None:
    b = Bench()
    b.touch(first[0], 0, strong=first[1])
    b.touch(second[0], 1, strong=second[1])
    assert b.kinds() == [RACE] * is_race


def test_all_the_atomics_before_a_plain_read_count() -> None:
    b = Bench()
    b.touch(ATOMIC, [3, 5, 0])
    b.touch(READ, 0)
    assert b.kinds() == [RACE]
    assert b.report.faults[0].count == 2


@pytest.mark.parametrize(
    ("offsets", "nbytes", "is_race"),
    [([0, 4], 4, False), ([0, 3], 4, True), ([0, 1], 1, False), ([0, 8], 16, True), ([8, 15], 8, True)],
)
def test_bytes_must_overlap(offsets: list[int], nbytes: int, is_race: bool) -> None:
    b = Bench()
    for lane, offset in enumerate(offsets):
        b.touch(WRITE, lane, offset, nbytes)
    assert b.kinds() == [RACE] * is_race


@pytest.mark.parametrize(
    ("values", "offsets", "is_race"),
    [
        ([7, 7, 7], [0, 0, 0], False),
        ([7, 7, 8], [0, 0, 0], True),
        ([7, 7, 8], [0, 0, 4], False),
        (None, [0, 0, 4], True),
        # Lanes 0 and 1 overlap in the bytes 2 and 3, which they write alike.
        ([0x0505_0102, 0x0708_0505, 7], [0, 2, 12], False),
        ([0x0505_0102, 0x0708_0506, 7], [0, 2, 12], True),
    ],
)
def test_lanes_of_one_instruction_may_write_equal_bytes(
    values: list[int] | None, offsets: list[int], is_race: bool
) -> None:
    b = Bench()
    b.touch(WRITE, [0, 1, 2], offsets, values=values)
    assert b.kinds() == [RACE] * is_race


def test_threads_of_two_blocks_with_one_index_are_two_threads() -> None:
    b = Bench()
    b.touch(WRITE, [0, 64], values=[1, 2])
    assert b.kinds() == [RACE]


@pytest.mark.parametrize(("value", "is_race"), [(7, False), (8, True)])
@pytest.mark.parametrize("flush", [True, False])
def test_equal_bytes_may_be_written_by_one_instruction_at_two_times(value: int, is_race: bool, flush: bool) -> None:
    b, insn = Bench(), instruction(1)
    b.touch(WRITE, 0, values=[7], insn=insn)
    if flush:
        b.order.flush()
    b.touch(WRITE, 40, values=[value], insn=insn)
    assert b.kinds() == [RACE] * is_race


def test_whoever_reads_after_many_equal_writes_must_know_all_of_them() -> None:
    b = Bench()
    b.touch(WRITE, list(range(8)), values=[1] * 8)
    b.order.acquire(lanes(9), b.order.release(lanes(*range(7))))
    b.touch(READ, 9)
    assert b.kinds() == [RACE]
    assert "thread (7, 0, 0)" in b.report.faults[0].message


def test_each_of_many_equal_writes_must_come_after_what_was_before() -> None:
    b = Bench()
    b.touch(READ, 9)
    b.order.acquire(lanes(*range(7)), b.order.release(lanes(9)))
    b.touch(WRITE, list(range(8)), values=[1] * 8)
    assert b.kinds() == [RACE]
    assert b.report.faults[0].thread == (7, 0, 0)


@pytest.mark.parametrize("unknown", [0, 31, 63])
def test_one_write_that_the_others_do_not_know_is_found_in_a_crowd(unknown: int) -> None:
    everyone = list(range(64))
    b = Bench()
    b.touch(WRITE, everyone, values=[1] * 64)
    b.order.acquire(lanes(*everyone), b.order.release(lanes(*(n for n in everyone if n != unknown))))
    b.touch(READ, everyone)
    assert b.kinds() == [RACE]


@pytest.mark.parametrize(("value", "is_race"), [(0x0102030405060708, False), (0x0102030405990708, True)])
def test_what_was_checked_stays_known_byte_by_byte_when_finer_accesses_come(value: int, is_race: bool) -> None:
    b, insn = Bench(), instruction(1)
    b.touch(WRITE, 0, values=[0x0102030405060708], nbytes=8, insn=insn)
    b.order.flush()
    b.touch(WRITE, 1, 17, 1)
    b.order.flush()
    b.touch(WRITE, 40, values=[value], nbytes=8, insn=insn)
    assert b.kinds() == [RACE] * is_race


def test_several_accesses_to_a_place_stay_known_when_finer_ones_come() -> None:
    b = Bench()
    b.touch(WRITE, 0, nbytes=8)
    b.block_barrier()
    b.touch(READ, [1, 2, 3], nbytes=8)
    b.touch(READ, [1, 2, 3], 8, nbytes=8)
    b.order.flush()
    b.order.acquire(lanes(5), b.order.release(lanes(1, 3)))
    for offset in (13, 5):
        b.touch(WRITE, 5, offset, 1)
        b.order.flush()
    assert [f.count for f in b.report.faults] == [1, 1]
    assert "thread (2, 0, 0)" in b.report.faults[0].message


@pytest.mark.parametrize("crowd", [2, 8, 64])
def test_crowds_are_checked_as_wholes(crowd: int) -> None:
    """Writes of many, then reads of many, then writes: pairs are left out where others stand for them."""
    everyone = list(range(crowd))
    b = Bench()
    for _ in range(3):
        b.touch(WRITE, everyone, values=[1] * crowd)
        b.block_barrier()
        b.touch(READ, everyone)
        b.block_barrier()
    assert b.kinds() == []
    b.touch(WRITE, everyone, values=[1] * crowd)
    b.order.barrier(lanes(*range(1, 64)), lanes(*[0] * 63))
    b.touch(READ, everyone[1:])
    assert b.kinds() == [RACE]


def test_blocks_of_a_cluster_meet_at_its_barrier() -> None:
    for is_met in (True, False):
        b = Bench(cluster=2)
        b.touch(WRITE, 0, 256, where="shared")
        if is_met:
            b.order.barrier(b.threads.real, np.zeros(128, np.intp))
        b.touch(READ, 64, 256, where="shared")
        assert b.kinds() == [RACE] * (not is_met)


# Reports.


def test_a_race_names_both_accesses_and_what_is_missing() -> None:
    b = Bench()
    b.touch(WRITE, 40, 12, insn=instruction(7, "st.global.u32 [%rd1], %r1"))
    b.touch(READ, 3, 12, insn=instruction(9, "ld.global.u32 %r2, [%rd1]"))
    b.order.flush()
    (fault,) = b.report.faults
    assert (fault.ptx_line, fault.source_line, fault.block, fault.thread) == (9, 109, (0, 0, 0), (3, 0, 0))
    assert (fault.address, fault.tensor) == (1024 + 12, "x")
    for words in (
        "thread (40, 0, 0)",
        "`st.global.u32 [%rd1], %r1` (line 107)",
        "byte 12 of tensor x",
        "__syncthreads()",
    ):
        assert words in fault.message


def test_shared_addresses_are_those_of_the_copy() -> None:
    b = Bench()
    b.touch(WRITE, 64, 256 + 8, where="shared")
    b.touch(READ, 65, 256 + 8, where="shared")
    b.order.flush()
    (fault,) = b.report.faults
    assert (fault.address, fault.block) == (1024 + 8, (1, 0, 0))


def test_a_hook_may_report_races_of_operations_itself() -> None:
    for answer in (True, False):
        told: list[Conflict] = []

        def on_race(conflict: Conflict, told: list[Conflict] = told, answer: bool = answer) -> bool:
            told.append(conflict)
            return answer

        b = Bench()
        b.order.on_race = on_race
        actor = b.order.start(0)
        b.order.actor_access(actor, b.shared, WRITE, instruction(20), np.array([0]), 16)
        when = b.order.time
        b.touch(READ, 7, 8, where="shared")
        b.touch(WRITE, 1, 4)
        b.touch(WRITE, 2, 4)
        assert b.kinds() == ([RACE] if answer else [RACE, RACE])
        (conflict,) = told
        assert (conflict.actor, conflict.lane, conflict.lane_insn.ptx_line) == (actor, 7, 1)
        assert (conflict.lane_time, conflict.offset) == (when, 8)


# Several batches.


@pytest.mark.parametrize(
    ("first", "second", "is_race"),
    [(READ, READ, False), (READ, WRITE, True), (WRITE, READ, True), (ATOMIC, ATOMIC, False)],
)
def test_blocks_of_different_batches_race(first: Access, second: Access, is_race: bool) -> None:
    history, report, tensor = GlobalHistory(), Report(), region("x", 64)
    for block, access in ((0, first), (1, second)):
        order = Order(Threads((2, 1, 1), (32, 1, 1), (1, 1, 1), (block,)), report, history=history)
        order.access(tensor, access, instruction(block + 1), lanes(0), np.array([8]), 4)
        order.flush()
    assert [f.kind for f in report.faults] == [RACE] * is_race
    if is_race:
        assert report.faults[0].block == (1, 0, 0)
        assert "block (0, 0, 0)" in report.faults[0].message


def test_a_region_that_is_only_read_costs_little_and_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    from compiler.emulate.order import shadow

    monkeypatch.setattr(shadow, "_MOST_READS", 1000)
    b = Bench()
    everyone = list(range(64))
    b.touch(READ, 5, 252)
    for n in range(100):
        b.touch(READ, everyone, [(lane * 4 + n) % 60 * 4 for lane in everyone])
        b.order.flush()
    b.touch(WRITE, 70, 252)
    assert b.kinds() == [RACE]
    b.touch(WRITE, 70, 128)
    assert b.kinds() == [RACE, RACE]
