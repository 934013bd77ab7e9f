"""Rules on products by tensor cores: which instructions there are, and how their results and operands lie."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from compiler.analysis.id.indexing import IndexBound
from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.mma.instructions import MmaUnit
from compiler.analysis.mma.product import MmaProduct, is_by_mma
from compiler.analysis.mma.shared_operand import OperandTile
from compiler.analysis.mma.tensor_coordinates import accumulator_place
from compiler.analysis.sync.block_parts import block_parts
from compiler.arch import REGISTER_BYTES, REGISTER_UNIT
from compiler.copies.instruction import Path, path_of
from compiler.errors import Violation
from compiler.ir.expr import Expr
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import CONTRACTIONS, OpKind
from compiler.ir.tensor import BufferKind, TensorOp
from compiler.legality.rules import Schedule, model_rule, rule

BESIDE_ACCUMULATORS = 32
"""Registers of a thread beside its part of results: addresses, descriptors, counters of loops."""

BESIDE_RESULTS = 26
"""Registers that ptxas asks for beside those of one instruction's result, of all that a thread has when the block
begins (C7602: of 128 for m64n256 at least 154)."""

_IN_REGISTERS, _THERE = "sm_90a for wgmma, sm_80 and up for mma", "sm_100a for tcgen05"
_TARGETS = {MmaUnit.WGMMA: _IN_REGISTERS, MmaUnit.MMA_SYNC: _IN_REGISTERS, MmaUnit.TCGEN05: _THERE}

_OF_WARPS = "m64n(8..256)k32B or m16n8k32B"
_SHAPES = {
    MmaUnit.WGMMA: _OF_WARPS,
    MmaUnit.MMA_SYNC: _OF_WARPS,
    MmaUnit.TCGEN05: "m128n(16, 32..256)k32B or m64n(8, 16..256)k32B",
}

_KEPT = frozenset({OpKind.COPY, OpKind.BROADCAST_TO, OpKind.PERMUTE, OpKind.CAST})
"""Operators of which 0 makes 0."""


def _products(s: Schedule) -> Iterator[tuple[TensorOp, MmaProduct]]:
    """Every product whose axes an instruction takes."""
    return ((op, s.products[op.output]) for op in s.sf.ops if op.output in s.products)


@model_rule
def mma_axes_are_of_products(s: Schedule) -> Iterator[Violation]:
    """Tensor cores multiply matrices, and add up: an axis is on Mma in what a contraction makes alone (PTX ISA, wgmma,
    mma)."""
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        if is_by_mma(t) and op.kind not in CONTRACTIONS:
            yield Violation(
                "mma_axes_are_of_products",
                f"{t.name}: Mma",
                str(op.kind),
                "matmul",
                "Parallelize the axis otherwise.",
            )


@model_rule
def mma_operands_lie_in_one_memory(s: Schedule) -> Iterator[Violation]:
    """Both operands of an instruction are tiles in shared memory, or both are registers of a warp: those of wgmma, and
    those of mma; wgmma takes one of them, its rows, from registers too (PTX ISA, wgmma, mma: A, B). Of a product in
    tensor memory both are tiles (PTX ISA, tcgen05.mma)."""
    for op in s.sf.ops:
        if not is_by_mma(s.sf.tensor(op.output)) or op.kind not in CONTRACTIONS:
            continue
        found = [s.sf.tensor(name).memory for name in op.tensor_inputs]
        is_there = s.sf.tensor(op.output).memory is MemoryType.TENSOR
        if is_there and set(found) != {MemoryType.SHARED}:
            yield Violation(
                "mma_operands_lie_in_one_memory",
                f"operands of {op.output}, which is in tensor memory",
                " and ".join(map(str, found)),
                "shared and shared",
                "Bring both operands to shared memory (set_memory), or leave the product in registers.",
            )
        elif not set(found) <= {MemoryType.SHARED, MemoryType.LOCAL}:
            yield Violation(
                "mma_operands_lie_in_one_memory",
                f"operands of {op.output}",
                " and ".join(map(str, found)),
                "shared and shared, local and local, or rows local and columns shared",
                "Bring both operands to shared memory (set_memory), or from there to registers (cache_input).",
            )


@rule
def mma_columns_of_groups_lie_in_shared_memory(s: Schedule) -> Iterator[Violation]:
    """A warp group holds the rows' operand, or none: that of the columns is a tile in shared memory (PTX ISA,
    wgmma.mma_async: b-desc)."""
    for op, product in _products(s):
        name = product.operands[1]
        if product.unit is MmaUnit.WGMMA and product.instruction and s.sf.tensor(name).memory is MemoryType.LOCAL:
            yield Violation(
                "mma_columns_of_groups_lie_in_shared_memory",
                f"{op.output} reads {name}",
                "columns in registers",
                "rows in registers, columns in shared memory",
                "Exchange rows and columns of the result, or bring the operand to shared memory.",
            )


@rule
def mma_axes_are_those_of_an_instruction(s: Schedule) -> Iterator[Violation]:
    """Threads and Mma axes have the rows and columns of a result as an instruction leaves them: 64 rows of a warp group
    cut 4, 2, 8, or 16 of a warp 2, 8, columns cut by 8 and 4, 2; on TIDx 4, 8 and 4 of these, on Mma, in this order,
    the others (PTX ISA, wgmma: register fragments of D; mma: matrix fragments of C). In tensor memory a row is a lane,
    of 64 rows 16 of each 32 lanes, and a column a column (PTX ISA, tcgen05: layouts D and F)."""
    for op, product in _products(s):
        if product.instruction is None and product.unit is MmaUnit.TCGEN05:
            t = s.sf.tensor(op.output)
            lane, column = accumulator_place(s.indexing, t)
            yield Violation(
                "mma_axes_are_those_of_an_instruction",
                f"{op.output}: {product.unit}",
                f"lane {lane}, column {column}",
                "rows on Mma left of the separator, 64 of them as [4, 16] with strides [32, 1], columns right of it",
                "Set an allocation domain of rows and columns so, with its separator between them.",
            )
        elif product.instruction is None:
            yield Violation(
                "mma_axes_are_those_of_an_instruction",
                f"{op.output}: {product.unit}",
                f"{s.indexing.write_offset(s.sf.tensor(op.output))} in registers",
                f"whole groups of {product.unit.threads} threads along x, and columns / 8, 2 rows, 2 columns on Mma",
                "Cut rows and columns as the instruction has them, or leave Mma out.",
            )


@rule
def mma_shape_exists(s: Schedule) -> Iterator[Violation]:
    """There is an instruction of these types and extents: wgmma 64 rows, 8 to 256 columns by 8, of integers by 16 above
    32; mma 16 rows, 8 columns; tcgen05.mma 64 rows and columns by 8, or 128 rows and columns by 16, of integers by 16,
    with 64 rows 8 and 24 too; 32 bytes along k; f16, bf16 and floats of 8 bits into f32, i8 into i32; of f32 what tf32
    has of it, where that was asked for (PTX ISA, "Shape for wgmma.mma_async", "Matrix Fragments" of mma, "Kinds of
    matrix-multiply")."""
    for op, product in _products(s):
        made = product.instruction
        if made is not None and not made.is_known:
            yield Violation(
                "mma_shape_exists",
                op.output,
                str(made),
                f"{_SHAPES[product.unit]} of f16, bf16, f8, tf32, or i8 -> i32",
                "Change the extents of the Mma axes, or the types; let f32 be multiplied as tf32 (precision).",
            )


@rule
def mma_target_has_the_unit(s: Schedule) -> Iterator[Violation]:
    """wgmma is of sm_90a alone; mma of sm_80 and up, of floats of 8 bits of sm_89; tcgen05.mma of sm_100a and sm_103a,
    of integers of sm_100a alone (PTX ISA, target ISA notes)."""
    for op, product in _products(s):
        made = product.instruction
        if made is not None and not made.is_on(s.arch):
            yield Violation(
                "mma_target_has_the_unit",
                op.output,
                f"{made} on {s.arch.name}",
                _TARGETS[product.unit],
                "Hold the operands in registers, or choose another architecture.",
            )


@rule
def mma_operands_lie_as_a_descriptor_says(s: Schedule) -> Iterator[Violation]:
    """A tile lies in shared memory in one of the layouts of a descriptor, the same for all instructions: lines of the
    swizzle's span, eight of them to a pattern, at equal distances; an instruction begins where a pattern does, along k
    at a multiple of 16 bytes into a line (PTX ISA, wgmma: canonical layouts, "Matrix Descriptor Format")."""
    for op, product in _products(s):
        if not product.unit.reads_shared or product.instruction is None:
            continue
        for name, side in zip(product.operands, (product.rows, product.columns), strict=True):
            t = s.sf.tensor(name)
            if side is None and t.memory is MemoryType.SHARED:
                yield Violation(
                    "mma_operands_lie_as_a_descriptor_says",
                    f"{op.output} reads {name}",
                    str(s.indexing.read_offset(op, name)),
                    "lines of 128, 64 or 32 bytes, swizzled, or of 16",
                    "Give the tile an allocation domain of such lines, split by 8 rows and 16 bytes and swizzled.",
                )


@rule
def mma_transposed_operand_is_of_16_bits(s: Schedule) -> Iterator[Violation]:
    """Rows or columns of an operand may lie side by side, and not k, where an element has 16 bits (PTX ISA, wgmma:
    imm-trans-a, imm-trans-b); of tcgen05.mma of 8 bits too, with columns by 16 (PTX ISA, tcgen05.mma, instruction
    descriptor: bits 15, 16)."""
    for op, product in _products(s):
        for name, side in zip(product.operands, (product.rows, product.columns), strict=True):
            made = product.instruction
            if made is not None and isinstance(side, OperandTile) and side.is_transposed and not made.transposes:
                yield Violation(
                    "mma_transposed_operand_is_of_16_bits",
                    f"{op.output} reads {name}",
                    f"{made.operand}, k apart",
                    "k side by side",
                    "Take the operand with k innermost.",
                )


@rule
def mma_operands_are_fragments(s: Schedule) -> Iterator[Violation]:
    """A lane holds of the operands what an instruction takes from it: row or column lane / 4, 4 bytes along k at
    lane % 4, in registers by 8 rows, then by 16 bytes along k; of a warp group's rows each warp has 16 (PTX ISA, mma:
    matrix fragments of A and B; wgmma: register fragments of A)."""
    for op, product in _products(s):
        if product.instruction is None or (product.unit is MmaUnit.WGMMA and not product.holds_rows):
            continue
        sides = (product.rows, product.columns)[: 1 if product.holds_rows else 2]
        for name, side in zip(product.operands, sides, strict=False):
            t = s.sf.tensor(name)
            if side is None and t.memory is MemoryType.LOCAL:
                yield Violation(
                    "mma_operands_are_fragments",
                    f"{op.output} reads {name}",
                    f"element {s.indexing.read_offset(op, name)} of a lane",
                    "8 rows and 4 pieces of k on TIDx; 2 pieces of k, 2 rows, 4 bytes of k in registers",
                    "Cut k and the rows of the operand so, and load it by ldmatrix.",
                )


@rule
def accumulators_fit_the_registers(s: Schedule) -> Iterator[Violation]:
    """A thread's part of all results, and 32 registers beside it, are no more than it may have: what an instruction
    adds to cannot lie elsewhere (PTX ISA, setmaxnreg; ptxas C7510: products one after the other)."""
    held: dict[str, int] = {}
    for op, product in _products(s):
        t = s.sf.tensor(op.output)
        if product.unit is MmaUnit.TCGEN05:
            continue
        held[t.name] = layout_of(t).elems * t.dtype.nbytes // REGISTER_BYTES
    shares = (t.circular.registers for t in s.sf.tensors if t.circular is not None)
    given = [compute for share in shares if share is not None for compute in share[1:]]
    threads = prod(s.indexing.nest.block())
    share = s.arch.registers_per_sm // threads // REGISTER_UNIT * REGISTER_UNIT
    most = min(s.sf.max_registers or s.arch.max_registers_per_thread, *(given or [share]))
    found = sum(held.values())
    if held and found + BESIDE_ACCUMULATORS > most:
        yield Violation(
            "accumulators_fit_the_registers",
            ", ".join(held),
            f"{found} registers of a thread",
            f"at most {most - BESIDE_ACCUMULATORS}",
            "Take smaller tiles, or more groups of threads for a tile.",
        )


@rule
def mma_results_fit_the_registers_at_launch(s: Schedule) -> Iterator[Violation]:
    """What one instruction leaves in a thread's registers, and 26 beside it, are no more than each thread has when the
    block begins: those that it is given later do not count (ptxas C7602)."""
    parts = block_parts(s.sf, s.indexing.nest)
    given = parts.common_registers if parts is not None else None
    for op, product in _products(s):
        made = product.instruction
        if given is None or made is None or made.unit is not MmaUnit.WGMMA:
            continue
        held = made.m * made.n // made.unit.threads
        if held + BESIDE_RESULTS > given:
            yield Violation(
                "mma_results_fit_the_registers_at_launch",
                f"{op.output}: {made}",
                f"{held} registers of a thread",
                f"at most {given - BESIDE_RESULTS} of {given}",
                "Take fewer columns an instruction, or fewer groups of threads for a tile.",
            )


@rule
def products_in_flight_leave_stages_to_fill(s: Schedule) -> Iterator[Violation]:
    """What instructions under way read is not filled again: the stages of `in_flight` turns stay as they are, and warps
    of their own fill the others (PTX ISA, wgmma.wait_group: accesses of the async proxy)."""
    for op, product in _products(s):
        if product.unit is MmaUnit.TCGEN05:
            continue  # places of its own, which `tmem_columns_fit` counts
        groups = s.sf.tensor(op.output).in_flight
        for name in product.operands if groups else ():
            ring = s.sf.tensor(name).circular
            stages = ring.stages if ring is not None and ring.kind is BufferKind.WARP_SPECIALIZED else 1
            if stages <= groups:
                yield Violation(
                    "products_in_flight_leave_stages_to_fill",
                    f"{op.output} reads {name}",
                    f"{groups} groups under way, {stages} stages",
                    f"{groups + 1} stages that warps of their own fill",
                    "Give the operands such rings, or let no products be under way.",
                )


@rule
def summed_tails_are_zero(s: Schedule) -> Iterator[Violation]:
    """An instruction leaves out nothing: where tiles go past the end of what is summed along, both operands have zeros.
    The copy engine puts them there past the end of a tensor (CUDA driver API, cuTensorMapEncodeTiled: fill), threads
    that load in every hole of a split."""
    for op, product in _products(s):
        if product.coordinates is None:
            continue
        t = s.sf.tensor(op.output)
        ends = [(s.indexing.own(t)[axis], axis.extent) for axis in t.logical if axis.is_reduction]
        summed = frozenset(v for index, _ in ends for v in index.variables)
        for bound in s.indexing.bounds(t):
            is_end = any(_lies_behind(bound, index, extent) for index, extent in ends)
            for name in product.operands if bound.index.variables & summed else ():
                if not _is_filled(s, name, is_end=is_end):
                    yield Violation(
                        "summed_tails_are_zero",
                        f"{op.output} reads {name}",
                        f"{bound.index} from {bound.extent} on",
                        "whole tiles, or zeros that arrive in place of what there is not",
                        "Cut what is summed along from its end on, and bring both operands by tensor maps or threads.",
                    )


def _lies_behind(bound: IndexBound, index: Expr, extent: int) -> bool:
    """Whether what is past a bound is past the end, `extent`, of what has this `index`: the bound is that one, or of
    the pieces that it is cut into."""
    step = -(-extent // bound.extent)
    return (index - bound.index * step).lo >= 0


def _is_filled(s: Schedule, name: str, *, is_end: bool) -> bool:
    """Whether a tensor has zeros in the holes of a split; `is_end`: which are past the end of the input that it is made
    of."""
    op = s.sf.producer(name)
    if op is None or op.kind not in _KEPT:
        return False
    if op.tensor_inputs[0] not in s.sf.inputs:
        return _is_filled(s, op.tensor_inputs[0], is_end=is_end)
    return is_end and path_of(s, op) is Path.TMA if op.via.is_bulk else True
