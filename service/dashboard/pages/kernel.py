"""One served kernel: its evidence, its time with all samples, its schedule and its code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from compiler.analysis.loops.axes import with_types_of_their_loops
from compiler.arch import Arch, arch_named
from compiler.errors import CompilerError
from compiler.explain.copy_plans import ExplainedCopy, explained_copies
from compiler.explain.tmem_map import TensorMemoryMap, tensor_memory_maps
from compiler.ir.domain import ScheduledFusion
from compiler.legality.rules import Schedule
from compiler.schedule.trace import launches_of
from compiler.wire import trace_from_json
from fusetune.wire.artifact import KernelArtifact
from service.dashboard.charts import Figure, samples
from service.dashboard.conditions import condition_lines
from service.dashboard.faults import PageFault, not_found
from service.dashboard.pages.results import KernelResult, results
from service.dashboard.schedule_text import TextPart, knobs_by_launch, parts, step_lines, steps_of
from service.db import deletion, kernels, overview, trials
from service.db.models import KernelRow


@dataclass(frozen=True, slots=True)
class KernelPage:
    """`document` and `binding` are what it was tuned for; `has_samples` if there is a distribution to draw.

    `predicted_us` and `predicted_terms`: what the model expected of its trial, if that is known.

    `conditions` of the measurement: label and text. `knobs`: of each launch its name and settings; the name is empty
    where there is one launch. `copies`: of each launch its name and its copies as tiles; `tensor_memory`: the maps of
    its tensor memory. Nothing where this version cannot replay the trace.
    """

    result: KernelResult
    document: dict[str, Any]
    binding: dict[str, Any]
    artifact: KernelArtifact
    knobs: list[tuple[str, dict[str, Any]]]
    parts: tuple[TextPart, ...]
    steps: tuple[str, ...]
    copies: list[tuple[str, tuple[ExplainedCopy, ...]]]
    tensor_memory: list[tuple[str, tuple[TensorMemoryMap, ...]]]
    has_samples: bool
    conditions: list[tuple[str, str]]
    predicted_us: float | None
    predicted_terms: dict[str, float]


def kernel_page(session: Session, id: str) -> KernelPage:
    """Raises PageFault if there is no such kernel, DamagedArtifact or PrunedArtifact if its bytes are not there."""
    row = _row(session, id)
    artifact = _artifact(session, row)
    steps = steps_of(artifact.trace)
    key = (row.fingerprint, row.binding)
    trial = trials.get(session, row.tuning_id, row.trial_number)
    launches = _replayed(artifact)
    return KernelPage(
        result=results(session, [row])[0],
        document=overview.documents(session, [row.fingerprint])[row.fingerprint],
        binding=overview.bindings(session, [key])[key],
        artifact=artifact,
        knobs=knobs_by_launch(row.point),
        parts=parts(steps),
        steps=step_lines(steps),
        copies=[(name, tuple(explained_copies(sf, arch))) for name, sf, arch in launches],
        tensor_memory=[(name, _tensor_memory(sf, arch)) for name, sf, arch in launches],
        has_samples=artifact.timing is not None and bool(artifact.timing.samples_us),
        conditions=condition_lines(artifact.timing.conditions) if artifact.timing else [],
        predicted_us=trial.predicted_us if trial else None,
        predicted_terms=(trial.predicted_terms or {}) if trial else {},
    )


def _replayed(artifact: KernelArtifact) -> list[tuple[str, ScheduledFusion, Arch]]:
    """The schedules of the launches with their names; the name is empty where there is one."""
    try:
        launches = launches_of(trace_from_json(artifact.trace))
        arch = arch_named(artifact.arch)
        several = len(launches) > 1
        return [
            (f"launch {number}" if several else "", one.trace.replay(), arch) for number, one in enumerate(launches)
        ]
    except CompilerError:
        # A trace of another version: the page has its steps, and its kernel stands as it was proven.
        return []


def _tensor_memory(sf: ScheduledFusion, arch: Arch) -> tuple[TensorMemoryMap, ...]:
    return tuple(tensor_memory_maps(Schedule(with_types_of_their_loops(sf), arch)))


def samples_chart(session: Session, id: str) -> Figure:
    """The samples of the kernel's time. Raises PageFault if there is no such kernel or it was not timed."""
    timing = _artifact(session, _row(session, id)).timing
    if timing is None or not timing.samples_us:
        raise not_found("timing of kernel", id)
    return samples(timing.samples_us, timing.median_us, timing.p10_us, timing.p90_us)


def _row(session: Session, id: str) -> KernelRow:
    row = kernels.get(session, id)
    if row is None and (gone := deletion.deleted(session, id)) is not None:
        raise PageFault(410, "Deleted", f"The kernel {id} was deleted on {gone.deleted_at:%Y-%m-%d %H:%M} UTC.")
    if row is None:
        raise not_found("kernel", id)
    return row


def _artifact(session: Session, row: KernelRow) -> KernelArtifact:
    return KernelArtifact.model_validate_json(kernels.artifact(session, row.artifact_sha256))
