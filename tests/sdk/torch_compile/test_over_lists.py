"""`torch._foreach_*` over many tensors is one region over lists: optimizers, judged by eager's own steps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from compiler.arch import card_or_default
from compiler.wire import bind
from fusetune.torch_compile import CompileBackend
from search.space.schedulers import schedulers_for
from tests.sdk.torch_compile.reference_kernels import FakeKernels, FixedClock
from tests.shares import crossed

OPTIONS: dict[str, Any] = {"least_bytes": 0, "strict": True, "engine": "eager"}
SHAPES = ((4, 3), (7,), (1,), (5, 2, 2))

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def parameters(count: int, dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.randn(SHAPES[n % 4], dtype=dtype)) for n in range(count)]


def stepped(make: Callable[[Any], Any], mine: list[Any], step: Callable[..., Any] | None = None) -> CompileBackend:
    """Five steps beside eager's."""
    theirs = copy.deepcopy(mine)
    backend = CompileBackend(FakeKernels(), FixedClock())
    ours, plain = make(mine), make(theirs)

    def steps(optimizer: Any, given: list[Any]) -> Callable[[], Any]:
        return optimizer.step if step is None else lambda: step(optimizer, given)

    run, run_plain = torch.compile(steps(ours, mine), backend=backend, options=OPTIONS), steps(plain, theirs)
    for _ in range(5):
        for x, y in zip(mine, theirs, strict=True):
            x.grad = torch.randn_like(x)
            y.grad = x.grad.clone()
        run()
        run_plain()
        rtol, atol = (5e-5, 1e-6) if mine[0].dtype is torch.float32 else (2e-2, 1e-2)
        torch.testing.assert_close(mine, theirs, rtol=rtol, atol=atol)
        for x, y in zip(mine, theirs, strict=True):
            torch.testing.assert_close(ours.state[x], plain.state[y], rtol=rtol, atol=atol)
    return backend


def over_lists(backend: CompileBackend) -> list[tuple[int, int]]:
    """Operators and tensors written of each region over lists."""
    return [(x.operators, len(x.region.written)) for x in backend.proposed if x.region.columns is not None]


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.long)])
def test_a_step_of_adamw_is_one_kernel_of_any_number_of_parameters(dtype: torch.dtype) -> None:
    """The steps go up in eager: no kernel gives a list of single elements."""
    backend = stepped(lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True), parameters(20, dtype))
    assert over_lists(backend) in ([(18, 60)], [(19, 60)])  # torch 2.13's graph, and 2.11's
    (proposed,) = backend.proposed
    (choice,) = proposed.choices
    assert choice.is_taken
    assert [(x.shape, x.list) for x in choice.fusion.inputs] == [(("N",), True)] * 4 + [((), True)]
    assert [x.alias is not None for x in choice.fusion.outputs] == [True] * 3
    assert schedulers_for(bind(choice.fusion, choice.binding), card_or_default(None))
    assert "_foreach_add" not in {node.name for node in proposed.region.nodes}  # that of the steps, the first


def test_the_same_fusion_serves_other_parameters() -> None:
    found = []
    for count in (16, 23):
        torch._dynamo.reset()
        mine = parameters(count)
        for x in mine:
            x.grad = torch.randn_like(x)
        backend = CompileBackend(FakeKernels(), FixedClock())
        optimizer = torch.optim.RMSprop(mine, lr=0.01, foreach=True)
        torch.compile(optimizer.step, backend=backend, options=OPTIONS)()
        found.append([x.choices[0].key for x in backend.proposed if x.region.columns is not None])
    assert found[0] == found[1]
    assert len(found[0]) == 1


def test_momentum() -> None:
    """The first step makes the buffers, which are the gradients' copies."""
    backend = stepped(
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, foreach=True), parameters(16)
    )
    assert over_lists(backend)[-1] == (4, 32)


def test_gradients_that_are_clipped() -> None:
    def step(optimizer: Any, given: list[Any]) -> None:
        torch.nn.utils.clip_grad_norm_(given, 0.1, foreach=True)
        optimizer.step()

    backend = stepped(lambda p: torch.optim.Adam(p, lr=0.01, foreach=True), parameters(16), step)
    assert over_lists(backend)[-1][1] == 48


X, Y = ([torch.randn(SHAPES[n % 4]) for n in range(18)] for _ in range(2))
STEPS = [torch.tensor(float(n + 1)) for n in range(18)]


def wanted_beside(x: Any, y: Any, s: Any) -> Any:
    """One tensor of a list that is written is returned, too."""
    made = torch._foreach_add(torch._foreach_mul(x, 2.0), y)
    torch._foreach_copy_(x, made)
    return made[3] * 2


def wanted_in_part(x: Any, y: Any, s: Any) -> Any:
    return torch._foreach_mul(torch._foreach_add(x, y), 0.5)[2]


