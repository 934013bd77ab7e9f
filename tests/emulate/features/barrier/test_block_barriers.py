"""The barriers of a block: who waits for whom, what they order, and what is wrong with their use."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.launch import Options
from tests.emulate.features.snippets import ORDERS
from tests.emulate.machine.kernels import Ran, run

SHARED = ".shared .align 4 .b32 own[256];"

OWN = "mov.u64 %rd6, own; mul.wide.u32 %rd7, %r1, 4; add.u64 %rd7, %rd6, %rd7;"
"""%rd7: the place of this thread in shared memory."""

WRITE = "st.shared.u32 [%rd7], %r1;"

READ_REVERSED = """
    sub.u32 %r6, %r3, 1;
    sub.u32 %r6, %r6, %r1;
    mul.wide.u32 %rd8, %r6, 4;
    add.u64 %rd8, %rd6, %rd8;
    ld.shared.u32 %r7, [%rd8];
    st.global.u32 [%rd5], %r7;
"""


def barriers(body: str, *, threads: int = 128, blocks: int = 2, options: Options | None = None) -> Ran:
    return run(OWN + body + "ret;", threads=threads, blocks=blocks, variables=SHARED, options=options)


ALL_FORMS = [
    "bar.sync 0;",
    "barrier.sync 3;",
    "barrier.sync.aligned 15;",
    "barrier.cta.sync 1;",
    "bar.cta.sync 1;",
    "bar.sync 0, %r3;",
    "mov.u32 %r8, 2; barrier.cta.sync.aligned %r8, 128;",
    "bar.red.popc.u32 %r8, 0, %p1;",
]


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize("form", ALL_FORMS)
def test_a_barrier_orders_the_block(form: str, options: Options) -> None:
    ran = barriers(f"setp.eq.u32 %p1, %r1, 0; {WRITE} {form} {READ_REVERSED}", options=options)
    assert ran.kinds == []
    assert ran.y.reshape(2, 128).tolist() == [list(range(127, -1, -1))] * 2


def test_without_a_barrier_there_is_a_race() -> None:
    assert "race" in barriers(WRITE + READ_REVERSED).kinds


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize(
    ("threads", "blocks", "is_split"), [(128, 2, False), (128, 2, True), (80, 3, False), (80, 3, True), (20, 1, False)]
)
def test_reductions(threads: int, blocks: int, is_split: bool, options: Options) -> None:
    """Of predicates that differ between blocks; `is_split` lets warp 0 come later."""
    ran = barriers(
        f"""
        and.b32 %r6, %r4, 3;
        setp.eq.u32 %p1, %r6, 0;
        setp.lt.u32 %p3, %r1, 32;
        {"@!%p3 bra MEET; add.u32 %r9, %r1, 1;" if is_split else ""}
        MEET: bar.red.popc.u32 %r7, 0, %p1;
        barrier.cta.red.or.pred %p2, 1, %p1;
        selp.u32 %r8, 1000, 0, %p2;
        add.u32 %r7, %r7, %r8;
        setp.ge.u32 %p1, %r4, {threads};
        barrier.red.and.aligned.pred %p2, 1, !%p1;
        selp.u32 %r8, 10000, 0, %p2;
        add.u32 %r7, %r7, %r8;
        st.global.u32 [%rd5], %r7;
        """,
        threads=threads,
        blocks=blocks,
        options=options,
    )
    assert ran.kinds == []
    indices = np.arange(threads * blocks).reshape(blocks, threads)
    held = (indices % 4 == 0).sum(axis=1)
    expected = held + 1000 * (held > 0) + np.where(np.arange(blocks) == 0, 10000, 0)
    assert ran.y.reshape(blocks, threads).tolist() == [[value] * threads for value in expected.tolist()]


PRODUCER = """
    setp.ge.u32 %p1, %r1, 32;
    @%p1 bra CONSUMER;
    {produce}
    {arrive}
    bra.uni DONE;
    CONSUMER: {sync}
    and.b32 %r6, %r1, 31;
    mul.wide.u32 %rd8, %r6, 4;
    add.u64 %rd8, %rd6, %rd8;
    ld.shared.u32 %r7, [%rd8];
    st.global.u32 [%rd5], %r7;
    DONE:
