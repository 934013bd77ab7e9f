"""The way of one candidate: replay, legality, lowering, emission, and after the compile the artifact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from compiler.arch import Arch
from compiler.emit.cuda import emit_launches
from compiler.emit.functions import function
from compiler.errors import IllegalSchedule, Unsupported
from compiler.generator import GENERATOR
from compiler.ir.domain import ScheduledFusion
from compiler.ir.ops import ARITHMETIC, MathGrade
from compiler.legality import check
from compiler.legality.rules import Schedule
from compiler.lower.kernel_ir import BulkLoad, BulkStore, CopyAsync, GlobalLoad, GlobalStore, Kernel
from compiler.lower.lists import over_lists
from compiler.lower.lower import lower_facts
from compiler.lower.through_registers import with_operands_loaded
from compiler.lower.traversal import walk
from compiler.nvrtc import Compiled
from compiler.schedule.scratch import Buffer, scratch_buffers
from compiler.schedule.trace import ProgramTrace, ScheduleTrace, Trace, launches_of
from compiler.wire import KernelArtifact, Launched, kernel_artifact


def alignments_of(kernel: Kernel) -> dict[int, int]:
    """Position of each tensor of a kernel -> bytes that must divide its address: the widest access, 16 for bulk
    copies, an element for words that straddle aligned ones wherever these are."""
    need: dict[str, int] = {}
    for s in walk(kernel.body):
        match s:
            case GlobalLoad(straddles=True, skipped=None):  # the address tells which two aligned words those are
                need[s.tensor] = max(need.get(s.tensor, 1), s.target.dtype.nbytes)
            case GlobalLoad() | GlobalStore():
                reg = s.target if isinstance(s, GlobalLoad) else s.source
                need[s.tensor] = max(need.get(s.tensor, 1), s.width * reg.dtype.nbytes)
            case CopyAsync():
                need[s.tensor] = max(need.get(s.tensor, 1), s.width * s.target.dtype.nbytes)
            case BulkLoad() | BulkStore():
                need[s.tensor] = max(need.get(s.tensor, 1), 16)
            case _:
                pass
    found = {p.position: need.get(p.name, 1) for p in kernel.pointers}
    for m in kernel.tensor_maps:
        found[m.position] = max(found.get(m.position, 1), 16)
    return found


def _own_scratch(kernel: Kernel) -> tuple[Buffer, ...]:
    return tuple(Buffer(p.nbytes, is_zeroed=p.is_zeroed) for p in kernel.scratch)


@dataclass(frozen=True)
class GeneratedLaunch:
    """One launch of a candidate. `trace` is of a fusion of its own where there are several; `reads` and `writes` say
    where its tensors are, as `schedule.trace.LaunchTrace` has them."""

    trace: ScheduleTrace
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    arch: Arch
    scheduled: ScheduledFusion
    kernel: Kernel

    @property
    def alignments(self) -> dict[int, int]:
        """Position of each tensor of the launch -> bytes that must divide its address."""
        return alignments_of(self.kernel)

    @property
    def approximations(self) -> tuple[str, ...]:
        """Approximate device functions in the kernel, by name."""
        computed = ((op.kind, op.grade) for op in self.scheduled.ops if op.kind in ARITHMETIC)
        return tuple(sorted({function(*one) for one in computed if one[0].row.nearest(one[1]) is not MathGrade.EXACT}))


@dataclass(frozen=True)
class Generated:
    """A candidate ready to compile: its source, and what launching it needs, launch by launch."""

    trace: Trace
    arch: Arch
    launches: tuple[GeneratedLaunch, ...]
    source: str

    @property
    def only(self) -> GeneratedLaunch:
        """The launch of a candidate that is one kernel. Raises ValueError for one of several launches."""
        if len(self.launches) != 1:
            raise ValueError(f"found {len(self.launches)} launches, expected one: go through `launches`.")
        return self.launches[0]

    @property
    def scheduled(self) -> ScheduledFusion:
        """The scheduled fusion of a candidate that is one kernel; ValueError as `only` raises it."""
        return self.only.scheduled

    @property
    def kernel(self) -> Kernel:
        """The kernel of a candidate that is one kernel; ValueError as `only` raises it."""
        return self.only.kernel

    @cached_property
    def scratch(self) -> tuple[Buffer, ...]:
        """Memory that launches hand values on in, then what blocks of each launch hand sums on in."""
        return (*self._handed_on, *(b for one in self.launches for b in _own_scratch(one.kernel)))

    @cached_property
    def _handed_on(self) -> tuple[Buffer, ...]:
        return scratch_buffers(self.trace) if isinstance(self.trace, ProgramTrace) else ()

    def own_scratch_of(self, launch: int) -> tuple[int, ...]:
        """The numbers of the buffers that are a launch's own."""
        first = len(self._handed_on) + sum(len(one.kernel.scratch) for one in self.launches[:launch])
        return tuple(range(first, first + len(self.launches[launch].kernel.scratch)))

    @property
    def places(self) -> Mapping[str, int]:
        """Names that launches read and write -> positions: of inputs, then outputs, then scratch buffers."""
        fusion = self.trace.fusion
        names = (*fusion.inputs, *fusion.outputs)
        return {name: p for p, name in enumerate(names)} | {
            value: len(names) + n for n, buffer in enumerate(self.scratch) for value in buffer.values
        }

    @property
    def alignments(self) -> dict[int, int]:
        """Position of each tensor, inputs then outputs -> bytes that must divide its address, for every launch."""
        places, found = self.places, dict[int, int]()
        tensors = len(self.trace.fusion.inputs) + len(self.trace.fusion.outputs)
        for launch in self.launches:
            names = (*launch.reads, *launch.writes)
            for own, need in launch.alignments.items():
                position = places[names[own]]
                if position < tensors:
                    found[position] = max(found.get(position, 1), need)
        return found

    @property
    def approximations(self) -> tuple[str, ...]:
        """Approximate device functions in the kernels, by name."""
        return tuple(sorted({name for launch in self.launches for name in launch.approximations}))


