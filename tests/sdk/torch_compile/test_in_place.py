"""Inputs that a function changes are written by the kernels themselves, where nothing reads what was there."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fusetune.torch_compile import CompileBackend
from tests.sdk.torch_compile.reference_kernels import FakeKernels, FixedClock

WHOLE: dict[str, Any] = {"least_bytes": 0, "strict": True}
X, Y, Z = (torch.rand(32, 32) for _ in range(3))

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def scaled(x: Any, y: Any, z: Any) -> Any:
    x.mul_(0.5).add_(y)


def read_again(x: Any, y: Any, z: Any) -> Any:
    x.mul_(0.5).add_(y)
    return torch.relu(x) * 2


def read_before(x: Any, y: Any, z: Any) -> Any:
    before = x * 2 + y
    x.add_(1)
    return before


def adamw(p: Any, g: Any, m: Any) -> Any:
    p.mul_(0.99)
    m.lerp_(g, 0.1)
    p.addcdiv_(m, (m * m).sqrt().add_(1e-8), value=-0.01)


def swapped(x: Any, y: Any, z: Any) -> Any:
    before = x * 1.0 + z
    x.copy_(y * 2 + z)
    y.copy_(before)


def by_its_mean(x: Any, y: Any, z: Any) -> Any:
    x.sub_(x.mean(-1, keepdim=True) * y)


def turned(x: Any, y: Any, z: Any) -> Any:
    x.copy_((x * 2).t() + y)


def in_part(x: Any, y: Any, z: Any) -> Any:
    x[:, 1:] += y[:, 1:] * 2


def waiting_for_each_other(x: Any, y: Any, z: Any) -> Any:
    made = torch.relu(y) + 1
    y.copy_(torch.relu(made @ z) + x)
    x.copy_(made)


def of_another_type(x: Any, y: Any, z: Any) -> Any:
    x.copy_((x.double() * 0.3 + y).double())


def adamw_of_lists(x: Any, y: Any, z: Any) -> Any:
    """The first rows of each are one list's tensors, the others another's."""
    p, g, m = ([t[:16], t[16:]] for t in (x, y, z))
    torch._foreach_mul_(p, 0.99)
    torch._foreach_lerp_(m, g, 0.1)
    divisor = torch._foreach_sqrt(torch._foreach_mul(m, m))
    torch._foreach_add_(divisor, 1e-8)
    torch._foreach_addcdiv_(p, m, divisor, -0.01)


def exchanged_in_lists(x: Any, y: Any, z: Any) -> Any:
    made = torch._foreach_add([x, y], [y, x])
    x.copy_(made[0])
    y.copy_(made[1])


CASES = {
    scaled: 1, read_again: 1, read_before: 1, adamw: 2, swapped: 1, by_its_mean: 0, turned: 0, in_part: 0,
    waiting_for_each_other: 1, of_another_type: 1, adamw_of_lists: 1, exchanged_in_lists: 0,
}  # fmt: skip
"""How many inputs the kernels write."""


@pytest.mark.parametrize(("function", "written"), CASES.items(), ids=[f.__name__ for f in CASES])
def test_inputs_are_changed_as_eager_changes_them(function: Callable[..., Any], written: int) -> None:
    source = FakeKernels()
    backend = CompileBackend(source, FixedClock())
    run = torch.compile(function, backend=backend, options=WHOLE)
    mine, theirs = copy.deepcopy((X, Y, Z)), copy.deepcopy((X, Y, Z))
    for _ in range(4):  # looked for, timed, taken, and run
        torch.testing.assert_close(run(*mine), function(*theirs))
        torch.testing.assert_close(mine, theirs)
    assert sum(len(x.region.written) for x in backend.proposed) == written
    assert all(kernel.calls > 1 for kernel in source.kernels.values())


def test_a_write_moves_less() -> None:
    backend = CompileBackend(FakeKernels(), FixedClock())
    torch.compile(adamw, backend=backend, options=WHOLE)(*copy.deepcopy((X, Y, Z)))
    (proposed,) = backend.proposed
    assert proposed.region.outputs == ()
    assert proposed.region.moved_bytes == 5 * X.numel() * 4


@pytest.mark.parametrize("made", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_an_optimizers_step(made: Any) -> None:
    mine, theirs = (torch.nn.Parameter(X.clone()) for _ in range(2))
    backend = CompileBackend(FakeKernels(), FixedClock())
    rate = {"lr": torch.tensor(0.01)} if made is not torch.optim.RMSprop else {"lr": 0.01}
    ours: Any = made([mine], foreach=False, **rate)
    plain: Any = made([theirs], foreach=False, **rate)
    step: Any = torch.compile(ours.step, backend=backend, options=WHOLE)
    for turn in range(5):
        mine.grad, theirs.grad = (Y * turn - Z for _ in range(2))
        step()
        plain.step()
        torch.testing.assert_close(mine, theirs)
    assert any(x.region.written for x in backend.proposed)


def test_lists_of_tensors_are_written_each() -> None:
    def step(p: Any, g: Any, m: Any) -> None:
        torch._foreach_mul_(p, 0.99)
        torch._foreach_lerp_(m, g, 0.1)
        torch._foreach_addcdiv_(p, m, torch._foreach_add(torch._foreach_abs(m), 1e-8), -0.01)

    backend = CompileBackend(FakeKernels(), FixedClock())
    run = torch.compile(step, backend=backend, options=WHOLE)
    mine, theirs = (copy.deepcopy([[t, t[0].clone()] for t in (X, Y, Z)]) for _ in range(2))
    for _ in range(4):
        run(*mine)
        step(*theirs)
        torch.testing.assert_close(mine, theirs)
    (proposed,) = backend.proposed
    assert len(proposed.region.written) == 4