"""


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize(
    ("arrive", "sync", "expected"),
    [
        ("bar.arrive 1, 128;", "bar.sync 1, 128;", set()),
        ("barrier.cta.arrive 1, 128;", "barrier.cta.sync 1, 128;", set()),
        ("bar.arrive 1, 128;", "bar.sync 1, 96;", {"invalid_operand"}),
        ("bar.arrive 1, 160;", "bar.sync 1, 160;", {"deadlock"}),
        ("bar.arrive 2, 128;", "bar.sync 1, 128;", {"deadlock"}),
        ("", "bar.sync 1, 96;", {"race"}),
    ],
)
def test_producer_and_consumers(arrive: str, sync: str, expected: set[str], options: Options) -> None:
    body = PRODUCER.format(produce=WRITE, arrive=arrive, sync=sync)
    ran = barriers(body, options=options)
    assert expected <= set(ran.kinds) <= expected | {"race", "deadlock", "uninitialized_read"}
    if not expected:
        assert ran.kinds == []
        assert ran.y.reshape(2, 128)[:, 32:].tolist() == [list(range(32)) * 3] * 2


def test_arrive_does_not_wait_for_what_it_releases() -> None:
    """The producer writes again after it arrived: nothing orders that with the consumers' reads."""
    body = PRODUCER.format(produce=WRITE, arrive=f"bar.arrive 1, 128; {WRITE}", sync="bar.sync 1, 128;")
    assert "race" in barriers(body).kinds


@pytest.mark.parametrize("options", ORDERS)
def test_a_ring_of_two_named_barriers(options: Options) -> None:
    """Three rounds: `full` tells that the buffer is written, `empty` that it has been read."""
    ran = barriers(
        """
        setp.ge.u32 %p1, %r1, 32;
        mov.u32 %r9, 0;
        mov.u32 %r10, 0;
        LOOP:
        @%p1 bra CONSUME;
        add.u32 %r8, %r9, %r1;
        st.shared.u32 [%rd7], %r8;
        bar.arrive 1, 64;
        bar.sync 2, 64;
        bra.uni NEXT;
        CONSUME: bar.sync 1, 64;
        ld.shared.u32 %r7, [%rd7-128];
        add.u32 %r10, %r10, %r7;
        bar.arrive 2, 64;
        NEXT: add.u32 %r9, %r9, 1;
        setp.lt.u32 %p2, %r9, 3;
        @%p2 bra LOOP;
        st.global.u32 [%rd5], %r10;
        """,
        threads=64,
        options=options,
    )
    assert ran.kinds == []
    assert ran.y.reshape(2, 64)[:, 32:].tolist() == [[3 * t + 3 for t in range(32)]] * 2


def test_each_pair_of_warps_has_its_own_barrier() -> None:
    ran = barriers(
        f"""
        {WRITE}
        shr.u32 %r6, %r1, 6;
        bar.sync %r6, 64;
        xor.b32 %r7, %r1, 63;
        mul.wide.u32 %rd8, %r7, 4;
        add.u64 %rd8, %rd6, %rd8;
        ld.shared.u32 %r8, [%rd8];
        st.global.u32 [%rd5], %r8;
        """
    )
    assert ran.kinds == []
    assert ran.y.reshape(2, 128).tolist() == [[t ^ 63 for t in range(128)]] * 2


def test_more_warps_than_a_phase_takes_begin_the_next() -> None:
    """Four warps at a barrier for two: two phases, one after the other."""
    assert barriers("bar.sync 1, 64; st.global.u32 [%rd5], %r1;").kinds == []
    assert barriers("bar.sync 1, 96; st.global.u32 [%rd5], %r1;").kinds == ["deadlock"]


def test_a_barrier_counts_a_partial_warp_as_a_whole_one() -> None:
    """Blocks of 80 threads have three warps, the last of 16 threads."""
    ran = barriers(f"{WRITE} bar.sync 1, 96; {READ_REVERSED}", threads=80, blocks=3)
    assert ran.kinds == []


