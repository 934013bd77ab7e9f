"""The loop nest of a schedule as text: which loops there are, what is computed in which, and where each tensor lies.

    i0: bf16 global 8192 x 4096

    for BIDx 65536:
      for Bulk 2, Bulk 256:
        i0_s: bf16 shared 2 x 256 = copy(i0) via tma
      for TIDx 32, Unroll 8:
        for Unroll 2:
          v4: f32 local 2 = gelu(i0_s)
        for Vectorize 2:
          v5: bf16 global = cast(v4)

A loop stands around all that is computed in it, loops that hold nothing else are told on one line, and loops that run
once are left out. Behind a tensor's memory stand the extents of what is allocated there: for each thread, or for each
block where memory is shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from compiler.analysis.loops.axes import Loop, loop_map
from compiler.analysis.loops.deal import dealt_axes
from compiler.analysis.memory.allocation import layout_of
from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import Swizzle
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.printer import tensor_op_text
from compiler.ir.tensor import TensorOp, TensorView

_INDENT = "  "


def loop_tree_text(sf: ScheduledFusion) -> str:
    """The inputs of a scheduled fusion, then its loops with what is computed in them."""
    inputs = [f"{t.name}: {t.dtype} {_place(t)}" for t in map(sf.tensor, sf.inputs)]
    return "\n".join([*inputs, "", *_body(sf, _Loops.of(sf).around_each(sf), 0)])


@dataclass(frozen=True, slots=True)
class _Computed:
    """An operator and the loops around it, outermost first."""

    op: TensorOp
    path: tuple[Loop, ...]
    headers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Loops:
    """What each loop axis runs as: its loop, by a member that stands for all that share it, and how that is told."""

    key: dict[Loop, Loop]
    header: dict[Loop, str]

    @classmethod
    def of(cls, sf: ScheduledFusion) -> _Loops:
        shared = loop_map(sf)
        members: dict[Loop, list[Loop]] = {}
        for op in sf.ops:
            for i in range(len(sf.tensor(op.output).loop)):
                members.setdefault(shared.loop(op.output, i), []).append((op.output, i))
        key = {at: root for root, found in members.items() for at in found}
        return cls(key, {root: _header(sf, found) for root, found in members.items()})

    def around_each(self, sf: ScheduledFusion) -> list[_Computed]:
        """Every operator with those of its loops that run more than once."""
        found = []
        for op in sf.ops:
            roots = (self.key[op.output, i] for i in range(len(sf.tensor(op.output).loop)))
            path = tuple(root for root in dict.fromkeys(roots) if self.header[root])
            found.append(_Computed(op, path, tuple(self.header[root] for root in path)))
        return found


def _header(sf: ScheduledFusion, members: Sequence[Loop]) -> str:
    """`TIDx 128`, `Serial 16 folded`; nothing of a loop that runs once, or along which no element differs."""
    places = [(sf.tensor(name), i) for name, i in members]
    axes = [(t.loop[i], t.types[i]) for t, i in places]
    extents = [axis.extent for axis, _ in axes if not axis.is_broadcast]
    if max(extents, default=1) == 1:
        return ""
    type_ = next((p for _, p in axes if p is not ParallelType.SERIAL), ParallelType.SERIAL)
    dealt = max((t.dealt for t, i in places if (dealt_axes(t) or ())[:1] == (i,)), default=0)
    folded = " folded" if any(axis.is_reduction for axis, _ in axes) else ""
    return f"{type_} {max(extents)}{folded}{f' dealt to {dealt} blocks' if dealt else ''}"


def _body(sf: ScheduledFusion, computed: Sequence[_Computed], depth: int) -> Iterator[str]:
    """The lines of what is computed inside the same first `depth` loops."""
    for part in _in_order(sf, computed, depth):
        first, inside = part[0], depth
        while len(first.path) > inside and all(one.path[: inside + 1] == first.path[: inside + 1] for one in part):
            inside += 1
        if inside == depth:
            yield _statement(sf, first.op)
            continue
        yield f"for {', '.join(first.headers[depth:inside])}:"
        yield from (_INDENT + line for line in _body(sf, part, inside))


def _in_order(sf: ScheduledFusion, computed: Sequence[_Computed], depth: int) -> Iterator[list[_Computed]]:
    """What stands in the same next loop, and what stands in none, each after what it reads."""
    parts: dict[Loop | str, list[_Computed]] = {}
    for one in computed:
        parts.setdefault(one.path[depth] if len(one.path) > depth else one.op.output, []).append(one)
    where = {one.op.output: key for key, found in parts.items() for one in found}
    needs = {
        key: {where[name] for one in found for name in _awaited(sf, one.op) if name in where} - {key}
        for key, found in parts.items()
    }
    while parts:
        # Where none is ready, an inlining asks for one loop twice: a rule says so, here the first is told first.
        key = next((k for k in parts if needs[k].isdisjoint(parts)), next(iter(parts)))
        yield parts.pop(key)


def _awaited(sf: ScheduledFusion, op: TensorOp) -> Iterator[str]:
    """What an operator reads; of a running maximum, what the maximum is folded of."""
    for name in op.tensor_inputs:
        made = sf.producer(name)
        yield from made.tensor_inputs if made is not None and made.is_running else (name,)


def _statement(sf: ScheduledFusion, op: TensorOp) -> str:
    t = sf.tensor(op.output)
    return f"{t.name}: {t.dtype} {_place(t)} = {tensor_op_text(op)}"


def _place(t: TensorView) -> str:
    """`shared 128 x 64 swizzled, 3 stages`: the memory, and what of the tensor is kept there."""
    if t.memory is MemoryType.GLOBAL:
        return f"{t.memory} {_by([a.extent for a in t.logical if not a.is_reduction])}"
    layout = layout_of(t)
    extents = [a.extent for a in layout.axes if a.extent > 1 and not a.is_broadcast]
    told = f"{t.memory} {_by(extents)}".rstrip()
    if t.allocation is not None and any(isinstance(e, Swizzle) for e in t.allocation.exprs):
        told += " swizzled"
    if layout.elems > prod(extents):
        told += f" in {layout.elems} places"
    if t.circular is not None:
        told += f", {t.circular.stages} stages, {t.circular.prefetch} ahead"
    return told + (f", parked from element {t.parked} on" if t.parked else "")


def _by(extents: Sequence[int]) -> str:
    return " x ".join(map(str, extents))
