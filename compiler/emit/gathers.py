"""Loops that move single bytes between registers as one call that moves whole words of them.

The compiler builds each word of a byte transpose from shifts and masks, two to three operations a byte; permutations of
words take one for two bytes.
"""

from __future__ import annotations

from compiler.arch import REGISTER_BYTES
from compiler.emit.text import total
from compiler.emit.values import reg
from compiler.ir.expr import Expr, Var
from compiler.ir.ops import MOVES
from compiler.lower.kernel_ir import Compute, Loop
from compiler.lower.operands import Reg


def gathers_bytes(loop: Loop) -> bool:
    """True if `loop` fills whole words of one array with bytes that lie whole words apart in another, or with every
    other byte of it."""
    return _parts(loop) is not None


def gather(loop: Loop) -> list[str]:
    """The call. Only of a loop that `gathers_bytes`."""
    parts = _parts(loop)
    assert parts is not None, "gathers_bytes was asked"
    target, source, stride, first = parts
    call = f"ft_gather_bytes<{loop.trip.const}, {stride}>"
    return [f"{call}(&{reg(target)}, &{reg(source)}, {total(first)});"]


def _parts(loop: Loop) -> tuple[Reg, Reg, int, Expr] | None:
    """What the loop fills from its first word on, the start of what it reads, the stride, and the first byte read."""
    match loop:
        case Loop(var=var, trip=trip, unroll=True, body=(Compute() as move,)) if len(move.operands) == 1:
            target, source = move.target, move.operands[0]
        case _:
            return None
    if not isinstance(source, Reg) or move.kind not in MOVES:
        return None
    if target.dtype != source.dtype or target.dtype.nbytes != 1:
        return None
    start, first = _without(target.offset, var), _without(source.offset, var)
    step, stride = _factor(target.offset, var), _factor(source.offset, var)
    if start is None or first is None or step != 1 or first.lo < 0:
        return None
    # Of every other byte the first is in the lower half of a word: two words then have a word of them.
    is_of_pairs = stride == REGISTER_BYTES // 2 and (first % REGISTER_BYTES).hi < REGISTER_BYTES // 2
    if not is_of_pairs and (stride == 0 or stride % REGISTER_BYTES):
        return None
    if not trip.is_const or trip.const % REGISTER_BYTES or not start.divisible_by(REGISTER_BYTES):
        return None
    return Reg(target.name, target.dtype, start), Reg(source.name, source.dtype, Expr()), stride, first


def _factor(offset: Expr, var: Var) -> int:
    return sum(c for atom, c in offset.terms if atom == var)


def _without(offset: Expr, var: Var) -> Expr | None:
    """The rest of an offset, or None if the variable is anywhere in it but in a term of its own."""
    rest = Expr(tuple(term for term in offset.terms if term[0] != var), offset.const)
    return None if var in rest.variables else rest
