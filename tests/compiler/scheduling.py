"""Scheduled fusions for tests of schedule and analysis: one copy through shared memory, and steps on it."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps
from compiler.schedule.apply import apply
from compiler.schedule.start import start
from tests.compiler.schedules import SHARED, unary


def scheduled(fusion: Fusion, *taken: steps.Step) -> ScheduledFusion:
    """The fusion after these steps."""
    sf = start(fusion)
    for step in taken:
        sf = apply(sf, step)
    return sf


def load(
    shape: Sequence[int],
    *taken: steps.Step,
    dtype: DType = DType.F32,
    via: CopyVia = CopyVia.TMA,
    strides: Sequence[int] | None = None,
) -> ScheduledFusion:
    """i0 -> s in shared memory by `via`, s -> v0; then these steps."""
    fusion = unary(shape, dtype=dtype, strides=strides)
    return scheduled(fusion, steps.CacheInput("i0", "s", SHARED, via), *taken)


def store(
    shape: Sequence[int], *taken: steps.Step, dtype: DType = DType.F32, via: CopyVia = CopyVia.TMA
) -> ScheduledFusion:
    """i0 -> s in shared memory, s -> v0 by `via`; then these steps."""
    return scheduled(unary(shape, dtype=dtype), steps.CacheOutput("v0", "s", SHARED, via), *taken)
