"""Fusions of up to 64 operators are answered or refused in seconds, those too that double what lies before them.

Seconds are those of the processor: the machine may be busy with other tests.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from compiler.arch import card_or_default
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.wire import bind
from fusetune.wire import parse_binding, parse_fusion
from fusetune.wire.fusion import FORMAT
from search.tuning.candidates.plan import Plan
from tests.search.random_fusions.cases import case_of_many

MOST_SECONDS = 10.0


def nested_cats(count: int, size: int, times: int = 2) -> Fusion:
    """`count` concatenations, each of so many times what the one before has made."""
    ops = [{"op": "cat", "in": [f"t{n - 1}" if n else "x"] * times, "dim": 0, "out": f"t{n}"} for n in range(count)]
    return bound([{"name": "x", "shape": [size], "dtype": "f32"}], ops, f"t{count - 1}")


def bound(inputs: list[dict[str, Any]], ops: list[dict[str, Any]], output: str) -> Fusion:
    document = {"format": FORMAT, "inputs": inputs, "ops": ops, "outputs": [{"name": output}]}
    return bind(parse_fusion(document), parse_binding({}))


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises TimeoutError, where the work then is, after so many seconds of the processor."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not answered in {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def counted(fusion: Fusion) -> Plan:
    """All that the commands and the service tell of a space."""
    plan = Plan.of(fusion, card_or_default(None))
    assert plan.legal <= plan.points
    assert plan.refused.keys() <= plan.reasons.keys()
    if plan.legal:
        assert plan.sample(2, 0)
    return plan


@pytest.mark.parametrize(
    ("count", "size", "times", "launches"),
    [
        pytest.param(7, 4, 2, 1, id="128-pieces-are-one-kernel"),
        pytest.param(8, 4, 2, 2, id="256-pieces-are-two"),
        pytest.param(10, 4, 2, 2, id="doubled-10-times"),
        pytest.param(20, 4, 2, 3, id="doubled-20-times"),
        pytest.param(32, 1, 2, 5, id="doubled-32-times"),
        pytest.param(1, 4096, 64, 1, id="64-operands"),
        pytest.param(4, 1, 60, 4, id="60-to-the-4th"),
    ],
)
def test_nested_concatenations_are_cut_into_launches(count: int, size: int, times: int, launches: int) -> None:
    with at_most(MOST_SECONDS):
        plan = counted(nested_cats(count, size, times))
    first = next(iter(plan.schedulers.values()))
    assert len(getattr(first, "each", [first])) == launches
    assert plan.legal


@pytest.mark.parametrize("seed", range(5))
def test_random_fusions_of_many_operators_are_answered_soon(seed: int) -> None:
    answer(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", [5, *range(1000, 1500, 25)])
def test_many_random_fusions_of_many_operators_are_answered_soon(first: int) -> None:
    for seed in range(first, first + 25):
        answer(seed)


def answer(seed: int) -> None:
    case = case_of_many(seed)
    try:
        with at_most(MOST_SECONDS):
            counted(case.bound())
    except Unsupported:
        return
    except TimeoutError as error:
        error.add_note(str(case))
        raise


def test_many_operators_are_drawn() -> None:
    counts = [len(case_of_many(seed).document["ops"]) for seed in range(50)]
    assert max(counts) <= 64
    assert sum(n >= 50 for n in counts) >= 15


@pytest.mark.parametrize(
    ("rows", "fits"), [pytest.param(1 << 15, True, id="128-gib"), pytest.param(1 << 16, False, id="256-gib")]
)
def test_tensors_that_no_memory_holds_are_refused(rows: int, fits: bool) -> None:
    fusion = bound(
        [{"name": "x", "shape": [rows, 1 << 19], "dtype": "f32"}], [{"op": "exp", "in": ["x"], "out": "y"}], "y"
    )
    if fits:
        assert Plan.of(fusion, card_or_default(None)).legal
        return
    with pytest.raises(Unsupported, match=f"{8 * rows << 19} bytes of inputs and outputs") as refused:
        Plan.of(fusion, card_or_default(None))
    assert str(card_or_default(None).memory_bytes) in refused.value.what
