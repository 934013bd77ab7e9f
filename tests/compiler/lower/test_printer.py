"""The printed form of kernel IR: what it looks like, and that every field of every statement shows in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, get_args

import pytest

from compiler.analysis.mma.instructions import Instruction, MmaUnit
from compiler.analysis.tmem.patterns import Pattern
from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.fusion import Literal
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import CachePolicy
from compiler.lower import grid_ir, mma_ir, sync_ir, tmem_ir, whole_ir
from compiler.lower import kernel_ir as k
from compiler.lower.lower import lower
from compiler.lower.operands import (
    Barrier,
    ChosenRow,
    Less,
    ListTable,
    NumberParameter,
    Pointer,
    Reg,
    Shared,
    TensorMap,
    Tmem,
)
from compiler.lower.printer import kernel_ir_text, statements_text
from tests.compiler.schedules import by_threads, load_by_tma, schedule, unary

BY_TMA = """\
kernel grid (6, 1, 1) block (1, 1, 1) shared 136 bytes aligned to 128, 32-bit indices
  v0: f32 global, tensor 1, written
  map_s: tensor map of tensor 0, f32 dims (96), box (16)

init barriers: 1 from byte 128, prefetch map_s
sync
elected:
  expect 64 bytes on s.filled[0]
  tma load s@[0] = map_s(bx * 16), 64 bytes on s.filled[0]
wait s.filled[0] parity 0
for k0 < 16:
  declare r: f32[1]
  load r[0] = s@[k0 * 4]
  store v0[bx * 16 + k0] = r[0]"""

BY_THREADS = """\
kernel grid (3, 1, 1) block (8, 1, 1) 32-bit indices
  i0: f32 global, tensor 0, read
  v0: f32 global, tensor 1, written

if (bx * 8 + 7) < 18 and (bx * 32 + 31) < 70:
  declare r: f32[4]
  load r[0 +: 4] = i0[bx * 32 + tx * 4 +: 4]
  store v0[bx * 32 + tx * 4 +: 4] = r[0 +: 4]
