"""The whole way on real hardware: over HTTP, through the SDK, on torch tensors, for the fusions of the public suite."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.kernels.cases import load, make_inputs
from benchmarks.kernels.reference import compare, reference
from fusetune import Client, Kernel, KernelNotFound
from fusetune.wire.parse import parse_binding
from fusetune.wire.suite import strip_case
from tests.service.running import running_service

pytestmark = pytest.mark.gpu
BUDGET_S = 12.0
SHORT_S = 12.0
"""Enough to verify and serve some kernel of a case; how fast kernels get, the benchmark says."""

EVERY = load(("*",), tiny=False)
CASES = [case for case in EVERY if not case["mm_flops"]]
"""The memory-bound cases of the suite."""


def case_named(name: str) -> dict[str, object]:
    return next(case for case in CASES if case["id"] == name)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_service(tmp_path_factory.mktemp("service"), with_gpu=True) as url:
        yield url


@pytest.fixture
def client(url: str, tmp_path: Path) -> Iterator[Client]:
    with Client(url, store=tmp_path) as client:
        yield client


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_fusion_is_tuned_called_and_then_answered_from_the_cache(client: Client, case: dict[str, object]) -> None:
    fusion, document = strip_case(case)
    inputs = make_inputs(case, "cuda", seed=1)
    sizes = parse_binding(document).sizes
    with pytest.raises(KernelNotFound):
        client.kernel(fusion, inputs=inputs)
    kernel = client.tune(fusion, inputs=inputs, budget_s=SHORT_S, name=str(case["id"]))
    assert isinstance(kernel, Kernel)
    assert not sizes  # the suite's cases have no symbols: everything was read off the tensors
    assert kernel.artifact.evidence.correct == "verified_on_gpu"
    assert kernel.artifact.evidence.time == "measured"

    expected = reference(case, inputs)
    returned = kernel(*inputs)
    outputs = [returned] if isinstance(returned, torch.Tensor) else list(returned)
    agreement = compare(case, outputs, expected)
    assert agreement.ok, agreement.why
    given = [torch.full_like(x, 1 if x.dtype is torch.int8 else float("nan")) for x in outputs]
    kernel(*inputs, out=given[0] if len(given) == 1 else tuple(given))
    assert compare(case, given, expected).ok

    begun = time.monotonic()
    again = client.submit(fusion, inputs=inputs, budget_s=SHORT_S)
    took_ms = 1e3 * (time.monotonic() - begun)
    assert kernel.info is not None
    assert again.kernel == kernel.info.id
    assert took_ms < 250
    print(f"\n{case['id']}: {kernel!r}; asked again: {took_ms:.1f} ms for two requests")

    (found,) = client.kernels([(fusion, inputs)])
    assert isinstance(found, Kernel)
    assert found.artifact.cubin_sha256 == kernel.artifact.cubin_sha256


def test_a_kernel_works_after_the_service_has_gone(url: str, tmp_path: Path) -> None:
    case = case_named("bias_gelu_bf16_8192x12288")
    fusion, _ = strip_case(case)
    inputs = make_inputs(case, "cuda", seed=2)
    with Client(url, store=tmp_path) as client:
        client.tune(fusion, inputs=inputs, budget_s=BUDGET_S)
    with (
        Client("http://127.0.0.1:9", store=tmp_path) as without,
        pytest.warns(match="comes from the store"),
    ):
        kernel = without.kernel(fusion, inputs=inputs)
    assert isinstance(kernel, Kernel)
    assert kernel.origin == "store"
    outputs = kernel(*inputs)
    assert compare(case, [outputs] if isinstance(outputs, torch.Tensor) else list(outputs), reference(case, inputs)).ok


def test_a_call_on_the_gpu_can_be_captured_into_a_graph(client: Client) -> None:
    case = case_named("bias_gelu_bf16_8192x12288")
    fusion, _ = strip_case(case)
    inputs = make_inputs(case, "cuda", seed=3)
    kernel = client.tune(fusion, inputs=inputs, budget_s=BUDGET_S)
    eager = kernel(*inputs)
    assert isinstance(eager, torch.Tensor)
    out = torch.empty_like(eager)
    kernel(*inputs, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(*inputs, out=out)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, eager)


def test_a_worker_killed_on_the_gpu_goes_on_where_it_was(tmp_path: Path) -> None:
    case = case_named("transpose_f32_8192x8192")
    fusion, _ = strip_case(case)
    inputs = make_inputs(case, "cuda", seed=4)
    with running_service(tmp_path, with_gpu=True) as url, Client(url, store=None) as client:
        tuning = client.submit(fusion, inputs=inputs, budget_s=2 * BUDGET_S)
        _until(lambda: client.tuning(tuning.id).trials.get("measured", 0) >= 20)
        before = {trial.number: trial for trial in client.trials(tuning.id)}
        for pid in _processes(tmp_path, "worker"):
            os.kill(pid, signal.SIGKILL)
        kernel = client.wait(tuning)
        after = {trial.number: trial for trial in client.trials(tuning.id)}
        ended = client.tuning(tuning.id)
    assert ended.state == "done"
    assert ended.spent_s <= 2 * BUDGET_S + 10
    kept = {number: (trial.candidate, trial.state) for number, trial in before.items()}
    assert kept.items() <= {number: (trial.candidate, trial.state) for number, trial in after.items()}.items()
    tried = [str(trial.candidate) for trial in after.values() if trial.state != "cancelled"]
    assert len(tried) == len(set(tried)) > len(before)
    outputs = kernel(*inputs)
    assert compare(case, [outputs] if isinstance(outputs, torch.Tensor) else list(outputs), reference(case, inputs)).ok
    print(f"\nkilled after {len(before)} trials; {len(after)} in the end, {kernel!r}")


def _processes(data: Path, command: str) -> list[int]:
    """Our processes of one service command on a database in `data`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                environment = (entry / "environ").read_bytes()
            except OSError:  # it has just ended
                continue
            is_command = [b"-m", b"service", command.encode()] == words[1:4]
            if is_command and f"FUSETUNE_DATA_DIR={data}\0".encode() in environment:
                found.append(int(entry.name))
    return found


def _until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.1)
