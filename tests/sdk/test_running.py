"""Kernels in the background: one thread, begun by the first request; the store first; faults are told, not raised."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fusetune.client import Client
from fusetune.errors import ServerUnreachable
from fusetune.kernel import EmptyKernel
from fusetune.running.source import ServiceSource
from fusetune.store import Store
from fusetune.waiting import Pace
from fusetune.wire.binding import Binding
from tests.sdk.fake_service import URL, FakeService, bias_gelu
from tests.test_import_directions import ROOT

FUSION = bias_gelu()
ROWS = Binding(sizes={"M": 8})


def source_of(service: FakeService, folder: Path) -> ServiceSource:
    store = Store(folder)
    return ServiceSource(
        lambda: Client(URL, store=store, transport=service.transport(), pace=Pace(poll_s=0.001)), store
    )


def threads() -> int:
    return sum(thread.name == "fusetune-kernels" for thread in threading.enumerate())


def test_a_request_brings_the_kernel_and_a_peek_never_asks(tmp_path: Path) -> None:
    service = FakeService()
    source = source_of(service, tmp_path)
    before = threads()
    assert source.peek(FUSION, ROWS) is None
    assert (service.seen, threads()) == ([], before)
    source.request(FUSION, ROWS, weight=1)
    assert source.wait(30)
    kernel = source.peek(FUSION, ROWS)
    assert kernel is not None
    assert kernel.origin == "service"
    asked = len(service.seen)
    source.request(FUSION, ROWS, weight=1)
    assert source.wait(30)
    assert len(service.seen) == asked


def test_another_process_finds_it_in_the_store(tmp_path: Path) -> None:
    first = source_of(FakeService(), tmp_path)
    first.request(FUSION, ROWS, weight=1)
    assert first.wait(30)
    service = FakeService()
    kernel = source_of(service, tmp_path).peek(FUSION, ROWS)
    assert kernel is not None
    assert (kernel.origin, service.seen) == ("store", [])


def test_a_key_is_asked_once_and_the_weightiest_first(tmp_path: Path) -> None:
    let_go, order = threading.Event(), []

    class Slow:
        def tune(self, fusion: Any, *, binding: Binding, **_: Any) -> Any:
            let_go.wait(30)
            order.append(binding.sizes["M"])
            return EmptyKernel((), ())

    source = ServiceSource(Slow, Store(tmp_path))
    source.request(FUSION, Binding(sizes={"M": 1}), weight=1)
    time.sleep(0.05)
    for rows, weight in ((2, 5.0), (3, 7.0), (4, 6.0), (2, 9.0), (3, 1.0)):
        source.request(FUSION, Binding(sizes={"M": rows}), weight=weight)
    let_go.set()
    assert source.wait(30)
    assert order == [1, 2, 3, 4]


def test_a_service_that_is_away_is_told_and_not_asked_again_at_once(tmp_path: Path) -> None:
    calls = []

    class Away:
        def tune(self, *_: Any, **__: Any) -> Any:
            calls.append(1)
            raise ServerUnreachable("POST /v1/tunings", URL, "refused")

    source = ServiceSource(Away, Store(tmp_path))
    for _ in range(2):
        source.request(FUSION, ROWS, weight=1)
        assert source.wait(30)
    assert len(calls) == 1
    assert "no service answers at" in (source.trouble or "")
    assert "no service answers at" in (source.why_not(FUSION, ROWS) or "")


def test_a_fault_of_ours_ends_no_thread(tmp_path: Path) -> None:
    class Broken:
        def tune(self, *_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("oh")

    source = ServiceSource(Broken, Store(tmp_path))
    for rows in (1, 2):
        source.request(FUSION, Binding(sizes={"M": rows}), weight=1)
        assert source.wait(30)
        assert source.why_not(FUSION, Binding(sizes={"M": rows})) == "oh"


FORK = """
import os
from pathlib import Path
from tests.sdk.test_running import FUSION, ROWS, FakeService, source_of, Binding
import sys
source = source_of(FakeService(), Path(sys.argv[1]))
source.request(FUSION, ROWS, weight=1)
assert source.wait(30)
child = os.fork()
if not child:
    other = Binding(sizes={"M": 9})
    source.request(FUSION, other, weight=1)
    os._exit(0 if source.wait(30) and source.peek(FUSION, other) and source.peek(FUSION, ROWS) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_asks_on_a_thread_of_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(tmp_path)], cwd=ROOT, env={"PYTHONPATH": ".:sdk"}, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert (done.stdout.strip(), done.returncode) == ("0", 0), done.stderr
