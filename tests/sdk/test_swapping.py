"""A kernel that gives way to what its search ends with: when, and when not."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest

from fusetune import SwappingKernel
from fusetune.errors import FusetuneWarning, ServerUnreachable
from fusetune.kernel import Kernel
from fusetune.wire.binding import Binding
from fusetune.wire.wanting import Distance
from tests.sdk.fake_service import artifact, bias_gelu, kernel_view

FUSION, ROWS = bias_gelu(), Binding(sizes={"M": 8})


class Searching:
    """A client whose search ends when it is told to, with `found` or by raising it."""

    def __init__(self, found: Kernel | Exception, is_provisional: bool = True) -> None:
        made = artifact(FUSION, ROWS)
        view, _ = kernel_view(made)
        distance = Distance(at_most=0.2, expected=0.1, error=0.04) if is_provisional else None
        self.first = Kernel(made, info=view.model_copy(update={"provisional": distance}))
        self.found = found
        self.ends = threading.Event()
        self.asked: list[dict[str, Any]] = []

    def tune(self, fusion: Any, **asked: Any) -> Kernel:
        self.asked.append(asked)
        if asked.get("wait") == "first":
            return self.first
        assert self.ends.wait(20)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture
def better() -> Kernel:
    return Kernel(artifact(FUSION, ROWS).model_copy(update={"source": "// better\n"}))


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Calls tell which kernel runs; the list says whether a graph is captured."""
    capturing = [False]
    monkeypatch.setattr(Kernel, "__call__", lambda self, *inputs, out=None: self.artifact.source)
    monkeypatch.setattr("fusetune.torch.is_capturing", lambda: capturing[0])
    return capturing


def test_the_best_runs_once_it_is_there_and_never_within_a_capture(better: Kernel, calls: list[bool]) -> None:
    client = Searching(better)
    kernel = SwappingKernel(client, FUSION, binding=ROWS, budget_s=5, refresh=True)  # type: ignore[arg-type]  # as much of a client as it asks
    first = client.first.artifact.source
    assert (kernel(), kernel.is_final) == (first, False)
    client.ends.set()
    kernel.join(20)
    assert kernel.is_final
    calls[0] = True
    assert (kernel(), kernel.swaps) == (first, 0)
    calls[0] = False
    assert (kernel(), kernel.swaps) == ("// better\n", 1)
    assert (kernel(), kernel.swaps) == ("// better\n", 1)
    assert kernel.kernel is better
    assert client.asked == [
        {"wait": "first", "binding": ROWS, "budget_s": 5, "refresh": True},
        {"binding": ROWS, "budget_s": 5},
    ]


def test_one_that_a_search_has_ended_with_is_final(better: Kernel) -> None:
    client = Searching(better, is_provisional=False)
    kernel = SwappingKernel(client, FUSION, binding=ROWS)  # type: ignore[arg-type]  # as much of a client as it asks
    assert kernel.is_final
    assert kernel() == client.first.artifact.source
    assert len(client.asked) == 1


def test_the_same_kernel_is_no_swap() -> None:
    client = Searching(Kernel(artifact(FUSION, ROWS)))
    kernel = SwappingKernel(client, FUSION)  # type: ignore[arg-type]  # as much of a client as it asks
    client.ends.set()
    kernel.join(20)
    assert (kernel(), kernel.swaps) == (client.first.artifact.source, 0)


def test_a_search_that_fails_leaves_the_first() -> None:
    client = Searching(ServerUnreachable("POST /v1/tunings", "http://x", "refused"))
    kernel = SwappingKernel(client, FUSION)  # type: ignore[arg-type]  # as much of a client as it asks
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        client.ends.set()
        kernel.join(20)
    assert [one.category for one in told] == [FusetuneWarning]
    assert "the first kernel stays" in str(told[0].message)
    assert (kernel(), kernel.swaps) == (client.first.artifact.source, 0)


def test_whose_wait_it_is() -> None:
    with pytest.raises(TypeError, match="takes no `wait`"):
        SwappingKernel(Searching(ValueError()), FUSION, wait="best")  # type: ignore[arg-type]  # what is refused
