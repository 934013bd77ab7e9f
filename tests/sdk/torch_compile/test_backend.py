from __future__ import annotations

import copy
import importlib.metadata
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.models.catalogue import MODELS, Setting, seed
from fusetune.errors import FusetuneWarning, InvalidRequest
from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.reporting import report_of
from tests.sdk.torch_compile.reference_kernels import BrokenKernels, FakeKernels, FixedClock
from tests.sdk.torch_compile.stepping import EqualLayers, a_step

CPU = torch.device("cpu")
WHOLE: dict[str, Any] = {"least_bytes": 0, "strict": True, "rng": "eager"}

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def backend(source: Any = None, clock: FixedClock | None = None) -> CompileBackend:
    chosen: Any = source or FakeKernels()
    return CompileBackend(chosen, clock or FixedClock())


def taken(backend: CompileBackend) -> int:
    calls = [x.call for x in backend.proposed if x.call is not None]
    return sum(any(c.is_taken for c in call.choices.values()) for call in calls)


ORDINARY = {("llama", "bf16"), ("dit", "f32"), ("unet", "f32"), ("resnet", "f32")}
"""Rotations and gates, modulated norms, norms of groups, norms of batches; the long run has all in both types."""

_STEPS = [
    pytest.param(name, dtype, id=f"{name}-{word}", marks=() if (name, word) in ORDINARY else pytest.mark.long)
    for name in MODELS
    for word, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16))
]


@pytest.mark.parametrize(("name", "dtype"), _STEPS)
def test_outputs_and_gradients_are_eagers(name: str, dtype: torch.dtype) -> None:
    seed()
    module, inputs = MODELS[name].make(Setting(CPU, dtype, is_small=True))
    plain, ours = copy.deepcopy(module), backend()
    compiled = torch.compile(module, backend=ours, options=WHOLE)
    for _ in range(4):  # looked for, timed, taken, and run
        found, expected = a_step(compiled, module, inputs), a_step(plain, plain, inputs)
    assert taken(ours) == len(ours.proposed) > 0
    tolerance = 2e-5 if dtype is torch.float32 else 5e-2
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.stride() == theirs.stride()
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance * float(theirs.abs().max()))


def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x.float() * 2 + y).to(x.dtype)


X, Y = torch.randn(8, 32), torch.randn(8, 32)


def test_a_kernel_runs_only_where_it_was_faster() -> None:
    for clock, is_faster in ((FixedClock(2.0, 1.0), True), (FixedClock(1.0, 2.0), False), (FixedClock(1, 1), False)):
        torch._dynamo.reset()
        source = FakeKernels()
        ours = backend(source, clock)
        run = torch.compile(scaled, backend=ours, options=WHOLE)
        for _ in range(4):
            torch.testing.assert_close(run(X, Y), scaled(X, Y))
        assert len(clock.compared) == 1
        assert sum(kernel.calls for kernel in source.kernels.values()) == (3 if is_faster else 0)
        row = report_of(ours.proposed).rows[0]
        assert row.why == ("" if is_faster else f"not faster: {clock.kernel_us:.1f} us by the kernel, "
                           f"{clock.otherwise_us:.1f} us in eager")  # fmt: skip


def test_a_kernel_that_comes_later_is_taken_between_steps() -> None:
    ours = backend(FakeKernels(ready_after=3))
    run = torch.compile(scaled, backend=ours, options=WHOLE)
    seen = []
    for _ in range(6):
        run(X, Y)
        seen.append(taken(ours))
    assert seen[0] == 0
    assert seen[-1] == 1


def test_what_fails_runs_in_eager_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    ours = backend(BrokenKernels())
    run = torch.compile(scaled, backend=ours, options={**WHOLE, "strict": False})
    for _ in range(4):
        torch.testing.assert_close(run(X, Y), scaled(X, Y))
    assert "CUDA_ERROR_INVALID_VALUE" in report_of(ours.proposed).rows[0].why
    assert sum(record.levelname == "WARNING" for record in caplog.records) <= 1


