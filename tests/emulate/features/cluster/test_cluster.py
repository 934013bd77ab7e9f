"""Clusters: shared memory of other blocks, the cluster's barrier, and instructions that whole warpgroups execute."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.launch import Completion
from tests.emulate.features.small_kernels import EVERY_ORDER, load_row, registers, run, store_row

X = np.arange(4096, dtype=np.uint32)

INDEX = "  mov.u32 %r20, %ctaid.x;\n  mov.u32 %r21, %ntid.x;\n  mad.lo.u32 %r22, %r20, %r21, %r1;\n"
"""%r22: the thread's index in the grid."""

KEEP = INDEX + load_row(1, row="%r22") + "\n  mov.u32 %r10, tile;\n  shl.b32 %r11, %r1, 2;\n"
KEEP += "  add.u32 %r10, %r10, %r11;\n  st.shared.u32 [%r10], %v0;\n"
"""Thread t keeps x[index] at tile[t], whose address is in %r10."""

ARRIVE, WAIT = "  barrier.cluster.arrive.release.aligned;\n", "  barrier.cluster.wait.acquire.aligned;\n"
SYNC = ARRIVE + WAIT
NEXT = "  add.u32 %r23, %r8, 1;\n  and.b32 %r23, %r23, {last};\n  mapa.shared::cluster.u32 %r24, %r10, %r23;\n"
"""%r24: the place in the next block of the cluster."""

READ = "  ld.shared::cluster.u32 %v1, [%r24];\n"
OUT = store_row(1, 1, row="%r22") + "\n"

NEIGHBOUR = KEEP + SYNC + NEXT + READ + SYNC + OUT


