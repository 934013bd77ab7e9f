"""A cut: the values of a fusion that are stored, launch by launch, and the fusions that the launches then are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from compiler.arch import Card
from compiler.ir.fusion import Fusion, Literal, Op, Operand, Scalar, Value
from compiler.ir.ops import ROUNDING_FOLDS, SCANS
from compiler.ir.touched import moved_bytes
from compiler.schedule.aliases import late_reads
from compiler.schedule.trace import LaunchTrace, ProgramTrace, ScheduleTrace, content_hash
from search.cost.roofline import launch_us

SCRATCH_ALIGN = 128
"""What a launch knows of the address of a stored value, in bytes: the most that a binding can say (docs/contracts.md,
"Binding"). Buffers begin at multiples of 256."""


@dataclass(frozen=True)
class LaunchPart:
    """One launch: a fusion of its own, `i0`… and `v0`…, and the names that its tensors have in the program."""

    fusion: Fusion
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Cut:
    """`program`, the fusion or a rewriting of it with the same inputs and outputs, as launches in order.

    What a launch needs and no launch before it has stored, it computes itself, from the inputs if need be: a value that
    several launches use is recomputed in each unless it is stored.
    """

    program: Fusion
    parts: tuple[LaunchPart, ...]

    @property
    def stores(self) -> tuple[tuple[str, ...], ...]:
        """The values that each launch writes, by their names in the program."""
        return tuple(part.writes for part in self.parts)

    @property
    def scratch(self) -> tuple[str, ...]:
        """The stored values that are no outputs, in the order in which they are written."""
        return tuple(name for part in self.parts for name in part.writes if name not in self.program.outputs)

    @property
    def moved_bytes(self) -> int:
        """Bytes that all launches read and write."""
        return sum(moved_bytes(part.fusion) for part in self.parts)

    def us(self, card: Card) -> float:
        """Microseconds of all launches at the speed of a card's memory."""
        return sum(launch_us(moved_bytes(part.fusion), card) for part in self.parts)


def cut_at(program: Fusion, stores: Sequence[Collection[str]]) -> Cut:
    """The cut that stores these values, launch by launch.

    Raises ValueError where a value is no result of the program or is stored twice, a launch stores none, an output is
    not stored, an input is read after an output was written into it, or a sum of floats would be folded by two
    launches: it is folded once and read by all (docs/contracts.md, "Bits").
    """
    made = [op.output for op in program.ops]
    every = [name for names in stores for name in names]
    if len(set(every)) != len(every) or not set(every) <= set(made) or not all(stores):
        raise ValueError(f"stored values {[list(s) for s in stores]}: each launch stores results, each stored once.")
    if missing := [name for name in program.outputs if name not in every]:
        raise ValueError(f"outputs {missing} are stored by no launch.")
    parts: list[LaunchPart] = []
    available: set[str] = set()
    for names in stores:
        ordered = tuple(name for name in made if name in names)
        parts.append(part_of(program, ordered, available))
        available.update(names)
    if len(parts) > 1 and (twice := _folded_twice(program, stores)):
        raise ValueError(f"folds {twice} are folded by two launches each: store them, or what is made of them.")
    if late := [name for _, name in late_reads(program.aliases, [(part.reads, part.writes) for part in parts])]:
        raise ValueError(f"inputs {late} are read after outputs were written into them.")
    return Cut(program, tuple(parts))


def _folded_twice(program: Fusion, stores: Sequence[Collection[str]]) -> list[str]:
    """The sums, means and products of floats that more than one launch folds."""
    producers = {op.output: op for op in program.ops}
    folds: Counter[str] = Counter()
    available: set[str] = set()
    for names in stores:
        ops = _depth_first(producers, list(names), available)
        folds.update(
            op.output for op in ops if op.kind in ROUNDING_FOLDS | SCANS and program.value(op.output).dtype.is_float
        )
        available.update(names)
    return [name for name, count in folds.items() if count > 1]


