"""What tensor memory allows: how it is allocated, and how warps reach it. Who may touch it: `legality.memory`."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from compiler.analysis.id.conditions import at_most, kept
from compiler.analysis.id.linear import values
from compiler.analysis.memory.resources import blocks_per_sm, blocks_with_room, register_limit
from compiler.analysis.sync.block_parts import block_parts, launched_block
from compiler.analysis.tmem.access import TmemAccess
from compiler.analysis.tmem.allocation import total
from compiler.analysis.tmem.patterns import SHAPES, is_access_width, shapes_of_threads
from compiler.analysis.tmem.recognition import NoFixedSteps, NoPattern, NotUnderstood
from compiler.arch import (
    TMEM_ACCESS_FEW_REGISTERS,
    TMEM_ACCESS_SPARE_REGISTERS,
    TMEM_COLUMN_BITS,
    TMEM_COLUMNS,
    TMEM_LANES,
    WARP_THREADS,
)
from compiler.errors import Kept, Violation
from compiler.ir.domain import extents
from compiler.ir.iter_domain import MemoryType
from compiler.legality.rules import Schedule, model_rule, rule

Breaches = Iterator[Violation | Kept]


@model_rule
def tmem_copies_keep_the_element_type(s: Schedule) -> Breaches:
    """The tensors on both sides of a tensor-memory copy have one element type (nvFuser, tensor memory)."""
    for op in s.sf.ops:
        if not op.via.is_tmem and not op.via.by_tensor_cores:
            continue
        out = s.sf.tensor(op.output).dtype
        for name in op.tensor_inputs:
            if (found := s.sf.tensor(name).dtype) is not out:
                yield Violation(
                    "tmem_copies_keep_the_element_type",
                    f"{op.output}: {op.via}",
                    found,
                    out,
                    "Convert in registers.",
                    f"{name} holds {found}, {op.output} {out}",
                )


# Allocation ----------------------------------------------------------------------------------------------------------


@model_rule
def tmem_tensors_have_a_separator(s: Schedule) -> Breaches:
    """A tensor in tensor memory says which allocation axes are lanes and which are columns (nvFuser, tensor memory)."""
    for t in s.tensor_memory.tensors:
        if t.layout.tensor.dimsep is None:
            yield Violation(
                "tmem_tensors_have_a_separator",
                t.tensor,
                "none",
                "a position among its allocation axes",
                "Say which allocation axes are lanes (tmem_dimsep).",
                "nothing says which of its allocation axes are lanes and which are columns",
            )


@model_rule
def tmem_lanes_fit(s: Schedule) -> Breaches:
    """Tensor memory has 128 lanes; a tensor's begin at lane 0 (PTX ISA, tcgen05; nvFuser, tensor memory)."""
    for t in s.tensor_memory.tensors:
        breach = Violation(
            "tmem_lanes_fit",
            f"{t.tensor}: lanes",
            t.lane_span,
            TMEM_LANES,
            "Inline lane axes, put them on blocks, or move them right of the separator.",
            f"{t.lane_span} lanes are needed, and tensor memory has {TMEM_LANES}",
        )
        yield from at_most(t.layout.lanes.span, TMEM_LANES).require(breach)


@model_rule
def tmem_columns_fit(s: Schedule) -> Breaches:
    """Tensor memory has 512 columns of 4 bytes, and a region takes those of its tensors side by side (PTX ISA, tcgen05;
    nvFuser, tensor memory)."""
    for region in s.tensor_memory.regions:
        found = region.needed.value
        breach = Violation(
            "tmem_columns_fit",
            f"{region.name}: columns",
            found,
            TMEM_COLUMNS,
            "Inline the tensor deeper, or put column axes on blocks.",
            f"{found} columns of 4 bytes are needed, and tensor memory has {TMEM_COLUMNS}",
        )
        yield from at_most(region.needed, TMEM_COLUMNS).require(breach)


@model_rule
def tmem_regions_fit_together(s: Schedule) -> Breaches:
    """Regions are allocated in powers of two of at least 32 columns, and share the 512 (PTX ISA, tcgen05.alloc)."""
    regions = s.tensor_memory.regions
    if len(regions) < 2 or any(r.needed.value > TMEM_COLUMNS for r in regions):
        return
    allocated = total([r.allocated for r in regions])
    breach = Violation(
        "tmem_regions_fit_together",
        ", ".join(r.name for r in regions),
        allocated.value,
        TMEM_COLUMNS,
        "Let tensors share a region: each is rounded up to a power of two of at least 32 columns.",
        f"the regions of one block take {allocated.value} columns together, and tensor memory has {TMEM_COLUMNS}",
    )
    yield from at_most(allocated, TMEM_COLUMNS).require(breach)


