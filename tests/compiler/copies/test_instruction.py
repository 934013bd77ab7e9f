"""The instruction of each copy: what is told of a schedule is what its kernel has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compiler.analysis.facts import Facts
from compiler.copies.instruction import JOINED, Path, instruction_of, joined, path_named
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import MemoryType as M
from compiler.ir.tensor import CopyVia
from compiler.lower import kernel_ir as k
from compiler.lower.lower import lower_facts
from compiler.lower.traversal import walk
from compiler.schedule import steps as st
from tests.compiler.schedules import (
    P,
    Steps,
    by_threads,
    load_by_copies,
    load_by_tma,
    schedule,
    store_by_tma,
    through_shared,
    unary,
)


def scheduled(shape: Sequence[int], steps: Steps, dtype: DType = DType.F32) -> ScheduledFusion:
    return schedule(unary(shape, dtype=dtype), steps).sf


def instructions(sf: ScheduledFusion) -> list[tuple[Path, int]]:
    found = (instruction_of(Facts(sf), op) for op in sf.ops)
    return [(i.path, i.access_bytes) for i in found if i is not None]


BY_REGISTERS = {(M.SHARED, M.LOCAL), (M.LOCAL, M.LOCAL)}

CASES = {
    "threads": (scheduled((512,), by_threads(threads=32)), [(Path.VECTOR, 16)] * 2),
    "through shared memory": (scheduled((512,), through_shared(128, 16, 4)), [(Path.VECTOR, 16)] * 4),
    "halves": (scheduled((512,), through_shared(128, 16, 4), DType.BF16), [(Path.VECTOR, 8)] * 4),
    "tiles": (scheduled((32, 48), load_by_tma(8, 16)), [(Path.TMA, 512), (Path.VECTOR, 4), (Path.VECTOR, 4)]),
    "stored tiles": (scheduled((32, 48), store_by_tma(8, 16)), [(Path.VECTOR, 4), (Path.VECTOR, 4), (Path.TMA, 512)]),
    "runs": (
        scheduled((256,), load_by_tma(64, via=CopyVia.BULK1D)),
        [(Path.BULK_1D, 256), (Path.VECTOR, 4), (Path.VECTOR, 4)],
    ),
    "copies of 4 bytes": (scheduled((256,), load_by_copies(64, 1)), [(Path.CP_ASYNC, 4), *[(Path.VECTOR, 4)] * 2]),
    "copies of 16 bytes": (scheduled((256,), load_by_copies(64, 4)), [(Path.CP_ASYNC, 16), *[(Path.VECTOR, 16)] * 2]),
    "copies of halves": (
        scheduled((256,), load_by_copies(64, 4), DType.BF16),
        [(Path.CP_ASYNC, 8), *[(Path.VECTOR, 8)] * 2],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_instruction_of_each_copy(name: str) -> None:
    sf, expected = CASES[name]
    assert instructions(sf) == expected


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_has_those_instructions(name: str) -> None:
    sf, expected = CASES[name]
    assert {a for s in walk(lower_facts(Facts(sf)).body) if (a := access(s)) is not None} == set(expected)


def access(s: k.Stmt) -> tuple[Path, int] | None:
    """The instruction of a statement, and the bytes that it moves."""
    match s:
        case k.GlobalLoad() | k.SharedLoad():
            return Path.VECTOR, s.width * s.target.dtype.nbytes
        case k.GlobalStore() | k.SharedStore():
            return Path.VECTOR, s.width * s.source.dtype.nbytes
        case k.MatrixLoad():
            return Path.LDMATRIX, s.width * s.target.dtype.nbytes
        case k.MatrixStore():
            return Path.STMATRIX, s.width * s.source.dtype.nbytes
        case k.CopyAsync():
            return Path.CP_ASYNC, s.width * s.target.dtype.nbytes
        case k.TmaLoad() | k.TmaStore():
            return Path.TMA, s.nbytes
        case k.BulkLoad() | k.BulkStore():
            return Path.BULK_1D, s.nbytes
        case _:
            return None


@pytest.mark.parametrize(("elems", "path"), [(12, Path.BULK_1D), (16, Path.BULK_1D), (32, Path.TMA)])
def test_a_tile_that_a_map_cannot_place_goes_as_a_run(elems: int, path: Path) -> None:
    """Two tiles behind each other: the second starts at a multiple of 128 bytes, or of 16 alone (PTX ISA, bulk)."""
    steps: Steps = [st.CacheInput("i0", "s", M.SHARED, CopyVia.TMA), st.CacheInput("s", "r", M.LOCAL)]
    for tv in ("s", "r", "v0"):
        steps += [st.Split(tv, 0, 2 * elems), st.Split(tv, 1, elems), st.Parallelize(tv, 0, P.BIDX)]
    sf = scheduled((8 * elems,), [*steps, st.Parallelize("s", 2, P.BULK), st.InlineAt("r", 3), st.InlineAt("s", 1)])
    assert instructions(sf)[0] == (path, 4 * elems)
    loads = [s for s in walk(lower_facts(Facts(sf)).body) if isinstance(s, k.TmaLoad | k.BulkLoad)]
    assert {access(s) for s in loads} == {(path, 4 * elems)}


def test_a_copy_between_registers_and_a_computation_have_none() -> None:
    sf = scheduled((512,), [st.CacheInput("i0", "r", M.LOCAL), st.CacheInput("r", "q", M.LOCAL)])
    assert [instruction_of(Facts(sf), op) for op in sf.ops if op.output == "q"] == [None]


@pytest.mark.parametrize(
    ("via", "pairs"),
    [
        (CopyVia.PLAIN, {(M.GLOBAL, M.LOCAL), (M.LOCAL, M.GLOBAL), (M.LOCAL, M.SHARED), *BY_REGISTERS}),
        (CopyVia.TMA, {(M.GLOBAL, M.SHARED), (M.SHARED, M.GLOBAL)}),
        (CopyVia.BULK1D, {(M.GLOBAL, M.SHARED), (M.SHARED, M.GLOBAL)}),
        (CopyVia.CP_ASYNC, {(M.GLOBAL, M.SHARED)}),
        (CopyVia.ST_TMEM, {(M.LOCAL, M.TENSOR)}),
        (CopyVia.LD_TMEM, {(M.TENSOR, M.LOCAL)}),
        (CopyVia.LDMATRIX, {(M.SHARED, M.LOCAL)}),
        (CopyVia.STMATRIX, {(M.LOCAL, M.SHARED)}),
    ],
)
def test_memories_that_each_way_of_copying_joins(via: CopyVia, pairs: set[tuple[M, M]]) -> None:
    assert set(joined(via)) == pairs
    assert path_named(via) in JOINED
