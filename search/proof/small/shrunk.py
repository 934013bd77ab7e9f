"""Small sizes for any program: one free dimension after the other made smaller, as far as the kernels stay of a class.

Nothing is read from the schedule but its steps, which are replayed on other sizes: reductions, views and several
launches are like everything else. A row that a block keeps in registers keeps its length, for its loops are unrolled;
one that is gone through in rounds keeps a few of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler.emit.cuda import emit_launches
from compiler.errors import IllegalSchedule, InvalidStep, Unsupported
from compiler.ir.fusion import Fusion, Op, Value
from compiler.ir.ops import OpKind
from compiler.lower import kernel_ir as k
from compiler.lower import sync_ir
from compiler.lower.traversal import walk
from compiler.pipeline import Generated, generate
from compiler.schedule import steps
from compiler.schedule.trace import LaunchTrace, ProgramTrace, ScheduleTrace, Trace, launches_of
from search.proof.small.resize import Dim, Dims
from search.proof.small.structure import structure
from search.proof.small.tiling import with_grid

_StepsOf = Callable[[int], tuple[steps.Step, ...]]

TRIES = 24
"""Programs that are made and compared; each takes 20 to 80 ms a launch."""

MOST_ELEMS = 1 << 18
"""Elements of all tensors together beyond which running all blocks several times takes minutes."""

WHOLES = 2
"""At least so many whole parts of whatever a dimension is cut into, so that one has a neighbour."""

ROUNDS = 3
"""Rounds of a loop that is no ring: a first, a last and one between."""

_DEALT = (2, 3, 5, 7)
"""Blocks that steps are dealt to: at sizes where they have parts of as many tiles as the served ones."""

_FEW_BLOCKS = 8
"""Persistent blocks are made fewer, so that each has its share of tiles also where there are few."""


def shrunk(served: Generated) -> Generated:
    """A program of the class of the served one at sizes that can be run. Raises Unsupported where there is none."""
    is_persistent = any(_persistent(launch.trace, launch.kernel) is not None for launch in served.launches)
    is_dealt = any(_dealt(launch.trace) is not None for launch in served.launches)
    for blocks in (*_DEALT, None) if is_dealt else (2, None) if is_persistent else (None,):
        best = _Search(served, blocks).run()
        if best is not None:
            return best
    raise Unsupported(
        f"emulating all of this kernel: at no sizes of fewer than {MOST_ELEMS} elements does its schedule give one of "
        "the same form",
        "Verify it on a GPU.",
    )


@dataclass
class _Search:
    """The search with so many persistent blocks, None for as many as are served."""

    served: Generated
    blocks: int | None
    left: int = TRIES

    def run(self) -> Generated | None:
        joined = _Joined.of(self.served.trace)
        sizes: dict[Dim, int] = {}
        best = self._made(joined, sizes)
        if best is None:
            return None
        dims = joined.free
        for dim in sorted(dims, key=lambda one: (-dims[one], one)):
            for size in self._least(joined, sizes, dim, smaller_sizes(dims[dim])):
                best, sizes[dim] = size
        return best if elements(best) <= MOST_ELEMS else None

    def _least(
        self, joined: _Joined, sizes: Mapping[Dim, int], dim: Dim, candidates: Sequence[int]
    ) -> Iterator[tuple[Generated, int]]:
        """Programs with smaller and smaller sizes of one dimension, ascending `candidates` halved each time.

        Where the largest will not do, smaller ones are not tried: what makes a loop unrolled is its length.
        """
        low, high = 0, len(candidates) - 1
        at = high
        while low <= high:
            made = self._made(joined, {**sizes, dim: candidates[at]}) if self.left > 0 else None
            if made is not None:
                yield made, candidates[at]
                high = at - 1
            elif at == len(candidates) - 1:
                return
            else:
                low = at + 1
            at = (low + high) // 2

    def _made(self, joined: _Joined, sizes: Mapping[Dim, int]) -> Generated | None:
        """The served program at these sizes, with its index widths, if it is of the same class."""
        self.left -= 1
        served = self.served
        try:
            made = generate(joined.resized(sizes, self._steps), served.arch)
        except (IllegalSchedule, InvalidStep, Unsupported):
            return None
        if not all(_is_like(a.kernel, b.kernel) for a, b in zip(served.launches, made.launches, strict=True)):
            return None
        launches = tuple(
            replace(own, kernel=replace(own.kernel, index_bits=launch.kernel.index_bits))
            for own, launch in zip(made.launches, served.launches, strict=True)
        )
        if launches == made.launches:
            return made
        return replace(made, launches=launches, source=emit_launches([launch.kernel for launch in launches]))

    def _steps(self, number: int) -> tuple[steps.Step, ...]:
        """The steps of a launch."""
        launch = self.served.launches[number]
        dealt = _dealt(launch.trace)
        if self.blocks is not None and dealt is not None:
            fewer = replace(dealt, blocks=self.blocks)
            return tuple(fewer if step is dealt else step for step in launch.trace.steps)
        grid = _persistent(launch.trace, launch.kernel)
        if self.blocks is None or grid is None:
            return launch.trace.steps
        return with_grid(launch.trace, grid, self.blocks)


def smaller_sizes(size: int) -> list[int]:
    """Sizes below, ascending, which leave what `size` leaves when it is cut by some power of two, after two wholes."""
    found = {size % part + wholes * part for wholes in (WHOLES, WHOLES + 1) for part in _powers(size)}
    return sorted(n for n in found if 1 < n < size)


def elements(made: Generated) -> int:
    """Elements of all tensors of all launches."""
    return sum(
        fusion.value(name).elems
        for fusion in (launch.trace.fusion for launch in made.launches)
        for name in (*fusion.inputs, *fusion.outputs)
    )


def _powers(size: int) -> Iterator[int]:
    part = 1
    while part <= size:
        yield part
        part *= 2


def _persistent(trace: ScheduleTrace, kernel: k.Kernel) -> int | None:
    """The number of blocks, or of clusters, where a step says it and not the sizes."""
    blocks = kernel.grid[0] // kernel.cluster
    named = any(isinstance(step, steps.Split) and step.axis == 0 and step.factor == blocks for step in trace.steps)
    return blocks if named and blocks > _FEW_BLOCKS else None


def _dealt(trace: ScheduleTrace) -> steps.Deal | None:
    """The step that deals turns to blocks."""
    return next((step for step in trace.steps if isinstance(step, steps.Deal)), None)


def _is_like(served: k.Kernel, small: k.Kernel) -> bool:
    """Whether the kernels are of one class, and the small one's loops go round often enough; of loops that are dealt to
    blocks the served code's own blocks do, which are run in every order for that."""
    if structure(served) != structure(small):
        return False
    loops = ([s for s in walk(kernel.body) if isinstance(s, k.Loop) and not s.unroll] for kernel in (served, small))
    rounds = 2 * _stages(served) + 1 if _stages(served) > 1 else ROUNDS
    for was, now in zip(*loops, strict=True):
        if not was.trip.terms and not now.trip.terms and now.trip.const < min(was.trip.const, rounds):
            return False
    return True