@model_rule
def tmem_regions_are_disjoint(s: Schedule) -> Breaches:
    """A region that tensors share names at least one, all of them in tensor memory and in no other region (nvFuser,
    tensor memory)."""
    seen: set[str] = set()
    for n, region in enumerate(s.tensor_memory.asked):
        faults = [] if region else ["no tensor at all"]
        for name, memory in region:
            if memory is not MemoryType.TENSOR:
                faults.append(f"{name}, which is {'no tensor' if memory is None else f'in {memory} memory'}")
            elif name in seen:
                faults.append(f"{name} once more")
            seen.add(name)
        for fault in faults:
            yield Violation(
                "tmem_regions_are_disjoint",
                f"tmem_regions[{n}]",
                fault,
                "tensors in tensor memory, each in one region at most",
                "List every tensor in tensor memory at most once, and no other.",
            )


@model_rule
def tmem_elements_have_places_of_their_own(s: Schedule) -> Breaches:
    """Strides of lanes and of columns send no two elements to one place."""
    for t in s.tensor_memory.tensors:
        for side, name in ((t.layout.lanes, "lanes"), (t.layout.columns, "columns")):
            if not side.is_one_to_one:
                yield Violation(
                    "tmem_elements_have_places_of_their_own",
                    f"{t.tensor}: {name}",
                    f"strides {side.strides}",
                    "strides that send no two elements to one place",
                    "Let the stride of an outer axis be at least what the inner ones span.",
                    f"strides {side.strides} of extents {extents(side.axes)} send two elements to one place",
                )


# Access --------------------------------------------------------------------------------------------------------------


@model_rule
def tmem_access_is_warp_collective(s: Schedule) -> Breaches:
    """Whole warps access tensor memory: the thread axes that run on from the innermost dimension multiply to a multiple
    of 32 (PTX ISA, tcgen05.ld: .sync.aligned; nvFuser, tensor memory)."""
    for access in s.tensor_memory.accesses:
        runs = access.warps.runs
        found = f"a run of {runs[0].extent.value} threads" if runs else "1 thread a block"
        breach = Violation(
            "tmem_access_is_warp_collective",
            f"{access.output}: loop domain",
            found,
            f"a multiple of {WARP_THREADS} threads",
            "Put axes whose extents multiply to a multiple of 32 on the inner thread dimensions.",
            f"tensor memory is accessed by whole warps, found {found}",
        )
        if not runs:
            yield breach
        else:
            yield from runs[0].is_whole_warps.require(breach)


@model_rule
def tmem_outer_threads_start_at_a_warp(s: Schedule) -> Breaches:
    """A thread axis that does not run on from the inner ones steps by whole warps (nvFuser, tensor memory)."""
    for access in s.tensor_memory.accesses:
        for run in access.warps.runs[1:]:
            condition = run.starts_at_warps
            breach = Violation(
                "tmem_outer_threads_start_at_a_warp",
                f"{access.output}: loop domain",
                run.stride.value,
                f"a multiple of {WARP_THREADS}",
                "Let the inner thread axes fill their dimension, or give the outer ones extent one.",
                f"an outer thread axis of extent {run.extent.value} steps by {run.stride.value} threads, so that a warp"
                f" is cut: expected a multiple of {WARP_THREADS}",
            )
            if condition is not None:
                yield from condition.require(breach)


@model_rule
def tmem_access_moves_whole_words(s: Schedule) -> Breaches:
    """An access moves a multiple of 4 bytes a thread (PTX ISA, tcgen05.ld: registers of 32 bits; nvFuser, tensor
    memory)."""
    for access in s.tensor_memory.accesses:
        if access.bits % TMEM_COLUMN_BITS:
            nbytes = access.bits // 8
            yield Violation(
                "tmem_access_moves_whole_words",
                access.where,
                nbytes,
                "a multiple of 4 bytes",
                "Vectorize until an access fills whole columns of 4 bytes.",
                f"one access moves {nbytes} bytes a thread, expected a multiple of 4",
            )


@model_rule
def tmem_access_width_is_a_power_of_two(s: Schedule) -> Breaches:
    """An access moves 1, 2, 4, .. 128 words of 4 bytes a thread (PTX ISA, tcgen05.ld: .x1 to .x128)."""
    for access in s.tensor_memory.accesses:
        words, rest = divmod(access.bits, TMEM_COLUMN_BITS)
        if not rest and not is_access_width(words):
            yield Violation(
                "tmem_access_width_is_a_power_of_two",
                access.where,
                words * 4,
                "a power of two from 4 to 512 bytes",
                "Split the vector axis by a power of two, 128 words at most.",
                f"one access moves {words * 4} bytes a thread, expected a power of two from 4 to 512",
            )