def part_of(program: Fusion, writes: tuple[str, ...], available: Collection[str]) -> LaunchPart:
    """The launch that computes `writes` from the program's inputs and the values `available` in memory.

    Names are canonical, so that equal launches are equal fusions, whatever they were cut from: inputs in the program's
    order, stored values after them, operators depth first from the outputs.
    """
    producers = {op.output: op for op in program.ops}
    order = tuple(_depth_first(producers, writes, available))
    used = {name for op in order for name in op.tensor_inputs} - {op.output for op in order}
    reads = tuple(name for name in (*program.inputs, *(op.output for op in program.ops)) if name in used)
    names = {name: f"i{n}" for n, name in enumerate(reads)} | {op.output: f"v{n}" for n, op in enumerate(order)}
    values = tuple(
        replace(_seen(program, name, available), name=names[name]) for name in (*reads, *(op.output for op in order))
    )
    ops = tuple(
        replace(op, inputs=tuple(_renamed(x, names) for x in op.inputs), output=names[op.output]) for op in order
    )
    inputs, outputs = tuple(names[name] for name in reads), tuple(names[name] for name in writes)
    aliases = tuple((names[o], names[x]) for o, x in program.aliases if o in writes and x in reads)
    fusion = identified(
        values, inputs, ops, outputs, is_pinned=program.is_pinned, scalars=program.scalars, aliases=aliases
    )
    return LaunchPart(fusion, reads, writes)


def identified(
    values: tuple[Value, ...],
    inputs: tuple[str, ...],
    ops: tuple[Op, ...],
    outputs: tuple[str, ...],
    *,
    is_pinned: bool = False,
    scalars: tuple[Scalar, ...] = (),
    aliases: tuple[tuple[str, str], ...] = (),
) -> Fusion:
    """A fusion that nobody posted, under hashes of its own: of the graph, and of how its tensors lie in memory.

    `is_pinned`: it is made of one whose operators have their forms (`compiler.ir.pinned`), and keeps them. `scalars`:
    all of that one's, read here or not.
    """
    graph = [
        [(v.shape, v.dtype) for v in values],
        inputs,
        [(op.kind, [_operand(x) for x in op.inputs], op.output, op.dims, op.start,
          op.grade, op.is_term, *([op.step] if op.step > 1 else []), *([op.low] if op.low else [])) for op in ops],
        outputs,
        *([[(x.name, x.dtype) for x in scalars]] if scalars else []),
        *([{"aliases": aliases}] if aliases else []),
    ]  # fmt: skip
    layout = [(v.strides, v.align) for v in values]
    hashes = content_hash(["launch", graph]), content_hash(["launch", layout])
    return Fusion(values, inputs, ops, outputs, *hashes, is_pinned, scalars, aliases)


def program_trace(fusion: Fusion, cut: Cut, traces: Sequence[ScheduleTrace]) -> ProgramTrace:
    """The launches of `fusion`, which `cut` cuts, scheduled by `traces`."""
    places = dict(zip(cut.program.inputs, fusion.inputs, strict=True))
    places |= {name: f"s{n}" for n, name in enumerate(cut.scratch)}
    places |= dict(zip(cut.program.outputs, fusion.outputs, strict=True))
    launches = tuple(
        LaunchTrace(trace, tuple(places[x] for x in part.reads), tuple(places[x] for x in part.writes))
        for part, trace in zip(cut.parts, traces, strict=True)
    )
    return ProgramTrace(fusion, launches)


def _seen(program: Fusion, name: str, available: Collection[str]) -> Value:
    """A value as a launch sees it: what an earlier one stored has a layout and an address."""
    value = program.value(name)
    if name in program.inputs:
        return value
    if name in available and name not in program.outputs:
        return replace(value, align=SCRATCH_ALIGN)
    return value


def _depth_first(producers: dict[str, Op], writes: Sequence[str], available: Collection[str]) -> Iterator[Op]:
    """The operators that `writes` need beyond what is available, producers first, operands left to right."""
    done: set[str] = set()
    stack = list(reversed(writes))
    while stack:
        name = stack[-1]
        op = producers[name]
        waiting = [x for x in op.tensor_inputs if x in producers and x not in available and x not in done]
        if name in done or not waiting:
            stack.pop()
            if name not in done:
                done.add(name)
                yield op
        else:
            stack.append(waiting[0])


def _renamed(operand: Operand, names: dict[str, str]) -> Operand:
    return names[operand] if isinstance(operand, str) else operand


def _operand(x: Operand) -> object:
    if not isinstance(x, Literal):
        return x if isinstance(x, str) else [x.name, x.dtype]
    return x.value if math.isfinite(x.value) else repr(x.value)
