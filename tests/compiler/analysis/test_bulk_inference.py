"""What a one-dimensional bulk copy moves, and which schedules are none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compiler.analysis.bulk import BulkCopy, infer_bulk
from compiler.analysis.indexing import Indexing
from compiler.dtypes import DType
from compiler.errors import Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.tensor import CopyVia
from compiler.schedule.steps import InlineAt, Merge, Reorder, SetAllocationDomain, Split, Step, Swizzle
from tests.compiler.schedules import P, parallel
from tests.compiler.scheduling import load, store

S, B, X = P.SERIAL, P.BULK, P.BIDX


def inferred(sf: ScheduledFusion, output: str) -> BulkCopy | Violation:
    op = sf.producer(output)
    assert op is not None
    return infer_bulk(Indexing(sf), op)


def bx(extent: int) -> Expr:
    return var(Var("bx", extent))


LOADS = [
    pytest.param(
        (4096,), None, [Split("s", 0, 512), *parallel("s", X, B)], 512, bx(8) * 512, Expr(), id="one-run-a-block"
    ),
    pytest.param(
        (8, 512),
        None,
        [Merge("s", 0), Split("s", 0, 1024), *parallel("s", X, B)],
        1024,
        bx(4) * 1024,
        Expr(),
        id="rows",
    ),
    pytest.param(
        (8, 512), (640, 1), [*parallel("s", X, B), InlineAt("s", 1)], 512, bx(8) * 640, Expr(), id="a-padded-row"
    ),
    pytest.param(
        (8, 512),
        (640, 1),
        [Merge("s", 0), Split("s", 0, 256), *parallel("s", X, B)],
        256,
        (bx(16) // 2) * 640 + (bx(16) % 2) * 256,
        Expr(),
        id="half-a-padded-row",
    ),
    pytest.param(
        (8, 512),
        None,
        [Split("s", 0, 4), SetAllocationDomain("s", (0, 1, 2), (), (None, 520, 1)), *parallel("s", X, P.UNROLL, B)],
        512,
        bx(2) * 2048 + var(Var("k0", 4)) * 512,
        var(Var("k0", 4)) * 520,
        id="rows-padded-in-shared-memory",
    ),
]


@pytest.mark.parametrize(("shape", "strides", "taken", "elems", "at", "to"), LOADS)
def test_loads(
    shape: Sequence[int], strides: Sequence[int] | None, taken: list[Step], elems: int, at: Expr, to: Expr
) -> None:
    copy = inferred(load(shape, *taken, via=CopyVia.BULK1D, strides=strides), "s")
    assert isinstance(copy, BulkCopy), str(copy)
    assert (copy.global_tensor.name, copy.shared_tensor.name) == ("i0", "s")
    assert (copy.elems, copy.nbytes) == (elems, 4 * elems)
    assert copy.global_offset == at
    assert copy.shared_offset == to


def test_stores_and_narrow_types() -> None:
    taken = [Split("v0", 0, 512), Split("s", 0, 512), *parallel("v0", X, B), *parallel("s", X)]
    copy = inferred(store((4096,), *taken, dtype=DType.BF16, via=CopyVia.BULK1D), "v0")
    assert isinstance(copy, BulkCopy), str(copy)
    assert (copy.global_tensor.name, copy.shared_tensor.name) == ("v0", "s")
    assert (copy.elems, copy.nbytes, copy.global_offset, copy.shared_offset) == (512, 1024, bx(8) * 512, Expr())


REFUSED = [
    pytest.param((8, 512), None, [*parallel("s", X, S)], "bulk1d_has_one_bulk_axis", "", id="no-bulk-axis"),
    pytest.param((8, 512), None, [*parallel("s", B, B)], "bulk1d_has_one_bulk_axis", "", id="two-bulk-axes"),
    pytest.param((8, 512), None, [*parallel("s", B, X)], "bulk1d_run_is_contiguous", "i0", id="along-a-column"),
    pytest.param(
        (8, 512),
        (640, 1),
        [Merge("s", 0), Split("s", 0, 1024), *parallel("s", X, B)],
        "bulk1d_run_is_contiguous",
        "i0",
        id="across-padded-rows",
    ),
    pytest.param(
        (8, 512),
        None,
        [SetAllocationDomain("s", (0, 1), (Split("s", 1, 32),), (None, 36, 1)), *parallel("s", X, B)],
        "bulk1d_run_is_contiguous",
        "s",
        id="padding-inside-the-run",
    ),
    pytest.param(
        (8, 8, 4),
        None,
        [
            Merge("s", 1),
            SetAllocationDomain("s", (0, 1), (Split("s", 1, 4), Swizzle("s", 0, 1))),
            *parallel("s", S, B),
        ],
        "bulk1d_run_is_contiguous",
        "s",
        id="swizzled",
    ),
    pytest.param(
        (8, 512),
        None,
        [Reorder("s", ((1, 0),)), *parallel("s", B, S)],
        "bulk1d_run_is_contiguous",
        "s",
        id="rows-innermost-in-shared-memory",
    ),
]


@pytest.mark.parametrize(("shape", "strides", "taken", "rule", "side"), REFUSED)
def test_refusals(shape: Sequence[int], strides: Sequence[int] | None, taken: list[Step], rule: str, side: str) -> None:
    found = inferred(load(shape, *taken, via=CopyVia.BULK1D, strides=strides), "s")
    assert isinstance(found, Violation), str(found)
    assert found.rule == rule
    assert found.where == (f"s <- i0: {side}" if side else "s <- i0")
    assert found.fix
