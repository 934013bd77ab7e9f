"""Scans: what a thread adds up, what lanes and warps before it have, and what it carries (`analysis.loops.scan`)."""

from __future__ import annotations

from compiler.analysis.facts import Facts
from compiler.analysis.loops.scan import BlockScan
from compiler.ir.expr import Expr, const
from compiler.ir.ops import OpKind
from compiler.lower.kernel_ir import Accumulate, Declare, Fill, If, ScanLanes, ScanRun, SharedLoad, SharedStore, Stmt
from compiler.lower.operands import Less, Reg, Shared
from compiler.lower.sync_ir import Sync
from compiler.lower.traversal import each


def declare_carry(scan: BlockScan) -> tuple[Stmt, ...]:
    """What a thread carries from turn to turn, nothing so far."""
    name = _carry(scan)
    return (
        Declare(name, scan.dtype, scan.carry_elems),
        Fill(name, scan.dtype, scan.carry_elems, OpKind.SUM),
    )


def lower_scan(facts: Facts, scan: BlockScan, target: Reg, source: Reg, turn: Expr) -> tuple[Stmt, ...]:
    """The statements of a thread's word. `turn`: how often the threads have met for this scan before."""
    carried = Reg(_carry(scan), scan.dtype, scan.carry) if scan.carry_depth is not None else None
    if not scan.is_shared:
        running = carried or Reg(f"{scan.tensor}_before", scan.dtype, const(0))
        own = () if carried is not None else (_declared(running), Fill(running.name, scan.dtype, 1, OpKind.SUM))
        return (*own, ScanRun(running, target, source, scan.width, scan.is_exclusive))
    before = Reg(f"{scan.tensor}_before", scan.dtype, const(0))
    total = Reg(f"{scan.tensor}_all", scan.dtype, const(0))
    out: list[Stmt] = [
        _declared(before),
        _declared(total),
        ScanLanes(before, total, source, scan.width, scan.lanes, scan.lane, scan.members),
    ]
    if scan.slots > 1:
        out += _over_warps(scan, before, total, facts.smem.sums_of(scan.tensor), turn)
    if carried is not None:
        out += [Accumulate(OpKind.SUM, before, carried), Accumulate(OpKind.SUM, carried, total)]
    return (*out, ScanRun(before, target, source, scan.width, scan.is_exclusive))


def _over_warps(scan: BlockScan, before: Reg, total: Reg, base: int, turn: Expr) -> list[Stmt]:
    """The first lane of each warp hands on what the warp comes to; every thread adds up those before it, and all."""
    stage = turn % scan.stages * scan.stage_bytes

    def place(slot: Expr) -> Shared:
        return Shared(scan.tensor, scan.dtype, (scan.group * scan.slots + slot) * scan.dtype.nbytes + stage + base)

    other = Reg(f"{scan.tensor}_of_warp", scan.dtype, const(0))

    def add(slot: Expr) -> tuple[Stmt, ...]:
        return (
            SharedLoad(other, place(slot), 1),
            Accumulate(OpKind.SUM, before, other, (Less(slot, scan.slot),)),
            Accumulate(OpKind.SUM, total, other),
        )

    return [
        If((Less(scan.lane, const(1)),), (SharedStore(total, place(scan.slot), 1),)),
        Sync(),
        _declared(other),
        Fill(total.name, scan.dtype, 1, OpKind.SUM),
        *each(f"{scan.tensor}_w", scan.slots, add),
    ]


def _declared(reg: Reg) -> Declare:
    return Declare(reg.name, reg.dtype, 1)


def _carry(scan: BlockScan) -> str:
    return f"{scan.tensor}_carry"
