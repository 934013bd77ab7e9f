"""Whether all warps of a block have met since the last of them used tensor memory: it can be freed without a barrier.

What a warp has asked of tensor memory is over once it has waited for it. So a block barrier behind the last access and
the last wait, on every way to the end, shows all warps that nobody uses it any more.
"""

from __future__ import annotations

from compiler.lower.kernel_ir import Elected, If, Loop, Stmt
from compiler.lower.sync_ir import Sync
from compiler.lower.tmem_ir import TmemCommit, TmemCopy, TmemLoad, TmemShift, TmemStore, WaitTmemLoads, WaitTmemStores


def meets_after_last_use(body: tuple[Stmt, ...]) -> bool:
    """Whether every way through `body` comes to a `Sync` after the last use of tensor memory."""
    return bool(_last(body))


def _last(body: tuple[Stmt, ...]) -> bool | None:
    """Whether a barrier comes last, or a use; None where there may be neither."""
    for s in reversed(body):
        match s:
            case Sync():
                return True
            case (
                TmemLoad() | TmemStore() | TmemCopy() | TmemShift() | TmemCommit() | WaitTmemLoads() | WaitTmemStores()
            ):
                return False
            case If():
                ways = _last(s.then), _last(s.orelse)
                if False in ways or all(ways):
                    return all(ways)
            case Loop():
                turn = _last(s.body)
                if turn is False or (turn and s.trip.lo > 0):
                    return turn
            case Elected():
                if _last(s.body) is False:
                    return False
            case _:
                pass
    return None
