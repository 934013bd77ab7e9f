"""Shuffles, votes, matches, reductions, elections and barriers of warps: what they compute, and who must come."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.emulate.launch import Options
from tests.emulate.features.snippets import ORDERS, THREADS, computed, outcome
from tests.emulate.machine.kernels import run

FULL = 0xFFFFFFFF
WORDS = st.integers(0, FULL)
LANES = list(range(THREADS))


def shuffled(mode: str, values: list[int], b: int, c: int) -> list[int]:
    """The program of the PTX ISA for shfl, one lane after the other: the value, and bit 32 for the predicate."""
    results = []
    for index, _ in enumerate(values):
        lane = index % 32
        step, clamp, segment = b & 31, c & 31, c >> 8 & 31
        limit = lane & segment | clamp & ~segment & 31
        j = {
            "up": lane - step,
            "down": lane + step,
            "bfly": lane ^ step,
            "idx": lane & segment | step & ~segment & 31,
        }[mode]
        inside = j >= limit if mode == "up" else j <= limit
        results.append(values[index - lane + (j if inside else lane)] | inside << 32)
    return results


SHUFFLE = """
    shfl.sync.{mode}.b32 %w5|%c0, %w0, {b}, {c}, 0xFFFFFFFF;
    cvt.u64.u32 %o, %w5;
    @%c0 add.u64 %o, %o, 0x100000000;
