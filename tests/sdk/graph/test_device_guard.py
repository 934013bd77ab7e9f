"""What a thread that traces leaves behind is not freed with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from fusetune.graph.device_guard import keep_device_guard


@pytest.fixture
def installed_by(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Thread]]:
    """The threads that installed a guard, of a CUDA build that sees no device."""
    found: list[threading.Thread] = []
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(
        torch._C, "_ensureCUDADeviceGuardSet", lambda: found.append(threading.current_thread()), raising=False
    )
    keep_device_guard.cache_clear()
    yield found
    keep_device_guard.cache_clear()


def test_a_thread_that_ends_installs_nothing(installed_by: list[threading.Thread]) -> None:
    tracer = threading.Thread(target=keep_device_guard)
    tracer.start()
    tracer.join()
    (stays,) = installed_by
    assert stays is not tracer
    assert stays.is_alive()
    assert stays.daemon


def test_the_main_thread_stays_anyway(installed_by: list[threading.Thread]) -> None:
    keep_device_guard()
    keep_device_guard()
    assert installed_by == [threading.main_thread()]


def test_where_there_is_a_device_nothing_is_done(
    installed_by: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    keep_device_guard()
    assert installed_by == []