def test_an_odd_address_is_no_fault() -> None:
    ours = backend(FakeKernels(align=16))
    run = torch.compile(scaled, backend=ours, options={**WHOLE, "strict": False})
    storage = torch.randn(8 * 32 + 1)
    for _ in range(4):
        run(X, Y)
    shifted = storage[1:].view(8, 32)
    torch.testing.assert_close(run(shifted, Y), scaled(shifted, Y))


def test_an_input_that_is_written_is_written() -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(0.5).add_(y)
        return torch.relu(x) * 2

    run = torch.compile(step, backend=backend(), options=WHOLE)
    mine, theirs = X.clone(), X.clone()
    for _ in range(4):
        torch.testing.assert_close(run(mine, Y), step(theirs, Y))
        torch.testing.assert_close(mine, theirs)


def test_sizes_may_change_between_calls() -> None:
    ours = backend()
    run = torch.compile(scaled, backend=ours, options={**WHOLE, "strict": False}, dynamic=True)
    for rows in (8, 12, 8, 12, 8, 12, 16):
        x, y = torch.randn(rows, 32), torch.randn(rows, 32)
        torch.testing.assert_close(run(x, y), scaled(x, y))
    assert len(ours.proposed) == 1


def test_equal_layers_are_asked_for_once_and_weigh_more() -> None:
    source = FakeKernels(ready_after=100)
    ours = backend(source)
    with torch.no_grad():
        torch.compile(EqualLayers(), backend=ours, options=WHOLE)(X)
    assert len(ours.proposed) == 3
    assert len(source.asked) == 1
    assert source.asked[0][1] == 3 * ours.proposed[0].region.moved_bytes


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"effrot": "quick"}, "options['effrot']"),
        ({"mode": "later"}, "options['mode']"),
        ({"strict": 1}, "options['strict']"),
        ({"budget_s": -1}, "options['budget_s']"),
        ({"budget_s": True}, "options['budget_s']"),
    ],
)
def test_an_option_that_is_unknown_is_refused_by_name(options: dict[str, Any], place: str) -> None:
    with pytest.raises(Exception, match=place.replace("[", r"\[").replace("]", r"\]")) as caught:
        torch.compile(scaled, backend=backend(), options=options)(X, Y)
    assert InvalidRequest.__name__ in type(caught.value).__name__ + str(caught.value) or place in str(caught.value)


def test_the_mode_may_be_torchs_own_word() -> None:
    source = FakeKernels(ready_after=1000)
    torch.compile(scaled, backend=backend(source), mode="cached")(X, Y)
    assert source.asked == []


def test_without_a_card_eager_runs_and_says_so_once() -> None:
    ours = CompileBackend()
    run = torch.compile(scaled, backend=ours, options={"least_bytes": 0})
    with pytest.warns(FusetuneWarning, match="eager runs") as caught:
        found = [run(X, Y), run(X[:4], Y[:4])]
    torch.testing.assert_close(found[0], scaled(X, Y))
    assert len(caught) == 1
    text = str(report_of(ours.proposed))
    assert "no kernel yet" in text
    assert "test_backend.py" in text
    assert report_of(ours.proposed)._repr_html_().count("<tr>") == 1 + len(ours.proposed)


def test_torch_finds_the_backend_by_its_entry_point() -> None:
    wheel = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    place = wheel["project"]["entry-points"]["torch_dynamo_backends"]["fusetune"]
    found = importlib.metadata.EntryPoint("fusetune", place, "torch_dynamo_backends").load()
    from fusetune.torch_compile import backend as ours

    assert found is ours


def test_a_backend_that_is_named_has_inductor_ready_where_it_is_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import async_compile

    from fusetune.torch_compile import entry
    from fusetune.torch_compile.options import CompileOptions

    started = []
    monkeypatch.setattr(async_compile, "maybe_warm_pool", lambda: started.append(1))
    for host in ("eager", "inductor"):
        monkeypatch.setattr(CompileOptions, "host", host)
        entry.get_ready()
    assert started == [1]


def test_stances_work() -> None:
    run = torch.compile(scaled, backend=backend(), options=WHOLE, dynamic=False)
    run(X, Y)
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="recompile"):
        run(X[:4], Y[:4])
    with torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(run(X[:4], Y[:4]), scaled(X[:4], Y[:4]))
