"""The verdict on an explicit schedule: legal or not, at which stage, and what was inferred on the way.

`python -m compiler check` and `POST /v1/schedules/check` answer with the same objects (docs/contracts.md, "Verdict").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from compiler.analysis.loops.axes import with_types_of_their_loops
from compiler.analysis.tma.bulk_run import BulkRun
from compiler.analysis.tma.tensor_map import TensorMapCopy
from compiler.arch import Arch, arch_named
from compiler.errors import Kept, Stage, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule, check_model
from compiler.schedule.explicit import ExplicitCase, MalformedCase
from compiler.schedule.replay import replay_case, replay_document

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
        done = replay_document(data)
    except MalformedCase as error:
        return Verdict(name, None, error=str(error))
    refused = next(iter(done.refused), None)
    return judge(done.case, done.sf, refused, chosen or least_arch(done.case, done.sf if refused is None else None))


def replay(case: ExplicitCase) -> tuple[ScheduledFusion, Violation | None]:
    """The fusion after the last step that could be taken, and why the next one could not. Raises MalformedCase."""
    done = replay_case(case)
    return done.sf, next(iter(done.refused), None)


def judge(case: ExplicitCase, sf: ScheduledFusion, refused: Violation | None, arch: Arch) -> Verdict:
    """The verdict on a schedule whose steps were taken; `refused` is why the last could not be."""
    if refused is not None:
        return Verdict(case.name, False, Stage.SCHEDULE, (refused,), arch=arch.name)
    schedule = Schedule(with_types_of_their_loops(sf), arch)
    violations, kept = check_model(schedule)
    violations = (*_device_breaches(case, arch), *violations)
    stage = min((v.stage for v in violations), key=_STAGES.index, default=None)
    return Verdict(
        case.name,
        not violations,
        stage,
        violations,
        tma=_tma_reports(schedule),
        tmem=_tmem_reports(schedule),
        smem_bytes=schedule.shared_bytes.total,
        kept=kept,
        arch=arch.name,
    )


def _tma_reports(schedule: Schedule) -> tuple[TmaReport, ...]:
    """One for each bulk copy, in the order of the operators."""
    found = []
    for op in schedule.sf.ops:
        if (copy := schedule.tensor_maps.get(op.output)) is not None:
            found.append(_tensor_map_report(copy))
        elif (run := schedule.bulk_runs.get(op.output)) is not None:
            found.append(_bulk_run_report(run))
    return tuple(found)


def _tensor_map_report(copy: TensorMapCopy) -> TmaReport:
    swizzle = f"{copy.swizzle}B" if copy.swizzle else "none"
    if copy.dims is None:
        return TmaReport(copy.op.output, None, None, None, None, swizzle, None)
    return TmaReport(
        copy.op.output,
        len(copy.dims),
        tuple(d.box_size.value for d in copy.dims),
        tuple(d.tile_size.value for d in copy.dims),
        tuple(d.element_stride_size.value for d in copy.dims),
        swizzle,
        copy.correctness,
    )


def _bulk_run_report(run: BulkRun) -> TmaReport:
    if run.elems is None:
        return TmaReport(run.op.output, None, None, None, None, "none", None)
    elems = run.elems.value
    return TmaReport(run.op.output, 1, (elems,), (elems,), (1,), "none", run.correctness)


def _tmem_reports(schedule: Schedule) -> tuple[TmemReport, ...]:
    memory = schedule.tensor_memory
    return tuple(
        TmemReport(t.tensor, t.lanes, t.columns, t.allocated_columns, memory.pattern_of(t.tensor))
        for t in memory.tensors
    )


def _device_breaches(case: ExplicitCase, arch: Arch) -> Iterator[Violation]:
    """What the case asks of a device that this architecture does not have."""
    capability = 10 * arch.capability[0] + arch.capability[1]
    name = "case_asks_for_this_architecture"
    if case.arch_min is not None and capability < case.arch_min:
        yield Violation(name, "arch_min", capability, case.arch_min, "Choose a later architecture.")
    if case.arch_below is not None and capability >= case.arch_below:
        yield Violation(name, "arch_below", capability, case.arch_below, "Choose an earlier architecture.")
    if case.needs_smem_bytes is not None and case.needs_smem_bytes > arch.smem_per_block_optin_bytes:
        found, limit = case.needs_smem_bytes, arch.smem_per_block_optin_bytes
        fix = "Choose an architecture with more shared memory."
        yield Violation(name, "needs_smem_bytes", found, limit, fix, stage=Stage.RUNTIME)


def least_arch(case: ExplicitCase, sf: ScheduledFusion | None = None) -> Arch:
    """The least architecture that has what the case uses: bulk copies, stmatrix, tensor memory, a capability or the
    shared memory that it asks for, and what its schedule `sf` takes of that. Where none has so much, the least that has
    the rest."""
    tmem = any(t.memory is MemoryType.TENSOR for t in case.start.tensors)
    bulk = any(op.via.is_bulk for op in case.start.ops)
    hopper = bulk or any(op.via is CopyVia.STMATRIX for op in case.start.ops)
    capability = max(case.arch_min or 0, 100 if tmem else 90 if hopper else 80)
    named = [arch_named(name) for name in ("sm_80", "sm_90a", "sm_100a", "sm_103a")]
    able = [a for a in named if a.capability[0] * 10 + a.capability[1] >= capability] or named[-1:]
    large = [a for a in able if (case.needs_smem_bytes or 0) <= a.smem_per_block_optin_bytes] or able
    if sf is None or bulk or all(t.memory is not MemoryType.SHARED for t in sf.tensors):
        return large[0]  # all that copy in bulk offer as much
    need = Schedule(with_types_of_their_loops(sf), large[0]).shared_bytes.total
    return next((a for a in large if need <= a.smem_per_block_optin_bytes), large[0])
