"""Bank conflicts of scheduled accesses: the documents' transpose, and layouts whose conflicts are known by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from compiler.analysis.memory.bank_access import BankAccess, bank_conflicts_of
from compiler.analysis.memory.bank_conflicts import wavefronts
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps as st
from compiler.schedule.explicit import read_case
from compiler.schedule.steps import Step
from compiler.verdict import replay
from tests.compiler.analysis.swizzle_steps import swizzle_steps
from tests.compiler.emit.golden_schedules import GOLDEN
from tests.compiler.schedules import SHARED, unary
from tests.compiler.scheduling import load, scheduled, store

P = ParallelType
CASES = Path(__file__).parents[2] / "data" / "document_cases.json"


def access(sf: ScheduledFusion, output: str, tensor: str) -> BankAccess:
    op = sf.producer(output)
    assert op is not None
    found = bank_conflicts_of(sf, op, tensor)
    assert found is not None
    return found


def documented(name: str) -> ScheduledFusion:
    (case,) = (c for c in json.loads(CASES.read_text()) if c["name"] == name)
    sf, refused = replay(read_case(case))
    assert refused is None
    return sf


# The documents' example 3 --------------------------------------------------------------------------------------------


def test_the_documents_transpose_has_none() -> None:
    """Registers read columns of chunks out of the swizzled tile, and write rows of the other (nvFuser, TMA: "Example 3:
    bank-conflict-free transpose")."""
    sf = documented("Tutorial.TMABankConflictFreeTranspose")
    read, write = access(sf, "reg", "in_smem"), access(sf, "out_smem", "out_smem")
    assert (read.wavefronts, read.ideal, read.width_bytes, read.degree) == (4, 4, 16, 1.0)
    assert (write.wavefronts, write.ideal, write.width_bytes, write.degree) == (1, 1, 4, 1.0)


def test_without_its_swizzle_the_transpose_reads_one_bank() -> None:
    case = next(c for c in json.loads(CASES.read_text()) if c["name"] == "Tutorial.TMABankConflictFreeTranspose")
    case["schedule"] = [s for s in case["schedule"] if s["do"] != "swizzle"]
    sf, refused = replay(read_case(case))
    assert refused is None
    assert access(sf, "reg", "in_smem").degree == 8.0


# By hand -------------------------------------------------------------------------------------------------------------


def read_by(shape: Sequence[int], *taken: Step, dtype: DType = DType.F32) -> ScheduledFusion:
    """v0 reads a dense tile s of that shape, by these steps."""
    return load(shape, *taken, dtype=dtype)


def on(tv: str, *types: P) -> list[Step]:
    return [st.Parallelize(tv, i, t) for i, t in enumerate(types) if t is not P.SERIAL]


BY_HAND = [
    pytest.param((8, 32), on("v0", P.SERIAL, P.TIDX), DType.F32, (1, 1, 4, 32), id="a row of 4-byte words"),
    pytest.param((32, 32), on("v0", P.TIDX), DType.F32, (32, 1, 4, 32), id="a column of 128-byte rows"),
    pytest.param((32, 33), on("v0", P.TIDX), DType.F32, (1, 1, 4, 32), id="a column of rows padded by a word"),
    pytest.param((32, 8), on("v0", P.TIDX), DType.F32, (8, 1, 4, 32), id="a column of 32-byte rows"),
    pytest.param((8, 32), on("v0", P.SERIAL, P.TIDX), DType.F64, (2, 2, 8, 32), id="a row of 8-byte words"),
    pytest.param((8, 32), on("v0", P.SERIAL, P.TIDX), DType.I8, (1, 1, 1, 32), id="a row of bytes: lanes share words"),
    pytest.param((32, 32), on("v0", P.TIDX), DType.BF16, (16, 1, 2, 32), id="a column of 64-byte rows"),
    pytest.param(
        (8, 128),
        [st.Split("v0", 1, 4), *on("v0", P.SERIAL, P.TIDX, P.VECTORIZE)],
        DType.F32,
        (4, 4, 16, 32),
        id="vectors",
    ),
    pytest.param(
        (32, 32),
        [st.Split("v0", 1, 4), *on("v0", P.TIDX, P.SERIAL, P.VECTORIZE)],
        DType.F32,
        (32, 4, 16, 32),
        id="columns of vectors",
    ),
    pytest.param(
        (128, 8),
        [st.Split("v0", 0, 4), *on("v0", P.TIDX, P.VECTORIZE)],
        DType.F32,
        (32, 1, 4, 32),
        id="a vector down a column is read word by word",
    ),
    pytest.param(
        (8, 256),
        [st.Split("v0", 1, 8), *on("v0", P.SERIAL, P.TIDX, P.VECTORIZE)],
        DType.F32,
        (8, 4, 16, 32),
        id="32 bytes a lane are two accesses, each of every second chunk",
    ),
    pytest.param((4, 16), on("v0", P.TIDY, P.TIDX), DType.F32, (1, 1, 4, 32), id="two rows of 16 lanes"),
    pytest.param(
        (16, 4, 4), on("v0", P.TIDX, P.TIDY, P.TIDZ), DType.F32, (8, 1, 4, 32), id="x is the fastest thread index"
    ),
    pytest.param((4, 8), on("v0", P.SERIAL, P.TIDX), DType.F32, (1, 1, 4, 8), id="a quarter of a warp"),
]


@pytest.mark.parametrize(("shape", "taken", "dtype", "wanted"), BY_HAND)
def test_reads(shape: Sequence[int], taken: list[Step], dtype: DType, wanted: tuple[int, int, int, int]) -> None:
    found = access(read_by(shape, *taken, dtype=dtype), "v0", "s")
    assert (found.wavefronts, found.ideal, found.width_bytes, found.lanes) == wanted


def test_writes_go_by_the_shared_tensor_s_own_loops() -> None:
    assert access(store((32, 32), *on("s", P.TIDX)), "s", "s").degree == 32.0
    assert access(store((32, 32), *on("s", P.SERIAL, P.TIDX)), "s", "s").degree == 1.0


@pytest.mark.parametrize("span", [32, 64, 128])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.F64, DType.I8])
def test_columns_of_a_swizzled_box(span: int, dtype: DType) -> None:
    """Each lane reads 16 bytes of its own row: free with the mode, conflicts without."""
    unit, columns = 16 // dtype.nbytes, span // dtype.nbytes
    box = on("s", P.BULK, P.BULK)
    threads = [st.Split("v0", 1, unit), *on("v0", P.TIDX, P.SERIAL, P.VECTORIZE)]
    built = st.SetAllocationDomain("s", (0, 1), swizzle_steps("s", dtype, (columns, 32), span))
    assert access(load((32, columns), *box, built, *threads, dtype=dtype), "v0", "s").degree == 1.0
    assert access(load((32, columns), *box, *threads, dtype=dtype), "v0", "s").degree == span / 16


