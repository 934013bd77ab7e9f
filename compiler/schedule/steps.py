"""Schedule steps as values. Axis numbers refer to the tensor's loop domain at the moment of the step.

The first group is the explicit-schedule vocabulary (docs/contracts.md, "Schedule"). `ParallelizeLoops` says of many
loops, `Propagate`, `ParallelizeLike` and `InlineSelectedAt` of many tensors what is said of one. `CacheInput`,
`CacheOutput`, `Recompute`, `Online`, `SetCache`, `Straddle`, `Multicast`, `Park`, `ProductsInFlight`,
`Deal` and `CapRegisters` say what a finished schedule needs besides.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.size import Size
from compiler.ir.tensor import BufferKind, CachePolicy, CopyVia
from compiler.ir.tensor import CircularBuffer as BufferOptions


@dataclass(frozen=True, slots=True)
class Split:
    """[n] -> [ceil(n/factor), factor] (inner) or [factor, ceil(n/factor)] (outer).

    A factor that is a `Size` is known at launch only; a trace is of one binding and stores its value there.
    """

    tv: str
    axis: int
    factor: int | Size
    inner: bool = True


@dataclass(frozen=True, slots=True)
class Merge:
    """[a, b] -> [a*b] at the smaller position; `axis` is the outer one, `other` (default axis + 1) the inner."""

    tv: str
    axis: int
    other: int | None = None


@dataclass(frozen=True, slots=True)
class Reorder:
    """Moves axis old to position new for each (old, new); unnamed axes fill the free places in their old order."""

    tv: str
    moves: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Swizzle:
    """[x, y] -> [x, y xor x]; equal power-of-two extents."""

    tv: str
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Resize:
    """[n] -> [left + n + right]: places are added, or cut where negative."""

    tv: str
    axis: int
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Shift:
    """[n] -> [n + modulus]: every row is moved by its phase, (start + sum of factors * index of the axes `by`) mod
    modulus.

    With the strides of a global tensor as `factors`, and the element at which its first row begins as `start`, places
    of the new axis that are multiples of the modulus are addresses that are multiples of it, though rows begin at any
    address. `by` are positions of loop axes. An axis that is summed over keeps its elements: the places beside them
    take no part.
    """

    tv: str
    axis: int
    by: tuple[int, ...]
    factors: tuple[int, ...]
    modulus: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """[n] -> [ceil((n + before) / step), size]: tiles of `size` elements, one every `step`, the first `before` elements
    before the axis' own first.

    They overlap: each block loads the halo of its tile itself. A run of `step` elements that its readers moved by less
    than `before` + 1 places (`Shift`) lies in one tile, of a shared or register tensor.
    """

    tv: str
    axis: int
    step: int
    size: int
    before: int


Transform = Split | Merge | Reorder | Swizzle | Resize | Shift | Window
"""What can be done to a list of axes."""


@dataclass(frozen=True, slots=True)
class Parallelize:
    """Says how a loop axis is carried out."""

    tv: str
    axis: int
    type: ParallelType


@dataclass(frozen=True, slots=True)
class ParallelizeLoops:
    """Says how the loops of `tv` are carried out, outermost first; Serial leaves one as it is, and so does the end of
    the list."""

    tv: str
    types: tuple[ParallelType, ...]


@dataclass(frozen=True, slots=True)
class Propagate:
    """Repeats the transforms of the reference `tv` on the axes of the tensors `to` that its axes are, and puts their
    loops in its order (nvFuser, propagation of transforms).

    [a, b] -> [a/4, b, 4] of `tv` makes the same of [a, b], and [a/4, 4] of a tensor [a] that b was folded for. What a
    tensor has of these transforms stays, and so does an axis that is transformed otherwise; loops that are none of the
    reference's come last.
    """

    tv: str
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParallelizeLike:
    """Gives the loops of the tensors `to` the parallel types of the loops of the reference `tv` that they are (nvFuser,
    parallelizeAllLike). Loops that are none of the reference's keep theirs."""

    tv: str
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetAllocationDomain:
    """Fixes the memory order to these loop axes (in this order), then applies `transforms` to that list only.

    `strides`: one for each axis after the transforms, None where contiguity gives it; empty for all contiguous.
    `contiguity`: one flag for each axis after the transforms, None on broadcast and reduction axes; or one flag for all
    axes that hold data.
    """

    tv: str
    axes: tuple[int, ...]
    transforms: tuple[Transform, ...] = ()
    strides: tuple[int | None, ...] = ()
    contiguity: tuple[bool | None, ...] | bool = True


@dataclass(frozen=True, slots=True)
class TmemDimsep:
    """Allocation axes left of `position` are lanes of tensor memory, the rest columns; negative counts from the end."""

    tv: str
    position: int


@dataclass(frozen=True, slots=True)
class InlineAt:
    """Computes the tensor inside the first `position` loops of its consumers."""

    tv: str
    position: int


@dataclass(frozen=True, slots=True)
class InlineSelectedAt:
    """Computes each of the tensors inside the first `position` loops of its consumers, or as many as it shares with all
    of them (nvFuser, inlining: inlineSelectedAt)."""

    tensors: tuple[str, ...]
    position: int


@dataclass(frozen=True, slots=True)
class InlineMost:
    """Inlines every tensor as deep as its own axes and its consumers allow."""


