"""Rules on parallel types: one use each, one type a loop, and values that reach who reads them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from compiler.analysis.id.conditions import at_most, kept, settled
from compiler.analysis.mma.product import is_by_mma
from compiler.analysis.sync.circular_buffer import extra_threads
from compiler.analysis.sync.sync import expanded_broadcasts, logical_sources
from compiler.errors import Kept, Violation
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.size import Size
from compiler.legality.rules import Schedule, model_rule

_BLOCK = (ParallelType.BIDX, ParallelType.BIDY, ParallelType.BIDZ)
_THREAD = (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ)


@model_rule
def block_and_thread_dimensions_are_used_once(s: Schedule) -> Iterator[Violation]:
    """A tensor has at most one axis on each block or thread dimension. A broadcast axis that is never expanded carries
    nothing and does not count. (nvFuser, parallel types)"""
    expanded = expanded_broadcasts(s.sf)
    for t in s.sf.tensors:
        if t.name in s.sf.inputs:
            continue
        used: dict[ParallelType, int] = {}
        for i, (axis, type_) in enumerate(zip(t.loop, t.types, strict=True)):
            if not (type_.is_block or type_.is_thread) or (axis.is_broadcast and axis not in expanded):
                continue
            if type_ in used:
                yield Violation(
                    "block_and_thread_dimensions_are_used_once",
                    f"{t.name}: axes {used[type_]} and {i}",
                    f"both on {type_}",
                    f"one axis on {type_}",
                    "Put one of them on another dimension, or merge the two.",
                )
            used.setdefault(type_, i)


@model_rule
def axes_of_one_loop_agree(s: Schedule) -> Iterator[Violation]:
    """Axes that one loop carries, because a tensor is inlined into its consumer, have one parallel type; a serial one
    takes the type of the others. (nvFuser, compute-at map)"""
    for members in s.loops.shared().values():
        types = {name: s.sf.tensor(name).types[i] for name, i in members}
        distinct = {type_: name for name, type_ in reversed(types.items()) if type_ is not ParallelType.SERIAL}
        if len(distinct) > 1:
            (name, i) = members[0]
            found = ", ".join(f"{type_} in {name}" for type_, name in reversed(distinct.items()))
            yield Violation(
                "axes_of_one_loop_agree",
                f"{name}: axis {i}",
                found,
                "one parallel type for all axes of a loop",
                "Parallelize them alike, or inline less deeply.",
            )


@model_rule
def loops_run_as_the_axis_of_one_tensor(s: Schedule) -> Iterator[Violation]:
    """Of the tensors that share a loop, one has all that is in it, and the loop runs as its axis: axes that different
    consumers expand are not in one loop. An axis of one element runs in any loop. (nvFuser, loop promotion)"""
    sources = {t.name: logical_sources(t) for t in s.sf.tensors}
    for members in s.loops.shared().values():
        parts = [
            {s.graph.group(a) for a in sources[name][s.sf.tensor(name).loop[i]] if not (a.is_broadcast or a.is_trivial)}
            for name, i in members
        ]
        whole = set[int]().union(*parts)
        if whole not in parts:
            names = ", ".join(f"{name}: {s.sf.tensor(name).loop[i]}" for name, i in members)
            yield Violation(
                "loops_run_as_the_axis_of_one_tensor",
                names,
                f"at most {max(map(len, parts))} of {len(whole)} logical axes in one tensor's",
                "all of them in one tensor's",
                "Inline less deeply, or into one of the consumers alone.",
            )


@model_rule
def values_for_other_blocks_lie_in_global_memory(s: Schedule) -> Iterator[Violation]:
    """What another block reads must lie in global memory: an axis on a block dimension that the reader has elsewhere,
    or not at all. (nvFuser, parallel types)"""
    for need in s.sync.needs:
        memory = s.sf.tensor(need.producer).memory
        if need.blocks and memory is not MemoryType.GLOBAL:
            yield Violation(
                "values_for_other_blocks_lie_in_global_memory",
                f"{need.producer} read by {need.consumer}",
                f"{memory} memory, differently on {', '.join(need.blocks)}",
                MemoryType.GLOBAL.value,
                "Parallelize both alike on block dimensions, or pass the tensor through global memory.",
            )


@model_rule
def values_for_other_threads_lie_in_memory_they_share(s: Schedule) -> Iterator[Violation]:
    """What another thread reads must lie in shared, tensor or global memory: an axis on a thread dimension that the
    reader has elsewhere, or not at all. (nvFuser, parallel types) An instruction of tensor cores reads the registers of
    a warp, whose threads are along x."""
    for need in s.sync.needs:
        memory = s.sf.tensor(need.producer).memory
        by_warp = is_by_mma(s.sf.tensor(need.consumer))
        threads = [t for t in need.threads if not (by_warp and t == ParallelType.TIDX)]
        if threads and not need.blocks and memory is MemoryType.LOCAL:
            yield Violation(
                "values_for_other_threads_lie_in_memory_they_share",
                f"{need.producer} read by {need.consumer}",
                f"{memory} memory, differently on {', '.join(threads)}",
                "shared, tensor or global memory",
                "Parallelize both alike on thread dimensions, or pass the tensor through shared memory.",
            )


@model_rule
def values_held_by_one_thread_are_not_read_by_many(s: Schedule) -> Iterator[Violation]:
    """A sum across threads or blocks leaves its result with one of them; who reads it on that dimension must get it by
    a broadcast, or through shared or global memory. (nvFuser, thread predicates) Of a product that the blocks of a
    cluster sum each has all, or a slice where what comes of it is on Cluster."""
    for bad in s.sync.misread:
        types = ", ".join(bad.types)
        yield Violation(
            "values_held_by_one_thread_are_not_read_by_many",
            bad.tensor,
            f"computed on {types} from a value that is summed across {types}",
            f"no axis on {types}",
            "Broadcast the sum along an axis on that dimension first, or keep it in shared memory.",
        )


@model_rule
def block_has_threads_enough(s: Schedule) -> Iterator[Violation | Kept]:
    """Threads of a block, in all and in each dimension, with the 128 that load where a kernel is warp specialised
    (CUDA guide, technical specifications per compute capability; nvFuser, warp specialisation)."""
    rule = "block_has_threads_enough"
    sizes = s.dimension_sizes
    for name, type_, limit in zip("xyz", _THREAD, s.arch.max_block, strict=True):
        for size in sizes.get(type_, ()):
            breach = Violation(rule, f"block.{name}", size.value, limit, "Use fewer threads in this dimension.")
            yield from at_most(size, limit).require(breach)
    added, limit = extra_threads(s.sf), s.arch.max_threads_per_block
    block = [sizes.get(type_, (Size(1),)) for type_ in _THREAD]
    known = prod(max(n.coefficient for n in extents) for extents in block) + added
    total = prod(max(n.value for n in extents) for extents in block) + added
    breach = Violation(rule, "block", total, limit, "Use fewer threads a block.")
    if known > limit or all(n.is_constant for extents in block for n in extents):
        yield from settled(total <= limit, f"{total} <= {limit}").require(breach)
    else:
        factors = [f"max({', '.join(map(str, e))})" if len(e) > 1 else f"({e[0]})" for e in block]
        yield from kept(total <= limit, f"{' * '.join(factors)} + {added} <= {limit}").require(breach)


@model_rule
def grid_has_blocks_enough(s: Schedule) -> Iterator[Violation | Kept]:
    """Blocks of each grid dimension (CUDA guide, technical specifications per compute capability)."""
    sizes = s.dimension_sizes
    for name, type_, limit in zip("xyz", _BLOCK, s.arch.max_grid, strict=True):
        for size in sizes.get(type_, ()):
            breach = Violation(
                "grid_has_blocks_enough",
                f"grid.{name}",
                size.value,
                limit,
                "Let a block do more, or use another dimension.",
            )
            yield from at_most(size, limit).require(breach)