@dataclass(frozen=True)
class LoweredTrace:
    """The launches of a trace, and the facts that each was lowered from."""

    trace: Trace
    arch: Arch
    launches: tuple[GeneratedLaunch, ...]
    schedules: tuple[Schedule, ...]

    def checked(self) -> LoweredTrace:
        """The same. Raises IllegalSchedule where a rule is broken, as `lowered` of the trace does."""
        for schedule in self.schedules:
            _refuse_illegal(schedule)
        return self

    def generated(self) -> Generated:
        """The candidate with its source."""
        return Generated(self.trace, self.arch, self.launches, emit_launches([one.kernel for one in self.launches]))


def generate(trace: Trace, arch: Arch) -> Generated:
    """Replays, checks, lowers and emits every launch. Raises InvalidStep, IllegalSchedule or Unsupported."""
    return _lowered(trace, arch, is_checked=True).generated()


def lowered(trace: Trace, arch: Arch) -> tuple[GeneratedLaunch, ...]:
    """Every launch replayed, checked and lowered: all of `generate` but the source. Raises what that raises."""
    return _lowered(trace, arch, is_checked=True).launches


def lowered_unchecked(trace: Trace, arch: Arch) -> LoweredTrace:
    """Every launch replayed and lowered, and no rule asked: of points that their space holds to be legal, to be ranked.
    Raises InvalidStep or Unsupported, or anything at all where the schedule is illegal."""
    return _lowered(trace, arch, is_checked=False)


def _lowered(trace: Trace, arch: Arch, *, is_checked: bool) -> LoweredTrace:
    launches: list[GeneratedLaunch] = []
    schedules: list[Schedule] = []
    if trace.fusion.is_list and isinstance(trace, ProgramTrace):
        raise Unsupported("a fusion over lists in several launches", "Split it into fusions that one kernel holds.")
    for one in launches_of(trace):
        schedule = Schedule(with_operands_loaded(one.trace.scheduled), arch)
        if is_checked:
            _refuse_illegal(schedule)
        kernel = lower_facts(schedule)
        if trace.fusion.is_list:
            kernel = over_lists(schedule, kernel)
        launches.append(GeneratedLaunch(one.trace, one.reads, one.writes, arch, schedule.sf, kernel))
        schedules.append(schedule)
    return LoweredTrace(trace, arch, tuple(launches), tuple(schedules))


def _refuse_illegal(schedule: Schedule) -> None:
    violations = check(schedule)
    if violations:
        raise IllegalSchedule(violations)


def artifact(generated: Generated, compiled: Compiled) -> KernelArtifact:
    """The artifact of a compiled candidate, without evidence: nothing has run yet."""
    places = generated.places
    return kernel_artifact(
        generated.trace,
        tuple(
            Launched(
                launch.kernel,
                tuple(places[name] for name in (*launch.reads, *launch.writes)),
                generated.own_scratch_of(number),
            )
            for number, launch in enumerate(generated.launches)
        ),
        generated.scratch,
        compiled,
        generated.source,
        generated.alignments,
        generated.approximations,
        GENERATOR,
    )
