"""Tensors of a scheduled fusion: their domains, memory and place in the loop nest."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any

from compiler.dtypes import DType
from compiler.ir.form import Allocation as Allocation
from compiler.ir.form import DomainShape, Form, Reading, shape_of
from compiler.ir.fusion import Operand
from compiler.ir.id_exprs import IdExpr
from compiler.ir.interned import Keeping, interned
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.views import View, Within


class CopyVia(StrEnum):
    """How a copy between memories is carried out; the value is its name in explicit schedules."""

    PLAIN = "plain"
    TMA = "tma"
    BULK1D = "bulk1d"
    CP_ASYNC = "cp_async"
    ST_TMEM = "st_tmem"
    LD_TMEM = "ld_tmem"
    CP_TMEM = "cp_tmem"
    SHIFT_TMEM = "shift_tmem"
    LDMATRIX = "ldmatrix"
    STMATRIX = "stmatrix"

    @property
    def is_bulk(self) -> bool:
        """True where the copy engine moves the data and the threads only ask for it."""
        return self in (CopyVia.TMA, CopyVia.BULK1D)

    @property
    def takes_tiles(self) -> bool:
        """True where one thread asks for all that Bulk axes span: of the copy engine, or of the tensor cores."""
        return self.is_bulk or self.by_tensor_cores

    @property
    def by_tensor_cores(self) -> bool:
        """True where the tensor cores move what one thread asks for, from shared to tensor memory or inside it, and an
        mbarrier tells when it is there."""
        return self in (CopyVia.CP_TMEM, CopyVia.SHIFT_TMEM)

    @property
    def is_matrix(self) -> bool:
        """True where the lanes of a warp move small matrices together: each gives an address, and holds other
        elements than those at it (PTX ISA, ldmatrix, stmatrix)."""
        return self in (CopyVia.LDMATRIX, CopyVia.STMATRIX)

    @property
    def is_tmem(self) -> bool:
        """True where whole warps copy between registers and tensor memory, in patterns of lanes and columns."""
        return self in (CopyVia.ST_TMEM, CopyVia.LD_TMEM)


class CachePolicy(StrEnum):
    """Cache hint of a global access by a thread (PTX ISA, ld/st cache operators and eviction priorities)."""

    DEFAULT = "default"
    NO_ALLOCATE = "no_allocate"
    STREAMING = "streaming"
    EVICT_FIRST = "evict_first"
    EVICT_LAST = "evict_last"


class Running(StrEnum):
    """What a broadcast of a maximum reads: the whole row's, or, in the pass that folds it, the greatest so far.

    RUNNING: sums fold exponentials of the distance to it along with the maximum (`schedule.online`). FINITE: the same
    where the fusion keeps the maximum from being -inf, so that a row of nothing but -inf has a sum of zero, not NaN.
    """

    NO = "no"
    RUNNING = "running"
    FINITE = "finite"


class BufferKind(StrEnum):
    """Who fills the stages of a circular buffer: the computing threads themselves, or warps of their own."""

    PIPELINED = "pipelined"
    WARP_SPECIALIZED = "warp_specialized"


@dataclass(frozen=True, slots=True)
class CircularBuffer:
    """`stages` copies of a tensor, `prefetch` of them filled ahead of use (nvFuser, circular buffers).

    `on`: the thread dimension that the loading warps are appended to; `registers`: for each thread that loads, and
    that computes; `slice_position`: loop axes left of it share one stage (ping-pong); `war_mbarrier`: the write after
    read waits on a second mbarrier.
    """

    stages: int
    prefetch: int
    kind: BufferKind = BufferKind.PIPELINED
    on: ParallelType | None = None
    registers: tuple[int, int] | None = None
    slice_position: int | None = None
    war_mbarrier: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """Of the places along two logical axes taken together, `inner` the faster one, the first `count` have elements.

    Axes are given by their positions. The others are holes, tested like those of a split (nvFuser, divisibility of
    split: Theorem 1): that is what cutting `count` rows into groups of as many each leaves.
    """

    outer: int
    inner: int
    count: int


class _TensorFacts(Keeping):
    """`form`: its axes and transforms; `shape`: the same without its name. `bulk_axes`: those that the copy engine
    spans. `vector_axis`: the one of a word, if there is one."""

    __slots__ = ("bulk_axes", "form", "shape", "vector_axis")

    form: Form
    shape: DomainShape
    bulk_axes: tuple[IterDomain, ...]
    vector_axis: IterDomain | None


@dataclass(frozen=True, slots=True)
class TensorView(_TensorFacts):
    """One tensor: logical -> loop by `exprs`; `types` says how each loop axis is carried out.

    `compute_at`: the tensor is computed inside the first `compute_at` loops of its consumers; `compute_with`: it is
    computed inside that many, though allocated at `compute_at`.
    A global tensor's allocation is always set (its strides); for the others, unset means the loop domain (nvFuser,
    memory order). `dimsep`: allocation axes left of it are lanes of tensor memory, the rest columns.
    `runtime_strides`, of an input: strides in elements of the logical axes at the binding, empty for dense row-major;
    `runtime_shape`: what the logical axes are bound to where a launch says so; `align`: the address is a multiple of so
    many bytes.
    `part_of`: the input or output that this tensor is another name of, or a part of, from its element `part_offset` on.
    `parked`: of a thread's registers, the first element that is kept in shared memory in their place; 0 for none.
    `in_flight`: groups of the instructions that make it that may be under way while the loop around them goes on.
    `dealt`: blocks to which the turns of its loops over tiles and along its sum go in equal shares; 0 for none.
    `end`: which places of its first logical axes have elements; None where all have.
    """

    name: str
    dtype: DType
    memory: MemoryType
    logical: tuple[IterDomain, ...]
    loop: tuple[IterDomain, ...]
    types: tuple[ParallelType, ...]
    exprs: tuple[IdExpr, ...] = ()
    allocation: Allocation | None = None
    compute_at: int = 0
    circular: CircularBuffer | None = None
    align: int = 16
    dimsep: int | None = None
    compute_with: int | None = None
    runtime_strides: tuple[int, ...] = ()
    runtime_shape: tuple[int, ...] = ()
    part_of: str = ""
    part_offset: int = 0
    parked: int = 0
    in_flight: int = 0
    dealt: int = 0
    end: End | None = None

    def __hash__(self) -> int:
        return hash((self.name, self.loop, self.types, self.compute_at))

    def axes_of(self, *types: ParallelType) -> tuple[IterDomain, ...]:
        return tuple(a for a, t in zip(self.loop, self.types, strict=True) if t in types)

    def _find_form(self) -> Form:
        return Form(self.logical, self.loop, self.exprs, self.allocation)

    def _find_shape(self) -> DomainShape:
        return shape_of(self.form)

    def _find_bulk_axes(self) -> tuple[IterDomain, ...]:
        return self.axes_of(ParallelType.BULK)

    def _find_vector_axis(self) -> IterDomain | None:
        at = ParallelType.VECTORIZE
        return self.loop[self.types.index(at)] if at in self.types else None


class _Operands(Keeping):
    """`tensor_inputs`: the operands that are tensors. `reading`: how it reads the first of them."""

    __slots__ = ("reading", "tensor_inputs")

    reading: Reading
    tensor_inputs: tuple[str, ...]


_VALUES = attrgetter(*(f.name for f in fields(TensorView)))
_PLACES = {f.name: place for place, f in enumerate(fields(TensorView))}


def changed(t: TensorView, **fields: Any) -> TensorView:
    """As `dataclasses.replace`, in half the time: each step of each schedule changes a tensor."""
    values = list(_VALUES(t))
    for name, value in fields.items():
        values[_PLACES[name]] = value
    return TensorView(*values)


@interned
class TensorOp(_Operands):
    """`output = kind(inputs)` over tensors of a scheduled fusion; `dims` and `start` as in `ir.fusion.Op`.

    Of a scan, `dims` are the logical axes that it goes along, the slowest first.
    A reduction's output has all axes of its operand as logical axes, the folded ones of kind REDUCTION.
    `via` and `cache` concern copies between memories; `grade` says how exactly a function is computed.
    `view`: of a VIEW, the index read along each dimension of the operand; of an IOTA, its value; of a RAND, the number
    of the element drawn; all in the positions of the element made (`ir.views`). Of a TAKE as of a VIEW, and in what the
    operands behind the first one say there: integers from 0 up to, not including, one of `dims` each. `within`: of a
    VIEW and a TAKE, where it reads at all; elsewhere its value is zero.
    `straddles`: words of a load begin at any element, and two aligned ones are loaded for each.
    `multicasts`: one copy brings a tile to all blocks of a cluster, none of which has another one of it.
    `running`: of a BROADCAST_TO of a maximum, whether it reads the greatest element so far.
    `is_term`: as in `ir.fusion.Op`.
    """

    kind: OpKind
    inputs: tuple[Operand, ...]
    output: str
    dims: tuple[int, ...] = ()
    via: CopyVia = CopyVia.PLAIN
    cache: CachePolicy = CachePolicy.DEFAULT
    grade: MathGrade = MathGrade.EXACT
    start: int = 0
    view: View = ()
    within: tuple[Within, ...] = ()
    running: Running = Running.NO
    straddles: bool = False
    multicasts: bool = False
    is_term: bool = False

    def read_as(self, name: str) -> TensorOp:
        """How it reads one of its operands: what chooses in a TAKE is read where the result is, as of a copy."""
        if self.kind is not OpKind.TAKE or name == self.inputs[0]:
            return self
        return replace(self, kind=OpKind.COPY, inputs=(name,), dims=(), view=(), within=())

    @property
    def choosing(self) -> tuple[str, ...]:
        """Of a TAKE: the operands that say where it reads."""
        return self.tensor_inputs[1:] if self.kind is OpKind.TAKE else ()

    @property
    def is_running(self) -> bool:
        """True for a broadcast of the greatest element so far, which waits for no whole fold."""
        return self.running is not Running.NO

    def _find_reading(self) -> Reading:
        return Reading(self.kind, self.dims, self.start, self.view)

    def _find_tensor_inputs(self) -> tuple[str, ...]:
        return tuple(x for x in self.inputs if isinstance(x, str))


def unscheduled_like(t: TensorView, name: str, memory: MemoryType, *, is_copy: bool = False) -> TensorView:
    """A tensor of the same dtype and logical axes, which are named after it, with no schedule. `is_copy`: of the
    elements, so that it has no axis that they are summed along."""
    axes = [a for a in t.logical if not (is_copy and a.is_reduction)]
    logical = tuple(IterDomain(f"{name}.{d}", a.extent, a.kind) for d, a in enumerate(axes))
    return TensorView(name, t.dtype, memory, logical, logical, (ParallelType.SERIAL,) * len(logical), end=t.end)