def _stages(kernel: k.Kernel) -> int:
    """Stages of the deepest ring: barriers of one name."""
    return max((s.count for s in walk(kernel.body) if isinstance(s, sync_ir.InitBarriers)), default=1)


@dataclass(frozen=True)
class _Joined:
    """The values of a fusion and of all its launches as those of one fusion, whose dimensions are sized together."""

    trace: Trace
    fusion: Fusion
    dims: Dims

    @classmethod
    def of(cls, trace: Trace) -> _Joined:
        if isinstance(trace, ScheduleTrace):
            return cls(trace, trace.fusion, Dims(trace.fusion))
        values = {v.name: v for v in trace.fusion.values}
        ops = list(trace.fusion.ops)
        for number, launch in enumerate(trace.launches):
            own = launch.trace.fusion
            values |= {_name(number, v.name): _named(v, number) for v in own.values}
            for place, name in zip(launch.writes, own.outputs, strict=True):
                values.setdefault(place, replace(own.value(name), name=place))
            ops += [_op(op, number) for op in own.ops]
            places = zip((*launch.reads, *launch.writes), (*own.inputs, *own.outputs), strict=True)
            ops += [Op(OpKind.COPY, (place,), _name(number, name)) for place, name in places]
        joined = replace(trace.fusion, values=tuple(values.values()), ops=tuple(ops))
        return cls(trace, joined, Dims(joined))

    @property
    def free(self) -> dict[Dim, int]:
        """The sizes that can be others, by dimension. In a program only those that an input or an output has: what is
        made inside (a count of positions, reduced again) is there once for the fusion and once for a launch, and
        nothing says that the two are one: nor are others of its size, of which it may be the twin. Nor those that a
        mean folds of which launches make a sum and a quotient by the number of its elements."""
        found = self.dims.free
        if isinstance(self.trace, ScheduleTrace):
            return found
        whole = self.trace.fusion
        seen = {
            self.dims.of((name, d))
            for name in (*whole.inputs, *whole.outputs)
            for d in range(len(whole.value(name).shape))
        }
        alone = self._made_inside(seen)
        return {dim: size for dim, size in found.items() if dim in seen - self._counted and size not in alone}

    def _made_inside(self, seen: set[Dim]) -> set[int]:
        """Sizes that a launch makes of nothing, such as positions, along dimensions that no tensor of it has."""
        return {
            own.value(op.output).shape[d]
            for number, own in enumerate(launch.trace.fusion for launch in launches_of(self.trace))
            for op in own.ops
            if not op.tensor_inputs
            for d in range(len(own.value(op.output).shape))
            if self.dims.of((_name(number, op.output), d)) not in seen
        }

    @property
    def _counted(self) -> set[Dim]:
        """Dimensions of means that no launch has as they are."""
        launches = [launch.trace.fusion for launch in launches_of(self.trace)]
        kept = {_folded(own, op) for own in launches for op in own.ops if op.kind is OpKind.MEAN}
        whole = self.trace.fusion
        means = [op for op in whole.ops if op.kind is OpKind.MEAN and _folded(whole, op) not in kept]
        return {self.dims.of((op.tensor_inputs[0], d)) for op in means for d in op.dims}

    def resized(self, sizes: Mapping[Dim, int], steps_of: _StepsOf) -> Trace:
        """The trace at these sizes, each launch with the steps that `steps_of` gives for its number."""
        resized = self.dims.resized(sizes)
        trace = self.trace
        if isinstance(trace, ScheduleTrace):
            return ScheduleTrace(resized, steps_of(0))
        launches = []
        for number, launch in enumerate(launches_of(trace)):
            own = launch.trace.fusion
            values = tuple(replace(resized.value(_name(number, v.name)), name=v.name) for v in own.values)
            layout = f"{own.binding_hash}:{resized.binding_hash}"
            fusion = replace(own, values=values, binding_hash=layout)
            launches.append(LaunchTrace(ScheduleTrace(fusion, steps_of(number)), launch.reads, launch.writes))
        whole = replace(
            trace.fusion,
            values=tuple(resized.value(v.name) for v in trace.fusion.values),
            binding_hash=resized.binding_hash,
        )
        return ProgramTrace(whole, tuple(launches))


def _folded(fusion: Fusion, op: Op) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of what a reduction folds, and the dimensions."""
    return fusion.value(op.tensor_inputs[0]).shape, op.dims


def _name(number: int, name: str) -> str:
    return f"{number}:{name}"


def _named(value: Value, number: int) -> Value:
    return replace(value, name=_name(number, value.name))


def _op(op: Op, number: int) -> Op:
    operands = tuple(_name(number, x) if isinstance(x, str) else x for x in op.inputs)
    return replace(op, inputs=operands, output=_name(number, op.output))