@model_rule
def tmem_words_hold_neighbours(s: Schedule) -> Breaches:
    """Elements narrower than 4 bytes fill a column in memory order, and no access begins inside one (PTX ISA, tcgen05:
    cells of 32 bits)."""
    for access in s.tensor_memory.accesses:
        words = access.found.words if access.found is not None else None
        if words is not None and not words.is_in_order:
            between = list(words.apart) or sorted(words.starts - {0})
            yield Violation(
                "tmem_words_hold_neighbours",
                access.where,
                f"{list(words.inner)} for the elements of a column, {between} between columns",
                f"{words.packed} elements next to each other in every column",
                "Make the inner columns of the allocation domain the inner part of the Vectorize axis.",
                f"a column holds {words.packed} elements of {words.nbits} bits; the first {words.packed} of a vector"
                " must be neighbours in one, in order, and no access may begin inside a column",
            )


@model_rule
def tmem_access_has_a_hardware_pattern(s: Schedule) -> Breaches:
    """Threads and registers of a warp lie as one of 32x32b, 16x64b, 16x128b, 16x256b and 16x32bx2 has them (PTX ISA,
    tcgen05.ld shapes)."""
    for access in s.tensor_memory.accesses:
        fault = access.found.fault if access.found is not None else None
        if access.is_lost:
            yield _not_understood(access, "its loops do not lead to every allocated axis")
        elif access.begins is not None and access.begins.lanes is None:
            begins = f"{access.begins.text} from its subpartition"
            yield _not_understood(access, f"the lane that a warp begins at is not known: {begins}")
        match fault:
            case NotUnderstood():
                yield _not_understood(access, fault.why)
            case NoFixedSteps():
                yield _impossible(access, "threads or registers do not move by fixed steps")
            case NoPattern() if not _is_strided(fault):
                yield _impossible(access, _steps_of_no_pattern(fault))


def _not_understood(access: TmemAccess, why: str) -> Violation:
    """Of an access that was not understood, which is not to say that no instruction has it."""
    return Violation(
        "tmem_access_has_a_hardware_pattern",
        access.where,
        "not recognised",
        ", ".join(s.pattern for s in SHAPES),
        "Schedule the copy by splits and merges of the allocated axes.",
        f"not recognised: {why}",
    )


def _impossible(access: TmemAccess, why: str) -> Violation:
    return Violation(
        "tmem_access_has_a_hardware_pattern",
        access.where,
        "none",
        ", ".join(s.pattern for s in SHAPES),
        "Let a warp take 32 consecutive lanes, or 16 in the order of one of the other patterns.",
        f"impossible: {why}",
    )


def _steps_of_no_pattern(found: NoPattern) -> str:
    threads, registers = list(found.threads), list(found.registers)
    allowed = shapes_of_threads(threads)
    if allowed:
        names = " or ".join(s.pattern for s in allowed)
        needs = "; ".join(f"{s.pattern} has {list(s.register_steps)}" for s in allowed)
        return f"its threads are those of {names}, its registers move by {registers}, where {needs}"
    needs = "; ".join(f"{s.pattern} has {list(s.thread_steps())}" for s in SHAPES)
    return f"threads 1, 2, 4, 8 and 16 of a warp lie {threads} (lanes, columns) from the first; {needs}"


def _is_strided(found: NoPattern) -> bool:
    """Threads of a warp lie lanes apart: what `tmem_lane_stride_is_one` says."""
    lanes, columns = [lane for lane, _ in found.threads], [column for _, column in found.threads]
    return lanes[0] > 1 and lanes == [lanes[0] << i for i in range(5)] and not any(columns)


@model_rule
def tmem_lane_stride_is_one(s: Schedule) -> Breaches:
    """The 32 threads of a warp take neighbouring lanes (PTX ISA, tcgen05.ld: 32x32b; nvFuser, tensor memory)."""
    for access in s.tensor_memory.accesses:
        fault = access.found.fault if access.found is not None else None
        if isinstance(fault, NoPattern) and _is_strided(fault):
            yield Violation(
                "tmem_lane_stride_is_one",
                access.where,
                fault.threads[0][0],
                1,
                "Make the axis on the inner thread dimension the innermost lane axis of the allocation domain.",
                f"the threads of a warp lie {fault.threads[0][0]} lanes apart, expected 1",
            )


@model_rule
def tmem_vector_is_in_memory_order(s: Schedule) -> Breaches:
    """A vector takes columns in memory order (nvFuser, vectorization)."""
    for access in s.tensor_memory.accesses:
        columns = list(access.found.columns) if access.found is not None else []
        if columns != sorted(columns):
            yield Violation(
                "tmem_vector_is_in_memory_order",
                access.where,
                f"column steps {columns}",
                "steps that grow",
                "Order the pieces of the Vectorize axis as the columns of the allocation domain are.",
                f"the registers of a vector lie {columns} columns apart, expected columns in memory order",
            )


