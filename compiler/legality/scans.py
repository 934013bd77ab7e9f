"""Rules on scans: who walks the elements, and in which order."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.loops.scan import scan_loops
from compiler.arch import WARP_THREADS
from compiler.errors import Violation
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import SCANS
from compiler.ir.tensor import BufferKind, TensorOp, TensorView
from compiler.legality.rules import Schedule, rule, structure_rule


def _scans(s: Schedule) -> Iterator[tuple[TensorOp, TensorView]]:
    for op in s.sf.ops:
        if op.kind in SCANS:
            yield op, s.sf.tensor(op.output)


@structure_rule
def scanned_axes_stay_in_a_block(s: Schedule) -> Iterator[Violation]:
    """What blocks before have come to is not known in the same launch: blocks of a grid run in any order (CUDA guide,
    thread hierarchy)."""
    for op, t in _scans(s):
        for i in scan_loops(op, t).blocks:
            yield Violation(
                "scanned_axes_stay_in_a_block",
                f"{t.name}: axis {i}",
                t.types[i].value,
                "a loop, TIDx or a word",
                "Walk the axis in a loop, or cut the scan in runs and add what the runs before come to.",
            )


@structure_rule
def scanned_elements_stand_in_order(s: Schedule) -> Iterator[Violation]:
    """Turns of loops, then threads, then the elements of a word: each goes on where the one before it ends, and none
    goes along another axis."""
    for op, t in _scans(s):
        loops = scan_loops(op, t)
        if not loops.blocks and (loops.mixed or not loops.is_ordered):
            yield Violation(
                "scanned_elements_stand_in_order",
                t.name,
                ", ".join(f"{t.loop[i].extent} {t.types[i]}" for i in (*loops.turns, *loops.threads, *loops.words)),
                "loops, threads and words in the order of the elements, of the scanned axes alone",
                "Split the scanned axis by the word, then by the threads, and keep its loops in that order.",
            )


@structure_rule
def a_scan_has_one_word_and_one_row_of_threads(s: Schedule) -> Iterator[Violation]:
    """Neighbours in x are neighbours in a warp (CUDA guide, thread hierarchy), whose shuffles carry a scan on; a word
    of a scan is of its own axis, since a thread adds it up."""
    for op, t in _scans(s):
        loops = scan_loops(op, t)
        other = [i for i in loops.threads if t.types[i] is not ParallelType.TIDX]
        words = [i for i, type_ in enumerate(t.types) if type_ is ParallelType.VECTORIZE]
        if other or set(words) != set(loops.words) or len(loops.threads) > 1 or len(words) > 1:
            yield Violation(
                "a_scan_has_one_word_and_one_row_of_threads",
                t.name,
                ", ".join(map(str, t.types)),
                "of the scanned axes at most one loop on TIDx, one in words, and no other axis in words",
                "Put the scanned axis on TIDx, and unroll what is not scanned.",
            )


@rule
def scans_are_shared_by_whole_warps(s: Schedule) -> Iterator[Violation]:
    """The threads that share a scan are all of x: a power of two within a warp, or whole warps, of a block that is
    whole warps or less than one (PTX ISA, shfl.sync: the segments of a warp)."""
    for op, t in _scans(s):
        x, y, z = s.indexing.nest.block()
        if not scan_loops(op, t).threads:
            continue
        is_run = x % WARP_THREADS == 0 if x > WARP_THREADS else x & (x - 1) == 0
        whole = x * y * z % WARP_THREADS == 0 or x * y * z < WARP_THREADS
        own = s.indexing.nest.extent_on(t, ParallelType.TIDX)
        if not (is_run and whole and own == x):
            yield Violation(
                "scans_are_shared_by_whole_warps",
                t.name,
                f"{own} of a block of {x} x {y} x {z} threads",
                f"all of x, a power of two up to {WARP_THREADS} or a multiple of it",
                "Choose other threads along the scanned axis.",
            )


@rule
def scans_take_no_warps_that_load(s: Schedule) -> Iterator[Violation]:
    """The warps of a scan meet at a barrier of the block, which warps that only load do not reach."""
    buffers = [t for t in s.sf.tensors if t.circular is not None and t.circular.kind is BufferKind.WARP_SPECIALIZED]
    for op, t in _scans(s):
        for buffer in buffers if scan_loops(op, t).threads else ():
            yield Violation(
                "scans_take_no_warps_that_load", t.name, buffer.name, "a pipelined buffer", "Let all threads load."
            )