@dataclass(frozen=True, slots=True)
class ComputeAt:
    """Inlines every tensor on the way from `tv` to `consumer` at the consumer's `position`."""

    tv: str
    consumer: str
    position: int


@dataclass(frozen=True, slots=True)
class ComputeWith:
    """Computes the tensor inside the first `position` loops of its consumers, though it is allocated further out."""

    tv: str
    position: int


@dataclass(frozen=True, slots=True)
class CircularBuffer:
    """Keeps `stages` copies of a tensor and fills `prefetch` of them ahead; prefetch < 0 counts from stages.

    `on`, `registers` and `slice_position` belong to a buffer that warps of their own fill (`kind`).
    """

    tv: str
    stages: int
    prefetch: int = -1
    kind: BufferKind = BufferKind.PIPELINED
    on: ParallelType | None = None
    registers: tuple[int, int] | None = None
    slice_position: int | None = None
    war_mbarrier: bool = False

    @property
    def options(self) -> BufferOptions:
        """What the tensor has after the step, its prefetch counted from 0."""
        prefetch = self.prefetch + self.stages if self.prefetch < 0 else self.prefetch
        own = (self.kind, self.on, self.registers, self.slice_position, self.war_mbarrier)
        return BufferOptions(self.stages, prefetch, *own)


@dataclass(frozen=True, slots=True)
class CacheInput:
    """Inserts out = copy(tensor) in `memory` between a tensor and all its consumers; `via` carries the new copy."""

    tensor: str
    out: str
    memory: MemoryType
    via: CopyVia = CopyVia.PLAIN


@dataclass(frozen=True, slots=True)
class CacheOutput:
    """Computes a tensor into `out` in `memory` first, then copies it; `via` carries the copy out -> tensor."""

    tensor: str
    out: str
    memory: MemoryType
    via: CopyVia = CopyVia.PLAIN


@dataclass(frozen=True, slots=True)
class SetMemory:
    """Moves an intermediate tensor to another memory; `via` carries the op that writes it."""

    tensor: str
    memory: MemoryType
    via: CopyVia = CopyVia.PLAIN


@dataclass(frozen=True, slots=True)
class Recompute:
    """Gives `consumer` a copy `out` of `tensor`, made by an operator of its own from the same operands.

    A value that two passes over a row read is then computed, or loaded, twice instead of kept. `others`: consumers that
    read the same copy.
    """

    tensor: str
    consumer: str
    out: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Online:
    """Folds `sums` along with the maximum `tensor`, in one pass instead of one after it.

    [k: m = amax x], [k: s = sum exp(x - m)] -> [k: m = amax x; s = s * exp(m before - m) + sum exp(x - m)]: s is scaled
    once in each turn of the loops that both share. What a thread folds in one turn is the chunk.
    """

    tensor: str
    sums: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetCache:
    """Cache hint of the global access by which `tv` is loaded or stored."""

    tv: str
    policy: CachePolicy


@dataclass(frozen=True, slots=True)
class Straddle:
    """Words of the copy `tv` from global memory begin at any element: a thread loads the two aligned words that one of
    its own straddles, and shifts them (CUB, batched memory copies)."""

    tv: str


@dataclass(frozen=True, slots=True)
class Multicast:
    """The bulk copy into the shared tensor `tv` is made once for all blocks of a cluster: the first of them asks for
    it, and it comes to all (PTX ISA, cp.async.bulk: multicast::cluster).

    The axis of `tv` on Cluster is a broadcast one: the blocks read the same tile.
    """

    tv: str


@dataclass(frozen=True, slots=True)
class Park:
    """Elements of the register tensor `tv` from `first` on are kept in shared memory, each thread's at its own places.

    A row that fills the registers of a block leaves no room for a second one: in both memories there is room for more.
    What is parked comes past the registers (PTX ISA, cp.async), and is read vector by vector where it is used.
    """

    tv: str
    first: int


@dataclass(frozen=True, slots=True)
class ProductsInFlight:
    """Of the instructions of tensor cores that make `tv`, as many `groups` may be under way while the loop around them
    goes on: a group is what one turn asks for. The stages that they read are free so many turns later.
    """

    tv: str
    groups: int


@dataclass(frozen=True, slots=True)
class Deal:
    """The turns of the two serial loops around the product `tv`, over tiles and over what each is summed along, go to
    `blocks` blocks, one after the other and in equal shares: a tile may begin in one block and end in others, which
    hand their parts of its sum over (stream-K: Osama et al., PPoPP 2023). The grid is these blocks.
    """

    tv: str
    blocks: int


@dataclass(frozen=True, slots=True)
class CapRegisters:
    """At most this many registers a thread: a multiple of 8, from 16 to 248.

    Registers are allocated to a warp in units of 256 (cuda_occupancy.h), 8 a thread; a thread has at most 255.
    """

    count: int


Step = (
    Split
    | Merge
    | Reorder
    | Swizzle
    | Resize
    | Shift
    | Window
    | Parallelize
    | ParallelizeLoops
    | Propagate
    | ParallelizeLike
    | SetAllocationDomain
    | TmemDimsep
    | InlineAt
    | InlineSelectedAt
    | InlineMost
    | ComputeAt
    | ComputeWith
    | CircularBuffer
    | CacheInput
    | CacheOutput
    | SetMemory
    | Recompute
    | Online
    | SetCache
    | Straddle
    | Multicast
    | Park
    | ProductsInFlight
    | Deal
    | CapRegisters
)
