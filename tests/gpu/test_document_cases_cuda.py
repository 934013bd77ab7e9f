"""Every explicit schedule of the documents that is legal on Hopper, lowered as given, is right on the card."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compiler.explicit.artifact import explicit_artifact, meaning
from compiler.explicit.generate import generate_explicit
from search.measure.cuda import CudaDevice
from search.measure.device import Effort
from search.tuning.trial import TrialState
from tests.compiler.explicit.cases import BUFFERED, HOPPER
from tests.compiler.explicit.tile_cases import LEGAL
from tests.search.measure.kernels import compiled_once

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def device() -> Iterator[CudaDevice]:
    """One measuring child for all cases: starting one takes seconds."""
    with CudaDevice() as one:
        yield one


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in (*HOPPER, *BUFFERED, *(c[0] for c in LEGAL))])
def test_the_case_is_right_at_its_own_sizes(device: CudaDevice, case: dict[str, Any]) -> None:
    made = generate_explicit(case)
    device.open(meaning(made))
    result = device.measure(explicit_artifact(made, compiled_once(made.source, made.arch.name)), Effort.ALL_SETS)
    assert result.state is TrialState.MEASURED, result.reason
