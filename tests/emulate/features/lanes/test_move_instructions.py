"""mov, cvta, isspacep, special registers, hints, traps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.emulate.launch import EmulatedTensor, Launch, TensorArgument
from compiler.emulate.ptx.parser import parse
from compiler.emulate.report import FaultKind
from compiler.emulate.run import emulate
from tests.emulate.features.snippets import THREADS, computed, outcome
from tests.emulate.machine.kernels import HEAD, run

VALUES = [0x0123456789ABCDEF, 0xFEDCBA9876543210, 2**64 - 1]
MOVES: dict[str, Callable[[int], int]] = {
    "mov.u64 %o, %a0": lambda a: a,
    "mov.b64 {%w5, %w6}, %a0; mov.b64 %o, {%w6, %w5}": lambda a: a >> 32 | (a & 0xFFFFFFFF) << 32,
    "mov.b64 {_, %w6}, %a0; cvt.u64.u32 %o, %w6": lambda a: a >> 32,
    "mov.b32 {%h5, %h6}, %w0; mov.b32 %w5, {%h6, %h5}; cvt.u64.u32 %o, %w5": lambda a: (
        (a & 0xFFFF) << 16 | a >> 16 & 0xFFFF
    ),
    "mov.b64 {%h5, %h6, %h7, %h8}, %a0; mov.b64 %o, {%h8, %h7, %h6, %h5}": lambda a: sum(
        (a >> 16 * i & 0xFFFF) << 48 - 16 * i for i in range(4)
    ),
    "mov.b128 %q0, {%a0, %a1}; mov.b128 %q1, %q0; mov.b128 {%d2, %o}, %q1": lambda a: a ^ 5,
    "mov.b32 %f0, 0f3F800000; mov.b32 %w5, %f0; cvt.u64.u32 %o, %w5": lambda a: 0x3F800000,
    "mov.f64 %g0, 0d4000000000000000; mov.b64 %o, %g0": lambda a: 0x4000000000000000,
    "mov.b64 %o, {7, 9}": lambda a: 9 << 32 | 7,
    "mov.u32 %w5, -1; cvt.u64.u32 %o, %w5": lambda a: 0xFFFFFFFF,
}


@pytest.mark.parametrize("code", MOVES)
def test_moves(code: str) -> None:
    assert computed(f"{code};", VALUES, [v ^ 5 for v in VALUES]) == [MOVES[code](v) for v in VALUES]


SPECIALS: dict[str, Callable[[int, int], int]] = {
    "%tid.x": lambda t, b: t % 8,
    "%tid.y": lambda t, b: t // 8 % 4,
    "%tid.z": lambda t, b: t // 32,
    "%ntid.x": lambda t, b: 8,
    "%ntid.z": lambda t, b: 2,
    "%ctaid.x": lambda t, b: b % 2,
    "%ctaid.y": lambda t, b: b // 2 % 4,
    "%nctaid.x": lambda t, b: 2,
    "%nctaid.y": lambda t, b: 4,
    "%laneid": lambda t, b: t % 32,
    "%warpid": lambda t, b: t // 32,
    "%clusterid.x": lambda t, b: b % 2,
    "%clusterid.y": lambda t, b: b // 4,
    "%nclusterid.y": lambda t, b: 2,
    "%cluster_ctaid.y": lambda t, b: b // 2 % 2,
    "%cluster_nctaid.y": lambda t, b: 2,
    "%cluster_ctarank": lambda t, b: b // 2 % 2,
    "%cluster_nctarank": lambda t, b: 2,
    "%lanemask_eq": lambda t, b: 1 << t % 32,
    "%lanemask_lt": lambda t, b: (1 << t % 32) - 1,
    "%lanemask_le": lambda t, b: (2 << t % 32) - 1,
    "%lanemask_gt": lambda t, b: 0xFFFFFFFF & ~((2 << t % 32) - 1),
    "%lanemask_ge": lambda t, b: 0xFFFFFFFF & ~((1 << t % 32) - 1),
    "%dynamic_smem_size": lambda t, b: 512,
    "%total_smem_size": lambda t, b: 512,
}


def test_special_registers_over_a_grid_of_clusters() -> None:
    """Blocks of 8 x 4 x 2 threads in a grid of 2 x 4 blocks, in clusters of 1 x 2."""
    reads = "".join(f"mov.u32 %r9, {name}; st.global.u32 [%rd2+{4 * i}], %r9;\n" for i, name in enumerate(SPECIALS))
    kernel = f"""{HEAD}
    .extern .shared .align 16 .b8 dynamic[];
    .visible .entry k(.param .u64 y) {{
      .reg .b32 %r<10>; .reg .b64 %rd<4>; .reg .pred %p<3>;
      ld.param.u64 %rd1, [y];
      mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
      mov.u32 %r2, %tid.z; mov.u32 %r3, %ntid.y; mov.u32 %r4, %tid.y; mad.lo.u32 %r2, %r2, %r3, %r4;
      mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r2, %r2, %r3, %r4;
      mad.lo.u32 %r1, %r1, 64, %r2;
      mul.wide.u32 %rd2, %r1, {4 * len(SPECIALS)};
      add.u64 %rd2, %rd1, %rd2;
      {reads}
      ret;
    }}"""
    y = np.zeros((8, 64, len(SPECIALS)), np.uint32)
    tensor = EmulatedTensor("y", "u32", y.shape, y.reshape(-1).view(np.uint8))
    launch = Launch("k", "sm_90a", (2, 4, 1), (8, 4, 2), (TensorArgument("y"),), {"y": tensor}, (1, 2, 1), 512)
    assert emulate(parse(kernel), launch).faults == ()
    for i, (name, expected) in enumerate(SPECIALS.items()):
        assert y[..., i].tolist() == [[expected(t, b) for t in range(64)] for b in range(8)], name


def test_clocks_move_on_at_every_read() -> None:
    found = computed("mov.u64 %d2, %clock64; mov.u64 %d3, %clock64; sub.u64 %o, %d3, %d2;")
    assert min(found) > 0
    found = computed("mov.u64 %d2, %globaltimer; mov.u64 %d3, %globaltimer; sub.u64 %o, %d3, %d2;")
    assert min(found) > 0


def test_an_unknown_special_register_is_named() -> None:
    (fault,) = run("mov.u32 %r6, %pm0; st.global.u32 [%rd5], %r6; ret;").outcome.faults
    assert str(fault.kind) == "unsupported_instruction"
    assert "%pm0" in fault.message


SHARED = ".shared .align 4 .b32 own[4];"


def test_spaces_of_generic_addresses() -> None:
    ran = run(
        """
        mov.u64 %rd6, own;
        cvta.shared.u64 %rd7, %rd6;
        isspacep.shared %p1, %rd7;
        isspacep.global %p2, %rd7;
        isspacep.local %p3, %rd7;
        isspacep.global %p4, %rd2;
        isspacep.shared %p5, %rd2;
        cvta.to.shared.u64 %rd8, %rd7;
        setp.eq.u64 %p6, %rd6, %rd8;
        mov.u32 %r6, 0;
        @%p1 or.b32 %r6, %r6, 1;
        @%p2 or.b32 %r6, %r6, 2;
        @%p3 or.b32 %r6, %r6, 4;
        @%p4 or.b32 %r6, %r6, 8;
        @%p5 or.b32 %r6, %r6, 16;
        @%p6 or.b32 %r6, %r6, 32;
        st.global.u32 [%rd5], %r6;
        ret;
        """,
        variables=SHARED,
    )
    assert ran.kinds == []
    assert set(ran.y.tolist()) == {1 + 8 + 32}


def test_a_generic_address_of_shared_memory_reaches_it() -> None:
    ran = run(
        """
        mov.u64 %rd6, own;
        cvta.shared.u64 %rd7, %rd6;
        setp.ne.u32 %p1, %r1, 0;
        @!%p1 st.u32 [%rd7+4], 77;
        bar.sync 0;
        ld.shared.u32 %r6, [own+4];
        st.global.u32 [%rd5], %r6;
        ret;
        """,
        variables=SHARED,
    )
    assert ran.kinds == []
    assert set(ran.y.tolist()) == {77}


def test_hints_change_nothing() -> None:
    ran = run(
        """
        prefetch.global.L2 [%rd4];
        prefetchu.L1 [%rd4];
        applypriority.global.L2::evict_normal [%rd4], 128;
        createpolicy.fractional.L2::evict_first.b64 %rd6, 1.0;
        pmevent 3;
        nanosleep.u32 100;
        ld.global.u32 %r6, [%rd4];
        st.global.u32 [%rd5], %r6;
        ret;
        """
    )
    assert ran.kinds == []
    assert ran.y.tolist() == list(range(32))


def test_a_trap_ends_the_run_and_names_the_thread() -> None:
    ran = outcome("setp.eq.u32 %c0, %r1, 40; @%c0 trap; mov.u64 %o, 1;")
    (fault,) = ran.outcome.faults
    assert (str(fault.kind), fault.instruction, fault.thread) == ("trap", "trap", (40, 0, 0))
    assert not ran.y.any()
    assert computed("setp.eq.u32 %c0, %r1, 64; @%c0 trap; mov.u64 %o, 1;") == [1] * THREADS, "nobody traps"


def _signed(a: int) -> int:
    """The low half as a number below 0 where its highest bit is set."""
    return (a & 0xFFFF ^ 0x8000) - 0x8000


HALF_KNOWN = "@%c3 mov.b16 %h8, 1; mov.b32 %w5, {%h0, %h8};"
"""No thread gives %h8 a value: of %w5 the low half alone has one."""


@pytest.mark.parametrize(
    ("code", "of"),
    [
        ("mov.b32 {%h5, _}, %w5; cvt.u64.u16 %o, %h5", lambda a: a & 0xFFFF),
        ("shl.b32 %w6, %w5, 16; cvt.u64.u32 %o, %w6", lambda a: (a & 0xFFFF) << 16),
        ("shl.b32 %w6, %w5, 16; shr.u32 %w6, %w6, 16; cvt.u64.u32 %o, %w6", lambda a: a & 0xFFFF),
        ("and.b32 %w6, %w5, 65535; cvt.u64.u32 %o, %w6", lambda a: a & 0xFFFF),
        ("cvt.u16.u32 %h5, %w5; cvt.u64.u16 %o, %h5", lambda a: a & 0xFFFF),
        ("and.b32 %w6, %w5, 255; or.b32 %w6, %w6, 256; cvt.u64.u32 %o, %w6", lambda a: a & 0xFF | 0x100),
        ("shl.b32 %w6, %w5, 20; cvt.u64.u32 %o, %w6", lambda a: (a & 0xFFF) << 20),
        ("shl.b32 %w6, %w5, 32; cvt.u64.u32 %o, %w6", lambda a: 0),
        ("shl.b32 %w6, %w5, 16; shr.s32 %w6, %w6, 20; cvt.u64.u32 %o, %w6", lambda a: _signed(a) >> 4 & 0xFFFFFFFF),
        ("shr.u32 %w6, %w5, 4; cvt.u8.u32 %h5, %w6; cvt.u64.u8 %o, %h5", lambda a: a >> 4 & 0xFF),
        ("add.u32 %w6, %w5, 65535; and.b32 %w6, %w6, 65535; cvt.u64.u32 %o, %w6", lambda a: a - 1 & 0xFFFF),
        ("mad.lo.s32 %w6, %w5, 3, 1; cvt.u16.u32 %h5, %w6; cvt.u64.u16 %o, %h5", lambda a: 3 * a + 1 & 0xFFFF),
        ("cvt.s16.s32 %h5, %w5; cvt.u64.u16 %o, %h5", lambda a: a & 0xFFFF),
        ("cvt.s64.s16 %d2, %h0; mov.b64 {%w6, _}, %d2; cvt.u64.u32 %o, %w6", lambda a: _signed(a) & 0xFFFFFFFF),
        ("not.b32 %w6, %w5; cvt.u16.u32 %h5, %w6; cvt.u64.u16 %o, %h5", lambda a: ~a & 0xFFFF),
        ("prmt.b32 %w6, %w5, 18, 0x4401U; cvt.u64.u32 %o, %w6", lambda a: 0x12120000 | a >> 8 & 0xFF | (a & 0xFF) << 8),
        ("mov.b32 %w6, 2; dp2a.lo.u32.u32 %w6, %w6, %w5, 1; cvt.u64.u32 %o, %w6", lambda a: 2 * (a & 0xFF) + 1),
    ],
)
def test_bytes_without_a_value_may_be_moved_out(code: str, of: Callable[[int], int]) -> None:
    values = [0x12345678, 0xFFFE]
    assert computed(f"setp.ne.u64 %c3, %a0, %a0; {HALF_KNOWN} {code};", values) == [of(v) for v in values]


@pytest.mark.parametrize(
    "code",
    [
        "cvt.u64.u32 %o, %w5",
        "mov.b32 {_, %h5}, %w5; cvt.u64.u16 %o, %h5",
        "shl.b32 %w6, %w5, 8; cvt.u64.u32 %o, %w6",
        "shr.u32 %w6, %w5, 16; cvt.u64.u32 %o, %w6",
        "and.b32 %w6, %w5, 131071; cvt.u64.u32 %o, %w6",
        "and.b32 %w6, %w5, %w5; cvt.u64.u32 %o, %w6",
        "add.u32 %w6, %w5, 1; cvt.u64.u32 %o, %w6",
        "shl.b32 %w6, %w5, 16; add.u32 %w6, %w6, %w5; and.b32 %w6, %w6, 16711680; cvt.u64.u32 %o, %w6",
        "mul.hi.u32 %w6, %w5, 1; cvt.u16.u32 %h5, %w6; cvt.u64.u16 %o, %h5",
        "shl.b32 %w6, %w5, 12; cvt.u64.u32 %o, %w6",
        "shr.u32 %w6, %w5, 1; and.b32 %w6, %w6, 65535; cvt.u64.u32 %o, %w6",
        "shr.s32 %w6, %w5, 31; and.b32 %w6, %w6, 255; cvt.u64.u32 %o, %w6",
        "shr.s32 %w6, %w5, 32; and.b32 %w6, %w6, 255; cvt.u64.u32 %o, %w6",
        "cvt.s64.s32 %d2, %w5; mov.b64 {_, %w6}, %d2; cvt.u64.u32 %o, %w6",
        "prmt.b32 %w6, %w5, 18, 0x4402U; cvt.u64.u32 %o, %w6",
        "prmt.b32 %w6, %w5, 18, 0x44b0U; cvt.u64.u32 %o, %w6",
        "mov.b32 %w6, 2; dp2a.hi.u32.u32 %w6, %w6, %w5, 1; cvt.u64.u32 %o, %w6",
    ],
)
def test_a_byte_without_a_value_that_is_stored_is_a_fault(code: str) -> None:
    ran = outcome(f"setp.ne.u64 %c3, %a0, %a0; {HALF_KNOWN} {code};", [5])
    assert ran.kinds == [FaultKind.UNINITIALIZED_READ]