else:
  declare r: f32[4]
  load r[0 +: 4] = i0[bx * 32 + tx * 4 +: 4] if (bx * 8 + tx) < 18 each lane if (bx * 32 + tx * 4 + lane) < 70
  store v0[bx * 32 + tx * 4 +: 4] = r[0 +: 4] if (bx * 8 + tx) < 18 each lane if (bx * 32 + tx * 4 + lane) < 70"""


@pytest.mark.parametrize(
    ("size", "steps", "text"),
    [pytest.param(96, load_by_tma(16), BY_TMA, id="tma"), pytest.param(70, by_threads(), BY_THREADS, id="threads")],
)
def test_a_kernel_is_a_line_a_statement(size: int, steps: Any, text: str) -> None:
    assert kernel_ir_text(lower(schedule(unary((size,)), steps).sf)) == text


K0 = Var("k0", 8)
AT = var(K0) * 4 + 2
REG = Reg("r", DType.F32, AT)
PLACE = Shared("s", DType.F32, AT)
CELL = Tmem("t", AT, AT)
BARRIER = Barrier(const(128))
LESS = Less(AT, const(30))
WARP_MMA = Instruction(MmaUnit.MMA_SYNC, 16, 8, 16, DType.BF16, DType.F32)
TENSOR_MMA = Instruction(MmaUnit.TCGEN05, 128, 64, 16, DType.BF16, DType.F32)
GROUP_MMA = Instruction(MmaUnit.WGMMA, 64, 128, 16, DType.BF16, DType.F32)
MATRIX = mma_ir.MatrixPlace(PLACE, 8192, 1024, 128, True)
ACCESS: dict[str, Any] = {
    "tensor": "i0",
    "offset": AT,
    "width": 4,
    "cache": CachePolicy.STREAMING,
    "guards": (LESS,),
    "tail": LESS,
}


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (const(3), "w0.filled[3]"),
        (var(K0), "w0.filled[k0]"),
        (var(K0) % 4, "w0.filled[k0 % 4]"),
        ((var(K0) + 3) % 4, "w0.filled[(k0 + 3) % 4]"),
        (var(K0) % 4 + var(K0) // 4, "w0.filled[(k0 % 4) + (k0 / 4)]"),
    ],
    ids=str,
)
def test_a_barrier_of_a_ring_has_a_name_and_a_place(place: Expr, text: str) -> None:
    named = Barrier(place * 8 + 128, "w0.filled", place)
    assert statements_text((sync_ir.WaitBarrier(named, const(1)),)) == f"wait {text} parity 1"


SAMPLES: list[k.Stmt] = [
    k.Declare("r", DType.F32, 4),
    k.Loop(K0, const(7), False, (sync_ir.Sync(),)),
    k.If((LESS,), (sync_ir.Sync(),), (sync_ir.FenceAsync(),)),
    k.Elected((sync_ir.CommitStores(),)),
    k.GlobalLoad(REG, **ACCESS, within=(LESS,), rows=(ChosenRow(Var("row1", 30), REG, 30, AT),)),
    k.GlobalStore(REG, **ACCESS),
    k.CopyAsync(PLACE, **ACCESS, within=(LESS,)),
    sync_ir.CommitCopies(),
    sync_ir.WaitCopies(1),
    k.SharedLoad(REG, PLACE, 2),
    k.SharedStore(REG, PLACE, 2),
    k.MatrixLoad(REG, PLACE, 8, True),
    k.MatrixStore(REG, PLACE, 2, False),
    k.Compute(OpKind.ADD, REG, (REG, Literal(2.0)), MathGrade.APPROX),
    k.Index(REG, AT),
    k.Fill("r", DType.F32, 4, OpKind.AMAX),
    k.Accumulate(OpKind.SUM, REG, REG, (LESS,)),
    k.AccumulateRun(OpKind.AMAX, REG, REG, 8),
    k.Opaque("r", DType.F32, 4),
    k.Shuffle(OpKind.SUM, "r", DType.F32, 4, (1, 2), 0xFFFF),
    k.ScanLanes(REG, REG, REG, 4, 32, AT, 0xFFFF),
    k.ScanRun(REG, REG, REG, 4, is_exclusive=True),
    k.RemoteStore(REG, PLACE, AT, 2, BARRIER),
    sync_ir.ClusterArrive(releases=True),
    sync_ir.ClusterWait(),
    k.Convert(REG, REG, 2),
    whole_ir.Divisor("by", REG, -128, 127),
    whole_ir.WholeNumber(REG, REG, -128, 127, "by"),
    k.TmaLoad(PLACE, "map_s", (AT, AT), BARRIER, 64, 2),
    k.TmaStore(PLACE, "map_v0", (AT, AT), 64),
    k.BulkLoad(PLACE, "i0", AT, BARRIER, 64, 2),
    k.BulkStore(PLACE, "v0", AT, 64),
    sync_ir.InitBarriers(128, 2, ("map_s",), (1, 4)),
    sync_ir.ExpectBytes(BARRIER, 64),
    sync_ir.AddBytes(BARRIER, 64),
    sync_ir.Arrive(BARRIER, of_warp=True, by_mma=True, blocks=2),
    sync_ir.WaitBarrier(BARRIER, var(K0) % 2),
    sync_ir.Sync(),
    sync_ir.SyncPart(1, 256, var(K0)),
    sync_ir.SetRegisters(240, True, 168),
    sync_ir.FenceAsync(),
    sync_ir.CommitStores(),
    sync_ir.WaitStores(),
    tmem_ir.TmemAllocate(32, 16),
    tmem_ir.TmemRelinquish(),
    tmem_ir.TmemAddress(16),
    tmem_ir.TmemDeallocate(64),
    tmem_ir.TmemLoad(REG, CELL, Pattern.P16X32BX2, 8, 8, 16),
    tmem_ir.TmemStore(REG, CELL, Pattern.P16X128B, 4, 8),
    tmem_ir.TmemCopy(CELL, PLACE, 32, 128, 256),
    tmem_ir.TmemShift(CELL),
    tmem_ir.TmemCommit(BARRIER),
    tmem_ir.Unpack(REG, Reg("w", DType.I32, AT), 16),
    tmem_ir.WaitTmemLoads(),
    tmem_ir.WaitTmemStores(),
    tmem_ir.TmemFenceBefore(),
    tmem_ir.TmemFenceAfter(),
    mma_ir.Mma(WARP_MMA, REG, REG, REG),
    mma_ir.MmaAsync(GROUP_MMA, REG, MATRIX, MATRIX, AT),
    mma_ir.TensorMma(TENSOR_MMA, CELL, MATRIX, MATRIX, AT),
    mma_ir.MmaAsync(replace(GROUP_MMA, holds_rows=True), REG, REG, MATRIX, AT),
    mma_ir.MmaFence(),
    mma_ir.CommitMma(),
    mma_ir.WaitMma(1),
    mma_ir.HoldRegisters("r", DType.F32, 4),
    grid_ir.PartsBehind(Var("c", 3), AT),
    grid_ir.DealtShare(Var("b", 9), Var("e", 9), AT, AT, 4),
    grid_ir.DealtSteps(Var("f", 9), Var("g", 9), AT, AT, AT, 4),
    grid_ir.AwaitTold("t", AT),
    grid_ir.Tell("t", AT),
    grid_ir.ScratchLoad(REG, "s", AT, 4),
    grid_ir.ScratchStore(REG, "s", AT, 4),
]

OF_AN_ARRAY = {
    (kind, field) for kind in (k.Fill, k.Opaque, k.Shuffle, mma_ir.HoldRegisters) for field in ("dtype", "elems")
}
DECLARED_ELSEWHERE = {(Shared, "dtype"), (Reg, "dtype"), (Var, "extent")} | OF_AN_ARRAY
"""A register's type stands at its declaration (and at arithmetic), a variable's extent at its loop."""


def test_there_is_a_sample_of_every_statement() -> None:
    assert {type(s) for s in SAMPLES} == set(get_args(k.Stmt))


def changes(node: Any) -> Iterator[Any]:
    """`node` with one thing in it changed, for each thing that the printed form must tell apart."""
    match node:
        case Expr():
            yield node + 1
        case bool():
            yield not node
        case int():
            yield node + 1
        case float():
            yield node + 0.5
        case Enum():
            yield next(other for other in type(node) if other is not node)
        case str():
            yield node + "_"
        case None:
            return
        case tuple():
            yield node[:-1]
            for i, x in enumerate(node):
                yield from ((*node[:i], changed, *node[i + 1 :]) for changed in changes(x))
        case _:
            assert is_dataclass(node)
            assert not isinstance(node, type)
            for f in fields(node):
                if f.compare and (type(node), f.name) not in DECLARED_ELSEWHERE:  # others are for people alone
                    for changed in changes(getattr(node, f.name)):
                        yield replace(node, **{f.name: changed})


@pytest.mark.parametrize("statement", SAMPLES, ids=lambda s: type(s).__name__)
def test_every_field_of_a_statement_shows(statement: k.Stmt) -> None:
    variants = [statement, *changes(statement)]
    assert len({statements_text([v]) for v in variants}) == len(variants)


def test_every_field_of_a_kernel_shows() -> None:
    pointer = Pointer("v0", DType.F32, 1, True)
    tensor_map = TensorMap("map_s", DType.F32, 0, (64, 8), (256,), (16, 8), (1, 2), 64)
    number = NumberParameter("scale", DType.F32, 0)
    table = ListTable((("v0", 1),), ("i0", "v0"), 8, 1024, 4, single=(2,))
    kernel = k.Kernel(
        (pointer,),
        (tensor_map,),
        (2, 1, 1),
        (32, 1, 1),
        1024,
        128,
        64,
        32,
        (sync_ir.Sync(),),
        numbers=(number,),
        table=table,
        scratch=(grid_ir.ScratchPointer("s", DType.F32, 64, False),),
    )
    variants = [kernel, *changes(kernel)]
    assert len({kernel_ir_text(v) for v in variants}) == len(variants)


def test_statements_print_differently() -> None:
    texts = {statements_text([s]) for s in SAMPLES}
    assert len(texts) == len(SAMPLES)
