"""The short question whether a call is like the last says what keys say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fusetune
from fusetune.jitting.call_key import call_key
from fusetune.jitting.last_call import LastCall
from tests.sdk.jitting.sources import ReferenceSource


def key(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return call_key(args, {}, torch.is_grad_enabled())


X = torch.zeros(8, 64, dtype=torch.bfloat16)
B = torch.zeros(64)

OTHERS: dict[str, tuple[Any, ...]] = {
    "the same": (X, B),
    "other memory": (X.clone(), B.clone()),
    "another size": (X[:4], B),
    "another dtype": (X, B.double()),
    "other strides": (torch.zeros(64, 8, dtype=torch.bfloat16).T, B),
    "another address": (X, torch.zeros(65)[1:]),
    "needs gradients": (X, torch.zeros(64, requires_grad=True)),
    "a parameter": (X, torch.nn.Parameter(B, requires_grad=False)),
    "one more": (X, B, B),
    "one less": (X,),
    "a number": (X, 2.0),
    "no tensor": (X, None),
}


@pytest.mark.parametrize("what", OTHERS)
def test_it_says_what_keys_say(what: str) -> None:
    last = LastCall.of((X, B))
    assert last is not None
    assert last.is_like(OTHERS[what], {}) == (key(OTHERS[what]) == key((X, B)))


MODES: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "float64": lambda: _DefaultDtype(),
    "tf32": lambda: _Precision(),
}


class _DefaultDtype:
    def __enter__(self) -> None:
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *_: object) -> None:
        torch.set_default_dtype(torch.float32)


class _Precision:
    def __enter__(self) -> None:
        torch.set_float32_matmul_precision("high")

    def __exit__(self, *_: object) -> None:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("mode", MODES)
def test_another_mode_of_torch_is_another_call(mode: str) -> None:
    last, before = LastCall.of((X, B)), key((X, B))
    assert last is not None
    with MODES[mode]():
        assert key((X, B)) != before
        assert not last.is_like((X, B), {})
    assert last.is_like((X, B), {})


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((X, 2.0), {}), ((X,), {"b": B}), ((X, torch.zeros(65)[1:]), {}), (([X],), {})]
)
def test_what_keys_alone_tell_apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    assert LastCall.of(args, kwargs) is None


def test_calls_that_alternate_run_their_own_kernels() -> None:
    source = ReferenceSource(is_prompt=True)
    scale = 2.0

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * scale

    jitted = fusetune.jit(scaled, source=source)
    for _ in range(3):
        for size in (64, 128, 64):
            x = torch.arange(float(size))
            torch.testing.assert_close(jitted(x), x * scale)
    scale = 3.0
    assert jitted(torch.ones(64))[0].item() == 3.0
    assert len(jitted.keys()) == 3
