"""cp.async in kernels: what is waited for before shared memory is read, in rings and without."""

from __future__ import annotations

import pytest

from compiler.dtypes import DType
from compiler.ir.tensor import CopyVia
from compiler.lower.kernel_ir import CopyAsync, If, Kernel, Loop, Stmt
from compiler.lower.printer import statements_text
from compiler.lower.sync_ir import CommitCopies, Sync, WaitCopies
from compiler.lower.traversal import walk
from compiler.schedule import steps as st
from tests.compiler.lower.kernels import lowered
from tests.compiler.schedules import LOCAL, SHARED, P, Steps, parallel, unary

TILE, THREADS = 32, 8


def copied(blocks: int, word: int, stages: int = 1, prefetch: int = -1, mirrored: bool = False) -> Steps:
    """[block, iteration, tile] over one dimension: threads copy `word` elements each, one after the other, and read
    four; or two steps of them, of which `mirrored` threads read what others have copied."""
    steps: Steps = [st.CacheInput("i0", "s", SHARED, CopyVia.CP_ASYNC), st.CacheInput("s", "r", LOCAL)]
    for tv in ("s", "r", "v0"):
        steps += [st.Split(tv, 0, TILE), st.Split(tv, 0, blocks), st.Reorder(tv, ((0, 1),))]
    steps.append(st.SetAllocationDomain("s", (0, 1, 2)))
    for tv in ("s", "r", "v0"):
        own = word if tv == "s" else 4
        steps += [st.Split(tv, 2, own)]
        count = TILE // own
        if mirrored and tv == "s":
            steps += [st.Split(tv, 2, THREADS), st.Reorder(tv, ((2, 3), (3, 2)))]
            steps += parallel(tv, P.BIDX, P.SERIAL, P.TIDX, P.UNROLL, P.VECTORIZE)
        else:
            assert count == THREADS
            steps += parallel(tv, P.BIDX, P.SERIAL, P.TIDX, P.VECTORIZE)
    steps += [st.InlineAt("r", 3), st.InlineAt("s", 2)]
    return [*steps, st.CircularBuffer("s", stages, prefetch)] if stages > 1 else steps


def kinds(body: tuple[Stmt, ...]) -> list[str]:
    """The statements that copy, wait and meet, in order; those of a loop in brackets."""
    out: list[str] = []
    for s in body:
        match s:
            case Loop() if not s.unroll:
                out.append(f"[{' '.join(kinds(s.body))}]")
            case Loop():
                out += kinds(s.body)
            case If():
                out += kinds(s.then)
            case CopyAsync():
                out.append("copy")
            case CommitCopies():
                out.append("commit")
            case WaitCopies():
                out.append(f"wait{s.pending}")
            case Sync():
                out.append("sync")
            case _ if "load" in statements_text((s,)):
                out.append("read")
            case _:
                pass
    return out


def kernel(steps: Steps, elems: int = 1024, dtype: DType = DType.F32) -> Kernel:
    return lowered(unary((elems,), dtype=dtype), steps)[1]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(copied(4, 4), "[copy wait0 read]", id="a-threads-own"),
        pytest.param(copied(4, 2, mirrored=True), "[sync copy wait0 sync read]", id="for-others"),
        pytest.param(copied(4, 4, 3), "copy commit copy commit [wait1 copy commit read]", id="a-threads-own-ring"),
        pytest.param(
            copied(4, 2, 3, mirrored=True),
            "copy commit copy commit [wait1 sync copy commit read]",
            id="a-ring-for-others",
        ),
        pytest.param(
            copied(4, 2, 4, 1, mirrored=True), "copy commit [wait0 sync copy commit read]", id="a-stage-to-spare"
        ),
        pytest.param(copied(4, 2, 3, 0, mirrored=True), "[sync copy wait0 sync read]", id="nothing-ahead"),
    ],
)
def test_copies_are_waited_for_and_then_met(steps: Steps, expected: str) -> None:
    assert " ".join(kinds(kernel(steps).body)) == expected


@pytest.mark.parametrize(
    ("elems", "dtype", "conditions"),
    [
        pytest.param(1024, DType.F32, (0, 0), id="whole"),
        pytest.param(1000, DType.F32, (1, 0), id="a-tile-is-cut"),
        pytest.param(1003, DType.F32, (0, 1), id="a-word-is-cut"),
    ],
)
def test_elements_outside_are_not_read(elems: int, dtype: DType, conditions: tuple[int, int]) -> None:
    copies = [s for s in walk(kernel(copied(4, 4), elems, dtype).body) if isinstance(s, CopyAsync)]
    assert max((len(s.guards), int(s.tail is not None)) for s in copies) == conditions


def test_a_word_of_the_copy_is_that_of_the_schedule() -> None:
    (copy,) = (s for s in walk(kernel(copied(4, 4), dtype=DType.BF16).body) if isinstance(s, CopyAsync))
    assert (copy.width, copy.target.dtype) == (4, DType.BF16)
