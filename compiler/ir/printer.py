"""The short printed form of a bound fusion and of a scheduled one: what tests, errors and `show` print.

A fusion is one line a value, a scheduled fusion one paragraph a tensor, in the order of the computation:

    i0_s: bf16 shared = copy(i0) via tma
      logical     ii0_s.0{8192}, ii0_s.1{4096}
      split       ii0_s.1{4096} -> ii0_s.2{16}, ii0_s.3{256}
      loop        ii0_s.0{8192} BIDx | ii0_s.2{16} Serial, ii0_s.3{256} Bulk
      compute-at  1
      circular    2 stages, 1 ahead

`|` stands in the loop domain at the compute-at position. Strides are in elements; an axis whose stride follows from the
axes right of it shows none. What holds by default (no transforms, no allocation, not inlined) has no line. Different
schedules print differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion, Op, Operand, Value
from compiler.ir.id_exprs import IdExpr, Merge, Resize, Shift, Split, Swizzle, Window
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import Allocation, CachePolicy, CopyVia, TensorOp, TensorView


def fusion_text(fusion: Fusion) -> str:
    """A bound fusion: inputs, then operators in order, then the outputs."""
    lines = [f"fusion {fusion.fingerprint}", f"binding {fusion.binding_hash}"]
    lines += [_value_text(fusion.value(name)) for name in fusion.inputs]
    lines += [f"{x.name}: {x.dtype} by value" for x in fusion.scalars]
    lines += [f"{_value_text(fusion.value(op.output))} = {_op_text(op, fusion)}" for op in fusion.ops]
    return "\n".join([*lines, f"outputs {', '.join(fusion.outputs)}"])


def scheduled_text(sf: ScheduledFusion) -> str:
    """A scheduled fusion: its inputs, then every tensor that an op makes, in the order of the ops."""
    head = [f"scheduled fusion {sf.fusion.fingerprint}, outputs {', '.join(sf.outputs)}"]
    if sf.max_registers is not None:
        head.append(f"at most {sf.max_registers} registers a thread")
    tensors = [tensor_text(sf.tensor(name)) for name in sf.inputs]
    tensors += [tensor_text(sf.tensor(op.output), op) for op in sf.ops]
    return "\n\n".join(["\n".join(head), *tensors])


def tensor_text(t: TensorView, op: TensorOp | None = None) -> str:
    """One tensor of a scheduled fusion, with the op that makes it if it is no input."""
    made = "" if op is None else f" = {tensor_op_text(op)}"
    lines = [f"{t.name}: {t.dtype} {t.memory}{made}", *(f"  {name:<10}  {text}" for name, text in _facts(t))]
    return "\n".join(lines)


def tensor_op_text(op: TensorOp) -> str:
    """`gelu(v0) grade coarse`, `copy(i0) via tma`: the op, and what of it is not the default."""
    text = f"{op.kind}({_operands(op.inputs)}{_dims_text(op.dims)})"
    if op.via is not CopyVia.PLAIN:
        text += f" via {op.via}"
    if op.cache is not CachePolicy.DEFAULT:
        text += f" cache {op.cache}"
    if op.straddles:
        text += " straddling words"
    if op.multicasts:
        text += " multicast"
    if op.is_running:
        text += f" {op.running}"
    if op.grade is not MathGrade.EXACT:
        text += f" grade {op.grade}"
    return text


def transform_text(e: IdExpr) -> tuple[str, str]:
    """A transform as its verb, and `sources -> results`."""
    match e:
        case Split():
            verb = "split"
        case Merge():
            verb = "merge"
        case Swizzle():
            verb = "swizzle"
        case Resize():
            verb = f"resize({e.left}, {e.right})"
        case Shift():
            rows = [f"{f} * {a}" for a, f in zip(e.by, e.factors, strict=True)]
            verb = f"shift({' + '.join([*rows, *[str(e.start)] * (e.start > 0 or not rows)])} mod {e.modulus})"
        case Window():
            verb = f"window(step {e.step}, {e.before} before)"
        case _:
            assert_never(e)
    return verb, f"{_axes(e.inputs)} -> {_axes(e.outputs)}"


def _facts(t: TensorView) -> Iterator[tuple[str, str]]:
    """What a paragraph says of its tensor, as (name, text)."""
    yield "logical", _axes(t.logical)
    if t.end is not None:
        yield "end", f"{t.end.count} places of {t.logical[t.end.outer]}, {t.logical[t.end.inner]}"
    yield from map(transform_text, t.exprs)
    if t.exprs or t.loop != t.logical or any(type_ is not ParallelType.SERIAL for type_ in t.types) or t.compute_at:
        yield "loop", _loop_text(t)
    if t.allocation is not None:
        yield from map(transform_text, t.allocation.exprs)
        yield "allocation", _allocation_text(t.allocation)
    if t.compute_at:
        yield "compute-at", str(t.compute_at)
    if t.circular is not None:
        yield "circular", f"{t.circular.stages} stages, {t.circular.prefetch} ahead"
    if t.parked:
        yield "parked", f"from element {t.parked} of a thread on"
    if t.memory is MemoryType.GLOBAL:
        yield "align", f"{t.align} bytes"


def _loop_text(t: TensorView) -> str:
    axes = [f"{axis} {type_}" for axis, type_ in zip(t.loop, t.types, strict=True)]
    inlined, own = ", ".join(axes[: t.compute_at]), ", ".join(axes[t.compute_at :])
    return f"{inlined} | {own}".rstrip() if t.compute_at else own


def _allocation_text(allocation: Allocation) -> str:
    axes = zip(allocation.axes, allocation.strides, strict=True)
    return ", ".join(str(axis) if stride is None else f"{axis} stride {stride}" for axis, stride in axes)


def _value_text(v: Value) -> str:
    return f"{v.name}: {v.dtype} {numbers_text(v.shape)} strides {numbers_text(v.strides)} align {v.align}"


def _op_text(op: Op, fusion: Fusion) -> str:
    dtype = f", dtype={fusion.value(op.output).dtype}" if op.kind is OpKind.CAST else ""
    return f"{op.kind}({_operands(op.inputs)}{_dims_text(op.dims)}{dtype})"


def _operands(operands: Sequence[Operand]) -> str:
    return ", ".join(map(str, operands))


def _dims_text(dims: Sequence[int]) -> str:
    return f", dims={numbers_text(dims)}" if dims else ""


def _axes(axes: Sequence[IterDomain]) -> str:
    return ", ".join(map(str, axes))


def numbers_text(numbers: Iterable[int]) -> str:
    """`(0, 2)`"""
    return f"({', '.join(map(str, numbers))})"
