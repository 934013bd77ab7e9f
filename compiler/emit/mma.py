"""Statements of tensor cores as CUDA C++: one call each; and the functions of the instructions that a kernel has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from compiler.analysis.mma.instructions import Instruction, MmaUnit
from compiler.dtypes import DType
from compiler.emit.tensor_memory import tmem_address
from compiler.emit.text import total
from compiler.emit.values import reg
from compiler.lower.kernel_ir import Stmt
from compiler.lower.mma_ir import (
    CommitMma,
    HoldRegisters,
    MatrixPlace,
    Mma,
    MmaAsync,
    MmaFence,
    MmaStmt,
    TensorMma,
    WaitMma,
)
from compiler.lower.operands import Reg
from compiler.lower.traversal import walk

_TYPE = {
    DType.F32: "tf32",
    DType.F16: "f16",
    DType.BF16: "bf16",
    DType.F8E4M3: "e4m3",
    DType.F8E5M2: "e5m2",
    DType.I8: "s8",
}
"""Names of operands' types in PTX."""

_RESULT = {DType.F32: "f32", DType.I32: "s32"}

_SWIZZLE = {0: 0, 128: 1, 64: 2, 32: 3}
"""Bits 62 and 63 of a descriptor, by the bytes of a swizzle (PTX ISA, wgmma, "Matrix Descriptor Format")."""

_TENSOR_SWIZZLE = {0: 0, 128: 2, 64: 4, 32: 6}
"""Bits 61 to 63 of a descriptor of tcgen05 (PTX ISA, tcgen05, "Shared memory descriptor")."""

_KIND = {
    DType.F16: ("f16", 0),
    DType.BF16: ("f16", 1),
    DType.F8E4M3: ("f8f6f4", 0),
    DType.F8E5M2: ("f8f6f4", 1),
    DType.I8: ("i8", 1),
    DType.F32: ("tf32", 2),
}
"""Kind of tcgen05.mma, and the number of the operands' type in it (PTX ISA, "Instruction descriptor")."""


def by_tensor_cores(s: MmaStmt) -> str:
    """The call that carries out the statement."""
    match s:
        case Mma():
            return f"ft_mma_{_name(s.instruction)}(&{reg(s.target)}, &{reg(s.left)}, &{reg(s.right)});"
        case MmaAsync():
            sides = (s.right,) if isinstance(s.left, Reg) else (s.left, s.right)
            turned = ", ".join(f"{side.is_transposed:d}" for side in sides)
            transposed = f"<{turned}>" if s.instruction.transposes else ""
            left = f"&{reg(s.left)}" if isinstance(s.left, Reg) else _matrix(s.left)
            operands = f"{left}, {_matrix(s.right)}, {total(s.adds)}"
            return f"ft_wgmma_{_name(s.instruction)}{transposed}(&{reg(s.target)}, {operands});"
        case TensorMma():
            operands = f"{_matrix(s.left, of_tensor=True)}, {_matrix(s.right, of_tensor=True)}"
            kind, _ = _KIND[s.instruction.operand]
            return f"ft_tensor_mma_{kind}({tmem_address(s.target)}, {operands}, {form_of(s):#x}u, {total(s.adds)});"
        case MmaFence():
            return "ft_mma_fence();"
        case CommitMma():
            return "ft_mma_commit();"
        case WaitMma():
            return f"ft_mma_wait<{s.pending}>();"
        case HoldRegisters():
            return f"ft_mma_hold<{s.elems}>(&{s.name}[0]);"
        case _:
            assert_never(s)


def instructions_of(body: Iterable[Stmt]) -> tuple[Instruction, ...]:
    """The instructions of a kernel that have a function of their own, each once."""
    found = (s.instruction for s in walk(tuple(body)) if isinstance(s, Mma | MmaAsync))
    return tuple(sorted(set(found), key=str))


def function_of(i: Instruction) -> str:
    """The function of an instruction: a form of `wgmma.cuh`, or `mma_sync.cuh`, with its shape."""
    count = i.held
    form = "HALVES" if i.transposes else "INTEGERS" if i.operand is DType.I8 else "FLOATS"
    shape = f"m{i.m}n{i.n}k{i.k}"
    if i.unit is MmaUnit.MMA_SYNC:
        left, result = _TYPE[i.operand], _RESULT[i.accumulator]
        kind, held = ("::i32", '"r"') if i.accumulator is DType.I32 else ("float", '"f"')
        return f'FT_MMA({_name(i)}, "{shape}", "{result}.{left}.{left}.{result}", {kind}, {held})'
    types = f"{_RESULT[i.accumulator]}.{_TYPE[i.operand]}.{_TYPE[i.operand]}"
    if i.holds_rows:
        places = range(count, count + (7 if i.transposes else 6))
        return f'FT_WGMMA_{form}_HELD({_name(i)}, "{shape}", "{types}", {count}, {", ".join(map(str, places))})'
    places = range(count, count + (5 if i.transposes else 3))
    return f'FT_WGMMA_{form}({_name(i)}, "{shape}", "{types}", {count}, {", ".join(map(str, places))})'


def _name(i: Instruction) -> str:
    return f"m{i.m}n{i.n}k{i.k}_{_TYPE[i.operand]}{'_held' * i.holds_rows}"


def form_of(s: TensorMma) -> int:
    """The instruction descriptor: result in bits 4 and 5, operands' types from 7 and 10, 15 and 16 whether they have
    rows side by side, columns / 8 from 17, rows / 16 from 24 (PTX ISA, tcgen05.mma, "Instruction descriptor")."""
    i, (_, number) = s.instruction, _KIND[s.instruction.operand]
    result = 2 if i.accumulator is DType.I32 else 1
    turned = s.left.is_transposed << 15 | s.right.is_transposed << 16
    return result << 4 | number << 7 | number << 10 | turned | i.n >> 3 << 17 | i.m >> 4 << 24


def _matrix(m: MatrixPlace, *, of_tensor: bool = False) -> str:
    """A descriptor: offsets count in 16 bytes, in bits 16 to 29 and 32 to 45; of tcgen05 bit 46 is set."""
    swizzle = _TENSOR_SWIZZLE[m.span] << 61 | 1 << 46 if of_tensor else _SWIZZLE[m.span] << 62
    shape = m.leading >> 4 << 16 | m.stride >> 4 << 32 | swizzle
    return f"ft_matrix<{shape:#x}ull>(matrices + u32({total(m.place.byte_offset)}))"
