"""What the child of a GPU keeps and makes ahead, with a torch that has no GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from search.measure.cuda_child import CudaBackend
from search.measure.device import Effort, MeasureResult
from search.measure.halving import BestTimed
from search.tuning.timeline import SearchStage
from search.tuning.trial import TrialState

GIB = 1 << 30


class Starved(RuntimeError):
    """Stands for torch's error."""


class Sets:
    """A `CheckBench` with so many sets to make; `kept_bytes` of those that were made."""

    def __init__(self, missing: int) -> None:
        self.missing = missing
        self.kept_bytes = 0

    def prepare(self) -> bool:
        self.missing -= 1
        if self.missing < -1:
            raise Starved("no memory")
        self.kept_bytes += 1
        return self.missing >= 0

    def keep_within(self, nbytes: int) -> None:
        self.kept_bytes = min(self.kept_bytes, nbytes)


def backend(sets: Sets | None, free: int = 100 * GIB, reserved: int = 30 * GIB) -> CudaBackend:
    """One that has a fusion open on a GPU of 132 GiB."""
    made = object.__new__(CudaBackend)
    cuda = SimpleNamespace(
        synchronize=lambda: None,
        empty_cache=lambda: None,
        mem_get_info=lambda: (free, 132 * GIB),
        memory_reserved=lambda: reserved,
    )
    given: dict[str, Any] = {
        "spans": [], "_fusion": "a fusion", "_bench": sets, "_makes_ahead": True, "_kernels": {},
        "_torch": SimpleNamespace(cuda=cuda, OutOfMemoryError=Starved),
    }  # fmt: skip
    for name, value in given.items():
        setattr(made, name, value)
    return made


def test_sets_are_made_ahead_one_by_one_and_told() -> None:
    made = backend(Sets(3))
    assert [made.idle() for _ in range(5)] == [True, True, True, False, False]
    assert [span.stage for span in made.spans] == [SearchStage.INPUTS] * 3


def test_what_fails_ahead_is_not_tried_again() -> None:
    sets = Sets(-1)
    made = backend(sets)
    with pytest.raises(Starved):
        made.idle()
    assert not made.idle()
    assert sets.missing == -2


@pytest.mark.parametrize("failing", ["CheckBench", "RotatingSets"])
def test_a_fusion_that_does_not_fit_leaves_none_open(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """Else kernels of the one before would be judged by what there is of this one."""

    def starve(*_: Any) -> None:
        raise Starved("no memory")

    monkeypatch.setattr("search.measure.cuda_child.CheckBench", lambda *_: SimpleNamespace(random_storages=[]))
    monkeypatch.setattr(f"search.measure.cuda_child.{failing}", starve)
    made = backend(Sets(2))
    made._best, made._arrays = BestTimed(), SimpleNamespace()  # type: ignore[assignment]  # nothing is computed
    made._facts = SimpleNamespace(l2_bytes=0)  # type: ignore[assignment]  # all that is asked for
    with pytest.raises(Starved):
        made.open(None)  # type: ignore[arg-type]  # no fusion is looked at
    assert not made.idle()
    with pytest.raises(ValueError, match="no fusion is open"):
        made.measure(None, Effort.SCREEN)  # type: ignore[arg-type]  # nor a kernel


def test_nothing_is_made_ahead_before_a_fusion_is_open() -> None:
    assert not backend(None).idle()


@pytest.mark.parametrize(
    ("free", "reserved", "room"),
    [
        pytest.param(100 * GIB, 30 * GIB, 50 * GIB, id="nobody-else"),
        pytest.param(99 * GIB, 30 * GIB, 0, id="somebody-else"),
        pytest.param(1 * GIB, 130 * GIB, GIB // 2, id="little-is-left"),
    ],
)
def test_a_gpu_that_others_use_keeps_no_sets(free: int, reserved: int, room: int) -> None:
    assert backend(Sets(0), free, reserved)._room_bytes == room


def test_a_kernel_that_lacks_memory_gets_that_of_the_sets() -> None:
    made, asked = backend(Sets(2)), list[int]()
    made.idle()

    def measure(*_: Any) -> MeasureResult:
        asked.append(made._bench.kept_bytes if made._bench else 0)
        if len(asked) == 1:
            raise Starved("no memory")
        return MeasureResult(TrialState.MEASURED, "")

    made._measure = measure  # type: ignore[method-assign, assignment]  # what a kernel needs is not at hand
    assert made.measure(None, Effort.SCREEN).state is TrialState.MEASURED  # type: ignore[arg-type]  # no kernel is launched
    assert asked == [1, 0]


def test_one_that_lacks_it_still_is_not_supported() -> None:
    made = backend(Sets(2))

    def measure(*_: Any) -> MeasureResult:
        raise Starved("no memory")

    made._measure = measure  # type: ignore[method-assign, assignment]  # what a kernel needs is not at hand
    found = made.measure(None, Effort.SCREEN)  # type: ignore[arg-type]  # no kernel is looked at
    assert (found.state, found.reason) == (TrialState.UNSUPPORTED, "the GPU's memory does not suffice: no memory")
