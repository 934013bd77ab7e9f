"""Rules on the shape of a schedule: memories, loops shared by inlining, parallel types."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.memory.allocation import allocated_axes, layout_of, loop_axis_is_allocated, memory_order
from compiler.analysis.mma.product import is_by_mma
from compiler.copies.instruction import joined
from compiler.errors import Violation
from compiler.ir.fusion import Number
from compiler.ir.id_exprs import Resize, Window
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import MOVES, OpKind
from compiler.ir.tensor import BufferKind, TensorView
from compiler.legality.rules import Schedule, structure_rule
from compiler.schedule.matching import match_axes

_GLOBAL, _SHARED, _LOCAL, _TENSOR = MemoryType.GLOBAL, MemoryType.SHARED, MemoryType.LOCAL, MemoryType.TENSOR


@structure_rule
def copies_join_memories_that_an_instruction_joins(s: Schedule) -> Iterator[Violation]:
    """Threads join registers with global or shared memory, and by cp.async global with shared memory, as bulk copies do
    (PTX ISA)."""
    for op in s.sf.ops:
        if op.kind not in MOVES:
            continue
        source, target = s.sf.tensor(str(op.inputs[0])), s.sf.tensor(op.output)
        expected = joined(op.via)
        if (source.memory, target.memory) not in expected:
            yield Violation(
                "copies_join_memories_that_an_instruction_joins",
                f"{target.name} <- {source.name}",
                f"{source.memory} to {target.memory} via {op.via}",
                ", ".join(f"{a} to {b}" for a, b in sorted(expected)),
                "Cache one of them in another memory, or choose another way to copy.",
            )


@structure_rule
def pointwise_operands_and_results_are_registers(s: Schedule) -> Iterator[Violation]:
    """Arithmetic reads and writes registers; everything else is a copy. Tensor cores read shared memory too, and leave
    products in tensor memory."""
    for op in s.sf.ops:
        if op.kind in MOVES:
            continue
        by_mma = is_by_mma(s.sf.tensor(op.output))
        for name in (*op.tensor_inputs, op.output):
            if by_mma and s.sf.tensor(name).memory is (_TENSOR if name == op.output else _SHARED):
                continue
            if s.sf.tensor(name).memory is not _LOCAL:
                yield Violation(
                    "pointwise_operands_and_results_are_registers",
                    f"{op.output} = {op.kind}: {name}",
                    str(s.sf.tensor(name).memory),
                    "local",
                    "Cache the input or output in registers (cache_input, cache_output).",
                )


@structure_rule
def inlined_axes_are_the_consumers_axes(s: Schedule) -> Iterator[Violation]:
    """Loops left of the compute-at position are the consumer's: same extent, same parallel type (nvFuser, inlining).
    Warps that load have a loop where those that compute, in groups, are threads (nvFuser, warp specialisation)."""
    for t in s.sf.tensors:
        for op in s.sf.consumers(t.name) if t.compute_at else ():
            c = s.sf.tensor(op.output)
            for i in range(t.compute_at):
                mine = (t.loop[i].extent, t.types[i])
                theirs = (c.loop[i].extent, c.types[i]) if i < len(c.loop) else None
                if theirs is not None and _is_loop_of_groups(t, mine, theirs):
                    continue
                if mine != theirs:
                    yield Violation(
                        "inlined_axes_are_the_consumers_axes",
                        f"{t.name} in {c.name}: axis {i}",
                        f"{mine[1]} {mine[0]}",
                        "no axis" if theirs is None else f"{theirs[1]} {theirs[0]}",
                        f"Inline {t.name} at {i} or schedule both alike.",
                    )
                    break


def _is_loop_of_groups(t: TensorView, mine: tuple[int, ParallelType], theirs: tuple[int, ParallelType]) -> bool:
    """Whether warps of their own load `t` in a loop over groups of the threads that compute."""
    is_specialized = t.circular is not None and t.circular.kind is BufferKind.WARP_SPECIALIZED
    return is_specialized and mine == (theirs[0], ParallelType.SERIAL) and theirs[1].is_thread


@structure_rule
def parallel_types_are_on_one_axis(s: Schedule) -> Iterator[Violation]:
    """A block or thread dimension, and the vector, is one axis of a tensor (nvFuser, parallel types)."""
    for t in s.sf.tensors:
        for type_ in dict.fromkeys(t.types):
            count = t.types.count(type_)
            if count > 1 and (type_.is_block or type_.is_thread or type_ is ParallelType.VECTORIZE):
                yield Violation(
                    "parallel_types_are_on_one_axis",
                    f"{t.name}: {type_}",
                    f"{count} axes",
                    "one axis",
                    "Merge the axes, or give the others another type.",
                )


@structure_rule
def axes_are_of_one_device(s: Schedule) -> Iterator[Violation]:
    """A kernel runs on one device: an axis over devices (DIDx, DIDy, DIDz) has one place. What a schedule for several
    means is known to the model, by which no memory holds such an axis (nvFuser, parallel types)."""
    for t in s.sf.tensors:
        for axis, type_ in zip(t.loop, t.types, strict=True):
            if type_.is_device and axis.extent > 1:
                yield Violation(
                    "axes_are_of_one_device",
                    f"{t.name}: {type_}",
                    axis.extent,
                    1,
                    "Schedule the part of one device, and start it on each.",
                    f"an axis of {axis.extent} over devices, and a kernel runs on one",
                )


@structure_rule
def global_memory_order_is_given_by_strides(s: Schedule) -> Iterator[Violation]:
    """The memory order of inputs and outputs is that of the binding: a stride for each dimension, nothing else."""
    for t in s.sf.tensors:
        given = t.allocation
        if t.memory is not _GLOBAL or (given is not None and given.axes == t.logical and None not in given.strides):
            continue
        yield Violation(
            "global_memory_order_is_given_by_strides",
            t.name,
            "an allocation domain",
            "the strides of the binding",
            "Leave the allocation of global tensors as it is.",
        )


@structure_rule
def circular_buffers_are_shared(s: Schedule) -> Iterator[Violation]:
    """Stages are kept in shared memory; registers have no addresses to choose one by."""
    for t in s.sf.tensors:
        if t.circular is not None and t.memory is not _SHARED:
            fix = "Circular-buffer a shared tensor."
            yield Violation("circular_buffers_are_shared", t.name, str(t.memory), "shared", fix)


@structure_rule
def loops_are_split_merged_and_swizzled(s: Schedule) -> Iterator[Violation]:
    """Padding has no lowering: the loops and allocations come from splits, merges and swizzles of known factors."""
    for t in s.sf.tensors:
        exprs = t.exprs + (t.allocation.exprs if t.allocation is not None else ())
        for e in exprs:
            if isinstance(e, Resize):
                fix = "Leave the axis as it is."
                yield Violation("loops_are_split_merged_and_swizzled", f"{t.name}: {e.source}", "resize", "none", fix)


@structure_rule
def windows_hold_what_their_readers_read(s: Schedule) -> Iterator[Violation]:
    """What reads a tensor of windows reads all of one: it has the same windows, or pieces of their step that were moved
    by no more than what a window holds before and behind its step."""
    for op in s.sf.ops:
        consumer = s.sf.tensor(op.output)
        for t in (s.sf.tensor(name) for name in op.tensor_inputs):
            windows = [e for e in t.exprs if isinstance(e, Window)]
            read = set(match_axes(op, t, consumer).producer_axis.values()) if windows else set()
            for e in windows:
                if e.tile not in read:
                    yield Violation(
                        "windows_hold_what_their_readers_read",
                        f"{op.output} reads {t.name}: {e.source}",
                        f"windows of {e.size} every {e.step}, {e.before} before",
                        f"pieces of {e.step} shifted by at most {min(e.before, e.size - e.step)}",
                        "Give both the same windows, or split what reads by their step, after a shift whose modulus is "
                        "at most what the window has before its step and 1; make windows step + before long.",
                    )


@structure_rule
def parallel_extents_agree(s: Schedule) -> Iterator[Violation]:
    """Every tensor on a block or thread dimension has the same extent there, so that no thread is left over."""
    first: dict[ParallelType, tuple[str, int]] = {}
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        for axis, type_ in zip(t.loop, t.types, strict=True):
            if not (type_.is_block or type_.is_thread):
                continue
            name, extent = first.setdefault(type_, (t.name, axis.extent))
            if extent != axis.extent:
                yield Violation(
                    "parallel_extents_agree",
                    f"{t.name}: {type_}",
                    axis.extent,
                    extent,
                    f"Split the axis so that it has the {extent} of {name}.",
                )


@structure_rule
def bulk_axes_belong_to_bulk_copies(s: Schedule) -> Iterator[Violation]:
    """Bulk says that the copy engine walks the axis: a bulk copy's consumer has such axes, and no thread axes but those
    by which groups of threads each ask for their own.

    No other tensor has them.
    """
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        engine = op.via.takes_tiles
        if bool(t.bulk_axes) != engine:
            fix = "Mark the tile's axes Bulk." if engine else "Copy via tma or bulk1d, or make the axis Serial."
            yield Violation("bulk_axes_belong_to_bulk_copies", t.name, len(t.bulk_axes), f"via {op.via}", fix)
        threads = [str(ty) for ty in t.types if ty in (ParallelType.TIDX, ParallelType.VECTORIZE)]
        if engine and threads:
            yield Violation(
                "bulk_axes_belong_to_bulk_copies",
                t.name,
                threads[0],
                "no thread axis",
                "One elected thread issues the copy.",
            )


@structure_rule
def register_axes_are_unrolled(s: Schedule) -> Iterator[Violation]:
    """Registers have no addresses: an axis in registers is unrolled or vectorized, so that indices are constants."""
    for t in s.sf.tensors:
        if t.memory is not _LOCAL:
            continue
        readers = [s.sf.tensor(op.output) for op in s.sf.consumers(t.name)]
        for i, (axis, type_) in enumerate(zip(t.loop, t.types, strict=True)):
            if type_ is ParallelType.SERIAL and axis.extent > 1 and loop_axis_is_allocated(t, i):
                yield Violation(
                    "register_axes_are_unrolled",
                    f"{t.name}: axis {i}",
                    "Serial",
                    "Unroll or Vectorize",
                    "Unroll the axis.",
                )
        if any(len(r.loop) == 0 for r in readers):
            yield Violation("register_axes_are_unrolled", t.name, "rank 0", "rank 1", "Give the tensor a dimension.")


@structure_rule
def allocation_axes_are_whole(s: Schedule) -> Iterator[Violation]:
    """An axis of the allocation domain is allocated or not; a part of it cannot be. Global memory holds all axes."""
    for t in s.sf.tensors:
        if t.memory is _GLOBAL:
            continue
        status = allocated_axes(t)
        for axis in memory_order(t):
            if status.get(axis, True) is None:
                yield Violation(
                    "allocation_axes_are_whole",
                    f"{t.name}: {axis}",
                    "partly allocated",
                    "allocated or not",
                    "Set the allocation domain after splitting off the part that is parallel or inlined.",
                )


@structure_rule
def allocated_elements_do_not_overlap(s: Schedule) -> Iterator[Violation]:
    """Every element of a shared or register tensor has its own place: an axis steps over all that lies inside. Lanes
    and columns of tensor memory: `tmem_elements_have_places_of_their_own`."""
    for t in s.sf.tensors:
        if t.memory in (_GLOBAL, MemoryType.TENSOR):
            continue
        layout = layout_of(t)
        inside = 1
        for stride, axis in sorted(zip(layout.strides, layout.axes, strict=True), key=lambda pair: pair[0]):
            if axis.extent == 1:
                continue
            if stride < inside:
                fix = "Give the axis a longer stride, or let contiguity give it."
                where = f"{t.name}: {axis}"
                yield Violation(
                    "allocated_elements_do_not_overlap", where, f"stride {stride}", f"{inside} or more", fix
                )
            inside = stride * axis.extent


@structure_rule
def literals_have_a_tensor_beside_them(s: Schedule) -> Iterator[Violation]:
    """A literal takes the other operand's dtype, so some operand is a tensor; a `full` has a dtype of its own."""
    for op in s.sf.ops:
        if op.kind is not OpKind.FULL and op.inputs and all(isinstance(x, Number) for x in op.inputs):
            yield Violation(
                "literals_have_a_tensor_beside_them",
                op.output,
                "literals only",
                "a tensor operand",
                "Compute it beforehand.",
            )
