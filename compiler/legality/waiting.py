"""The rule on blocks that wait for other blocks: those find room, in whatever order blocks are started."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from compiler.analysis.loops.grid_fold import PARTS, is_over_grid
from compiler.analysis.memory.resources import blocks_per_sm
from compiler.analysis.sync.block_parts import launched_block
from compiler.arch import least_sm_count, sms_for_clusters
from compiler.errors import Violation
from compiler.legality.rules import Schedule, rule


@rule
def blocks_that_are_waited_for_find_room(s: Schedule) -> Iterator[Violation]:
    """No order is promised in which blocks are started (CUDA guide, thread hierarchy): those that wait for the parts
    of their sums must leave room for a block, or cluster, that makes one. Counted on the smallest card of the
    architecture that is known, of blocks that take all the registers they may. Blocks to which steps are dealt all may
    wait: all find room at once."""
    nest = s.indexing.nest
    for t in s.sf.tensors:
        if t.dealt:
            yield from _dealt(s, t.name)
    summed = [t.name for t in s.sf.tensors if is_over_grid(t)]
    if not summed or PARTS not in nest.dims:
        return
    blocks, room = prod(nest.grid()), _room(s)
    waiting = blocks // nest.dims[PARTS]
    if waiting + nest.cluster > room:
        most = room - nest.cluster
        yield Violation(
            "blocks_that_are_waited_for_find_room",
            ", ".join(summed),
            waiting,
            most,
            "Take larger tiles, or cut the sum in two launches.",
            f"{waiting} of {blocks} blocks wait for the parts of their sums; {room} find room at once on the smallest"
            f" card of {s.arch.name}, so that at most {most} may wait",
        )


def _dealt(s: Schedule, name: str) -> Iterator[Violation]:
    blocks, room = prod(s.indexing.nest.grid()), _room(s)
    if blocks > room:
        yield Violation(
            "blocks_that_are_waited_for_find_room",
            name,
            blocks,
            room,
            "Deal to fewer blocks, or take less shared memory.",
            f"steps are dealt to {blocks} blocks that wait for each other; {room} find room at once on the smallest"
            f" card of {s.arch.name}",
        )


def _room(s: Schedule) -> int:
    """Blocks of which the smallest card surely has all at once."""
    nest = s.indexing.nest
    threads, cap = prod(launched_block(s.sf, nest)), s.sf.max_registers or s.arch.max_registers_per_thread
    each = blocks_per_sm(s.arch, threads, cap, s.smem.total_bytes).blocks
    return sms_for_clusters(least_sm_count(s.arch), nest.cluster) * max(1, each)
