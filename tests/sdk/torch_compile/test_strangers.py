"""Strangers by every door, with sizes settled and open, strict and not: what they give and change is eager's."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import fusetune
from fusetune.errors import CannotConvert
from fusetune.torch_compile import CompileBackend
from tests.sdk.jitting.sources import ReferenceSource, same
from tests.sdk.torch_compile.reference_kernels import FakeKernels, FixedClock
from tests.sdk.torch_compile.strangers import STRANGERS, Stranger

CALLS = 4
"""Kernels are looked for, timed, taken, and run."""

Way = Callable[[Any], Any]


def _compiled(**options: Any) -> Way:
    dynamic = options.pop("dynamic", None)

    def way(function: Any) -> Any:
        backend = CompileBackend(FakeKernels(), FixedClock())
        return torch.compile(function, backend=backend, options={"least_bytes": 0, **options}, dynamic=dynamic)

    return way


def _jitted(**options: Any) -> Way:
    return lambda function: fusetune.jit(function, source=ReferenceSource(is_prompt=True), mode="block", **options)


WAYS: dict[str, Way] = {
    "jit": _jitted(),
    "jit-gradients": _jitted(grad=True),
    "jit-open-sizes": _jitted(grad=True, dynamic=True),
    "compile": _compiled(),
    "compile-strict": _compiled(strict=True),
    "compile-open-sizes": _compiled(strict=True, dynamic=True),
    "compile-alone": lambda function: torch.compile(function, backend="fusetune"),
}

OFTEN = (
    ("jit-open-sizes", "of_its_sizes"), ("compile-open-sizes", "of_its_sizes"), ("compile-open-sizes", "channels_last"),
    ("compile-strict", "tied_weights"), ("compile-open-sizes", "nothing_in_it"), ("compile", "views_written"),
    ("jit-gradients", "checkpointed"), ("compile-strict", "moving_average"), ("compile-alone", "complex_numbers"),
    ("compile-open-sizes", "neighbours"), ("jit-gradients", "counted"), ("compile-strict", "position_buckets"),
    ("compile-strict", "norm_under_autocast"), ("compile-strict", "patches"),
)  # fmt: skip

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache|complex|instantiated).*"),
    pytest.mark.filterwarnings("ignore::fusetune.FusetuneWarning"),
]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize(("way", "stranger"), OFTEN)
def test_a_stranger(way: str, stranger: str) -> None:
    hold_against_eager(next(x for x in STRANGERS if x.__name__ == stranger), WAYS[way])


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("made", STRANGERS, ids=[x.__name__ for x in STRANGERS])
def test_every_stranger(made: Callable[[], Stranger], way: str) -> None:
    hold_against_eager(made, WAYS[way])


@pytest.mark.parametrize("made", STRANGERS, ids=[x.__name__ for x in STRANGERS])
def test_a_stranger_is_a_fusion_or_refused_by_name(made: Callable[[], Stranger]) -> None:
    stranger = made()
    with contextlib.suppress(CannotConvert):
        assert fusetune.from_torch(stranger.function)(*stranger.args).ops


def hold_against_eager(made: Callable[[], Stranger], way: Way) -> None:
    torch.manual_seed(0)
    stranger = made()
    state = None if stranger.model is None else copy.deepcopy(stranger.model.state_dict())
    args = as_they_are(stranger.args)
    expected = [as_they_are(step(stranger.function, args, stranger.model)) for _ in range(CALLS)]
    if stranger.model is not None and state is not None:
        stranger.model.load_state_dict(state)
    args, run = as_they_are(stranger.args), way(stranger.function)
    for wanted in expected:
        same(step(run, args, stranger.model), wanted, 10.0)


def step(function: Any, args: Any, model: torch.nn.Module | None) -> Any:
    """The results of a call, gradients of all that has some, and what the call may have changed."""
    given = [x for x in pytree.tree_leaves(args) if isinstance(x, torch.Tensor)]
    learnt = [*given, *(() if model is None else model.parameters())]
    for x in learnt:
        x.grad = None
    found = function(*args)
    ends = [x for x in pytree.tree_leaves(found) if isinstance(x, torch.Tensor) and x.requires_grad]
    if ends:
        torch.autograd.backward(ends, [torch.linspace(0.5, 1.5, x.numel()).view(x.shape) for x in ends])
    gradients = [0 if x.grad is None else x.grad for x in learnt]
    return found, gradients, given, [] if model is None else list(model.buffers())


def as_they_are(values: Any) -> Any:
    """The same, in new memory laid as theirs."""

    def again(x: torch.Tensor) -> torch.Tensor:
        new = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x.detach())
        return new.requires_grad_(x.requires_grad)

    return pytree.tree_map_only(torch.Tensor, again, values)
