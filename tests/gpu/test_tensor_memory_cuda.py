"""On a card that has tensor memory: kernels of its tutorial and others of their kind are right at their own sizes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.blackwell.on_card import attached
from compiler.arch import arch_named
from compiler.explicit.artifact import explicit_artifact, meaning
from compiler.explicit.generate import generate_explicit
from fusetune.errors import NoDevice
from search.measure.cuda import CudaDevice
from search.measure.device import Effort
from search.tuning.trial import TrialState
from tests.compiler.tmem.kernels import (
    LEGAL,
    STRIDED_LANES,
    Document,
    shifted,
    tiles,
    transposed_in_turns,
    twice_through,
)
from tests.search.measure.kernels import compiled_once

pytestmark = pytest.mark.gpu

CASES = {
    **{case["name"]: case for case in (*LEGAL, STRIDED_LANES)},
    "turns": transposed_in_turns(3),
    "columns used again": twice_through(8),
    "tiles in turns": tiles(8, turns=3),
    "shifted in turns": shifted(8, turns=3),
}


@pytest.fixture(scope="module")
def arch() -> str:
    """The compile target of the card."""
    try:
        return attached()[1]
    except NoDevice as error:
        pytest.skip(error.reason)


@pytest.fixture(scope="module")
def device(arch: str) -> Iterator[CudaDevice]:
    """One measuring child for all cases: starting one takes seconds."""
    with CudaDevice() as one:
        yield one


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_the_case_is_right_on_the_card(device: CudaDevice, arch: str, case: Document) -> None:
    made = generate_explicit(case, arch_named(arch))
    device.open(meaning(made))
    result = device.measure(explicit_artifact(made, compiled_once(made.source, arch)), Effort.ALL_SETS)
    assert result.state is TrialState.MEASURED, result.reason
