"""Dropout draws one set of numbers, whoever runs its region; torch's seed and state say which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from compiler.ir.ops import philox
from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.drawing import at_least, start, uniform
from tests.sdk.torch_compile.reference_kernels import FakeKernels, FixedClock

WHOLE: dict[str, Any] = {"least_bytes": 0, "strict": True}
X = torch.randn(24, 36)

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize(("seed", "offset"), [(0, 0), (-0x0123456789ABCDEF, (1 << 40) + 5), ((1 << 63) - 1, 1 << 62)])
def test_numbers_are_those_of_kernels(seed: int, offset: int) -> None:
    expected = philox.uniform(np, np.asarray(seed), np.asarray(offset), np.arange(1003))
    found = uniform(torch.tensor(seed), torch.tensor(offset), 1003)
    np.testing.assert_array_equal(found.double().numpy(), expected)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1 / 3, 1.0])
def test_what_is_kept_is_told_by_the_numbers(p: float) -> None:
    seed, offset = start(torch.device("cpu"))
    assert torch.equal(at_least(p, seed, offset, 1003), uniform(seed, offset, 1003) >= p)


def test_numbers_do_not_depend_on_how_many_are_drawn_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seed, offset = start(torch.device("cpu"))
    whole = uniform(seed, offset, 1001), at_least(0.3, seed, offset, 1001)
    monkeypatch.setattr("fusetune.torch_compile.drawing._AT_ONCE", 24)
    assert torch.equal(uniform(seed, offset, 1001), whole[0])
    assert torch.equal(at_least(0.3, seed, offset, 1001), whole[1])


def two_dropouts(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(F.dropout(x, 0.3) + 1, 0.5) * 2


def of_halves(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x.bfloat16().t(), 0.1) + 1


def bernoulli(x: torch.Tensor) -> torch.Tensor:
    return torch.bernoulli(x, 0.3) * x


def uniform_numbers(x: torch.Tensor) -> torch.Tensor:
    return torch.rand_like(x) + torch.rand(36) * x


FUNCTIONS = [two_dropouts, of_halves, bernoulli, uniform_numbers]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_kernel_draws_what_eager_drew(function: Callable[..., Any]) -> None:
    source = FakeKernels()
    run = torch.compile(function, backend=CompileBackend(source, FixedClock()), options=WHOLE)
    found = []
    for _ in range(4):  # looked for, timed, taken, and run
        torch.manual_seed(3)
        found.append((run(X), run(X)))
    assert [kernel.calls > 1 for kernel in source.kernels.values()] == [True]
    for first, second in found[1:]:
        torch.testing.assert_close(first, found[0][0])
        torch.testing.assert_close(second, found[0][1])
    assert not torch.equal(*found[0])
    assert found[0][0].stride() == function(X).stride()


def test_the_state_of_torchs_generator_says_what_is_drawn() -> None:
    run = torch.compile(two_dropouts, backend=CompileBackend(FakeKernels(), FixedClock()), options=WHOLE)
    state = torch.get_rng_state()
    first = [run(X) for _ in range(4)]
    torch.set_rng_state(state)
    again = [run(X) for _ in range(4)]
    for mine, theirs in zip(first, again, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_eagers_own_numbers_on_demand() -> None:
    run = torch.compile(
        two_dropouts, backend=CompileBackend(FakeKernels(), FixedClock()), options={**WHOLE, "rng": "eager"}
    )
    for _ in range(4):
        torch.manual_seed(5)
        found = run(X)
        torch.manual_seed(5)
        torch.testing.assert_close(found, two_dropouts(X))
