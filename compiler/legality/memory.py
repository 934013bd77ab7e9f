"""Rules on memories: which copies join which, what a block's shared memory and a thread's registers hold."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.id.conditions import kept, settled
from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.memory.smem_bytes import allocated_loop_axes
from compiler.analysis.mma.product import is_by_mma
from compiler.arch import MAX_LOCAL_BYTES
from compiler.copies.instruction import joined
from compiler.errors import Kept, Stage, Violation
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import CONTRACTIONS, POINTWISE, OpKind
from compiler.ir.tensor import CopyVia, TensorOp
from compiler.legality.rules import Schedule, model_rule, rule

_L, _T = MemoryType.LOCAL, MemoryType.TENSOR


@model_rule
def copies_join_the_memories_of_their_instruction(s: Schedule) -> Iterator[Violation]:
    """Bulk copies move data between global and shared memory, cp.async from global to shared memory, ldmatrix from
    shared memory to registers and stmatrix back, tensor-memory stores and loads between registers and tensor memory,
    tiles from shared to tensor memory, and shifts inside it; each only copies; a multicast, and what brings an operand
    of a contraction, repeats what it copies along a broadcast. Any other operator reads and writes everything but
    tensor memory, where instructions of tensor cores leave products. (PTX ISA, cp.async.bulk, cp.async, ldmatrix,
    stmatrix, tcgen05)"""
    for op in s.sf.ops:
        rule, where = "copies_join_the_memories_of_their_instruction", f"{op.output} (via {op.via})"
        memories = [s.sf.tensor(name).memory for name in op.tensor_inputs]
        target = s.sf.tensor(op.output).memory
        if op.via is CopyVia.PLAIN:
            if _T in (*memories, *(() if is_by_mma(s.sf.tensor(op.output)) else (target,))):
                yield Violation(
                    rule,
                    f"{op.output} ({op.kind})",
                    "tensor memory",
                    "st_tmem or ld_tmem",
                    "Move data between registers and tensor memory by st_tmem and ld_tmem alone.",
                )
        elif op.kind not in (OpKind.COPY, OpKind.PERMUTE) and not _may_repeat(s, op):
            yield Violation(rule, where, op.kind.value, "set or permute", "Copy first, then compute in registers.")
        elif (memories[0], target) not in joined(op.via):
            expected = " or ".join(f"{a} to {b}" for a, b in joined(op.via))
            yield Violation(
                rule, where, f"{memories[0]} to {target}", expected, "Use an instruction that joins these memories."
            )


def _may_repeat(s: Schedule, op: TensorOp) -> bool:
    """Whether a copy may be one along a broadcast."""
    return op.kind is OpKind.BROADCAST_TO and (op.multicasts or _is_multiplied(s, op.output))


def _is_multiplied(s: Schedule, name: str) -> bool:
    """Whether an operand of a contraction is made of the tensor, element by element."""
    for reader in s.sf.consumers(name):
        if reader.kind in CONTRACTIONS:
            return True
        if reader.kind in POINTWISE | {OpKind.COPY} and _is_multiplied(s, reader.output):
            return True
    return False


@model_rule
def architecture_has_the_instructions_used(s: Schedule) -> Iterator[Violation]:
    """Bulk copies need Hopper or later, tensor memory data-centre Blackwell. (PTX ISA, cp.async.bulk, tcgen05)"""
    rule = "architecture_has_the_instructions_used"
    fix = "Choose an architecture that has it, or copy by threads."
    bulk = next((op for op in s.sf.ops if op.via.is_bulk), None)
    if bulk is not None and not s.arch.has_tma:
        yield Violation(rule, f"{bulk.output} (via {bulk.via})", s.arch.name, "sm_90a or later", fix)
    tensor = next((t for t in s.sf.tensors if t.memory is _T), None)
    if tensor is not None and not s.arch.has_tmem:
        yield Violation(rule, f"{tensor.name} in tensor memory", s.arch.name, "sm_100a", fix)


@model_rule
def registers_have_constant_extents(s: Schedule) -> Iterator[Kept]:
    """What a thread holds in registers has a size that is fixed when the kernel is compiled, since registers have no
    addresses: a kernel that holds an axis of unknown extent there serves launches of one extent. (PTX ISA, registers)
    """
    for t in s.sf.tensors:
        if t.memory is not _L or t.name in s.sf.inputs:
            continue
        for axis in allocated_loop_axes(t):
            if not axis.size.is_constant:
                where = f"{t.name}: axis {t.loop.index(axis)}"
                formula = f"{axis.size} == {axis.extent}"
                message = f"{where}: registers for {axis.extent} elements were compiled in, the extent is another"
                yield Kept("registers_have_constant_extents", where, formula, message)


@model_rule
def memory_order_shows_what_is_not_allocated(s: Schedule) -> Iterator[Violation]:
    """A loop axis of which a shared tensor holds one place at a time must be an axis of the memory order that was set;
    otherwise it cannot be told what is left. (nvFuser, memory order)"""
    for t in s.shared_bytes.tensors:
        for axis in t.lost:
            loop = s.sf.tensor(t.tensor).loop
            yield Violation(
                "memory_order_shows_what_is_not_allocated",
                f"{t.tensor}: axis {loop.index(axis)}",
                "not in the memory order that was set",
                "an axis of it",
                "Set the memory order after the transforms of this axis, or inline less deeply.",
            )


STATIC_BYTES = 16
"""Of the shared memory of a block, what a kernel has of its own beside the tensors (nvFuser, launch check)."""


@model_rule
def shared_memory_fits_a_block(s: Schedule) -> Iterator[Violation | Kept]:
    """Shared tensors with their stages, holes and barriers, and 16 bytes of the kernel's own, fit the most that a block
    may ask for; checked at launch. (CUDA guide, technical specifications per compute capability; nvFuser, launch
    check)"""
    need, limit = s.shared_bytes, s.arch.smem_per_block_optin_bytes - STATIC_BYTES
    breach = Violation(
        "shared_memory_fits_a_block",
        "shared memory",
        need.total,
        limit,
        "Use smaller tiles or fewer stages.",
        stage=Stage.RUNTIME,
    )
    fits = need.total <= limit
    known = settled(fits, f"{need.total} <= {limit}") if need.is_constant else kept(fits, f"{need} <= {limit}")
    yield from known.require(breach)


# Lowering -------------------------------------------------------------------------------------------------------------


@rule
def registers_fit_local_memory(s: Schedule) -> Iterator[Violation]:
    """What a thread holds and has no registers for lies in its local memory, of 512 KiB (CUDA guide, technical
    specifications per compute capability)."""
    for t in s.sf.tensors:
        if t.memory is _L:
            stages = t.circular.stages if t.circular is not None else 1
            found = layout_of(t).elems * t.dtype.nbytes * stages
            if found > MAX_LOCAL_BYTES:
                fix = "Inline the tensor deeper, or keep it in shared memory."
                yield Violation("registers_fit_local_memory", t.name, found, MAX_LOCAL_BYTES, fix)
