"""Products of f32 may be in tf32 where torch's own switches allow it when a function is traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F

from fusetune.graph import from_torch
from fusetune.graph.precision import precision_of_f32

X, W, B = torch.zeros(4, 8), torch.zeros(6, 8), torch.zeros(6)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    torch.backends.cuda.matmul.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")


def set_new(word: str) -> None:
    torch.backends.cuda.matmul.fp32_precision = word


def set_old(allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed


def set_both() -> None:
    torch.set_float32_matmul_precision("high")
    set_new("ieee")


SWITCHES: dict[str, tuple[Callable[[], None], str | None]] = {
    "as torch begins": (lambda: None, None),
    "high": (lambda: torch.set_float32_matmul_precision("high"), "tf32"),
    "medium": (lambda: torch.set_float32_matmul_precision("medium"), "tf32"),
    "highest": (lambda: torch.set_float32_matmul_precision("highest"), None),
    "allow_tf32": (lambda: set_old(True), "tf32"),
    "allow_tf32, not": (lambda: set_old(False), None),
    "fp32_precision": (lambda: set_new("tf32"), "tf32"),
    "fp32_precision of IEEE": (lambda: set_new("ieee"), None),
    "high, then fp32_precision of IEEE": (set_both, None),
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_switches_of_torch_say_what_is_multiplied(switch: str) -> None:
    set_it, said = SWITCHES[switch]
    set_it()
    assert precision_of_f32() == said
    found = from_torch(lambda x, w, b: F.gelu(F.linear(x, w, b)))(X, W, B)
    assert [op.precision for op in found.ops if op.op == "matmul"] == [said]


def test_products_of_other_types_are_what_they_are() -> None:
    torch.set_float32_matmul_precision("high")
    found = from_torch(torch.mm)(X.bfloat16(), W.bfloat16().T)
    assert [op.precision for op in found.ops if op.op == "matmul"] == [None]
