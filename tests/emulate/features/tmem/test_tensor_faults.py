"""Tensor memory used wrongly: every case has its clean neighbour, and shows in every order of completion."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.launch import Completion
from tests.emulate.features.small_kernels import ALLOC, EVERY_ORDER, FREE, allocated, load_row, run, store_row

X = np.arange(1024, dtype=np.uint32)

ST = "  tcgen05.st.sync.aligned.32x32b.x1.b32 [{at}], {{%v0}};\n"
LD = "  tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v1}}, [{at}];\n"
WAIT_ST = "  tcgen05.wait::st.sync.aligned;\n"
WAIT_LD = "  tcgen05.wait::ld.sync.aligned;\n"
BEFORE = "  tcgen05.fence::before_thread_sync;\n"
AFTER = "  tcgen05.fence::after_thread_sync;\n"
BAR = "  bar.sync 0;\n"
ROW = load_row(1) + "\n"
OUT = store_row(1, 1) + "\n"


def at(template: str, register: str) -> str:
    """The instruction with its address."""
    return template.format(at=register)


ROUND_TRIP = ROW + at(ST, "%r6") + WAIT_ST + at(LD, "%r6") + WAIT_LD + OUT

HANDED_OVER = (
    "  setp.lt.u32 %p3, %r2, 4;\n"
    + ROW
    + "  @%p3 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {%v0};\n"
    + "  @%p3 tcgen05.wait::st.sync.aligned;\n"
    + "  @%p3 tcgen05.fence::before_thread_sync;\n"
    + BAR
    + AFTER
    + at(LD, "%r6")
    + WAIT_LD
    + OUT
)
"""Warps 0 to 3 store, all eight load: warps 4 to 7 what others stored."""

STORED_AGAIN = (
    HANDED_OVER
    + BAR
    + "  tcgen05.fence::after_thread_sync; // again\n"
    + "  @%p3 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {%v0};\n"
    + "  @%p3 tcgen05.wait::st.sync.aligned;\n"
)
"""Warps 0 to 3 store again what warps 4 to 7 have loaded."""

RACE = "race"
LOAD, STORE = "tcgen05.ld.sync.aligned.32x32b.x1.b32", "tcgen05.st.sync.aligned.32x32b.x1.b32"
ALLOC_NAME = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
FREE_NAME = "tcgen05.dealloc.cta_group::1.sync.aligned.b32"

CASES = {
    "round trip": (allocated(ROUND_TRIP, 32), 128, []),
    "handed over": (allocated(HANDED_OVER, 32), 256, []),
    "no wait before another warp loads": (
        allocated(HANDED_OVER.replace("  @%p3 tcgen05.wait::st.sync.aligned;\n", ""), 32),
        256,
        [(RACE, LOAD)],
    ),
    "no fence before the barrier": (
        allocated(HANDED_OVER.replace("  @%p3 tcgen05.fence::before_thread_sync;\n", ""), 32),
        256,
        [(RACE, LOAD)],
    ),
    "no fence after the barrier": (allocated(HANDED_OVER.replace(AFTER, ""), 32), 256, [(RACE, LOAD)]),
    "no barrier before another warp loads": (
        allocated(HANDED_OVER.replace(BAR, ""), 32),
        256,
        [(RACE, LOAD), ("uninitialized_read", LOAD)],
    ),
    "stored again": (allocated(STORED_AGAIN, 32), 256, []),
    "stored again without a fence after the barrier": (
        allocated(STORED_AGAIN.replace("  tcgen05.fence::after_thread_sync; // again\n", ""), 32),
        256,
        [(RACE, STORE)],
    ),
    "store not waited for": (allocated(ROUND_TRIP.replace(WAIT_ST, ""), 32), 128, [(RACE, LOAD)]),
    "load not waited for": (allocated(ROUND_TRIP.replace(WAIT_LD, ""), 32), 128, [(RACE, "st.global.u32")]),
    "load not waited for, used after a move": (
        allocated(ROUND_TRIP.replace(WAIT_LD + OUT, "  mov.b32 %v2, %v1;\n" + store_row(1, 2)), 32),
        128,
        [(RACE, "st.global.u32")],
    ),
    "moved before the wait, used after it": (
        allocated(ROUND_TRIP.replace(WAIT_LD + OUT, "  mov.b32 %v2, %v1;\n" + WAIT_LD + store_row(1, 2)), 32),
        128,
        [],
    ),
    "register given another value before the wait": (
        allocated(ROUND_TRIP.replace(WAIT_LD + OUT, "  mov.b32 %v1, 7;\n" + WAIT_LD + OUT), 32),
        128,
        [],
    ),
    "quarter of another warp": (
        allocated(ROW + at(ST, "%r5") + WAIT_ST, 32),
        128,
        [("tmem_wrong_lanes", STORE)],
    ),
    "address differs within a warp": (
        allocated(ROW + "  shl.b32 %r7, %r3, 16;\n  add.u32 %r7, %r6, %r7;\n" + at(ST, "%r7") + WAIT_ST, 32),
        128,
        [("tmem_wrong_lanes", STORE)],
    ),
    "sixteen lanes from the ninth": (
        allocated(
            ROW + "  add.u32 %r7, %r6, 524288;\n  tcgen05.st.sync.aligned.16x64b.x1.b32 [%r7], {%v0};\n" + WAIT_ST, 32
        ),
        128,
        [("tmem_wrong_lanes", "tcgen05.st.sync.aligned.16x64b.x1.b32")],
    ),
    "sixteen lanes from the 17th": (
        allocated(
            ROW + "  add.u32 %r7, %r6, 1048576;\n  tcgen05.st.sync.aligned.16x64b.x1.b32 [%r7], {%v0};\n" + WAIT_ST, 32
        ),
        128,
        [],
    ),
    "last column": (allocated(ROW + "  add.u32 %r7, %r6, 31;\n" + at(ST, "%r7") + WAIT_ST, 32), 128, []),
    "column past the allocation": (
        allocated(ROW + "  add.u32 %r7, %r6, 32;\n" + at(ST, "%r7") + WAIT_ST, 32),
        128,
        [("tmem_out_of_allocation", STORE)],
    ),
    "split past the allocation": (
        allocated(ROW + "  tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%r6], 32, {%v0};\n" + WAIT_ST, 32),
        128,
        [("tmem_out_of_allocation", "tcgen05.st.sync.aligned.16x32bx2.x1.b32")],
    ),
    "never stored": (
        allocated(ROW + "  add.u32 %r7, %r6, 1;\n" + at(ST, "%r7") + WAIT_ST + at(LD, "%r6") + WAIT_LD + OUT, 32),
        128,
        [("uninitialized_read", LOAD)],
    ),
    "never freed": (ALLOC.format(columns=32) + ROUND_TRIP, 128, [("tmem_leak", ALLOC_NAME)]),
    "freed twice": (
        allocated(ROUND_TRIP, 32) + FREE.format(columns=32),
        128,
        [("tmem_out_of_allocation", FREE_NAME)],
    ),
    "freed by halves": (
        ALLOC.format(columns=64) + ROUND_TRIP + FREE.format(columns=32),
        128,
        [("tmem_out_of_allocation", FREE_NAME), ("tmem_leak", ALLOC_NAME)],
    ),
    "freed before all have loaded": (
        allocated(ROUND_TRIP, 32).replace(FREE.format(columns=32), FREE.format(columns=32).replace(BAR, "")),
        128,
        [(RACE, FREE_NAME)],
    ),
    "count of 48": (
        allocated(ROUND_TRIP, 0).replace("], 0;", "], 48;").replace("%r5, 0;", "%r5, 48;"),
        128,
        [("invalid_operand", ALLOC_NAME)],
    ),
    "counts that shrink": (
        allocated(ROUND_TRIP, 64) + BAR + allocated(ROUND_TRIP.replace(OUT, ""), 32),
        128,
        [],
    ),
    "counts that grow": (
        allocated(ROUND_TRIP, 32) + BAR + allocated(ROUND_TRIP.replace(OUT, ""), 64),
        128,
        [("invalid_operand", ALLOC_NAME)],
    ),
    "allocated after giving it up": (
        "  @%p1 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" + allocated(ROUND_TRIP, 32),
        128,
        [("invalid_operand", ALLOC_NAME)],
    ),
    "given up after allocating": (
        allocated("  @%p1 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" + ROUND_TRIP, 32),
        128,
        [],
    ),
    "all columns twice": (
        "  mov.u32 %r4, where;\n" + 2 * (ALLOC.format(columns=512)) + ROUND_TRIP + FREE.format(columns=512),
        128,
        [("deadlock", ALLOC_NAME), ("deadlock", "bar.sync")],
    ),
    "half a warp": (
        allocated(ROUND_TRIP.replace(at(LD, "%r6"), "  @%p4 " + at(LD, "%r6").strip() + "\n"), 32).replace(
            "  ld.global", "  setp.lt.u32 %p4, %r3, 16;\n  mov.u32 %v1, 0;\n  ld.global", 1
        ),
        128,
        [("divergent_collective", LOAD)],
    ),
}


@pytest.mark.parametrize(("completion", "seed"), EVERY_ORDER)
@pytest.mark.parametrize("name", CASES)
def test_a_case_gives_its_faults_and_no_other(name: str, completion: Completion, seed: int) -> None:
    body, threads, expected = CASES[name]
    ran = run(body, X, 256, threads=threads, completion=completion, seed=seed)
    optional = {("uninitialized_read", LOAD)} if name == "no barrier before another warp loads" else set()
    assert set(ran.faults) - optional == set(expected) - optional
    if not expected and OUT in body and "mov.b32 %v1, 7" not in body:
        wanted = np.tile(X[:128], 2) if name in ("handed over", "stored again") else X[:threads]
        np.testing.assert_array_equal(ran.y[:threads], wanted)


@pytest.mark.parametrize(("completion", "seed"), EVERY_ORDER)
def test_a_load_that_nobody_waited_for_still_gives_the_value_that_depends_on_it(
    completion: Completion, seed: int
) -> None:
    ran = run(allocated(ROUND_TRIP.replace(WAIT_LD, ""), 32), X, 128, completion=completion, seed=seed)
    np.testing.assert_array_equal(ran.y, X[:128])


def test_a_store_that_nobody_waited_for_may_come_late() -> None:
    late = HANDED_OVER.replace("  @%p3 tcgen05.wait::st.sync.aligned;\n", "")
    late = late.replace("  tcgen05.ld", "  @!%p3 tcgen05.ld")
    body = allocated(late.replace(ROW, ROW + "  mov.b32 %v1, 0;\n"), 32)
    eager = run(body, X, 256, threads=256)
    np.testing.assert_array_equal(eager.y[128:], X[:128])
    some = [run(body, X, 256, threads=256, completion=Completion.RANDOM, seed=seed) for seed in range(6)]
    assert not all(np.array_equal(ran.y[128:], X[:128]) for ran in some)
