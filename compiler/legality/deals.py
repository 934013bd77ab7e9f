"""Rules on products whose turns are dealt to blocks in equal shares: what is dealt, to whom, and what comes with it."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.loops.deal import dealt_axes
from compiler.errors import Violation
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import CONTRACTIONS
from compiler.ir.tensor import BufferKind, TensorView
from compiler.legality.rules import Schedule, structure_rule

_GRID = (ParallelType.BIDX, ParallelType.BIDY, ParallelType.BIDZ)


def _dealt(s: Schedule) -> Iterator[tuple[TensorView, tuple[int, int]]]:
    """Every tensor whose turns are dealt, with the places of the loops over tiles and along its sum."""
    for t in s.sf.tensors:
        axes = dealt_axes(t) if t.dealt else None
        if axes is not None:
            yield t, axes


@structure_rule
def dealt_turns_are_of_tiles_and_a_sum(s: Schedule) -> Iterator[Violation]:
    """What is dealt are the turns of two serial loops, of a product in registers: over tiles, outermost but for a
    cluster, and right inside it along what is summed, several of each; what comes of a tile stands in the first of
    them (stream-K: Osama et al., PPoPP 2023)."""
    for t in s.sf.tensors:
        if not t.dealt:
            continue
        op, axes = s.sf.producer(t.name), dealt_axes(t)
        is_product = op is not None and op.kind in CONTRACTIONS and t.memory is MemoryType.LOCAL
        if not is_product or axes is None or t.compute_at != axes[1]:
            loops = ", ".join(f"{p} {a.extent}" for a, p in zip(t.loop[:3], t.types[:3], strict=True))
            yield Violation(
                "dealt_turns_are_of_tiles_and_a_sum",
                f"{t.name}: dealt to {t.dealt} blocks",
                f"{t.memory}, loops {loops}, inlined at {t.compute_at}",
                "a product in registers, loops over tiles and along its sum, inlined between them",
                "Merge the tiles into one serial axis in front of the sum's, or deal nothing.",
            )


@structure_rule
def dealt_turns_make_the_grid(s: Schedule) -> Iterator[Violation]:
    """The blocks of the grid are those that have shares, of one turn at least; no axis lies on blocks beside them."""
    for t, axes in _dealt(s):
        tiles, steps = (t.loop[i].extent for i in axes)
        if not 1 < t.dealt <= tiles * steps:
            yield Violation(
                "dealt_turns_make_the_grid",
                f"{t.name}: blocks",
                t.dealt,
                f"2 to {tiles * steps}, its turns",
                "Deal to fewer blocks, or to more than one.",
            )
        for other in s.sf.tensors:
            for i, (axis, type_) in enumerate(zip(other.loop, other.types, strict=True)):
                if type_ in _GRID and axis.extent > 1:
                    yield Violation(
                        "dealt_turns_make_the_grid",
                        f"{other.name}: axis {i}",
                        type_.value,
                        f"the {t.dealt} blocks that {t.name} is dealt to",
                        "Merge the axis into that of the tiles, or deal nothing.",
                    )


@structure_rule
def all_stands_in_the_loop_of_dealt_tiles(s: Schedule) -> Iterator[Violation]:
    """A block comes to the tiles of which it has turns: whatever the kernel makes stands in that loop."""
    for t, (first, _) in _dealt(s):
        tiles = s.loops.loop(t.name, first)
        for op in s.sf.ops:
            if op.output != t.name and s.loops.loop(op.output, first) != tiles:
                yield Violation(
                    "all_stands_in_the_loop_of_dealt_tiles",
                    f"{op.output}: axis {first}",
                    "a loop of its own",
                    f"the loop of {t.name}, {t.loop[first].extent} tiles",
                    "Inline it, or what it reads, below the axis of the tiles.",
                )


@structure_rule
def stages_of_dealt_turns_have_loading_warps(s: Schedule) -> Iterator[Violation]:
    """Where a share begins follows from the block: warps of their own go along with it, threads that fill stages ahead
    of their own turns would begin before it."""
    if not any(_dealt(s)):
        return
    for t in s.sf.tensors:
        if t.circular is not None and t.circular.kind is not BufferKind.WARP_SPECIALIZED:
            yield Violation(
                "stages_of_dealt_turns_have_loading_warps",
                t.name,
                t.circular.kind.value,
                BufferKind.WARP_SPECIALIZED.value,
                "Let warps of their own fill it, or deal nothing.",
            )
