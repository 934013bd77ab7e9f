"""Rules on vector accesses: what may be one, how wide it is, and that its elements lie side by side, aligned.

First those of the model, which look at the schedule; then those of the lowering, which look at index maps (nvFuser,
vectorization).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from compiler.analysis.id.conditions import is_multiple, kept
from compiler.analysis.id.contiguity import bound_strides
from compiler.analysis.id.indexing import first_lane, lanes_are_consecutive
from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.memory.straddle import run_of_words
from compiler.analysis.memory.vectorize import VectorAccess, vector_positions, word_bounds
from compiler.arch import WIDE_WORD_BYTES, WORD_BYTES, Arch
from compiler.errors import Kept, Stage, Violation
from compiler.ir.expr import Expr, without_marks
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import COPIES, MOVES, SCANS, OpKind
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp, TensorView
from compiler.legality.rules import Schedule, asked_again, model_rule, rule
from compiler.schedule import steps
from compiler.schedule.inline import compute_position
from compiler.schedule.refusals import Site
from compiler.schedule.refusals.transforms import unrolled_and_vectorized_extents_are_known

WIDE_BITS = 8 * WIDE_WORD_BYTES


def _by_address(s: Schedule) -> Iterator[VectorAccess]:
    """Accesses whose words are runs of addresses; those of tensor memory, and of matrices, follow the pattern of their
    instruction (nvFuser, vectorization: ldmatrix is exempt)."""
    for a in s.vector_accesses:
        made = s.sf.producer(a.output)
        if made is not None and not made.via.is_tmem and not made.via.is_matrix:
            yield a


def _vectorized(s: Schedule) -> Iterator[tuple[TensorOp, TensorView, int]]:
    """Every op along a vectorized axis: the op, the tensor that it makes, the axis' position."""
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        for position in vector_positions(t)[:1]:
            if not t.loop[position].is_broadcast:
                yield op, t, position


@model_rule
def one_axis_is_vectorized(s: Schedule) -> Iterator[Violation]:
    """A tensor has at most one vectorized axis. (nvFuser, vectorization)"""
    for t in s.sf.tensors:
        positions = vector_positions(t)
        if t.name not in s.sf.inputs and len(positions) > 1:
            yield Violation(
                "one_axis_is_vectorized", t.name, len(positions), 1, "Vectorize one axis and unroll the others."
            )


def _asked(s: Schedule) -> Iterator[tuple[Site, steps.Parallelize]]:
    for _, t, i in _vectorized(s):
        yield Site(s.sf, t.name, is_settled=True), steps.Parallelize(t.name, i, ParallelType.VECTORIZE)


asked_again(unrolled_and_vectorized_extents_are_known, _asked)


@model_rule
def vectorized_axis_is_not_a_shared_loop(s: Schedule) -> Iterator[Violation]:
    """A loop of consumers cannot be one word of the tensor computed in it. (nvFuser, vectorization)"""
    for _, t, _ in _vectorized(s):
        for i in vector_positions(t):
            if i < compute_position(t):
                yield Violation(
                    "vectorized_axis_is_not_a_shared_loop",
                    f"{t.name}: axis {i}",
                    i,
                    compute_position(t),
                    "Inline left of the vectorized axis.",
                )


@model_rule
def vectorized_operator_copies(s: Schedule) -> Iterator[Violation]:
    """Only copies and casts take words; other operators compute element by element. (nvFuser, vectorization)"""
    for op, t, i in _vectorized(s):
        if op.kind not in COPIES | SCANS | {OpKind.CAST}:
            yield Violation(
                "vectorized_operator_copies",
                f"{t.name}: axis {i}",
                op.kind.value,
                "set, permute or cast",
                "Copy in words and unroll the axis where it is computed on.",
            )


@model_rule
def words_are_of_a_width_that_exists(s: Schedule) -> Iterator[Violation]:
    """A word has 8 to 128 bits, a power of two; 256 between global memory and registers on Blackwell. (PTX ISA, ld and
    st; nvFuser, vectorization) Those of tensor memory: `tmem_access_width_is_a_power_of_two`."""
    for a in _by_address(s):
        allowed = _widths(s, a)
        if a.bits not in allowed:
            yield Violation(
                "words_are_of_a_width_that_exists",
                f"{a.output}: axis {a.position}",
                f"{a.bits} bits",
                f"{', '.join(map(str, allowed))} bits",
                "Split the axis so that a word has one of these widths.",
            )


def _widths(s: Schedule, a: VectorAccess) -> tuple[int, ...]:
    ends = {s.sf.tensor(a.source).memory, s.sf.tensor(a.output).memory}
    words = tuple(8 * n for n in WORD_BYTES)
    is_wide = ends == {MemoryType.GLOBAL, MemoryType.LOCAL} and _has_wide_words(s.arch)
    return (*words, WIDE_BITS) if is_wide else words


def _has_wide_words(arch: Arch) -> bool:
    return arch.max_vector_bytes * 8 >= WIDE_BITS


