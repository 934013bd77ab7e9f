"""Rules on ldmatrix and stmatrix: small matrices that a warp moves between shared memory and its registers."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.id.indexing import lanes_are_consecutive
from compiler.analysis.memory.allocation import layout_of
from compiler.arch import MATRIX_BYTES, MATRIX_NBITS, STMATRIX_CAPABILITY, WARP_THREADS
from compiler.copies.instruction import fragment, lanes
from compiler.errors import Violation
from compiler.ir.expr import Expr, relies_on_bounds
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import CopyVia, TensorOp, TensorView
from compiler.legality.rules import Schedule, model_rule, rule


def _copies(s: Schedule) -> Iterator[tuple[TensorOp, TensorView]]:
    """Every copy via ldmatrix or stmatrix, and the tensor that it makes."""
    return ((op, s.sf.tensor(op.output)) for op in s.sf.ops if op.via.is_matrix)


@model_rule
def matrices_have_elements_of_8_16_or_32_bits(s: Schedule) -> Iterator[Violation]:
    """ldmatrix and stmatrix move elements of 16 bits, pairs of bytes as if they were one, or words as if each were two.
    (PTX ISA, ldmatrix, stmatrix: .b16; forms that take bytes apart are those of Blackwell)"""
    for op, t in _copies(s):
        if t.dtype.nbits not in MATRIX_NBITS:
            yield Violation(
                "matrices_have_elements_of_8_16_or_32_bits",
                f"{op.output} (via {op.via})",
                f"{t.dtype.nbits} bits",
                f"{', '.join(map(str, MATRIX_NBITS[:-1]))} or {MATRIX_NBITS[-1]} bits",
                "Copy by vectors.",
            )


@model_rule
def a_lane_holds_two_elements_of_each_matrix(s: Schedule) -> Iterator[Violation]:
    """One, two or four matrices at a time: the vectorized axis has 4, 8 or 16 bytes. (PTX ISA, ldmatrix: .num)"""
    for op, t in _copies(s):
        bits = lanes(t) * t.dtype.nbits
        if bits not in [8 * n for n in MATRIX_BYTES]:
            yield Violation(
                "a_lane_holds_two_elements_of_each_matrix",
                f"{op.output} (via {op.via})",
                f"{lanes(t)} elements of {t.dtype.nbits} bits",
                f"{', '.join(map(str, MATRIX_BYTES[:-1]))} or {MATRIX_BYTES[-1]} bytes",
                "Vectorize an axis of as many.",
            )


@model_rule
def matrices_are_moved_by_whole_warps(s: Schedule) -> Iterator[Violation]:
    """All 32 lanes of a warp take part, in the order of their threads along x. (PTX ISA, ldmatrix: .sync.aligned)"""
    block = max((size.value for size in s.dimension_sizes.get(ParallelType.TIDX, ())), default=1)
    for op, t in _copies(s):
        found = max((a.extent for a in t.axes_of(ParallelType.TIDX)), default=1)
        if found % WARP_THREADS or found != block:
            yield Violation(
                "matrices_are_moved_by_whole_warps",
                f"{op.output} (via {op.via})",
                f"{found} of {block} threads along x",
                f"all of them, a multiple of {WARP_THREADS}",
                "Parallelize an axis of the block's threads on TIDx, or copy by vectors.",
            )


@model_rule
def stmatrix_needs_hopper(s: Schedule) -> Iterator[Violation]:
    """stmatrix is of capability 9.0 and later; ldmatrix of 7.5, which every architecture here has. (PTX ISA,
    stmatrix)"""
    for op, _ in _copies(s):
        if op.via is CopyVia.STMATRIX and s.arch.capability < STMATRIX_CAPABILITY:
            yield Violation(
                "stmatrix_needs_hopper",
                f"{op.output} (via {op.via})",
                s.arch.name,
                "sm_90a or later",
                "Choose an architecture that has it, or store by vectors.",
            )


@rule
def lanes_hold_the_fragment_of_matrices(s: Schedule) -> Iterator[Violation]:
    """Thread t holds of each matrix a pair of row t / 4, or of column t / 4, and the elements of a row are neighbours
    in shared memory, aligned to 16 bytes (PTX ISA, ldmatrix, stmatrix: matrix fragments)."""
    for op, t in _copies(s):
        shared, offset, held = _sides(s, op, t)
        if fragment(s, op) is None or not lanes_are_consecutive(held, lanes(t)):
            yield Violation(
                "lanes_hold_the_fragment_of_matrices",
                f"{op.output} (via {op.via})",
                f"element {offset} of {shared.name}",
                "16 bytes of neighbours along t / 4, or along t % 4 and the pairs of a vector, for thread t",
                "Give the threads 8 of the innermost axis in memory, then 4 of another, or copy by vectors.",
            )


@rule
def matrices_stay_inside_shared_tiles(s: Schedule) -> Iterator[Violation]:
    """The lanes of a warp move a matrix together, so that none can be left out: each of its elements has a place,
    whatever the bounds of the tensor (PTX ISA, ldmatrix: .sync.aligned)."""
    for op, t in _copies(s):
        shared, offset, _ = _sides(s, op, t)
        elems = layout_of(shared).elems
        if offset.lo < 0 or offset.hi >= elems or relies_on_bounds(offset):
            yield Violation(
                "matrices_stay_inside_shared_tiles",
                f"{op.output} (via {op.via})",
                f"elements {offset.lo} to {offset.hi} of {shared.name}",
                f"0 to {elems - 1}",
                "Make the tile a multiple of the matrices, and do not shift its rows.",
            )


def _sides(s: Schedule, op: TensorOp, t: TensorView) -> tuple[TensorView, Expr, Expr]:
    """The shared tensor, where in it an element lies, and where in registers."""
    source = s.sf.tensor(op.tensor_inputs[0])
    read, written = s.indexing.read_offset(op, source.name), s.indexing.write_offset(t)
    return (source, read, written) if op.via is CopyVia.LDMATRIX else (t, written, read)
