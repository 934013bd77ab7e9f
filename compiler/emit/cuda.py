"""Prints a kernel as CUDA C++: one statement of kernel IR, one function, one template with the shape of its output.

The entry's name is fixed and nothing of the candidate stands in the text: equal schedules give equal machine code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from compiler.dtypes import DType
from compiler.emit.math_forms import MATH_FORMS
from compiler.emit.pieces import pieces
from compiler.emit.text import expression, total
from compiler.ir.expr import Expr, const
from compiler.ir.fusion import Literal
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CachePolicy, MathGrade
from compiler.lower.kernel_ir import (
    Barrier,
    BulkLoad,
    BulkStore,
    CommitStores,
    Compute,
    Convert,
    Declare,
    Elected,
    ExpectBytes,
    FenceAsync,
    GlobalLoad,
    GlobalStore,
    If,
    InitBarriers,
    Kernel,
    Less,
    Loop,
    Reg,
    Shared,
    SharedLoad,
    SharedStore,
    Stmt,
    Sync,
    TmaLoad,
    TmaStore,
    WaitBarrier,
    WaitStores,
    walk,
)

ENTRY = "fusetune_kernel"
"""Name of every generated kernel."""

_ELEMENT = {DType.F32: "float", DType.F16: "u16", DType.BF16: "u16"}
_CACHE = {
    CachePolicy.DEFAULT: 0,
    CachePolicy.NO_ALLOCATE: 1,
    CachePolicy.STREAMING: 2,
    CachePolicy.EVICT_FIRST: 3,
}
_REGISTERS_PER_SM = 65536
"""Of every target (CUDA guide, technical specifications per compute capability)."""

_HALVES = {DType.BF16: "bf16", DType.F16: "f16"}


def emit(kernel: Kernel) -> str:
    """The whole translation unit of a kernel, without includes."""
    index = "u64" if kernel.index_bits == 64 else "u32"
    return "\n".join(
        [
            pieces(sorted(_pieces_of(kernel))),
            *(["struct alignas(64) TensorMap { u8 bytes[128]; };\n"] if kernel.tensor_maps else []),
            f"typedef {index} Index;\n",
            f'extern "C" __global__ void {_launch_bounds(kernel)} {ENTRY}({_parameters(kernel)}) {{',
            *_prologue(kernel),
            *_block(kernel.body, 1),
            "}",
            "",
        ]
    )


def kernel_text(kernel: Kernel) -> str:
    """The kernel alone, without the device pieces before it: what a person reads."""
    return kernel_only(emit(kernel))


def kernel_only(source: str) -> str:
    """The kernel of a translation unit that `emit` has written; the whole text where it has none."""
    return source[max(0, source.find('extern "C"')) :]


def _pieces_of(kernel: Kernel) -> set[str]:
    """The device code that the statements call."""
    used = {"types"}
    for s in walk(kernel.body):
        match s:
            case GlobalLoad() | GlobalStore():
                used.add("global")
            case SharedLoad() | SharedStore():
                used.add("shared")
            case Compute():
                used |= {"math", "convert"}
            case Convert():
                used.add("convert")
            case TmaLoad() | TmaStore() | BulkLoad() | BulkStore() | FenceAsync() | CommitStores() | WaitStores():
                used |= {"tma", "shared"}
            case InitBarriers() | ExpectBytes() | WaitBarrier():
                used |= {"mbarrier", "shared", "tma", "elect"}
            case Elected():
                used.add("elect")
            case Declare() | Loop() | If() | Sync():
                pass
            case _:
                assert_never(s)
    return used


def _launch_bounds(kernel: Kernel) -> str:
    """The cap on registers is expressed as the number of blocks that must be resident."""
    if kernel.max_registers is None:
        return f"__launch_bounds__({kernel.threads})"
    blocks = max(1, _REGISTERS_PER_SM // (kernel.threads * kernel.max_registers))
    return f"__launch_bounds__({kernel.threads}, {blocks})"


def _parameters(kernel: Kernel) -> str:
    params = [f"{'' if p.written else 'const '}{_ELEMENT[p.dtype]}* __restrict__ {p.name}" for p in kernel.pointers] + [
        f"const __grid_constant__ TensorMap {m.name}" for m in kernel.tensor_maps
    ]
    return ", ".join(params)


def _prologue(kernel: Kernel) -> list[str]:
    lines = [f"  const Index b{a} = blockIdx.{a};" for a, n in zip("xyz", kernel.grid, strict=True) if n > 1]
    lines += [f"  const Index t{a} = threadIdx.{a};" for a, n in zip("xyz", kernel.block, strict=True) if n > 1]
    if kernel.smem_bytes:
        lines.append(f"  extern __shared__ __align__({kernel.smem_align}) u8 shared_memory[];")
        lines.append("  const u32 smem = ft_shared_address(shared_memory);")
    return lines


def _block(body: Iterable[Stmt], depth: int) -> list[str]:
    pad = "  " * depth
    return [pad + line for s in body for line in _statement(s)]


def _statement(s: Stmt) -> list[str]:
    match s:
        case Declare():
            return [f"alignas(16) {_ELEMENT[s.dtype]} {s.name}[{s.elems}];"]
        case Loop():
            return _loop(s)
        case If():
            return _if(s)
        case Elected():
            return ["if (ft_is_elected()) {", *_block(s.body, 1), "}"]
        case GlobalLoad():
            return _global_load(s)
        case GlobalStore():
            return _global_store(s)
        case SharedLoad():
            return [f"ft_load_shared<{s.width * s.target.dtype.nbytes}>(&{_reg(s.target)}, {_shared(s.source)});"]
        case SharedStore():
            return [f"ft_store_shared<{s.width * s.source.dtype.nbytes}>({_shared(s.target)}, &{_reg(s.source)});"]
        case Compute():
            return [f"{_reg(s.target)} = {_compute(s)};"]
        case Convert():
            return [_convert(s)]
        case TmaLoad():
            coordinates = ", ".join(f"i32({total(c)})" for c in s.coordinates)
            rank = len(s.coordinates)
            return [f"ft_tma_load_{rank}d({_shared(s.target)}, &{s.tensor_map}, {_barrier(s.barrier)}, {coordinates});"]
        case TmaStore():
            coordinates = ", ".join(f"i32({total(c)})" for c in s.coordinates)
            return [f"ft_tma_store_{len(s.coordinates)}d(&{s.tensor_map}, {_shared(s.source)}, {coordinates});"]
        case BulkLoad():
            address = f"{s.tensor} + {expression(s.offset)}"
            return [f"ft_bulk_load({_shared(s.target)}, {address}, {s.nbytes}u, {_barrier(s.barrier)});"]
        case BulkStore():
            return [f"ft_bulk_store({s.tensor} + {expression(s.offset)}, {_shared(s.source)}, {s.nbytes}u);"]
        case InitBarriers():
            return _init_barriers(s)
        case ExpectBytes():
            return [f"ft_mbarrier_expect_tx({_barrier(s.barrier)}, {s.nbytes}u);"]
        case WaitBarrier():
            return [f"ft_mbarrier_wait({_barrier(s.barrier)}, {total(s.parity)});"]
        case Sync():
            return ["__syncthreads();"]
        case FenceAsync():
            return ["ft_fence_async_shared();"]
        case CommitStores():
            return ["ft_bulk_commit();"]
        case WaitStores():
            return ["ft_bulk_wait_read<0>();"]
        case _:
            assert_never(s)


def _loop(s: Loop) -> list[str]:
    name = s.var.name
    return [
        "#pragma unroll" if s.unroll else "#pragma unroll 1",
        f"for (Index {name} = 0u; {name} < {total(s.trip)}; ++{name}) {{",
        *_block(s.body, 1),
        "}",
    ]


def _if(s: If) -> list[str]:
    lines = [f"if ({_all(s.conditions)}) {{", *_block(s.then, 1)]
    if s.orelse:
        lines += ["} else {", *_block(s.orelse, 1)]
    return [*lines, "}"]


def _all(conditions: Iterable[Less]) -> str:
    return " && ".join(f"{expression(c.left)} < {expression(c.right)}" for c in conditions)


def _lane(e: Expr, lane: int) -> Expr:
    return e.substitute({v: const(lane) for v in e.variables if v.name == "lane"})


def _guarded(guards: tuple[Less, ...], inside: list[str], otherwise: list[str]) -> list[str]:
    if not guards:
        return inside
    lines = [f"if ({_all(guards)}) {{", *("  " + x for x in inside)]
    if otherwise:
        lines += ["} else {", *("  " + x for x in otherwise)]
    return [*lines, "}"]


def _cut(tail: Less, width: int, whole: str, one: list[str]) -> list[str]:
    """A vector access where all lanes are inside, else lane by lane."""
    last = Less(_lane(tail.left, width - 1), tail.right)
    lines = [f"if ({_all((last,))}) {{", "  " + whole, "} else {"]
    for lane in range(width - 1):
        lines.append(f"  if ({_all((Less(_lane(tail.left, lane), tail.right),))}) {{ {one[lane]} }}")
    return [*lines, "}"]


def _zero(target: Reg, width: int) -> list[str]:
    zero = "0.0f" if target.dtype is DType.F32 else "0"
    return [f"{_reg(_at(target, i))} = {zero};" for i in range(width)]


def _at(reg: Reg, lane: int) -> Reg:
    return Reg(reg.name, reg.dtype, reg.offset + lane)


def _global_load(s: GlobalLoad) -> list[str]:
    e = s.target.dtype.nbytes
    cache = _CACHE[s.cache]
    address = f"{s.tensor} + {expression(s.offset)}"
    whole = f"ft_load_global<{s.width * e}, {cache}>(&{_reg(s.target)}, {address});"
    if s.tail is None:
        return _guarded(s.guards, [whole], _zero(s.target, s.width))
    one = [
        f"ft_load_global<{e}, {cache}>(&{_reg(_at(s.target, i))}, {s.tensor} + {expression(s.offset + i)});"
        for i in range(s.width)
    ]
    zeros = _zero(s.target, s.width)
    return _guarded(s.guards, [*zeros, *_cut(s.tail, s.width, whole, one)], zeros)


def _global_store(s: GlobalStore) -> list[str]:
    e = s.source.dtype.nbytes
    cache = _CACHE[s.cache]
    whole = f"ft_store_global<{s.width * e}, {cache}>({s.tensor} + {expression(s.offset)}, &{_reg(s.source)});"
    if s.tail is None:
        return _guarded(s.guards, [whole], [])
    one = [
        f"ft_store_global<{e}, {cache}>({s.tensor} + {expression(s.offset + i)}, &{_reg(_at(s.source, i))});"
        for i in range(s.width)
    ]
    return _guarded(s.guards, _cut(s.tail, s.width, whole, one), [])


def _reg(r: Reg) -> str:
    return f"{r.name}[{total(r.offset)}]"


def _shared(place: Shared) -> str:
    return f"smem + u32({total(place.byte_offset)})" if place.byte_offset != const(0) else "smem"


def _barrier(b: Barrier) -> str:
    return f"smem + u32({total(b.byte_offset)})"


def _widened(x: Reg | Literal) -> str:
    """An operand as f32."""
    if isinstance(x, Literal):
        return _literal(x.value)
    half = _HALVES.get(x.dtype)
    return f"ft_to_f32_{half}({_reg(x)})" if half else _reg(x)


def _literal(value: float) -> str:
    if value != value:
        return "__uint_as_float(0x7fffffffu)"
    if value in (float("inf"), float("-inf")):
        return f"__uint_as_float(0x{'7' if value > 0 else 'f'}f800000u)"
    return f"{value!r}f" if "." in repr(value) or "e" in repr(value) else f"{value!r}.0f"


def _compute(s: Compute) -> str:
    copies = s.kind in (OpKind.COPY, OpKind.PERMUTE, OpKind.BROADCAST_TO)
    if copies and isinstance(s.operands[0], Reg) and s.operands[0].dtype is s.target.dtype:
        return _reg(s.operands[0])
    operands = ", ".join(_widened(x) for x in s.operands)
    value = operands if copies or s.kind is OpKind.CAST else f"{function(s.kind, s.grade)}({operands})"
    half = _HALVES.get(s.target.dtype)
    return f"ft_to_{half}({value})" if half else value


def function(kind: OpKind, grade: MathGrade) -> str:
    """The device function of an operator: of the grade asked for, or of the next more exact one that it has."""
    forms = MATH_FORMS[kind]
    if grade is MathGrade.COARSE and forms.coarse is not None:
        return forms.coarse.function
    if grade is not MathGrade.EXACT and forms.approx is not None:
        return forms.approx.function
    return forms.exact


def _convert(s: Convert) -> str:
    """Packed conversions to and from f32; between the halves through f32 one by one."""
    source, target = f"&{_reg(s.source)}", f"&{_reg(s.target)}"
    if s.target.dtype is DType.F32 and s.source.dtype in _HALVES:
        return f"ft_widen_{_HALVES[s.source.dtype]}<{s.width}>({target}, {source});"
    if s.source.dtype is DType.F32 and s.target.dtype in _HALVES:
        return f"ft_narrow_{_HALVES[s.target.dtype]}<{s.width}>({target}, {source});"
    pairs = ((Reg(s.target.name, s.target.dtype, s.target.offset + i), _at(s.source, i)) for i in range(s.width))
    return " ".join(f"{_reg(t)} = {_compute(Compute(OpKind.CAST, t, (x,), MathGrade.EXACT))};" for t, x in pairs)


def _init_barriers(s: InitBarriers) -> list[str]:
    return [
        "if (ft_is_elected()) {",
        *(f"  ft_prefetch_tensor_map(&{name});" for name in s.tensor_maps),
        *(f"  ft_mbarrier_init(smem + {s.byte_offset + 8 * i}u, 1u);" for i in range(s.count)),
        "  ft_fence_mbarrier_init();",
        "}",
    ]
