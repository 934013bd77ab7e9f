"""Loads and stores of global memory as CUDA C++: predicates of whole vectors, and of the lanes of a cut one.

A vector that the end of a run may cut is one access where its ends are inside, else its lanes are looked at one by one.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.emit.address import address
from compiler.emit.folds import conditions
from compiler.emit.text import expression
from compiler.emit.values import at, reg, zero
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.tensor import CachePolicy
from compiler.lower.kernel_ir import GlobalLoad, GlobalStore, If, Loop, at_lane
from compiler.lower.operands import ChosenRow, Less, Reg

CACHE = {
    CachePolicy.DEFAULT: 0,
    CachePolicy.NO_ALLOCATE: 1,
    CachePolicy.STREAMING: 2,
    CachePolicy.EVICT_FIRST: 3,
    CachePolicy.EVICT_LAST: 4,
}
"""The numbers of `FtCache`."""


def global_load(s: GlobalLoad, unrolled: frozenset[str]) -> list[str]:
    """Guards are predicates, not branches: a load after a branch waits for what the branch's sides loaded."""
    if s.rows:
        found = (f"const Index {row.var} = {_row(s, row)};" for row in s.rows)
        return ["{", *("  " + line for line in (*found, *global_load(replace(s, rows=()), unrolled))), "}"]
    guards, ends = (*s.guards, *s.within), s.ends
    zeros = [f"{reg(at(s.target, i))} = {zero(s.target.dtype)};" for i in range(s.width)] if guards or ends else []
    if not ends:
        return [*zeros, _access(s, const(0), s.width, guards, unrolled)]
    # Where one end alone may be outside, the lane at that end is, whenever the vector is cut.
    cut = range(s.head is not None and s.tail is None, s.width - (s.tail is not None and s.head is None))
    is_cut = f"!({conditions(ends)})"
    lanes = [_access(s, const(n), 1, (*guards, *_inside(s, n)), unrolled, also=is_cut) for n in cut]
    return [*zeros, _access(s, const(0), s.width, (*guards, *ends), unrolled), *lanes]


def _row(s: GlobalLoad, row: ChosenRow) -> str:
    """An index that is data, looked at; where no address needs it, for nothing but that."""
    name = "ft_row" if row.var in s.offset.variables else "ft_checked_row"
    return f"{name}<Index>({conditions(s.some) or 'true'}, {reg(row.index)}, {row.extent}u)"


def straddling_load(s: If, unrolled: frozenset[str]) -> list[str] | None:
    """Elements first, which few threads need and the others pass by, then words under a predicate, so that the loads
    that follow are issued before these have arrived."""
    match s:
        case If(then=(GlobalLoad(straddles=True) as both,), orelse=(Loop(var=lane, body=(GlobalLoad() as one,)),)):
            zeros = [f"{reg(at(both.target, i))} = {zero(both.target.dtype)};" for i in range(both.width)]
            return [
                *zeros,
                f"if (!({conditions(s.conditions)})) {{",
                "  #pragma unroll",
                f"  for (Index {lane} = 0u; {lane} < {lane.extent}u; ++{lane}) {{",
                f"    {_access(one, const(0), 1, one.guards, unrolled | {lane.name})}",
                "  }",
                "}",
                _access(both, const(0), both.width, s.conditions, unrolled),
            ]
        case _:
            return None


def global_store(s: GlobalStore, unrolled: frozenset[str]) -> list[str]:
    """Nothing waits for a store: where few threads store lane by lane, the others pass by."""
    if not s.ends:
        return [_access(s, const(0), s.width, s.guards, unrolled)]
    lane = Var("lane", s.width)
    inside = tuple(c for c in (s.head, s.tail) if c is not None)
    return [
        f"if ({conditions((*s.guards, *s.ends))}) {{",
        f"  {_access(s, const(0), s.width, (), unrolled)}",
        "} else {",
        "  #pragma unroll",
        f"  for (Index lane = 0u; lane < {s.width}u; ++lane) {{",
        f"    {_access(s, var(lane), 1, (*s.guards, *inside), unrolled | {'lane'})}",
        "  }",
        "}",
    ]


def _inside(s: GlobalLoad, lane: int) -> tuple[Less, ...]:
    """That one lane is inside the run."""
    return tuple(Less(at_lane(c.left, lane), at_lane(c.right, lane)) for c in (s.head, s.tail) if c is not None)


def _access(
    s: GlobalLoad | GlobalStore,
    lane: Expr,
    width: int,
    guards: tuple[Less, ...],
    unrolled: frozenset[str],
    also: str = "",
) -> str:
    """One access of `width` lanes from `lane` on, where all guards hold, and the condition `also`."""
    is_load = isinstance(s, GlobalLoad)
    registers = s.target if isinstance(s, GlobalLoad) else s.source
    where = " && ".join(text for text in (conditions(guards), also) if text)
    place = address(s.tensor, s.offset + lane, unrolled)
    local = f"&{reg(Reg(registers.name, registers.dtype, registers.offset + lane))}"
    both: tuple[str, ...] = (local, place) if is_load else (place, local)
    name, sizes = f"ft_{'load' if is_load else 'store'}_global", f"{width * registers.dtype.nbytes}"
    if isinstance(s, GlobalLoad) and s.is_written:
        name = "ft_load_written"
    if isinstance(s, GlobalLoad) and s.straddles:
        name, sizes = "ft_load_global_straddling", f"{sizes}, {registers.dtype.nbytes}"
    if isinstance(s, GlobalLoad) and s.skipped is not None:
        name = "ft_load_global_both"
        both = (local, address(s.tensor, s.offset - s.skipped, unrolled), expression(s.skipped))
    arguments = ", ".join((where, *both) if where else both)
    return f"{name}{'_if' if where else ''}<{sizes}, {CACHE[s.cache]}>({arguments});"
