"""Statements of folds as CUDA C++: what a fold starts from, one step of it, shuffles, and exchange in a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from compiler.dtypes import DType
from compiler.emit.text import expression, total
from compiler.emit.values import ELEMENT, converted, reg, zero
from compiler.ir.expr import const
from compiler.ir.ops import OpKind
from compiler.lower.kernel_ir import Accumulate, AccumulateRun, Fill, Index, ScanLanes, ScanRun, Shuffle
from compiler.lower.operands import Less

_FIRST = {
    (OpKind.PROD, DType.F64): "1.0",
    (OpKind.PROD, DType.F32): "1.0f",
    (OpKind.PROD, DType.I64): "1",
    (OpKind.AMAX, DType.F64): "__longlong_as_double(0xfff0000000000000ll)",
    (OpKind.AMAX, DType.F32): "__uint_as_float(0xff800000u)",
    (OpKind.AMAX, DType.F16): "0xfc00u",
    (OpKind.AMAX, DType.BF16): "0xff80u",
    (OpKind.AMAX, DType.I8): "::i8(-128)",
    (OpKind.AMAX, DType.I16): "::i16(-32768)",
    (OpKind.AMAX, DType.I32): "::i32(0x80000000u)",
    (OpKind.AMAX, DType.I64): "::i64(0x8000000000000000ull)",
    (OpKind.AMAX, DType.BOOL): "0",
    (OpKind.AMIN, DType.F64): "__longlong_as_double(0x7ff0000000000000ll)",
    (OpKind.AMIN, DType.F32): "__uint_as_float(0x7f800000u)",
    (OpKind.AMIN, DType.F16): "0x7c00u",
    (OpKind.AMIN, DType.BF16): "0x7f80u",
    (OpKind.AMIN, DType.I8): "::i8(127)",
    (OpKind.AMIN, DType.U8): "255",
    (OpKind.AMIN, DType.I16): "::i16(32767)",
    (OpKind.AMIN, DType.I32): "::i32(0x7fffffff)",
    (OpKind.AMIN, DType.I64): "::i64(0x7fffffffffffffffll)",
    (OpKind.AMIN, DType.BOOL): "1",
}
"""The infinities (IEEE 754; bfloat16 is the upper half of binary32) and the ends of two's complement; of unsigned
integers the maximum starts at zero."""


def fill(s: Fill) -> list[str]:
    """What changes nothing: 0 for a sum, 1 for a product, the least for a maximum, the greatest for a minimum."""
    first = _FIRST.get((s.kind, s.dtype), zero(s.dtype))
    return _every(s.elems, lambda element: [f"{s.name}[{element}] = {first};"])


def folded(kind: OpKind, dtype: DType, a: str, b: str) -> str:
    """One step of a fold."""
    return f"ft_fold_{kind}_{dtype}({a}, {b})"


def accumulate(s: Accumulate) -> list[str]:
    """One element into a fold, if it is one; a sum of 16-bit floats or short integers is wider than its elements."""
    element = converted(s.source, s.target.dtype)
    value = folded(s.kind, s.target.dtype, reg(s.target), element)
    return [f"{reg(s.target)} = {f'({conditions(s.guards)}) ? {value} : {reg(s.target)}' if s.guards else value};"]


def accumulate_run(s: AccumulateRun) -> list[str]:
    """Pairs first, then the two halves of what is left."""
    name = f"ft_fold_{s.kind}{'_sizes' if s.of_sizes else ''}_run_{s.source.dtype}<{s.width}>"
    return [f"{reg(s.target)} = {name}({reg(s.target)}, &{reg(s.source)});"]


def conditions(all_of: Iterable[Less]) -> str:
    """Conditions that must all hold."""
    return " && ".join(map(_condition, all_of))


def _condition(c: Less) -> str:
    left, right = c.unsigned
    return f"{expression(left)} == 0u" if right == const(1) else f"{expression(left)} < {expression(right)}"


def shuffle(s: Shuffle) -> list[str]:
    """Every element with that of the lane at each distance in turn: both get the same bits, since a + b = b + a."""

    def step(element: str, distance: str) -> list[str]:
        x = f"{s.name}[{element}]"
        return [f"{x} = {folded(s.kind, s.dtype, x, f'ft_shuffle_xor({x}, {distance}, {s.members:#x}u)')};"]

    first, last = s.masks[0], s.masks[-1]
    if first == last:
        return _every(s.elems, lambda element: step(element, f"{first}u"))
    loop = f"for (u32 distance = {first}u; distance <= {last}u; distance *= 2u) {{"
    steps = _every(s.elems, lambda element: step(element, "distance"))
    return ["#pragma unroll", loop, *("  " + line for line in steps), "}"]


def scan_lanes(s: ScanLanes) -> str:
    """What lanes before have, and all of them together."""
    to = f"&{reg(s.source)}, &{reg(s.before)}, &{reg(s.total)}"
    return f"ft_scan_lanes<{s.width}, {s.lanes}>({to}, {expression(s.lane)}, {s.members:#x}u);"


def scan_run(s: ScanRun) -> str:
    """The sums of a thread's word, one after the other."""
    call = f"ft_scan_run<{s.width}, {str(s.is_exclusive).lower()}>"
    return f"{call}(&{reg(s.source)}, &{reg(s.running)}, &{reg(s.target)});"


def _every(elems: int, line: Callable[[str], list[str]]) -> list[str]:
    """A line for each element of a register array, in an unrolled loop."""
    if elems == 1:
        return line("0u")
    loop = f"for (Index element = 0u; element < {elems}u; ++element) {{"
    return ["#pragma unroll", loop, *("  " + one for one in line("element")), "}"]


def index_value(s: Index) -> str:
    """An index as a number of the register's type; halves by way of f32."""
    number = total(s.value)
    half = {DType.F16: "f16", DType.BF16: "bf16"}.get(s.target.dtype)
    # Rounded once: float alone would round a large index before the half does.
    rounded_once = f"ft_to_{half}(ft_to_f32_odd(::i64({number})))"
    return rounded_once if half else f"static_cast<{ELEMENT[s.target.dtype]}>({number})"