"""


@settings(max_examples=20)
@given(
    mode=st.sampled_from(["up", "down", "bfly", "idx"]),
    b=st.integers(0, 40),
    c=st.one_of(st.sampled_from([0, 0x1F, 0x1C03, 0x181F, 0x1F00]), st.integers(0, 0x1FFF)),
)
def test_shuffles(mode: str, b: int, c: int) -> None:
    values = [31 * lane + 7 for lane in LANES]
    assert computed(SHUFFLE.format(mode=mode, b=b, c=c), values) == shuffled(mode, values, b, c)
    by_register = computed(SHUFFLE.format(mode=mode, b="%w1", c="%w2"), values, [b] * 2, [c] * 2)
    assert by_register == shuffled(mode, values, b, c)


def test_each_lane_may_read_another() -> None:
    sources = [(7 * lane + 3) % 32 for lane in LANES]
    found = computed(SHUFFLE.format(mode="idx", b="%w1", c=0x1F), LANES, sources)
    assert found == [lane - lane % 32 + sources[lane] | 1 << 32 for lane in LANES]


def test_half_a_warp_shuffles_on_its_own() -> None:
    code = """
        and.b32 %w6, %r1, 16;
        setp.eq.u32 %c1, %w6, 0;
        @%c1 bra LOW;
        shfl.sync.bfly.b32 %w5, %w0, 1, 31, 0xFFFF0000;
        bra.uni JOIN;
        LOW: shfl.sync.bfly.b32 %w5, %w0, 2, 31, 0x0000FFFF;
        JOIN: cvt.u64.u32 %o, %w5;
    """
    assert computed(code, LANES) == [lane ^ (1 if lane & 16 else 2) for lane in LANES]


def test_masks_may_differ_between_groups_of_one_instruction() -> None:
    masks = [0x0000FFFF if lane % 32 < 16 else 0xFFFF0000 for lane in LANES]
    code = "shfl.sync.bfly.b32 %w5, %w0, 4, 31, %w1; redux.sync.add.s32 %w6, %w0, %w1; mov.b64 %o, {%w5, %w6};"
    sums = [sum(range(lane - lane % 16, lane - lane % 16 + 16)) for lane in LANES]
    assert computed(code, LANES, masks) == [lane ^ 4 | total << 32 for lane, total in zip(LANES, sums, strict=True)]


@settings(max_examples=20)
@given(st.lists(st.booleans(), min_size=THREADS, max_size=THREADS) | st.sampled_from([[True], [False]]))
def test_votes(flags: list[bool]) -> None:
    flags = [*flags, *[flags[-1]] * (THREADS - len(flags))]
    found = computed(
        """
        setp.ne.u32 %c0, %w0, 0;
        vote.sync.ballot.b32 %w5, %c0, 0xFFFFFFFF;
        cvt.u64.u32 %o, %w5;
        vote.sync.all.pred %c1, %c0, 0xFFFFFFFF;
        @%c1 add.u64 %o, %o, 0x100000000;
        vote.sync.any.pred %c1, %c0, 0xFFFFFFFF;
        @%c1 add.u64 %o, %o, 0x200000000;
        vote.sync.uni.pred %c1, !%c0, 0xFFFFFFFF;
        @%c1 add.u64 %o, %o, 0x400000000;
        """,
        [int(f) for f in flags],
    )
    expected = []
    for lane in LANES:
        warp = flags[lane - lane % 32 :][:32]
        ballot = sum(f << i for i, f in enumerate(warp))
        expected.append(ballot | (all(warp) + 2 * any(warp) + 4 * (all(warp) or not any(warp))) << 32)
    assert found == expected


@settings(max_examples=20)
@given(st.lists(st.integers(0, 3), min_size=THREADS, max_size=THREADS) | st.just([5]))
def test_matches(values: list[int]) -> None:
    values = [v << 40 for v in [*values, *[values[-1]] * (THREADS - len(values))]]
    found = computed(
        """
        match.any.sync.b64 %w5, %a0, 0xFFFFFFFF;
        match.all.sync.b64 %w6|%c0, %a0, 0xFFFFFFFF;
        mov.b64 %o, {%w5, %w6};
        @%c0 xor.b64 %o, %o, 1;
        """,
        values,
    )
    expected = []
    for lane in LANES:
        warp = values[lane - lane % 32 :][:32]
        same = sum((v == values[lane]) << i for i, v in enumerate(warp))
        is_all = len(set(warp)) == 1
        expected.append((same | (FULL if is_all else 0) << 32) ^ is_all)
    assert found == expected


def signed(value: int) -> int:
    return value - 2**32 if value >> 31 else value


REDUCTIONS: dict[str, Callable[[list[int]], int]] = {
    "add.s32": lambda v: sum(v),
    "add.u32": lambda v: sum(v),
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda v: min(map(signed, v)),
    "max.s32": lambda v: max(map(signed, v)),
    "and.b32": lambda v: int(np.bitwise_and.reduce(v)),
    "or.b32": lambda v: int(np.bitwise_or.reduce(v)),
    "xor.b32": lambda v: int(np.bitwise_xor.reduce(v)),
}


@pytest.mark.parametrize("form", REDUCTIONS)
def test_reductions(form: str) -> None:
    values = np.random.default_rng(3).integers(0, 2**32, THREADS).tolist()
    found = computed(f"redux.sync.{form} %w5, %w0, 0xFFFFFFFF; cvt.u64.u32 %o, %w5;", values)
    assert found == [REDUCTIONS[form](values[lane - lane % 32 :][:32]) & FULL for lane in LANES]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("min", -5.0),
        ("max", 3.0),
        ("min.abs", 0.5),
        ("max.abs", 5.0),
        ("min.NaN", None),
        ("max.abs.NaN", None),
    ],
)
def test_reductions_of_floats(form: str, expected: float | None) -> None:
    values = [0.5, -5.0, 3.0, float("nan")] * 16
    bits = [struct.unpack("<I", struct.pack("<f", v))[0] for v in values]
    (found,) = set(computed(f"redux.sync.{form}.f32 %w5, %w0, 0xFFFFFFFF; cvt.u64.u32 %o, %w5;", bits))
    assert found == (0x7FFFFFFF if expected is None else struct.unpack("<I", struct.pack("<f", expected))[0])


def test_the_lowest_lane_of_the_mask_is_elected() -> None:
    code = """
        setp.lt.u32 %c1, %r1, 3;
        @%c1 bra DONE;
        mov.u32 %w6, 0xFFFFFFF8;
        setp.ge.u32 %c1, %r1, 32;
        @%c1 mov.u32 %w6, 0xFFFFFFFF;
        elect.sync %w5|%c0, %w6;
        cvt.u64.u32 %o, %w5;
        @%c0 add.u64 %o, %o, 100;
        DONE:
    """
    assert computed(code) == [0] * 3 + [103] + [3] * 28 + [100] + [0] * 31


def test_activemask_names_the_lanes_that_are_here() -> None:
    code = "setp.lt.u32 %c1, %r1, 5; @!%c1 bra DONE; activemask.b32 %w5; cvt.u64.u32 %o, %w5; DONE:"
    assert computed(code) == [31] * 5 + [0] * 59


@pytest.mark.parametrize("options", ORDERS)
def test_a_partial_warp_may_use_the_full_mask(options: Options) -> None:
    """Blocks of 48 threads: the second warp has 16, and the mask names 32."""
    ran = outcome(
        "shfl.sync.bfly.b32 %w5, %w0, 8, 31, 0xFFFFFFFF; redux.sync.max.u32 %w6, %w0, 0xFFFFFFFF;"
        "bar.warp.sync 0xFFFFFFFF; mov.b64 %o, {%w5, %w6};",
        list(range(48)),
        threads=48,
        blocks=3,
        options=options,
    )
    assert ran.kinds == []
    found = ran.y.view(np.uint64).reshape(3, 48)
    assert found.tolist() == [[t ^ 8 | (31 if t < 32 else 47) << 32 for t in range(48)]] * 3


BRANCH = """
    and.b32 %w6, %r1, 31;
    setp.ge.u32 %c1, %w6, {lanes};
    {before}
    @%c1 bra JOIN;
    {inside}
    JOIN: {after}
