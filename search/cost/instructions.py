"""Instructions and special-function operations of one run of a statement, by kernel IR."""

from __future__ import annotations

from math import log2, prod
from typing import assert_never

from compiler.analysis.loops.loop_nest import BLOCK_VARS, THREAD_VARS
from compiler.arch import REGISTER_BYTES
from compiler.ir.expr import Div, Expr, Mod, unmarked
from compiler.ir.ops import MOVES, MathGrade
from compiler.lower import grid_ir, mma_ir, sync_ir, tmem_ir, whole_ir
from compiler.lower import kernel_ir as k

_ADDRESS_ISSUES = 1


_LOOP_ISSUES = 3

_DEALT_ISSUES = 16
"""Two quotients by a number, two comparisons and what chooses."""

_ROW_ISSUES = 4
"""An index that is data: compared, chosen instead of row 0, a product, a trap that is passed by."""


def issues_of(s: k.Stmt, invariant: frozenset[int] = frozenset()) -> float:
    """Instructions that a warp issues for one run of a statement; `invariant`: divisions that only multiply."""
    match s:
        case k.Compute():
            if id(s) in invariant:
                return 1
            if s.kind in MOVES:
                return 0
            cost = s.kind.row.cost
            if cost is None:
                return 1
            return cost.exact if s.grade is MathGrade.EXACT else cost.approximate
        case k.Accumulate():
            return 1 + len(s.guards)
        case k.AccumulateRun():
            return s.width / 2 * (2 if s.of_sizes else 1) + 2
        case k.Shuffle():
            return 2 * len(s.masks) * s.elems
        case k.ScanLanes():
            return s.width + 3 * log2(s.lanes) + 4
        case k.ScanRun():
            return s.width
        case k.Index():
            return 1
        case grid_ir.PartsBehind() | grid_ir.DealtShare() | grid_ir.DealtSteps():
            return _DEALT_ISSUES
        case grid_ir.AwaitTold() | grid_ir.Tell() | grid_ir.ScratchLoad() | grid_ir.ScratchStore():
            return 2
        case k.RemoteStore() | sync_ir.ClusterArrive() | sync_ir.ClusterWait():
            return 2
        case k.Fill():
            return s.elems
        case k.Convert():
            return max(1, s.width / 2)
        case whole_ir.Divisor():
            return _DIVISOR_ISSUES
        case whole_ir.WholeNumber():
            return _WHOLE_ISSUES + (_QUOTIENT_ISSUES if s.divisor else 0)
        case k.GlobalLoad(straddles=True):
            shifts = _shift_issues(s.width * s.target.dtype.nbytes, s.target.dtype.nbytes)
            return 2 * (1 + _ADDRESS_ISSUES) + shifts + _division_issues(s.offset)
        case k.SharedLoad() | k.SharedStore():
            own = s.target if isinstance(s, k.SharedLoad) else s.source
            # What is narrower than a register is put into one, or taken out, by an instruction of its own.
            extracted = s.width * own.dtype.nbytes < REGISTER_BYTES
            return 1 + _ADDRESS_ISSUES + extracted + _place_issues(own_place(s))
        case k.MatrixLoad() | k.MatrixStore():
            return 1 + _ADDRESS_ISSUES
        case k.GlobalLoad() if s.rows:
            return 1 + _ADDRESS_ISSUES + _division_issues(s.offset) + _ROW_ISSUES * len(s.rows)
        case k.GlobalLoad() | k.GlobalStore():
            return 1 + _ADDRESS_ISSUES + _division_issues(s.offset)
        case k.CopyAsync():
            return 1 + _ADDRESS_ISSUES
        case k.Loop():
            return 0 if s.unroll else _LOOP_ISSUES
        case k.If():
            return len(s.conditions)
        case sync_ir.CommitCopies() | sync_ir.WaitCopies():
            return 1
        case (
            sync_ir.Sync()
            | sync_ir.SyncPart()
            | sync_ir.WaitBarrier()
            | sync_ir.Arrive()
            | sync_ir.FenceAsync()
            | sync_ir.SetRegisters()
        ):
            return 1
        case (
            k.Declare()
            | k.Opaque()
            | k.Elected()
            | k.TmaLoad()
            | k.TmaStore()
            | k.BulkLoad()
            | k.BulkStore()
            | sync_ir.InitBarriers()
            | sync_ir.ExpectBytes()
            | sync_ir.AddBytes()
            | sync_ir.CommitStores()
            | sync_ir.WaitStores()
            | tmem_ir.TmemAllocate()
            | tmem_ir.TmemRelinquish()
            | tmem_ir.TmemDeallocate()
            | tmem_ir.TmemCopy()
            | tmem_ir.TmemShift()
            | tmem_ir.TmemCommit()
            | mma_ir.TensorMma()
        ):
            return 0  # of one thread or warp, or none
        case (
            tmem_ir.TmemLoad()
            | tmem_ir.TmemStore()
            | tmem_ir.TmemAddress()
            | tmem_ir.WaitTmemLoads()
            | tmem_ir.WaitTmemStores()
            | tmem_ir.TmemFenceBefore()
            | tmem_ir.TmemFenceAfter()
        ):
            return 1  # LDTM and STTM of any width are one instruction (SASS of sm_100a); their rate is not published
        case tmem_ir.Unpack() | mma_ir.HoldRegisters():
            return 0  # names for registers
        case mma_ir.Mma() | mma_ir.MmaAsync() | mma_ir.MmaFence() | mma_ir.CommitMma() | mma_ir.WaitMma():
            return 1  # of a warp; how long the tensor cores take, `search.cost.product_features` says
        case _:
            assert_never(s)


