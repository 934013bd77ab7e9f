"""Steps that put a tensor in tensor memory, and say where its elements lie: which loops are lanes, which columns."""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.arch import (
    REGISTER_BYTES,
    TMEM_LANES,
    TMEM_SUBPARTITIONS,
    WARP_THREADS,
)
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import CopyVia, TensorView
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.groups.tmem_patterns import BY_LANES, PatternBits, bits_of

THREADS, HALVES = DIMSEPS = ("threads", "halves")


def stage_in_tmem(b: TraceBuilder, register: str) -> tuple[str, str]:
    """Puts a tensor in tensor memory, and registers after it, between a register tensor and what reads it. Their
    names."""
    there, back = f"{register}_t", f"{register}_l"
    b.do(
        steps.CacheInput(register, there, MemoryType.TENSOR, CopyVia.ST_TMEM),
        steps.CacheInput(there, back, MemoryType.LOCAL, CopyVia.LD_TMEM),
    )
    return there, back


def has_its_own_places(t: TensorView) -> bool:
    """Whether all elements of a tensor are told apart by its axes: threads along a broadcast one would share a lane."""
    return not any(axis.is_broadcast and axis.extent > 1 for axis in t.logical)


def cut_by_words(b: TraceBuilder, tv: str, first: int, words: int) -> None:
    """[.., what a thread has] -> [.., access, element of it]: the axes of a tensor from `first` on."""
    t = b.tensor(tv)
    b.merge(tv, first, len(t.loop) - first)
    b.split(tv, first, words * REGISTER_BYTES // t.dtype.nbytes)


def move_by_words(b: TraceBuilder, tv: str) -> None:
    """Gives the last two axes of such a tensor their types: an access a turn, unrolled, of all of its elements."""
    last = len(b.tensor(tv).loop) - 1
    b.do(
        steps.Parallelize(tv, last - 1, ParallelType.UNROLL),
        steps.Parallelize(tv, last, ParallelType.VECTORIZE),
    )


@dataclass(frozen=True, slots=True)
class ThreadLoops:
    """Loops of a tensor, by position: the `inner` dimension of threads and the `outer` one, left of it, and `tiles`
    that lie there at a time, left of both. All right of `inner` is what a thread has of a tile."""

    inner: int
    outer: int | None = None
    tiles: int | None = None

    @property
    def beside(self) -> tuple[int, ...]:
        """Loops that are columns, though they stand left of threads."""
        return () if self.tiles is None else (self.tiles,)


def place_in_tmem(
    b: TraceBuilder, tv: str, threads: ThreadLoops, pattern: str = BY_LANES, dimsep: str = THREADS
) -> None:
    """Says which loops of a tensor are lanes, and which columns. Its last two loops are those of `cut_by_words`."""
    if pattern == BY_LANES:
        _place_by_lanes(b, tv, threads)
    else:
        _place_by_bits(b, tv, threads, bits_of(pattern), dimsep)


def _place_by_lanes(b: TraceBuilder, tv: str, at_threads: ThreadLoops) -> None:
    """32x32b: lanes are threads, those of the inner dimension first, as far as lanes go; the others are columns."""
    inner, outer = at_threads.inner, at_threads.outer
    t = b.tensor(tv)
    count = len(t.loop)
    y = [] if outer is None else [outer]
    x_extent = t.loop[inner].extent
    block = x_extent * (t.loop[outer].extent if outer is not None else 1)
    left = [i for i in range(inner) if i not in (outer, at_threads.tiles)]
    axes = (*left, *y, inner, *at_threads.beside, *range(inner + 1, count))
    at = len(left) + len(y)
    if block <= TMEM_LANES:
        b.do(steps.SetAllocationDomain(tv, axes), steps.TmemDimsep(tv, at + 1))
        return
    # The lanes of what is cut stay beside the other lanes, the rest goes to the columns.
    cut, factor = (at, TMEM_LANES) if x_extent >= TMEM_LANES else (at - 1, TMEM_LANES // x_extent)
    lanes = 1 if x_extent >= TMEM_LANES else 2
    spare = [*range(len(left), cut), cut]
    order = [*range(len(left)), *range(cut + 1, cut + 1 + lanes), *spare, *range(at + 2, count + 1)]
    b.do(
        steps.SetAllocationDomain(
            tv,
            axes,
            (steps.Split(tv, cut, factor), steps.Reorder(tv, tuple((old, new) for new, old in enumerate(order)))),
        ),
        steps.TmemDimsep(tv, len(left) + lanes),
    )


@dataclass
class _Axes:
    """The axes of an allocation domain by name, and the transforms that made them of loops."""

    tv: str
    names: list[str]
    transforms: list[steps.Transform] = field(default_factory=list)

    def split(self, name: str, factor: int, outer: str, inner: str) -> None:
        at = self.names.index(name)
        self.transforms.append(steps.Split(self.tv, at, factor))
        self.names[at : at + 1] = [outer, inner]

    def merge_last(self, name: str) -> None:
        """Merges the last two axes."""
        self.transforms.append(steps.Merge(self.tv, len(self.names) - 2))
        self.names[-2:] = [name]

    def bits(self, name: str, count: int, stem: str) -> None:
        """Cuts an axis of 2 ** `count` places into bits, called by `stem` and number, the highest first."""
        for bit in range(count - 1, 0, -1):
            self.split(name, 1 << bit, f"{stem}{bit}", name)
        self.names[self.names.index(name)] = f"{stem}0"

    def reorder(self, order: list[str]) -> None:
        olds = [self.names.index(name) for name in order]
        self.transforms.append(steps.Reorder(self.tv, tuple((old, new) for new, old in enumerate(olds))))
        self.names = order


def _place_by_bits(b: TraceBuilder, tv: str, threads: ThreadLoops, bits: PatternBits, dimsep: str) -> None:
    """A pattern of 16 lanes, for warps of the inner dimension: bits of a thread's number and of its words are lanes and
    columns as the pattern has them. The other lanes of a subpartition are the second halves of what threads have, or
    stay empty."""
    t = b.tensor(tv)
    inner, outer, nbytes = threads.inner, threads.outer, t.dtype.nbytes
    left = [i for i in range(inner) if i not in (outer, threads.tiles)]
    own = range(inner + 1, len(t.loop) - 2)
    loops = (*left, *([] if outer is None else [outer]), inner, *threads.beside, *own, *range(own.stop, len(t.loop)))
    first, beside = [f"left{i}" for i in left], [f"own{i}" for i in (*threads.beside, *own)]
    a = _Axes(tv, [*first, *([] if outer is None else ["y"]), "warp", *beside, "access", "run"])
    subs, groups = _warps(a, t.loop[inner].extent, 1 if outer is None else t.loop[outer].extent)
    a.split("warp", WARP_THREADS, "warp", "t")
    a.bits("t", WARP_THREADS.bit_length() - 1, "t")
    a.merge_last("run")
    run = t.loop[-1].extent * t.loop[-2].extent
    half = ["half"] if dimsep == HALVES else []
    if half:
        a.split("run", run // 2, "half", "run")
    unit = []
    if nbytes < REGISTER_BYTES:
        a.split("run", REGISTER_BYTES // nbytes, "run", "unit")
        unit = ["unit"]
    inside = max(1, nbytes // REGISTER_BYTES).bit_length() - 1
    if own_bits := max(0, bits.register_bits - inside):
        a.split("run", 1 << own_bits, "run", "r")
        a.bits("r", own_bits, "r")
    lanes, outermost, columns = bits.named(inside)
    order = [*first, *subs, *half, *lanes]
    a.reorder([*order, *groups, *beside, *outermost, "run", *columns, *unit])
    strides: tuple[int | None, ...] = ()
    if not half:
        apart = {"warp": WARP_THREADS, "y": max(WARP_THREADS, t.loop[inner].extent)}
        strides = tuple(apart[name] if name in subs else None for name in a.names)
    b.do(steps.SetAllocationDomain(tv, loops, tuple(a.transforms), strides), steps.TmemDimsep(tv, len(order)))


def _warps(a: _Axes, x: int, y: int) -> tuple[list[str], list[str]]:
    """Axes of the warps that reach subpartitions side by side, and of groups of these, each with its own columns."""
    has_y = ["y"] if "y" in a.names else []
    warps = x // WARP_THREADS
    if warps > TMEM_SUBPARTITIONS:
        a.split("warp", TMEM_SUBPARTITIONS * WARP_THREADS, "groups", "warp")
        return ["warp"], [*has_y, "groups"]
    if has_y and y * warps > TMEM_SUBPARTITIONS:
        a.split("y", TMEM_SUBPARTITIONS // warps, "groups", "y")
        return ["y", "warp"], ["groups"]
    return [*has_y, "warp"], []
