"""Statements by which blocks hand over partial sums, as CUDA C++: one call each."""

from __future__ import annotations

from compiler.emit.text import total
from compiler.emit.values import reg
from compiler.lower.grid_ir import AwaitTold, GridStmt, ScratchLoad, ScratchStore, Tell


def over_grid(s: GridStmt) -> str:
    """The call that carries out the statement."""
    match s:
        case AwaitTold():
            return f"ft_await_told({s.told} + ({total(s.place)}));"
        case Tell():
            return f"ft_tell({s.told} + ({total(s.place)}));"
        case ScratchLoad():
            nbytes = s.width * s.target.dtype.nbytes
            return f"ft_load_written_if<{nbytes}, 0>(true, &{reg(s.target)}, {s.scratch} + ({total(s.offset)}));"
        case ScratchStore():
            nbytes = s.width * s.source.dtype.nbytes
            return f"ft_store_global<{nbytes}, 0>({s.scratch} + ({total(s.offset)}), &{reg(s.source)});"
