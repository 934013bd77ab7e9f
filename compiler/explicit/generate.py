"""The way of an explicit schedule: verdict, binding, lowering as given, emission (docs/contracts.md, "Explicit
schedules")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any

from compiler.analysis.id.graph_indexing import GraphIndexing
from compiler.analysis.id.indexing import Indexing, first_lane, lanes_are_consecutive
from compiler.analysis.loops.axes import with_types_of_their_loops
from compiler.analysis.memory.memory_order import as_allocated
from compiler.arch import Arch, arch_named
from compiler.dtypes import FP8, DType
from compiler.emit.cuda import emit
from compiler.errors import IllegalSchedule, Unsupported, Violation
from compiler.explicit.binding import bound
from compiler.explicit.tiles_apart import with_tiles_apart
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import MOVES, STORED
from compiler.ir.tensor import TensorOp
from compiler.legality.rules import RULES, STRUCTURE, Schedule
from compiler.lower.kernel_ir import Kernel
from compiler.lower.lower import lower_facts
from compiler.lower.through_registers import element_by_element, through_registers
from compiler.pipeline import alignments_of
from compiler.schedule.replay import replay_document
from compiler.verdict import judge, least_arch

HOPPER = "sm_90a"

COMPUTED = tuple(dtype for dtype in DType if dtype in STORED)
"""Types with operators: those of a fusion."""

_CARRIED = {
    DType.U8: DType.I8,
    DType.F8E4M3: DType.I8,
    DType.F8E5M2: DType.I8,
    DType.I16: DType.F16,
    DType.C64: DType.I64,
    DType.C128: DType.C128,
}
"""Types of which copies alone need to know no more than the size, and one of that size; none other has 16 bytes."""

GENERAL: dict[str, str] = {
    "inlined_axes_are_the_consumers_axes": "loops are matched through operators, and run as the widest of them",
    "parallel_extents_agree": "threads and blocks past an extent are left out",
    "register_axes_are_unrolled": "serial loops over registers are unrolled",
    "bulk_axes_belong_to_bulk_copies": "threads ask for tiles of their own",
    "global_memory_order_is_given_by_strides": "elements lie by the strides of the axes of their memory order",
    "circular_buffers_are_shared": "registers turn with their loop",
    "reads_stay_inside_the_allocation": "accesses past the end are guarded",
    "loops_are_split_merged_and_swizzled": "padding is outside the bounds",
    "vector_axis_belongs_to_a_copy": "arithmetic goes lane by lane",
}
"""Rules that bind what schedulers write and not explicit schedules, and what their lowering does instead."""


@dataclass(frozen=True)
class ExplicitSchedule(Schedule):
    """An explicit schedule with its registers, on an architecture; its indices go along the graph of all axes."""

    @cached_property
    def indexing(self) -> Indexing:
        return GraphIndexing(self.sf, self.graph)


@dataclass(frozen=True)
class GeneratedExplicit:
    """An explicit schedule ready to compile. `fusion`: what a launch binds; `scheduled`: as lowered, with the registers
    that the document does not name."""

    name: str
    document: Mapping[str, Any]
    arch: Arch
    fusion: Fusion
    scheduled: ScheduledFusion
    kernel: Kernel
    source: str

    @property
    def alignments(self) -> dict[int, int]:
        """Position of each tensor -> bytes that must divide its address."""
        return alignments_of(self.kernel)


def generate_explicit(document: Mapping[str, Any], arch: Arch | None = None) -> GeneratedExplicit:
    """The kernel of a case, every step as given, for `arch`, or the least that will do.

    Raises MalformedCase for a document that is none, IllegalSchedule where rules of the model refuse it, and
    Unsupported, by name, for what is legal and has no lowering.
    """
    done = replay_document(document)
    chosen = arch or hopper_at_least(least_arch(done.case, None if done.refused else done.sf))
    refused = next(iter(done.refused), None)
    verdict = judge(done.case, done.sf, refused, chosen)
    if not verdict.legal:
        raise IllegalSchedule(verdict.violations)
    _expect_a_lowering(done.sf)
    schedule = lowered_form(done.sf, chosen)
    broken = _breaches(schedule)
    if broken:
        raise Unsupported("; ".join(map(str, broken)), "Change the schedule there.")
    kernel = lower_facts(schedule)
    if kernel.scratch:
        raise Unsupported("a sum of which blocks of an explicit schedule have parts", "Sum over threads or a cluster.")
    return GeneratedExplicit(verdict.name, document, chosen, bound(done.sf).fusion, schedule.sf, kernel, emit(kernel))


def hopper_at_least(arch: Arch) -> Arch:
    """The compile target of a case that an earlier one would do for: kernels are built and run for Hopper."""
    return arch if arch.capability >= (9, 0) else arch_named(HOPPER)


def lowered_form(sf: ScheduledFusion, arch: Arch) -> ExplicitSchedule:
    """The schedule with types of its loops, the strides of its binding, registers between memories, and tiles apart."""
    given = through_registers(carried(bound(in_memory_order(in_slices(with_types_of_their_loops(sf))))))
    named = sf.by_name
    schedule = with_tiles_apart(ExplicitSchedule(given, arch))
    given = schedule.sf
    loaded = [op for op in given.ops if op.output not in named and not _is_one_word(schedule, op)]
    if not loaded:
        return schedule
    scalar = [element_by_element(given.tensor(op.output)) for op in loaded]
    return ExplicitSchedule(given.with_tensors(scalar), arch)


def carried(sf: ScheduledFusion) -> ScheduledFusion:
    """The schedule in which types are carried as others of their size, where nothing is computed.

    Raises Unsupported, by name, for an operator that a type does not have.
    """
    computing = [op for op in sf.ops if op.kind not in MOVES]
    for t in sf.tensors:
        if t.dtype not in COMPUTED and (t.dtype not in _CARRIED or computing):
            raise Unsupported(f"{t.name}: {t.dtype} elements", f"Use one of {', '.join(COMPUTED)}, or only copy it.")
    for op, read in ((op, sf.tensor(op.tensor_inputs[0])) for op in computing if op.tensor_inputs):
        if read.dtype in FP8 and read.dtype not in op.kind.row.takes:
            raise Unsupported(f"{op.output}: {op.kind} of {read.dtype}", "Use a type with arithmetic, or only copy it.")
    if computing or all(t.dtype not in _CARRIED for t in sf.tensors):
        return sf
    values = tuple(replace(v, dtype=_CARRIED.get(v.dtype, v.dtype)) for v in sf.fusion.values)
    tensors = tuple(replace(t, dtype=_CARRIED.get(t.dtype, t.dtype)) for t in sf.tensors)
    return replace(sf, fusion=replace(sf.fusion, values=values), tensors=tensors)


def in_memory_order(sf: ScheduledFusion) -> ScheduledFusion:
    """The schedule with tensors of bulk copies laid out by their loops, where an order that was set does not count
    (nvFuser, memory order)."""
    bulk = {name for op in sf.ops if op.via.is_bulk for name in (op.output, *op.tensor_inputs)}
    return sf.with_tensors([as_allocated(sf, t) for t in sf.tensors if t.name in bulk])


def in_slices(sf: ScheduledFusion) -> ScheduledFusion:
    """The schedule in which a buffer whose stages are slices is computed at the slice: loops left of it choose a stage,
    and who reads it has the same axes there (nvFuser, warp specialisation)."""
    buffers = ((t, t.circular.slice_position) for t in sf.tensors if t.circular is not None)
    return sf.with_tensors([replace(t, compute_at=position) for t, position in buffers if position is not None])


def _is_one_word(s: Schedule, op: TensorOp) -> bool:
    """Whether what a vectorized register reads from memory is one aligned word."""
    t = s.sf.tensor(op.output)
    if t.vector_axis is None:
        return True
    width = t.vector_axis.extent
    for name in op.tensor_inputs:
        source = s.sf.tensor(name)
        if source.memory is MemoryType.LOCAL:
            continue
        offset = s.indexing.read_offset(op, name)
        start, word = first_lane(offset, width), width * source.dtype.nbytes
        known = gcd(start.const, *(c for _, c in start.terms)) * source.dtype.nbytes if start != Expr() else 0
        divisor = gcd(known, source.align) if source.memory is MemoryType.GLOBAL else known
        if not lanes_are_consecutive(offset, width) or divisor % word:
            return False
    return True


def _expect_a_lowering(sf: ScheduledFusion) -> None:
    """Raises Unsupported for what is legal and not lowered, by name."""
    for t in sf.tensors:
        made, is_interface = sf.producer(t.name), t.name in sf.inputs or t.name in sf.outputs
        if t.memory is MemoryType.GLOBAL and made is not None and not is_interface:
            raise Unsupported(f"{t.name}: an intermediate tensor in global memory", "Keep it in shared memory.")
        if t.name in sf.inputs and (t.memory is not MemoryType.GLOBAL or t.name in sf.outputs):
            raise Unsupported(f"{t.name}: an input in {t.memory} memory, or one that is an output", "Copy it first.")
        if t.name in sf.outputs and t.memory is not MemoryType.GLOBAL:
            raise Unsupported(f"{t.name}: an output in {t.memory} memory", "Copy it to global memory.")


def _breaches(schedule: ExplicitSchedule) -> tuple[Violation, ...]:
    """What of the lowering's own rules binds explicit schedules too."""
    sliced = any(t.circular is not None and t.circular.slice_position is not None for t in schedule.sf.tensors)
    beyond = GENERAL.keys() | ({"values_are_read_where_they_were_made"} if sliced else set())
    for rules in (STRUCTURE, RULES):
        kept = (r for r in rules if getattr(r, "__name__", "") not in beyond)
        broken = tuple(v for r in kept for v in r(schedule))
        if broken:
            return broken
    return ()