@model_rule
def tmem_warps_stay_in_their_subpartition(s: Schedule) -> Breaches:
    """Warp w reaches lanes 32 * (w mod 4) to 32 * (w mod 4) + 31 alone; a pattern of 16 lanes takes either half of them
    (PTX ISA, tcgen05: access restrictions; nvFuser, tensor memory)."""
    for access in s.tensor_memory.accesses:
        outside = access.begins.outside if access.begins is not None else ()
        if outside:
            yield Violation(
                "tmem_warps_stay_in_their_subpartition",
                access.where,
                f"{list(outside[:4])} lanes off",
                "lanes 32 * (warp mod 4) to + 31",
                "Give each of four consecutive warps its own 32 lanes, and other warps other columns.",
                f"a warp begins {outside[0]} lanes from where its subpartition does, and warp w reaches lanes"
                " 32 * (w mod 4) to + 31 alone",
            )


@model_rule
def tmem_access_keeps_its_sizes(s: Schedule) -> Breaches:
    """Lanes and columns of an access are worked out for the sizes at hand; where they rest on one that is unknown when
    the kernel is compiled, a launch has the same."""
    for access in s.tensor_memory.accesses:
        for size in sorted(access.sizes, key=str):
            yield Kept(
                "tmem_access_keeps_its_sizes",
                access.where,
                kept(True, f"{size} == {size.value}").formula,
                f"{access.where}: lanes and columns were worked out for {size} = {size.value}",
            )


# What is lowered -----------------------------------------------------------------------------------------------------


@rule
def tmem_access_stays_in_its_columns(s: Schedule) -> Iterator[Violation]:
    """Whole warps access tensor memory, so that no bound of an index can keep a thread out: every place that the loops
    come to, those past the end of a split axis too, lies in the tensor's own columns (PTX ISA, tcgen05.ld:
    .sync.aligned)."""
    spans = {t.tensor: t.layout.columns.span.value for t in s.tensor_memory.tensors}
    for access in s.tensor_memory.accesses:
        last = _last_column(access)
        if last >= (span := spans[access.tensor]):
            yield Violation(
                "tmem_access_stays_in_its_columns",
                access.where,
                last,
                span - 1,
                "Split column axes by what divides them, or set the allocation domain after the split.",
                f"element {last} of the columns is reached, and the tensor has {span}",
            )


def _last_column(access: TmemAccess) -> int:
    """The last element of the columns that an access comes to, or a bound of it."""
    if access.column is None:
        return 0
    taken = values(access.column)
    return access.column.hi if taken is None else max(taken)


@rule
def tmem_accesses_find_their_registers(s: Schedule) -> Iterator[Violation]:
    """An access has all its words in registers at once, and ptxas wants some more; what a block's threads, a cap on
    registers or the parts of a block leave to a thread must be as many (ptxas, C7602: "Insufficient registers")."""
    if not s.tensor_memory.accesses:
        return
    threads = prod(launched_block(s.sf, s.indexing.nest))
    parts = block_parts(s.sf, s.indexing.nest)
    limit = register_limit(s.arch, threads, blocks_with_room(threads, s.sf.max_registers))
    if parts is not None and parts.common_registers is not None:
        limit = min(limit, parts.common_registers)
    for access in s.tensor_memory.accesses:
        needed = access.words + TMEM_ACCESS_SPARE_REGISTERS
        if access.words > TMEM_ACCESS_FEW_REGISTERS and needed > limit:
            yield Violation(
                "tmem_accesses_find_their_registers",
                access.where,
                needed,
                limit,
                "Move fewer words at a time, or take fewer threads or a higher cap on registers.",
                f"an access of {access.words} words takes {needed} registers of a thread, which has {limit}",
            )


@rule
def blocks_that_wait_for_each_other_all_have_their_columns(s: Schedule) -> Iterator[Violation]:
    """An allocation waits while other blocks of the multiprocessor hold its columns. Blocks of a cluster wait for each
    other too, so that those of two clusters could wait in a ring: as many blocks as find room on a multiprocessor have
    their columns there at once (PTX ISA, tcgen05.alloc: blocking)."""
    columns, nest = s.tmem_placement.columns, s.indexing.nest
    if not columns or nest.cluster == 1:
        return
    threads = prod(launched_block(s.sf, nest))
    resident = blocks_per_sm(s.arch, threads, s.sf.max_registers or 0, s.smem.total_bytes).blocks
    if resident * columns > TMEM_COLUMNS:
        yield Violation(
            "blocks_that_wait_for_each_other_all_have_their_columns",
            "tensor memory of a cluster's blocks",
            resident * columns,
            TMEM_COLUMNS,
            "Take no cluster, fewer columns, or more threads or shared memory a block.",
            f"{resident} blocks of {columns} columns find room on a multiprocessor of {TMEM_COLUMNS}, and may wait for"
            " each other's",
        )
