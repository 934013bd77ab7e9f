"""docs/tutorial.md, typed in from top to bottom, on a service with a worker that has no GPU."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fusetune import Client, ServiceError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--worker", "--device", "none", "--data-dir", str(tmp_path), "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "service", "serve", *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for_worker(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def _wait_for_worker(url: str) -> None:
    deadline = time.monotonic() + 60
    with Client(url, store=None) as client:
        while time.monotonic() < deadline:
            try:
                if any(worker.alive for status in client.cards() for worker in status.workers):
                    return
            except ServiceError:
                pass
            time.sleep(0.1)
    pytest.fail("the service did not come up")


def test_the_tutorial_works(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FUSETUNE_URL", url)
    monkeypatch.setenv("FUSETUNE_HOME", str(tmp_path / "home"))
    typed: dict[str, Any] = {}
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)):
        exec(compile(block, f"docs/tutorial.md, block {number}", "exec"), typed)
    tensors = (torch.zeros(4096, 1024, dtype=torch.bfloat16), torch.zeros(1024, dtype=torch.bfloat16))
    assert typed["kernel_or_none"](typed["client"], typed["fusion"], tensors) is None
    typed["client"].close()

    shown = capsys.readouterr().out
    assert "out = cast(" in shown  # the printed fusion
    assert "expected" in shown  # the refused addition
    assert re.search(r"flat: [\d,]+ legal of [\d,]+", shown)
    assert "Nothing was verified or timed" in shown
    assert "running the plain operation instead" in shown
    assert re.search(r"^[0-9a-f]{12} done \{.*\} Nothing was verified", shown, re.MULTILINE)