_WHOLE_ISSUES, _QUOTIENT_ISSUES, _DIVISOR_ISSUES = 3, 5, 30
"""Of a rounding between bounds, of the quotient before it, and of what that takes of its divisor (SASS of sm_90a)."""

_DIVISION_ISSUES = 4
"""A quotient or remainder by a constant that is no power of two (SASS of sm_90a)."""


def _division_issues(offset: Expr) -> int:
    """Instructions of an address's quotients and remainders that are worked out anew in every turn of a loop: of what
    turns alone make, nothing is left once the loop is unrolled."""
    known = THREAD_VARS | BLOCK_VARS
    divided = (a for a, _ in unmarked(offset).terms if isinstance(a, Div | Mod) and a.divisor & (a.divisor - 1))
    of_threads = [{v.name in known for v in a.numerator.variables} for a in divided]
    return _DIVISION_ISSUES * sum(len(kinds) == 2 for kinds in of_threads)


def own_place(s: k.SharedLoad | k.SharedStore) -> Expr:
    """Where in shared memory a statement reads or writes."""
    return (s.source if isinstance(s, k.SharedLoad) else s.target).byte_offset


def _place_issues(offset: Expr) -> float:
    """Instructions of the quotients and remainders of a place in shared memory, a run: one that turns of a loop do not
    change serves all of them. Tiles of powers of two have none."""
    turns = {v for v in offset.variables if v.name not in THREAD_VARS | BLOCK_VARS}
    found = 0.0
    for atom in sorted(_divided(unmarked(offset)), key=str):  # a sum of floats depends on their order
        if any(v.name in THREAD_VARS for v in atom.numerator.variables):
            found += _DIVISION_ISSUES / prod(v.extent for v in turns if v not in atom.numerator.variables)
    return found


def _divided(e: Expr) -> set[Div | Mod]:
    """Quotients and remainders of an expression by what is no power of two, each once."""
    atoms = [a for a, _ in e.terms if isinstance(a, Div | Mod)]
    inside = {inner for a in atoms for inner in _divided(a.numerator)}
    return inside | {a for a in atoms if a.divisor & (a.divisor - 1)}


def _shift_issues(nbytes: int, item: int) -> int:
    """Instructions that put a word of `nbytes` together from the two that it straddles: a choice between whole words
    for each power of two by which they move, and a shift of each pair where elements are smaller."""
    words, moves = max(1, nbytes // 4), 0
    by = words // 2
    while by:
        moves += words + by
        by //= 2
    return moves + (words if item < 4 else 0)


def mufu_ops_of(s: k.Stmt, invariant: frozenset[int] = frozenset()) -> int:
    """Special-function operations that a lane asks for in one run of a statement; none of `invariant` divisions."""
    if not isinstance(s, k.Compute) or s.kind.row.cost is None or id(s) in invariant:
        return 0
    return 1 if s.grade is MathGrade.COARSE else s.kind.row.cost.special