@pytest.mark.parametrize("span", [32, 64, 128])
def test_columns_of_single_words_have_some(span: int) -> None:
    """The modes move chunks of 16 bytes: words of one column fall in a fourth of the banks."""
    box = on("s", P.BULK, P.BULK)
    built = st.SetAllocationDomain("s", (0, 1), swizzle_steps("s", DType.F32, (span // 4, 32), span))
    assert access(load((32, span // 4), *box, built, *on("v0", P.TIDX)), "v0", "s").degree == 4.0


@pytest.mark.parametrize("threads", [32, 96], ids=["iterations of one warp", "warps"])
def test_warps_and_iterations_that_differ_are_all_looked_at(threads: int) -> None:
    """Rows of 48 words start at one bank: only the second run of 32 lies across two rows."""
    rows = [*on("s", P.BULK, P.BULK), st.SetAllocationDomain("s", (0, 1), strides=(96, 1))]
    sf = load((2, 48), *rows, st.Merge("v0", 0), st.Split("v0", 0, threads), *on("v0", P.SERIAL, P.TIDX))
    assert (access(sf, "v0", "s").wavefronts, access(sf, "v0", "s").degree) == (2, 2.0)


def test_lanes_that_take_no_part() -> None:
    """The block is as large as its largest tensor asks; s is written by the first 8 threads of it."""
    sf = store((8, 64), *on("s", P.TIDX), *on("v0", P.SERIAL, P.TIDX), via=CopyVia.PLAIN)
    found = access(sf, "s", "s")
    assert (found.lanes, found.wavefronts) == (8, 8)


def test_a_transposed_read() -> None:
    fusion = unary((32, 64), OpKind.PERMUTE, dims=(1, 0), result=(64, 32))
    through = [st.CacheInput("i0", "s", SHARED, CopyVia.PLAIN)]
    assert access(scheduled(fusion, *through, *on("w0", P.SERIAL, P.TIDX)), "w0", "s").degree == 32.0
    assert access(scheduled(fusion, *through, *on("w0", P.TIDX)), "w0", "s").degree == 1.0


@pytest.mark.parametrize(
    ("name", "output", "tensor", "wanted"),
    [
        ("tile2d_matrices", "i0_r", "i0_s", (4, 4)),
        ("tile2d_matrices_of_bytes", "i0_r", "i0_s", (4, 4)),
        ("tile2d_pairs_of_matrices_tma_both_ways", "i0_r", "i0_s", (4, 4)),
        ("tile2d_pairs_of_matrices_tma_both_ways", "v0_s", "v0_s", (4, 4)),
        ("tile2d_matrices_stored_from_memory", "v0_s", "v0_s", (16, 4)),
    ],
)
def test_rows_of_matrices(name: str, output: str, tensor: str, wanted: tuple[int, int]) -> None:
    """Of rows of a matrix that lie 8 apart, the copy engine's swizzle has four in one group of banks."""
    (launch,) = GOLDEN[name].generate().launches
    found = access(launch.scheduled, output, tensor)
    assert (found.wavefronts, found.ideal, found.width_bytes, found.lanes) == (*wanted, 16, 32)


def test_what_is_no_access_of_threads() -> None:
    sf = load((8, 32))
    writes, reads = sf.producer("s"), sf.producer("v0")
    assert writes is not None
    assert reads is not None
    assert bank_conflicts_of(sf, writes, "s") is None
    assert bank_conflicts_of(sf, reads, "v0") is None
    with pytest.raises(ValueError, match="tensor: found i0, expected one of"):
        bank_conflicts_of(sf, reads, "i0")


def test_it_agrees_with_counting_addresses() -> None:
    """A skewed layout, lane by lane: row r of s starts 36 words after the last, and lanes walk down two columns."""
    sf = store((32, 32), st.SetAllocationDomain("s", (0, 1), strides=(36, 1)), *on("s", P.TIDX))
    assert access(sf, "s", "s").wavefronts == wavefronts([lane * 36 * 4 for lane in range(32)], 4) == 4
