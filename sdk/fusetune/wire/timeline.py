"""What a tuning spent its time on, as the service tells it."""

from __future__ import annotations

from fusetune.wire.artifact import Wire
from fusetune.wire.fusion import Seq


class StageView(Wire):
    """What one stage of a tuning took in one process, in seconds: `wall_s` the sum of its `spans` on the clock, `cpu_s`
    of the process's processor; `begun_s` and `ended_s`, of the run, are where the first began and the last ended."""

    stage: str
    process: str
    spans: int
    wall_s: float
    cpu_s: float
    begun_s: float
    ended_s: float


class TimelineView(Wire):
    """What a run of a tuning spent its time on. `wall_s` is the whole in seconds, `first_cubin_s` when the first kernel
    was compiled, `gpu_idle` the share of the time from then on in which the GPU had nothing to measure, of several GPUs
    the share of their time while they took part; null where nothing was measured. `first_kernel_s`: when a kernel was
    right and timed for the first time. `begun_from`: in words, which results of earlier tunings were tried first; empty
    where there were none."""

    stages: Seq[StageView] = ()
    wall_s: float
    first_cubin_s: float | None = None
    gpu_idle: float | None = None
    first_kernel_s: float | None = None
    begun_from: str = ""
