"""Nothing is tuned on the GPU that the asking process runs on, unless it says so."""

from __future__ import annotations

import pytest
import torch

from fusetune.torch_compile.options import CompileOptions
from fusetune.torch_compile.trouble import NO_DEVICE, nobody_to_ask

HERE, ELSEWHERE = "http://127.0.0.1:8765", "http://tuner.example:8765"


@pytest.mark.parametrize(
    ("devices", "url", "options", "env", "asks"),
    [
        pytest.param(1, HERE, {}, "", False, id="its-only-gpu"),
        pytest.param(1, HERE, {"share_gpu": True}, "", True, id="allowed"),
        pytest.param(1, HERE, {}, "1", True, id="allowed-for-a-process"),
        pytest.param(1, HERE, {}, "0", False, id="not-allowed-in-words"),
        pytest.param(2, HERE, {}, "", True, id="another-gpu"),
        pytest.param(1, ELSEWHERE, {}, "", True, id="another-machine"),
        pytest.param(1, HERE, {"mode": "cached"}, "", True, id="asks-nobody-anyway"),
        pytest.param(0, ELSEWHERE, {"share_gpu": True}, "1", False, id="no-gpu"),
    ],
)
def test_who_may_be_asked(
    devices: int, url: str, options: dict[str, object], env: str, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    monkeypatch.setenv("FUSETUNE_URL", url)
    monkeypatch.setenv("FUSETUNE_SHARE_GPU", env)
    why = nobody_to_ask(CompileOptions.read(options, None))
    assert (why is None) is asks
    assert devices > 0 or why == NO_DEVICE