@model_rule
def words_are_inner_pieces_of_memory(s: Schedule) -> Iterator[Violation]:
    """From the vectorized axis to the source's memory it is the inner piece of every split and merge, passes no
    swizzle, and ends in the last axis of that memory. (nvFuser, vectorization)"""
    for a in _by_address(s):
        if not a.is_inner:
            yield Violation(
                "words_are_inner_pieces_of_memory",
                f"{a.output}: axis {a.position}",
                f"inner piece of {a.reached}" if a.reached is not None else "not the inner piece of an axis",
                f"of {a.innermost}, the innermost of {a.source}",
                "Vectorize the inner piece of the innermost axis in memory.",
            )


@model_rule
def words_are_contiguous(s: Schedule) -> Iterator[Violation]:
    """Elements of the innermost axis of the source lie side by side, unless one element is stored in no less than a
    word. (nvFuser, vectorization)"""
    for a in _by_address(s):
        if a.is_inner and not a.is_contiguous:
            yield Violation(
                "words_are_contiguous",
                f"{a.output}: axis {a.position}",
                f"{a.innermost} of {a.source} is not contiguous",
                "a contiguous innermost axis",
                "Load this tensor element by element.",
            )


@model_rule
def words_divide_what_they_cut(s: Schedule) -> Iterator[Violation | Kept]:
    """A word crosses neither the end of an axis that was split nor, where rows do not follow each other in memory, the
    end of a row; checked with the sizes of each launch, unless it is a piece of another split. (nvFuser, vectorization;
    divisibility of split)"""
    for a in _by_address(s):
        for bound in word_bounds(s.sf, s.graph, a) if a.is_inner else ():
            breach = Violation(
                "words_divide_what_they_cut",
                f"{a.output}: axis {a.position}",
                bound.size.value,
                f"a multiple of {a.axis.extent}",
                "Use a narrower word.",
                f"{bound.what} is no multiple of the {a.axis.extent} elements of a word",
                Stage.COMPILE if bound.is_piece else Stage.RUNTIME,
            )
            yield from is_multiple(bound.size, Size(a.axis.extent)).require(breach)


def _ends(s: Schedule) -> Iterator[tuple[VectorAccess, TensorView, int]]:
    """Every access of an input or output, that tensor, and its number among inputs and outputs."""
    numbers = {name: i for i, name in enumerate((*s.sf.inputs, *s.sf.outputs))}
    for a in _by_address(s):
        for name in (a.source, a.output):
            if name in s.sf.inputs or (name in s.sf.outputs and name == a.output):
                yield a, s.sf.tensor(name), numbers[name]


def _straddles(s: Schedule, a: VectorAccess) -> bool:
    made = s.sf.producer(a.output)
    return made is not None and made.straddles


@model_rule
def words_start_at_aligned_addresses(s: Schedule) -> Iterator[Violation | Kept]:
    """The address of an input or output is a multiple of the words it is accessed in; checked at every launch. (CUDA
    guide, size and alignment requirement; nvFuser, vectorization)"""
    for a, t, number in _ends(s):
        size = a.bits // 8
        if size < 2 or (t.align % size and _straddles(s, a)):  # words at any address ask for none
            continue
        breach = Violation(
            "words_start_at_aligned_addresses",
            f"{t.name}: accessed by {a.output}",
            f"{t.align} bytes",
            f"{size} bytes",
            "Use a narrower word, or align the tensor.",
            f"the address is a multiple of {t.align} bytes, a word has {size}",
            Stage.RUNTIME,
        )
        yield from kept(t.align % size == 0, f"ptr[{number}] % {size} == 0").require(breach)


@model_rule
def words_start_at_aligned_rows(s: Schedule) -> Iterator[Violation | Kept]:
    """Strides of an input's axes that do not continue the next inner one are multiples of the word; checked at every
    launch. Outputs are allocated dense unless a launch gives their strides. (CUDA guide, size and alignment
    requirement; nvFuser, vectorization)"""
    for a, t, number in _ends(s):
        if (t.name not in s.sf.inputs and not t.runtime_strides) or t.allocation is None or a.bits <= 8:
            continue
        strides = bound_strides(t)
        logical = {s.graph.group(x): x for x in strides}
        flags = dict(zip(t.allocation.axes, t.allocation.contiguity, strict=False))
        expected, outer = 1, False
        for place in reversed(t.allocation.axes):
            axis = logical.get(s.graph.group(place))
            if axis is None or axis.is_broadcast or axis.extent == 1:
                continue
            stride, d = strides[axis], list(strides).index(axis)
            fits = stride == expected or (not outer and stride == 1) or stride * t.dtype.nbits % a.bits == 0
            if not fits or (outer and flags.get(place) is False):
                breach = Violation(
                    "words_start_at_aligned_rows",
                    f"{t.name}: axis {d}",
                    f"stride of {stride} elements",
                    f"a multiple of {a.bits // 8} bytes",
                    f"Use a narrower word in {a.output}, or pad the rows.",
                    stage=Stage.RUNTIME,
                )
                formula = f"stride[{number}][{d}] * {t.dtype.nbits} % {a.bits} == 0"
                yield from kept(fits, formula).require(breach)
            expected, outer = stride * axis.extent, True


