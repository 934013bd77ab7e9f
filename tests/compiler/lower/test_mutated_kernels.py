"""The interpreter notices what is wrong: generated kernels with one statement dropped or changed are reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from compiler.ir.expr import Expr
from compiler.lower.kernel_ir import (
    BulkLoad,
    BulkStore,
    Compute,
    Convert,
    CopyAsync,
    Elected,
    GlobalLoad,
    GlobalStore,
    Kernel,
    Loop,
    MatrixLoad,
    MatrixStore,
    SharedLoad,
    SharedStore,
    Stmt,
    TmaLoad,
    TmaStore,
)
from compiler.lower.operands import Barrier
from compiler.lower.sync_ir import (
    CommitCopies,
    CommitStores,
    ExpectBytes,
    FenceAsync,
    InitBarriers,
    Sync,
    WaitBarrier,
    WaitCopies,
    WaitStores,
)
from tests.compiler.lower.mutations import mutants
from tests.compiler.lower.small_fusions import SMALL_FUSIONS
from tests.compiler.lower.small_kernels import check, kernel_of

KERNELS: dict[str, tuple[Any, ...]] = {
    "flat_threads": ("bias_gelu_rows", ("flat", "2d", "vector", "vector", "False", "1")),
    "flat_persistent": ("copy_odd", ("flat", "1d", "vector", "vector", "True", "1"), {"vector": 2}),
    "flat_bulk": ("copy_tiles", ("flat", "1d", "bulk", "bulk", "False", "1")),
    "flat_bulk_ring": ("copy_line", ("flat", "1d", "bulk", "vector", "True", "2")),
    "flat_tma_ring": ("bias_gelu", ("flat", "2d", "tma", "tma", "True", "3")),
    "flat_load_group": ("many_inputs", ("flat", "2d", "tma", "bulk", "True", "2")),
    "flat_two_outputs": ("two_outputs", ("flat", "1d", "vector", "tma", "True", "1")),
    "tile_padded": (
        "transpose_odd",
        ("tile2d", "vector", "vector", "vector", "pad", "none", "False", "False", "True", "1"),
    ),
    "tile_block": (
        "transpose_halves",
        ("tile2d", "vector", "vector", "vector", "block", "none", "False", "False", "False", "1"),
    ),
    "tile_tma_ring": (
        "transpose_halves",
        ("tile2d", "tma", "tma", "vector", "64B", "64B", "False", "False", "True", "3"),
    ),
    "flat_copies_ring": ("copy_odd", ("flat", "1d", "cp_async", "vector", "True", "3"), {"vector": 2}),
    "tile_copies": (
        "transpose_odd",
        ("tile2d", "cp_async", "vector", "vector", "pad", "none", "False", "False", "False", "1"),
    ),
    "tile_copies_ring": (
        "transpose",
        ("tile2d", "cp_async", "vector", "vector", "block", "none", "False", "False", "True", "3"),
    ),
    "tile_matrices": (
        "transpose_halves",
        ("tile2d", "vector", "vector", "matrix", "matrices", "none", "False", "False", "False", "1"),
    ),
    "tile_pairs_of_matrices": (
        "transpose_halves",
        ("tile2d", "tma", "tma", "matrix", "128B", "64B", "False", "False", "True", "2"),
        {"vector_out": 2},
    ),
    "tile_direct": ("transpose", ("tile2d", "direct", "tma", "vector", "none", "32B", "False", "False", "True", "1")),
}
"""A fusion, a path and perhaps knobs each, such that every kind of statement and of order between them occurs."""

SPARE = {
    # The stores of two outputs follow each other: the second commit closes the group of both.
    ("dropped", "flat_two_outputs", CommitStores),
    # A tile wider than the rows: past the end of a row that is not the last stands the next one, which is not stored.
    ("guards", "tile_block", GlobalLoad),
}
"""A change, and the kernel and kind of statement that it leaves right."""

WRONG_RESULT = "wrong_result"


@cache
def kernel(name: str) -> Kernel:
    fusion, path, *knobs = KERNELS[name]
    return kernel_of(fusion, path, **(knobs[0] if knobs else {}))


def verdict(name: str, changed: Kernel) -> str | None:
    """The rule that a kernel breaks, `WRONG_RESULT`, or None if it is right."""
    try:
        check(changed, SMALL_FUSIONS[KERNELS[name][0]])
    except AssertionError as error:
        return str(getattr(error, "rule", WRONG_RESULT))
    return None


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernels_are_right_as_they_are(name: str) -> None:
    assert verdict(name, kernel(name)) is None


DROPPED: list[Any] = [
    pytest.param(
        Sync,
        {
            "barrier_between_write_and_read",
            "barrier_between_read_and_overwrite",
            "barrier_between_fence_and_bulk_store",
            "stores_are_waited_for",
            "mbarriers_are_initialised",
        },
        id="sync",
    ),
    pytest.param(FenceAsync, {"fence_between_threads_and_bulk_copies"}, id="fence"),
    pytest.param(WaitBarrier, {"loads_are_waited_for"}, id="wait_barrier"),
    pytest.param(WaitStores, {"stores_are_waited_for"}, id="wait_stores"),
    pytest.param(CommitStores, {"stores_are_waited_for"}, id="commit_stores"),
    pytest.param(ExpectBytes, {"waits_come_to_an_end"}, id="expect_bytes"),
    pytest.param(InitBarriers, {"mbarriers_are_initialised"}, id="init_barriers"),
    pytest.param(TmaLoad, {"waits_come_to_an_end"}, id="tma_load"),
    pytest.param(BulkLoad, {"waits_come_to_an_end"}, id="bulk_load"),
    pytest.param(TmaStore, {WRONG_RESULT}, id="tma_store"),
    pytest.param(BulkStore, {WRONG_RESULT}, id="bulk_store"),
    pytest.param(GlobalLoad, {"registers_are_written_before_read"}, id="global_load"),
    pytest.param(GlobalStore, {WRONG_RESULT}, id="global_store"),
    pytest.param(CopyAsync, {"shared_bytes_are_written_before_read", WRONG_RESULT}, id="copy_async"),
    pytest.param(CommitCopies, {"loads_are_waited_for"}, id="commit_copies"),
    pytest.param(WaitCopies, {"loads_are_waited_for"}, id="wait_copies"),
    pytest.param(SharedLoad, {"registers_are_written_before_read"}, id="shared_load"),
    pytest.param(MatrixLoad, {"registers_are_written_before_read"}, id="matrix_load"),
    pytest.param(MatrixStore, {"shared_bytes_are_written_before_read", WRONG_RESULT}, id="matrix_store"),
    pytest.param(SharedStore, {"shared_bytes_are_written_before_read", WRONG_RESULT}, id="shared_store"),
    pytest.param(Compute, {"registers_are_written_before_read"}, id="compute"),
    pytest.param(Convert, {"registers_are_written_before_read"}, id="convert"),
]


@pytest.mark.parametrize(("kind", "rules"), DROPPED)
def test_a_dropped_statement_is_reported(kind: type[Stmt], rules: set[str]) -> None:
    found = verdicts(lambda s: isinstance(s, kind), lambda _: ())
    assert {("dropped", name, kind) for name, kind, verdict in found if verdict is None} <= SPARE
    assert {verdict for _, _, verdict in found if verdict is not None} <= rules


@dataclass(frozen=True)
class Change:
    """How statements of some kinds are changed; `only` picks among them."""

    kinds: tuple[type[Stmt], ...]
    make: Callable[[Any], Any]
    only: Callable[[Any], bool] = lambda s: True


def moved(e: Expr, by: int) -> Expr:
    return e + by


def shared_place(s: SharedLoad | SharedStore | MatrixLoad | MatrixStore | CopyAsync) -> Stmt:
    """The access one vector further on."""
    if isinstance(s, SharedLoad | MatrixLoad):
        at = s.source.byte_offset + s.width * s.target.dtype.nbytes
        return replace(s, source=replace(s.source, byte_offset=at))
    at = s.target.byte_offset + s.width * s.target.dtype.nbytes
    return replace(s, target=replace(s.target, byte_offset=at))


def bulk_place(s: TmaLoad | BulkLoad) -> Stmt:
    """The copy 128 bytes further on in shared memory."""
    return replace(s, target=replace(s.target, byte_offset=s.target.byte_offset + 128))


def is_own(s: GlobalLoad | GlobalStore | CopyAsync) -> bool:
    """Guarded, and of a tensor that varies along every dimension: a broadcast one is guarded more than it needs."""
    return bool(s.guards or s.tail) and (isinstance(s, GlobalStore) or s.tensor == "i0")


CHANGES = {
    "parity": Change((WaitBarrier,), lambda s: replace(s, parity=s.parity * -1 + 1)),
    "barrier": Change((WaitBarrier, ExpectBytes), lambda s: replace(s, barrier=Barrier(s.barrier.byte_offset + 8))),
    "expected_bytes": Change((ExpectBytes,), lambda s: replace(s, nbytes=s.nbytes + 16)),
    "copied_bytes": Change((BulkLoad, BulkStore), lambda s: replace(s, nbytes=s.nbytes - 16)),
    "shared_offset": Change((SharedLoad, SharedStore, MatrixLoad, MatrixStore, CopyAsync), shared_place),
    "side_of_the_matrix": Change((MatrixLoad, MatrixStore), lambda s: replace(s, is_transposed=not s.is_transposed)),
    "bulk_target": Change((TmaLoad, BulkLoad), bulk_place),
    "global_offset": Change((GlobalLoad, GlobalStore, CopyAsync), lambda s: replace(s, offset=s.offset + s.width)),
    "guards": Change((GlobalLoad, GlobalStore, CopyAsync), lambda s: replace(s, guards=(), tail=None), is_own),
    "tail": Change((GlobalLoad, GlobalStore, CopyAsync), lambda s: replace(s, tail=None), lambda s: s.tail is not None),
    "copies_pending": Change((WaitCopies,), lambda s: replace(s, pending=s.pending + 1)),
    "inner_coordinate": Change(
        (TmaLoad, TmaStore), lambda s: replace(s, coordinates=(s.coordinates[0] + 8, *s.coordinates[1:]))
    ),
    "outer_coordinate": Change(
        (TmaLoad, TmaStore),
        lambda s: replace(s, coordinates=(*s.coordinates[:-1], s.coordinates[-1] + 1)),
        lambda s: len(s.coordinates) > 1,
    ),
    "one_turn_less": Change((Loop,), lambda s: replace(s, trip=s.trip - 1), lambda s: not s.unroll),
    "one_turn_more": Change((Loop,), lambda s: replace(s, trip=s.trip + 1), lambda s: not s.unroll),
    "register": Change((Compute, Convert), lambda s: replace(s, target=replace(s.target, offset=s.target.offset + 1))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_statement_is_reported(change: str) -> None:
    c = CHANGES[change]
    found = verdicts(lambda s: isinstance(s, c.kinds) and c.only(s), lambda s: (c.make(s),))
    assert {kind for _, kind, _ in found} == set(c.kinds)
    assert {(change, name, kind) for name, kind, verdict in found if verdict is None} <= SPARE


def test_a_copy_that_every_thread_issues_is_reported() -> None:
    found = verdicts(lambda s: isinstance(s, Elected) and s.body != (WaitStores(),), lambda s: s.body)
    assert {verdict for _, _, verdict in found} == {"bulk_copies_are_issued_once"}


@pytest.mark.parametrize("name", ["tile_tma_ring", "tile_direct"])
def test_another_swizzle_is_reported(name: str) -> None:
    for i, m in enumerate(kernel(name).tensor_maps):
        maps = list(kernel(name).tensor_maps)
        maps[i] = replace(m, swizzle=0)
        assert verdict(name, replace(kernel(name), tensor_maps=tuple(maps))) is not None


def verdicts(applies: Callable[[Stmt], bool], change: Callable[[Any], Any]) -> list[tuple[str, type[Stmt], str | None]]:
    """(kernel, kind of the statement, verdict) for each statement to which the change applies and that is executed."""
    found: list[tuple[str, type[Stmt], str | None]] = []
    for name in KERNELS:
        for s, changed, halted in mutants(kernel(name), applies, change):
            if (result := verdict(name, changed)) is not None or verdict(name, halted) is not None:
                found.append((name, type(s), result))
    assert any(verdict is not None for _, _, verdict in found), "no kernel was made wrong"
    return found
