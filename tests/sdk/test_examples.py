from __future__ import annotations

import socket
from pathlib import Path

import pytest
import torch

from examples import demo, training_loop, tune_and_call
from fusetune.client import Client
from tests.sdk.fake_service import URL, FakeService, served


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSETUNE_HOME", str(tmp_path))


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is one: it could not run what the fake service gives."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def dead_url() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_the_demo_says_why_its_service_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, with the last lines of its log: it does not wait for a service that is gone."""
    monkeypatch.setattr(demo, "DATA", tmp_path)
    (tmp_path / "fusetune.db").write_text("this is no database, and long enough for SQLite to look at it: " * 9)
    with pytest.raises(SystemExit) as ended, demo.service():
        raise AssertionError("a service came up")
    said = str(ended.value)
    assert "demo: the service ended with exit code 2." in said
    assert "the file is not a SQLite database" in said


def test_tune_and_call_says_that_there_is_no_service(dead_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune_and_call.main([dead_url]) == 2
    shown = capsys.readouterr()
    assert "no service answers at" in shown.err
    assert "Traceback" not in shown.err


def test_the_url_may_come_from_the_environment(
    dead_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FUSETUNE_URL", dead_url)
    assert tune_and_call.main([]) == 2
    assert dead_url in capsys.readouterr().err


def test_tune_and_call_says_why_there_is_no_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    service = FakeService()
    service.ends = {"state": "done", "kernel": None, "note": "This service has no GPU."}
    with served(service) as url:
        assert tune_and_call.main([url]) == 1
    assert "No kernel: This service has no GPU." in capsys.readouterr().out


@pytest.mark.usefixtures("no_gpu")
def test_tune_and_call_without_a_gpu_shows_the_kernel_and_does_not_call_it(capsys: pytest.CaptureFixture[str]) -> None:
    with served(FakeService()) as url:
        assert tune_and_call.main([url, "--rows", "8"]) == 0
    shown = capsys.readouterr().out
    assert "Kernel(bf16[8, 64]" in shown
    assert "It was not called: torch sees no GPU" in shown


def test_an_empty_batch_needs_no_service(dead_url: str) -> None:
    assert tune_and_call.main([dead_url, "--rows", "0"]) == 0


@pytest.mark.usefixtures("no_gpu")
def test_the_training_loop_survives_a_dead_service(dead_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert training_loop.main([dead_url, "--steps", "3"]) == 0
    shown = capsys.readouterr().out
    assert "plain operation for 256 rows: POST /v1/kernels/lookup: no service answers at" in shown
    assert "3 steps done" in shown


@pytest.mark.usefixtures("no_gpu")
def test_the_training_loop_goes_on_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """A size that is not tuned is handed in; its kernel, once there, cannot run here and is replaced."""
    service = FakeService()
    with Client(URL, store=None, transport=service.transport()) as client:
        training_loop.train(client, 2)
        for tuning in service.requests:
            client.wait(tuning)
        training_loop.train(client, 2)
    shown = capsys.readouterr().out
    assert len(service.requests) == 2
    assert "looks for a kernel" in shown
    assert "using Kernel(" in shown
    assert "plain operation instead of the kernel: torch sees no CUDA device" in shown


def test_the_kernels_gradient_is_that_of_the_plain_operation() -> None:
    """With the plain operation in the kernel's place, both ways to differentiate must agree."""
    x = torch.randn(4, 8, dtype=torch.float32, requires_grad=True)
    bias = torch.randn(8, dtype=torch.float32, requires_grad=True)
    y = training_loop.BiasGelu.apply(training_loop.plain, x, bias)  # type: ignore[no-untyped-call]  # torch types no autograd.Function
    got = torch.autograd.grad(y.square().sum(), (x, bias))
    want = torch.autograd.grad(training_loop.plain(x, bias).square().sum(), (x, bias))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other)
