"""docs/tutorial.md, typed in from top to bottom, on a service with a worker that has no GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.service.running import ROOT, running_service

PAGE = (ROOT / "docs" / "tutorial.md").read_text()


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with running_service(tmp_path, "--device", "none", with_gpu=False) as url:
        yield url


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
    assert "Its kernel is verified_emulated, its time predicted (accepted: verified_on_gpu; measured). " in shown
    assert "Nothing was timed" in shown
    assert re.search(r"^correct='verified_emulated' time='predicted' predicted [0-9.]+ us$", shown, re.MULTILINE)
    assert "its timing." in shown
    assert "running the plain operation instead" in shown
    assert re.search(r"^[0-9a-f]{12} done \{.*\} Nothing was timed", shown, re.MULTILINE)
