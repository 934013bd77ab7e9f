"""Statements by which blocks share a product's sums and hand over parts of them, as CUDA C++."""

from __future__ import annotations

from compiler.emit.text import expression, total
from compiler.emit.values import reg
from compiler.lower.grid_ir import (
    AwaitTold,
    DealtShare,
    DealtSteps,
    GridStmt,
    PartsBehind,
    ScratchLoad,
    ScratchStore,
    Tell,
)


def over_grid(s: GridStmt) -> list[str]:
    """The lines that carry out the statement."""
    match s:
        case PartsBehind():
            return [f"const Index {s.count.name} = {total(s.value)};"]
        case DealtShare():
            ends = (s.begin, s.first), (s.end, s.last)
            return [f"const Index {v.name} = {expression(e)} / {s.blocks}u;" for v, e in ends]
        case DealtSteps():
            at, begin, end = (expression(e) for e in (s.at, s.begin, s.end))
            last = f"{s.steps}u"
            return [
                f"const Index {s.first.name} = {begin} > {at} ? {begin} - {at} : 0u;",
                f"const Index {s.stop.name} = {end} - {at} < {last} ? {end} - {at} : {last};",
                # Else results are copied for the case of no step, while instructions have them.
                f"__builtin_assume({s.first.name} < {s.stop.name});",
            ]
        case AwaitTold():
            return [f"ft_await_told({s.told} + ({total(s.place)}));"]
        case Tell():
            return [f"ft_tell({s.told} + ({total(s.place)}));"]
        case ScratchLoad():
            nbytes = s.width * s.target.dtype.nbytes
            return [f"ft_load_written_if<{nbytes}, 0>(true, &{reg(s.target)}, {s.scratch} + ({total(s.offset)}));"]
        case ScratchStore():
            nbytes = s.width * s.source.dtype.nbytes
            return [f"ft_store_global<{nbytes}, 0>({s.scratch} + ({total(s.offset)}), &{reg(s.source)});"]
