"""The copy engine itself does what its executable definition says: boxes of every kind, loaded and stored on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.arch import arch_named, arch_names
from compiler.pipeline import artifact, generate
from compiler.schedule.trace import ScheduleTrace
from search.measure.cuda import CudaDevice
from search.measure.device import Effort
from search.tuning.trial import TrialState
from tests.compiler.lower.test_copy_engine import CASES, Boxed, loads, stores
from tests.compiler.schedules import Steps
from tests.search.measure.kernels import compiled_once

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("case", "make"),
    [pytest.param(c, m, id=f"{m.__name__} {c}") for c in CASES for m in (loads, stores) if m is loads or not c.strides],
)
def test_every_kind_of_box_is_moved_right(case: Boxed, make: Callable[..., Steps]) -> None:
    trace = ScheduleTrace(case.fusion, tuple(make(case.cut, case.types)))
    with CudaDevice() as device:
        device.open(case.fusion)
        capability = device.facts().capability
        made = generate(trace, next(a for n in arch_names() if (a := arch_named(n)).capability == capability))
        result = device.measure(artifact(made, compiled_once(made.source, made.arch.name)), Effort.ALL_SETS)
    assert result.state is TrialState.MEASURED, result.reason