"""
INSIDE = {
    "shfl": "shfl.sync.bfly.b32 %w5, %w6, 1, 31, {mask};",
    "vote": "vote.sync.any.pred %c0, %c1, {mask};",
    "match": "match.any.sync.b32 %w5, %w6, {mask};",
    "redux": "redux.sync.add.u32 %w5, %w6, {mask};",
    "elect": "elect.sync _|%c0, {mask};",
    "bar.warp": "bar.warp.sync {mask};",
}
AFTER = {"exit": "", "block barrier": "bar.sync 0;", "warp barrier": "bar.warp.sync 0xFFFFFFFF;"}


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("name", INSIDE)
def test_lanes_that_never_come(name: str, after: str, options: Options) -> None:
    """Lanes 0 to 15 go into the branch. With their own mask that is right; with the whole warp's mask it is not."""

    def kinds(mask: int) -> list[tuple[str, str]]:
        inside = INSIDE[name].format(mask=mask)
        code = BRANCH.format(lanes=16, before="", inside=inside, after=AFTER[after])
        return [(str(f.kind), f.instruction.split(".")[0]) for f in outcome(code, options=options).outcome.faults]

    assert kinds(0x0000FFFF) == []
    instruction = name.split(".")[0]
    if (name, after) == ("bar.warp", "warp barrier"):
        # The two barriers meet; then lanes 0 to 15 come to the second one when the others have exited.
        assert kinds(FULL) == []
    else:
        assert kinds(FULL) == [("divergent_collective", instruction)]


def test_the_fault_names_the_lanes_that_miss() -> None:
    code = BRANCH.format(lanes=16, before="", inside=INSIDE["redux"].format(mask=FULL), after="bar.sync 0;")
    (fault,) = outcome(code).outcome.faults
    assert "Lanes 16-31" in fault.message
    assert "`bar.sync 0`" in fault.message
    assert fault.thread == (0, 0, 0)


def test_a_lane_outside_of_its_own_mask() -> None:
    for name, code in INSIDE.items():
        ran = outcome(f"and.b32 %w6, %r1, 31; setp.ge.u32 %c1, %w6, 0; {code.format(mask=0xFFFFFFFE)}")
        assert set(ran.kinds) == {"divergent_collective"}, name
        assert "does not name it" in ran.outcome.faults[0].message


def test_lanes_with_unequal_masks() -> None:
    masks = [0x3 if lane % 32 == 0 else FULL for lane in LANES]
    ran = outcome("redux.sync.add.u32 %w5, %w1, %w0;", masks, LANES)
    (fault,) = ran.outcome.faults
    assert str(fault.kind) == "divergent_collective"
    assert "another mask" in fault.message


def test_a_shuffle_that_reads_a_lane_outside() -> None:
    code = BRANCH.format(lanes=16, before="", inside="shfl.sync.down.b32 %w5, %w6, {step}, {c}, 0xFFFF;", after="")
    assert outcome(code.format(step=1, c=0x100F)).kinds == [], "the segment ends where the mask does"
    (fault,) = outcome(code.format(step=1, c=0x1F)).outcome.faults
    assert str(fault.kind) == "divergent_collective"
    assert "Lane 15 reads lane 16" in fault.message


def test_a_lane_that_waits_for_something_else_is_a_deadlock_not_divergence() -> None:
    ran = outcome(
        """
        setp.ne.u32 %c1, %r1, 0;
        @%c1 bra JOIN;
        SPIN: ld.volatile.global.u32 %w5, [%rd2+1020];
        setp.ne.u32 %c0, %w5, 12345;
        @%c0 bra SPIN;
        JOIN: bar.warp.sync 0xFFFFFFFF;
        """,
        threads=128,
    )
    assert "divergent_collective" not in ran.kinds
    assert "deadlock" in ran.kinds


EXCHANGE = """
    mov.u64 %rd6, own;
    mul.wide.u32 %rd7, %r1, 4;
    add.u64 %rd7, %rd6, %rd7;
    st.shared.u32 [%rd7], %r1;
    {barrier}
    xor.b32 %r6, %r1, 1;
    mul.wide.u32 %rd8, %r6, 4;
    add.u64 %rd8, %rd6, %rd8;
    ld.shared.u32 %r7, [%rd8];
    st.global.u32 [%rd5], %r7;
    ret;
"""
BOTH_SIDES = """
    and.b32 %r6, %r1, 1;
    setp.eq.u32 %p1, %r6, 0;
    @%p1 bra EVEN;
    bar.warp.sync {odd};
    bra.uni MET;
    EVEN: bar.warp.sync {even};
    MET:
"""


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize(
    ("barrier", "expected"),
    [
        ("bar.warp.sync 0xFFFFFFFF;", set()),
        (BOTH_SIDES.format(odd=FULL, even=FULL), set()),
        (BOTH_SIDES.format(odd=0xAAAAAAAA, even=0x55555555), {"race"}),
        ("shfl.sync.bfly.b32 %r6, %r1, 1, 31, 0xFFFFFFFF;", {"race"}),
        ("", {"race"}),
    ],
)
@pytest.mark.parametrize("threads", [64, 48])
def test_only_a_barrier_orders_the_lanes_of_a_warp(
    barrier: str, expected: set[str], threads: int, options: Options
) -> None:
    ran = run(
        EXCHANGE.format(barrier=barrier),
        threads=threads,
        variables=".shared .align 4 .b32 own[64];",
        options=options,
    )
    assert set(ran.kinds) == expected
    if not expected:
        assert ran.y.tolist() == [t ^ 1 for t in range(threads)]
