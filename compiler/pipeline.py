"""The way of one candidate: replay, legality, lowering, emission, and after the compile the artifact."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.arch import Arch
from compiler.emit.cuda import emit, function
from compiler.emit.math_forms import MATH_FORMS
from compiler.errors import IllegalSchedule
from compiler.ir.domain import ScheduledFusion
from compiler.ir.tensor import MathGrade
from compiler.legality import check
from compiler.legality.rules import Schedule
from compiler.lower.kernel_ir import BulkLoad, BulkStore, GlobalLoad, GlobalStore, Kernel, walk
from compiler.lower.lower import lower_facts
from compiler.nvrtc import Compiled
from compiler.schedule.trace import ScheduleTrace
from compiler.wire import KernelArtifact, kernel_artifact

GENERATOR = "fusetune 0.3"
"""Kept beside every artifact: another generator marks entries stale (docs/contracts.md, "Key")."""


@dataclass(frozen=True)
class Generated:
    """A candidate ready to compile: its source, and what launching it needs."""

    trace: ScheduleTrace
    arch: Arch
    scheduled: ScheduledFusion
    kernel: Kernel
    source: str

    @property
    def alignments(self) -> dict[int, int]:
        """Position of each tensor -> bytes that must divide its address: the widest access, 16 for bulk copies."""
        need: dict[str, int] = {}
        for s in walk(self.kernel.body):
            match s:
                case GlobalLoad() | GlobalStore():
                    reg = s.target if isinstance(s, GlobalLoad) else s.source
                    need[s.tensor] = max(need.get(s.tensor, 1), s.width * reg.dtype.nbytes)
                case BulkLoad() | BulkStore():
                    need[s.tensor] = max(need.get(s.tensor, 1), 16)
                case _:
                    pass
        found = {p.position: need.get(p.name, 1) for p in self.kernel.pointers}
        for m in self.kernel.tensor_maps:
            found[m.position] = max(found.get(m.position, 1), 16)
        return found

    @property
    def approximations(self) -> tuple[str, ...]:
        """Approximate device functions in the kernel, by name."""
        used = (
            function(op.kind, op.grade)
            for op in self.scheduled.ops
            if op.kind in MATH_FORMS and op.grade is not MathGrade.EXACT
        )
        exact = {f.exact for f in MATH_FORMS.values()}
        return tuple(sorted({f for f in used if f not in exact}))


def generate(trace: ScheduleTrace, arch: Arch) -> Generated:
    """Replays, checks, lowers and emits. Raises InvalidStep, IllegalSchedule or Unsupported."""
    schedule = Schedule(trace.replay(), arch)
    violations = check(schedule)
    if violations:
        raise IllegalSchedule(violations)
    kernel = lower_facts(schedule)
    return Generated(trace, arch, schedule.sf, kernel, emit(kernel))


def artifact(generated: Generated, compiled: Compiled) -> KernelArtifact:
    """The artifact of a compiled candidate, without evidence: nothing has run yet."""
    return kernel_artifact(
        generated.trace,
        generated.kernel,
        compiled,
        generated.source,
        generated.alignments,
        generated.approximations,
        GENERATOR,
    )
