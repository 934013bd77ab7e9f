"""A product whose sum is cut in parts, which a launch of its own adds up in their order: both schedules by hand."""

from __future__ import annotations

from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind
from compiler.schedule import steps as st
from compiler.schedule.trace import ProgramTrace, ScheduleTrace
from search.launches import cut_at, program_trace
from search.space.builder import TraceBuilder
from tests.compiler.products import Groups, by_warp_groups
from tests.compiler.schedules import LOCAL, P, from_wire


def in_parts(m: int, n: int, k: int, parts: int) -> Fusion:
    """y = x @ w in f32, both operands with k innermost: `parts` products along k, and their sum."""
    ops = []
    for name, rows, dims in (("x", m, [1, 0, 2]), ("w", n, [1, 2, 0])):
        ops.append({"op": "reshape", "in": [name], "out": f"{name}_cut", "shape": [rows, parts, k // parts]})
        ops.append({"op": "permute", "in": [f"{name}_cut"], "out": f"{name}_parts", "dims": dims})
    ops.append({"op": "matmul", "in": ["x_parts", "w_parts"], "out": "each", "dtype": "f32"})
    ops.append({"op": "sum", "in": ["each"], "out": "y", "dims": [0]})
    inputs = [{"name": "x", "shape": [m, k], "dtype": "bf16"}, {"name": "w", "shape": [n, k], "dtype": "bf16"}]
    return from_wire(inputs, ops, "y")


def separately(fusion: Fusion, how: Groups) -> ProgramTrace:
    """The parts by warp groups into scratch memory, then their sum, an element a thread."""
    product = next(op.output for op in fusion.ops if op.kind is OpKind.MATMUL)
    cut = cut_at(fusion, [[product], list(fusion.outputs)])
    first, second = (part.fusion for part in cut.parts)
    return program_trace(fusion, cut, [by_warp_groups(first, how), _sum_of_parts(second)])


def _sum_of_parts(fusion: Fusion) -> ScheduleTrace:
    b = TraceBuilder(fusion)
    (total,) = (op.output for op in b.sf.ops if op.kind is OpKind.SUM)
    b.do(st.CacheInput(fusion.inputs[0], "part", LOCAL))
    for name in ("part", total):
        b.reorder(name, [1, 2, 0])
        b.parallelize(name, [P.BIDX, P.TIDX, P.UNROLL])
    b.parallelize(fusion.outputs[0], [P.BIDX, P.TIDX])
    b.inline(("part", total), 2)
    return b.trace()
