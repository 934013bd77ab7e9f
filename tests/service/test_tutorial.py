"""The tutorials, typed in from top to bottom, on a service with a worker that has no GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fusetune.running import use_source
from fusetune.torch_compile import backend
from tests.nursery import ROOT
from tests.service.running import running_service


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_service(tmp_path_factory.mktemp("service"), "--device", "none", with_gpu=False) as url:
        yield url


@pytest.fixture
def as_before() -> Iterator[None]:
    """The sources of this process are nobody else's; torch has the backend, whose entry point the wheel brings."""
    if "fusetune" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(backend, name="fusetune")
    use_source(None)
    yield
    use_source(None)


def typed_in(page: str) -> dict[str, Any]:
    """What there is when all of a page's Python has run."""
    typed: dict[str, Any] = {}
    text = (ROOT / "docs" / page).read_text()
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)):
        exec(compile(block, f"docs/{page}, block {number}", "exec"), typed)
    return typed


def test_the_tutorial_works(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FUSETUNE_URL", url)
    monkeypatch.setenv("FUSETUNE_HOME", str(tmp_path / "home"))
    typed = typed_in("tutorial.md")
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


@pytest.mark.filterwarnings("ignore")
def test_the_tutorial_of_a_model_works(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    as_before: None,
) -> None:
    monkeypatch.setenv("FUSETUNE_URL", url)
    monkeypatch.setenv("FUSETUNE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    typed = typed_in("tutorial_model.md")
    assert typed["missing"] == []
    shown = capsys.readouterr().out
    assert "modeling_llama.py" in shown
    assert "no kernel yet" in shown  # the report
    assert f"{len(typed['regions'])} kernels" in shown
    assert shown.count("verified_emulated not timed") == len(typed["regions"])
    assert re.search(r"without a kernel: \[RegionRequest\(.* operators, .*\)\]", shown)