def of_each_its_own(x: Any, y: Any, s: Any) -> Any:
    """Numbers of each tensor's own: that operator is eager's, and what follows is a region."""
    return torch._foreach_exp(torch._foreach_neg(torch._foreach_mul(x, [float(n) for n in range(18)])))


def exchanged(x: Any, y: Any, s: Any) -> Any:
    x = x[::4]
    made = torch._foreach_add(torch._foreach_mul(x, 2.0), list(reversed(x)))
    torch._foreach_copy_(x, made)


def by_single_elements(x: Any, y: Any, s: Any) -> Any:
    return torch._foreach_div(x, torch._foreach_sqrt(torch._foreach_add(s, 1.0)))


def single_elements_that_are_wanted(x: Any, y: Any, s: Any) -> Any:
    roots = torch._foreach_sqrt(s)
    return torch._foreach_neg(torch._foreach_div(x, roots)), roots


def in_another_order(x: Any, y: Any, s: Any) -> Any:
    made = torch._foreach_mul(x[::4], 2.0)
    return torch._foreach_sub(made, list(reversed(made)))


def of_a_view_of_its_own(x: Any, y: Any, s: Any) -> Any:
    made = torch._foreach_mul(x, 2.0)
    return torch._foreach_add(made, [t.view_as(t).flatten().view(t.shape) for t in torch._foreach_neg(made)])


def of_two_types(x: Any, y: Any, s: Any) -> Any:
    mixed = [t.double() if n % 2 else t for n, t in enumerate(x)]
    return torch._foreach_neg(torch._foreach_mul(mixed, 2.0))


def of_one_other(x: Any, y: Any, s: Any) -> Any:
    """A region of what is alike; the other is eager's."""
    mixed = [*x[:-1], x[-1].bfloat16()]
    return torch._foreach_neg(torch._foreach_mul(mixed, 2.0))


CASES: dict[Callable[..., Any], list[tuple[int, int]]] = {
    wanted_beside: [(3, 18)], wanted_in_part: [(2, 0)], of_each_its_own: [(2, 0)], exchanged: [(3, 0)],
    by_single_elements: [(3, 0)], single_elements_that_are_wanted: [(2, 0)], in_another_order: [],
    of_a_view_of_its_own: [], of_two_types: [(2, 0), (2, 0)], of_one_other: [(2, 0)],
}  # fmt: skip
"""Regions over lists, by operators and tensors written. What is not alike at all places is none."""


@pytest.mark.parametrize(("function", "regions"), CASES.items(), ids=[f.__name__ for f in CASES])
def test_lists(function: Callable[..., Any], regions: list[tuple[int, int]]) -> None:
    backend = CompileBackend(FakeKernels(), FixedClock())
    run = torch.compile(function, backend=backend, options=OPTIONS)
    mine, theirs = (copy.deepcopy((X, Y, STEPS)) for _ in range(2))
    for _ in range(3):
        torch.testing.assert_close(run(*mine), function(*theirs))
        torch.testing.assert_close(mine, theirs)
    assert over_lists(backend) == regions


def moments(p: Any, g: Any, m: Any, v: Any) -> None:
    wide = [x.float() for x in g]
    torch._foreach_lerp_(m, wide, 0.1)
    torch._foreach_mul_(v, 0.9)
    torch._foreach_addcmul_(v, wide, wide, 0.1)
    torch._foreach_addcdiv_(p, m, torch._foreach_add(torch._foreach_sqrt(v), 1e-3), -0.1)


def averaged(p: Any, g: Any, m: Any, v: Any) -> None:
    torch._foreach_mul_(m, 0.9)
    torch._foreach_add_(m, p, alpha=0.1)


def summed(p: Any, g: Any, m: Any, v: Any) -> Any:
    return torch._foreach_mul(torch._foreach_add(torch._foreach_add(p, m), g), 2.0)


MIXED = {"one-type-a-list": (torch.bfloat16,), "several": (torch.bfloat16, torch.float32, torch.float16)}


@pytest.mark.parametrize(("function", "mixed"), crossed([moments, averaged, summed], MIXED, 2))
def test_parameters_of_another_type_than_their_state(function: Callable[..., Any], mixed: str) -> None:
    """Lists of one type are a region, and those of several are one for each."""
    types = MIXED[mixed]
    p, g = ([torch.randn(SHAPES[n % 4], dtype=types[n % len(types)]) for n in range(18)] for _ in range(2))
    m, v = [torch.randn(SHAPES[n % 4]) for n in range(18)], [torch.rand(SHAPES[n % 4]) for n in range(18)]
    backend = CompileBackend(FakeKernels(), FixedClock())
    run = torch.compile(function, backend=backend, options=OPTIONS)
    mine, theirs = (copy.deepcopy((p, g, m, v)) for _ in range(2))
    for _ in range(3):
        found, expected = run(*mine), function(*theirs)
        for x, y in zip((*mine, found or []), (*theirs, expected or []), strict=True):
            torch.testing.assert_close(x, y, rtol=2e-2, atol=1e-2)
    assert len(over_lists(backend)) == len(types)