# Lowering -------------------------------------------------------------------------------------------------------------


def _vector_copies(s: Schedule) -> Iterator[tuple[TensorOp, TensorView, int]]:
    """Copies whose vectors are words; those of matrices and of tensor memory have rules of their own
    (`legality.matrix`, `legality.tmem`)."""
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        if (
            t.vector_axis is not None
            and op.kind not in SCANS | {OpKind.CAST}
            and not op.via.is_matrix
            and not op.via.is_tmem
        ):
            yield op, t, t.vector_axis.extent


def _sides(s: Schedule, op: TensorOp) -> Iterator[tuple[TensorView, Expr]]:
    """Both ends of a copy with the element offset of the lane; registers excepted, which have no addresses."""
    ends = [(s.sf.tensor(op.output), s.indexing.write_offset(s.sf.tensor(op.output)))]
    ends += [(s.sf.tensor(n), s.indexing.read_offset(op, n)) for n in op.tensor_inputs]
    return (e for e in ends if e[0].memory is not MemoryType.LOCAL)


@rule
def vector_axis_belongs_to_a_copy(s: Schedule) -> Iterator[Violation]:
    """Vectorize carries copies and casts (nvFuser, vectorization)."""
    for op, t, _ in _vector_copies(s):
        if op.kind not in MOVES:
            yield Violation("vector_axis_belongs_to_a_copy", t.name, str(op.kind), "a copy", "Unroll the axis instead.")


@rule
def vector_word_is_one_instruction(s: Schedule) -> Iterator[Violation]:
    """A word is 1, 2, 4, 8 or 16 bytes (PTX ISA, ld and st); the 32-byte form of capability 10 is not emitted yet."""
    for op, t, width in _vector_copies(s):
        for side, _ in _sides(s, op):
            word = width * side.dtype.nbytes
            if word not in WORD_BYTES:
                yield Violation(
                    "vector_word_is_one_instruction",
                    f"{t.name}: {side.name}",
                    word,
                    f"a power of two up to {WORD_BYTES[-1]} bytes",
                    "Vectorize by fewer elements.",
                )


@rule
def vector_lanes_are_consecutive(s: Schedule) -> Iterator[Violation]:
    """The vector axis is innermost in the memory order and contiguous (nvFuser, vectorization).

    Lane v then lies v elements on.
    """
    for op, t, width in _vector_copies(s):
        for side, offset in _sides(s, op) if not op.straddles else ():
            # Where a position is known to be inside, a shift's multiple of a vector hides in its mark.
            if not any(lanes_are_consecutive(o, width) for o in (offset, without_marks(offset))):
                yield Violation(
                    "vector_lanes_are_consecutive",
                    f"{t.name}: {side.name}",
                    str(offset),
                    "... + lane",
                    "Vectorize the axis that is contiguous in memory, by a factor that divides it.",
                )


@rule
def vector_address_is_aligned(s: Schedule) -> Iterator[Violation]:
    """The address of a word is a multiple of its size (PTX ISA, ld and st; nvFuser, vectorization).

    Offsets, strides and the tensor's own address decide it.
    """
    for op, t, width in _vector_copies(s):
        for side, offset in _sides(s, op) if not op.straddles else ():
            base = first_lane(offset, width)
            word = width * side.dtype.nbytes
            known = gcd(base.const, *(c for _, c in base.terms)) * side.dtype.nbytes if base != Expr() else 0
            known = word if known % word and without_marks(base).divisible_by(width) else known
            divisor = gcd(known, side.align) if side.memory is MemoryType.GLOBAL else known
            if divisor % word:
                yield Violation(
                    "vector_address_is_aligned",
                    f"{t.name}: {side.name}",
                    divisor,
                    word,
                    "Vectorize by fewer elements, or align rows and address.",
                )


@rule
def straddling_words_lie_along_a_run(s: Schedule) -> Iterator[Violation]:
    """Two aligned words are loaded for a word at any address: its elements are neighbours in memory, up to the ends of
    a run, near which they come one by one."""
    for op, t, width in _vector_copies(s):
        if op.straddles and width > 1 and run_of_words(s.indexing, op, width) is None:
            yield Violation(
                "straddling_words_lie_along_a_run",
                t.name,
                str(s.indexing.read_offset(op, op.tensor_inputs[0])),
                "... + lane, along one dimension in memory",
                "Vectorize the axis that is contiguous in memory, or load element by element.",
            )


@rule
def vectors_stay_inside_shared_tiles(s: Schedule) -> Iterator[Violation]:
    """A partly valid vector is possible only against global memory, where the tail goes element by element."""
    for op, t, width in _vector_copies(s):
        if any(side.memory is MemoryType.SHARED for side, _ in _sides(s, op)):
            offset = s.indexing.write_offset(t)
            if t.memory is MemoryType.SHARED and offset.hi >= layout_of(t).elems and width > 1:
                yield Violation(
                    "vectors_stay_inside_shared_tiles",
                    t.name,
                    offset.hi,
                    layout_of(t).elems - 1,
                    "Make the tile a multiple of the word.",
                )