def wanted(blocks: int, cluster: int, threads: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """What each thread reads from the next block of its cluster."""
    own = X[: blocks * threads].reshape(blocks // cluster, cluster, threads)
    return np.roll(own, -1, axis=1).ravel()


@pytest.mark.parametrize(("completion", "seed"), EVERY_ORDER)
@pytest.mark.parametrize(("blocks", "cluster", "threads"), [(4, 2, 64), (8, 4, 40), (8, 8, 32)])
def test_blocks_read_from_one_another(
    blocks: int, cluster: int, threads: int, completion: Completion, seed: int
) -> None:
    body = NEIGHBOUR.format(last=cluster - 1)
    ran = run(
        body, X, blocks * threads, threads=threads, blocks=blocks, cluster=cluster, completion=completion, seed=seed
    )
    assert ran.faults == []
    np.testing.assert_array_equal(ran.y, wanted(blocks, cluster, threads))


LOAD = "ld.shared::cluster.u32"

CASES = {
    "generic addresses": (
        NEIGHBOUR.replace(NEXT, "")
        .replace(
            READ,
            "  add.u32 %r23, %r8, 1;\n  and.b32 %r23, %r23, {last};\n  cvt.u64.u32 %rd20, %r10;\n"
            "  cvta.shared.u64 %rd20, %rd20;\n  mapa.u64 %rd21, %rd20, %r23;\n  ld.u32 %v1, [%rd21];\n",
        )
        .format(last=1),
        [],
    ),
    "relaxed arrival": (
        NEIGHBOUR.replace(ARRIVE, "  barrier.cluster.arrive.relaxed.aligned;\n").format(last=1),
        [("race", LOAD), ("out_of_bounds", LOAD)],
    ),
    "no barrier before the read": (
        (KEEP + "  bar.sync 0;\n" + NEXT + READ + SYNC + OUT).format(last=1),
        [("race", LOAD)],
    ),
    "no barrier after the read": ((KEEP + SYNC + NEXT + READ + OUT).format(last=1), [("out_of_bounds", LOAD)]),
    "no arrival": (
        NEIGHBOUR.replace(SYNC, WAIT, 1).format(last=1),
        [("divergent_collective", "barrier.cluster.wait.acquire.aligned"), ("race", LOAD)],
    ),
    "two arrivals": (
        NEIGHBOUR.replace(ARRIVE, 2 * ARRIVE, 1).format(last=1),
        [("divergent_collective", "barrier.cluster.arrive.release.aligned")],
    ),
    "a block that has no such rank": (
        (KEEP + SYNC + NEXT + READ + SYNC + OUT).replace("  and.b32 %r23, %r23, {last};\n", ""),
        [("out_of_bounds", LOAD)],
    ),
    "a block that never comes": (
        "  setp.eq.u32 %p3, %r8, 0;\n  @%p3 bra ALONE;\n  bra DONE;\nALONE:\n" + SYNC + "DONE:\n  bra END;\nEND:\n",
        [],
    ),
}


@pytest.mark.parametrize(("completion", "seed"), EVERY_ORDER)
@pytest.mark.parametrize("name", CASES)
def test_a_case_gives_its_faults_and_no_other(name: str, completion: Completion, seed: int) -> None:
    body, expected = CASES[name]
    ran = run(body, X, 256, threads=64, blocks=4, cluster=2, completion=completion, seed=seed)
    optional = {("uninitialized_read", LOAD)} if ("race", LOAD) in expected else set()
    assert set(ran.faults) - optional == set(expected)


def test_threads_that_have_exited_are_not_waited_for() -> None:
    body = "  setp.ge.u32 %p3, %r1, 32;\n  @%p3 exit;\n" + NEIGHBOUR.format(last=1)
    ran = run(body, X, 128, threads=64, blocks=2, cluster=2)
    assert ran.faults == []
    np.testing.assert_array_equal(ran.y[:32], X[64:96])


def test_the_rank_of_an_address_is_the_rank_that_it_was_mapped_to() -> None:
    body = (
        KEEP
        + NEXT.format(last=3)
        + "  getctarank.shared::cluster.u32 %v1, %r24;\n  getctarank.shared::cluster.u32 %v2, %r10;\n"
        + "  mapa.shared::cluster.u32 %r25, %r24, %r8;\n  getctarank.shared::cluster.u32 %v3, %r25;\n"
        + "  mov.u32 %v4, 0;\n"
        + store_row(4, 1, row="%r22")
    )
    ran = run(body, X, 4 * 32 * 4, threads=32, blocks=4, cluster=4)
    assert ran.faults == []
    ranks = np.repeat(np.arange(4), 32)
    np.testing.assert_array_equal(ran.y.reshape(-1, 4)[:, :3], np.stack([(ranks + 1) % 4, ranks, ranks], axis=1))


PAIR = (
    """
  setp.eq.u32 %p1, %r2, 0;
  mov.u32 %r4, where;
  @%p1 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r4], 64;
  bar.sync 0;
  ld.shared.u32 %r5, [where];
  and.b32 %r6, %r2, 3;
  shl.b32 %r6, %r6, 21;
  add.u32 %r6, %r5, %r6;
"""
    + INDEX
    + load_row(1, row="%r22")
    + """
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {%v0};
  tcgen05.wait::st.sync.aligned;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v1}, [%r6];
  tcgen05.wait::ld.sync.aligned;
"""
    + OUT
    + """
  bar.sync 0;
  @%p1 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r5, 64;
"""
)


@pytest.mark.parametrize(("completion", "seed"), EVERY_ORDER)
def test_a_pair_of_blocks_allocates_tensor_memory_together(completion: Completion, seed: int) -> None:
    ran = run(PAIR, X, 512, threads=128, blocks=4, cluster=2, completion=completion, seed=seed)
    assert ran.faults == []
    np.testing.assert_array_equal(ran.y, X[:512])


@pytest.mark.parametrize(
    ("body", "cluster", "kind"),
    [
        (PAIR, 1, "invalid_operand"),
        (
            PAIR.replace("  setp.eq.u32 %p1, %r2, 0;\n", "  or.b32 %r30, %r2, %r8;\n  setp.eq.u32 %p1, %r30, 0;\n"),
            2,
            "deadlock",
        ),
        (PAIR.replace("dealloc.cta_group::2", "dealloc.cta_group::1"), 2, "invalid_operand"),
    ],
)
def test_a_pair_that_is_none_is_reported(body: str, cluster: int, kind: str) -> None:
    ran = run(body, X, 512, threads=128, blocks=4, cluster=cluster)
    assert kind in {k for k, _ in ran.faults}


SET = "  setmaxnreg.{kind}.sync.aligned.u32 {count};\n"
GROUPS = {
    "all warps": (SET.format(kind="dec", count=40), 256, []),
    "a warpgroup": (
        "  setp.lt.u32 %p3, %r2, 4;\n  @!%p3 bra LESS;\n"
        + SET.format(kind="inc", count=232)
        + "  bra DONE;\nLESS:\n"
        + SET.format(kind="dec", count=24)
        + "DONE:\n",
        256,
        [],
    ),
    "one warp": ("  @!%p1 bra DONE;\n" + SET.format(kind="dec", count=40) + "DONE:\n", 128, ["divergent_collective"]),
    "half a warp": (
        "  setp.lt.u32 %p3, %r3, 16;\n  @!%p3 bra DONE;\n" + SET.format(kind="dec", count=40) + "DONE:\n",
        128,
        ["divergent_collective"],
    ),
    "a count of 20": (SET.format(kind="dec", count=20), 128, ["invalid_operand"]),
    "a count of 100": (SET.format(kind="inc", count=100), 128, ["invalid_operand"]),
    "dependent launch": ("  griddepcontrol.wait;\n  griddepcontrol.launch_dependents;\n", 128, []),
}


@pytest.mark.parametrize("name", GROUPS)
def test_register_counts_are_changed_by_whole_warpgroups(name: str) -> None:
    body, threads, expected = GROUPS[name]
    ran = run(body, X, 4, threads=threads)
    assert [k for k, _ in ran.faults] == expected


@pytest.mark.parametrize(
    ("size", "offset", "kind"),
    [(256, 0, None), (8, 0, None), (252, 0, "invalid_operand"), (256, 4, "misaligned"), (17000, 0, "out_of_bounds")],
)
def test_bulk_stores_fill_with_zeros(size: int, offset: int, kind: str | None) -> None:
    body = (
        load_row(4)
        + "\n  mov.u32 %r10, tile;\n  shl.b32 %r11, %r1, 4;\n  add.u32 %r11, %r10, %r11;\n"
        + f"  st.shared.v4.u32 [%r11], {registers(4)};\n  bar.sync 0;\n"
        + f"  mov.u64 %rd20, {size};\n  add.u32 %r12, %r10, {offset};\n"
        + "  @%p2 st.bulk.weak.shared::cta [%r12], %rd20, 0;\n  bar.sync 0;\n"
        + f"  ld.shared.v4.u32 {registers(4)}, [%r11];\n"
        + store_row(4)
    )
    ran = run(body, X + 1, 128, threads=32)
    assert [k for k, _ in ran.faults] == ([kind] if kind else [])
    cleared = size // 4 if kind is None else 0
    np.testing.assert_array_equal(ran.y, np.where(np.arange(128) < cleared, 0, X[:128] + 1))
