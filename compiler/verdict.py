"""The verdict on an explicit schedule: legal or not, at which stage, and what was inferred on the way.

`python -m compiler check` and `POST /v1/schedules/check` answer with the same objects (docs/contracts.md, "Verdict").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from compiler.arch import Arch, arch_named
from compiler.errors import InvalidStep, Kept, Stage, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import MemoryType
from compiler.legality.rules import Schedule, check_model
from compiler.schedule.apply import apply
from compiler.schedule.explicit import ExplicitCase, MalformedCase, read_case, read_step

_STAGES = tuple(Stage)


@dataclass(frozen=True, slots=True)
class TmaReport:
    """One bulk copy, named by the tensor it writes; lists are innermost first, None where nothing was inferred.

    `correctness`: `strong` (every hole holds zero), `strong_with_predicate` (if copies past the end are steered outside
    the tensor), `weak` (a hole may hold anything), or None for a copy that is none.
    """

    tensor: str
    dims: int | None
    box: tuple[int, ...] | None
    tile: tuple[int, ...] | None
    element_strides: tuple[int, ...] | None
    swizzle: str
    correctness: str | None


@dataclass(frozen=True, slots=True)
class TmemReport:
    """One tensor in tensor memory: lanes and 4-byte columns it needs, columns allocated for its region (None where too
    many), the access pattern of the copies to and from it (None where none matches)."""

    tensor: str
    lanes: int
    columns: int
    allocated_columns: int | None
    pattern: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of one schedule. `legal` is None, and `error` says why, for a document that is none."""

    name: str
    legal: bool | None
    stage: Stage | None = None
    violations: tuple[Violation, ...] = ()
    tma: tuple[TmaReport, ...] = ()
    tmem: tuple[TmemReport, ...] = ()
    smem_bytes: int | None = None
    kept: tuple[Kept, ...] = ()
    arch: str | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The object of the contract: `tmem` is the first tensor's, `tmem_all` every one's."""
        data = asdict(self)
        reports = data.pop("tmem")
        data |= {"tmem": reports[0] if reports else None, "tmem_all": reports}
        if self.error is None:
            del data["error"]
        return data


def judge_document(data: object, arch: str | None = None) -> Verdict:
    """The verdict on one document. Never raises for what is in it; raises UnknownArch for an `arch` that is none."""
    chosen = arch_named(arch) if arch is not None else None
    name = data.get("name", "") if isinstance(data, Mapping) else ""
    name = name if isinstance(name, str) else ""
    try:
        case = read_case(data)
        sf, refused = replay(case)
    except MalformedCase as error:
        return Verdict(name, None, error=str(error))
    return judge(case, sf, refused, chosen or least_arch(case))


def replay(case: ExplicitCase) -> tuple[ScheduledFusion, Violation | None]:
    """The fusion after the last step that could be taken, and why the next one could not. Raises MalformedCase."""
    sf = case.start
    for i, raw in enumerate(case.steps):
        step = read_step(raw, sf, case.scalars, f"schedule[{i}]")
        try:
            sf = apply(sf, step)
        except InvalidStep as error:
            return sf, Violation(
                "schedule_steps_apply",
                f"schedule[{i}]: {error.step}",
                error.reason,
                "",
                error.fix,
                stage=Stage.SCHEDULE,
            )
    return sf, None


def judge(case: ExplicitCase, sf: ScheduledFusion, refused: Violation | None, arch: Arch) -> Verdict:
    """The verdict on a schedule whose steps were taken; `refused` is why the last could not be."""
    if refused is not None:
        return Verdict(case.name, False, Stage.SCHEDULE, (refused,), arch=arch.name)
    schedule = Schedule(sf, arch)
    violations, kept = check_model(schedule)
    stage = min((v.stage for v in violations), key=_STAGES.index, default=None)
    return Verdict(case.name, not violations, stage, violations, kept=kept, arch=arch.name)


def least_arch(case: ExplicitCase) -> Arch:
    """The least architecture that has what the case uses: bulk copies, tensor memory, or a capability it asks for."""
    tmem = any(t.memory is MemoryType.TENSOR for t in case.start.tensors)
    bulk = any(op.via.is_bulk for op in case.start.ops)
    capability = max(case.arch_min or 0, 100 if tmem else 90 if bulk else 80)
    for name in ("sm_80", "sm_90a", "sm_100a"):
        arch = arch_named(name)
        if arch.capability[0] * 10 + arch.capability[1] >= capability:
            return arch
    return arch_named("sm_100a")
