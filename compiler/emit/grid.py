"""Statements by which blocks hand on partial sums, as CUDA C++: one call each."""

from __future__ import annotations

from compiler.emit.text import total
from compiler.emit.values import reg
from compiler.lower.grid_ir import AwaitTurn, GridStmt, PassTurn, ScratchLoad, ScratchStore


def over_grid(s: GridStmt) -> str:
    """The call that carries out the statement."""
    match s:
        case AwaitTurn():
            return f"ft_await_turn({s.turns} + ({total(s.place)}), u32({total(s.turn)}));"
        case PassTurn():
            return f"ft_pass_turn({s.turns} + ({total(s.place)}), u32({total(s.turn)}));"
        case ScratchLoad():
            nbytes = s.width * s.target.dtype.nbytes
            return f"ft_load_written_if<{nbytes}, 0>(true, &{reg(s.target)}, {s.scratch} + ({total(s.offset)}));"
        case ScratchStore():
            nbytes = s.width * s.source.dtype.nbytes
            return f"ft_store_global<{nbytes}, 0>({s.scratch} + ({total(s.offset)}), &{reg(s.source)});"