LEAVE = "setp.ge.u32 %p1, %r1, {first}; @%p1 exit; {write} {barrier} st.global.u32 [%rd5], %r1;"


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize(
    ("first", "barrier", "expected"),
    [
        (64, "bar.sync 0;", []),
        (64, "barrier.sync 0;", []),
        (40, "barrier.sync 0;", []),
        (40, "bar.sync 0;", []),
        (16, "bar.sync 0;", []),
        (64, "bar.sync 0, 128;", ["deadlock"]),
        (64, "bar.sync 0, 64;", []),
    ],
)
def test_threads_that_exited(first: int, barrier: str, expected: list[str], options: Options) -> None:
    ran = barriers(LEAVE.format(first=first, write=WRITE, barrier=barrier), options=options)
    assert ran.kinds == expected


BRANCH = """
    setp.ge.u32 %p1, %r1, {first};
    @%p1 bra ELSE;
    {inside}
    {skip} ELSE: {otherwise}
    JOIN: {after} st.global.u32 [%rd5], %r1;
"""


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize(
    ("first", "inside", "otherwise", "after", "expected"),
    [
        (64, "bar.sync 0;", "bar.sync 0;", "", []),
        (64, "bar.sync 0;", "", "bar.sync 0;", []),
        (16, "bar.sync 0;", "bar.sync 0;", "", ["divergent_collective"]),
        (16, "bar.sync 0;", "", "", ["divergent_collective"]),
        (64, "bar.sync 0;", "", "", ["divergent_collective"]),
        (64, "bar.sync 0, 64;", "", "", []),
        (16, "bar.sync 0;", "", "bar.sync 0;", ["divergent_collective"]),
        (16, "bar.sync 0;", "", "bar.sync 1;", ["divergent_collective"]),
        (16, "barrier.sync 0;", "barrier.sync 0;", "", []),
        (16, "bar.sync 0;", "", "bar.warp.sync 0xFFFFFFFF;", ["divergent_collective"]),
    ],
)
def test_barriers_in_branches(
    first: int, inside: str, otherwise: str, after: str, expected: list[str], options: Options
) -> None:
    """Whole warps may take different ways to a barrier, the threads of one warp may not.

    Where two warps come to one barrier more than the others, those exit and complete it.
    """
    skip = "bra.uni JOIN;"
    ran = barriers(
        BRANCH.format(first=first, inside=inside, otherwise=otherwise, after=after, skip=skip),
        blocks=1,
        options=options,
    )
    assert ran.kinds == expected
    if ran.kinds == ["divergent_collective"]:
        (fault,) = ran.outcome.faults
        assert fault.instruction == inside.rstrip(";")


@pytest.mark.parametrize(
    ("barrier", "told"),
    [
        ("bar.sync 16;", "barriers 0 to 15"),
        ("bar.sync %r3;", "barriers 0 to 15"),
        ("bar.sync 1, 40;", "multiple of 32"),
        ("barrier.sync 1, 0;", "multiple of 32"),
        ("bar.arrive 1, 33;", "multiple of 32"),
    ],
)
def test_operands_out_of_range(barrier: str, told: str) -> None:
    (fault,) = barriers(f"{barrier} st.global.u32 [%rd5], %r1;").outcome.faults
    assert str(fault.kind) == "invalid_operand"
    assert told in fault.message


def test_a_barrier_with_and_without_reduction_in_one_phase() -> None:
    ran = barriers(
        """
        setp.ge.u32 %p1, %r1, 64;
        @%p1 bra OTHER;
        bar.sync 0;
        bra.uni DONE;
        OTHER: bar.red.popc.u32 %r6, 0, %p1;
        DONE: st.global.u32 [%rd5], %r1;
        """,
        blocks=1,
    )
    assert ran.kinds == ["invalid_operand"]


def test_a_deadlock_tells_how_many_have_come() -> None:
    (fault,) = barriers("bar.sync 4, 160; st.global.u32 [%rd5], %r1;", blocks=1).outcome.faults
    assert str(fault.kind) == "deadlock"
    assert "barrier 4, where 128 of 160 threads have arrived" in fault.message
