"""A kernel whose schedule keeps a tensor in tensor memory, as a page would show it: its code is a stand-in."""

from __future__ import annotations

from sqlalchemy.orm import Session

from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import CopyVia
from compiler.schedule.steps import CacheInput, CacheOutput, Parallelize, Step, TmemDimsep
from compiler.schedule.trace import ScheduleTrace
from compiler.wire import trace_to_json
from service.db import kernels
from service.db.models import KernelRow
from tests.service.dashboard.seed import Subject, make_artifact, publish

STEPS: tuple[Step, ...] = (
    CacheOutput("v0", "registers", MemoryType.LOCAL),
    CacheInput("registers", "tensor", MemoryType.TENSOR, CopyVia.ST_TMEM),
    CacheInput("tensor", "back", MemoryType.LOCAL, CopyVia.LD_TMEM),
    *(Parallelize(tv, 0, ParallelType.TIDX) for tv in ("registers", "tensor", "back", "v0")),
    TmemDimsep("tensor", 1),
)
"""Of a pointwise fusion of 128 rows: a lane to each thread of four warps."""


def publish_with_tensor_memory(session: Session, subject: Subject) -> KernelRow:
    """Serve a kernel of `subject`, whose output has 128 rows, under the schedule of STEPS."""
    row = publish(session, subject, 1, 12.5, None)
    trace = trace_to_json(ScheduleTrace(subject.plan.fusion, STEPS))
    made = make_artifact(subject, subject.candidates[1], 12.5).model_copy(update={"trace": trace, "arch": "sm_100a"})
    row.artifact_sha256 = kernels.put_artifact(session, made.model_dump_json().encode())
    return row
