"""Random torch functions under jit, with their gradients: the kernels of a joint graph, by the compiler's reference."""

from __future__ import annotations

import pytest
import torch

import fusetune
from tests.sdk.graph.gradients import alike, coarsest, expected, of_copies, step
from tests.sdk.graph.random_functions import random_function
from tests.sdk.jitting.sources import ReferenceSource

FEW, ALL = 16, 300
COMPUTES_NOTHING = "outputs are inputs"


def hold(seed: int) -> str:
    """Holds one function against eager; what ran it."""
    found = random_function(seed)
    print("\n".join(found.text), found.returned)
    function = of_copies(found)
    wanted = expected(function, found.inputs, gradients=True)
    if wanted is None:
        return "eager refuses"
    jitted = fusetune.jit(function, source=ReferenceSource(is_prompt=True), mode="block", grad=True)
    alike(step(jitted, found.inputs, gradients=True), wanted, 8 * coarsest(found))
    (key,) = jitted.keys()
    assert key["runs"] != "eager" or COMPUTES_NOTHING in key["why"], key["why"]
    return str(key["runs"])


@pytest.mark.filterwarnings("ignore::fusetune.errors.FusetuneWarning")
@pytest.mark.parametrize("seed", range(FEW))
def test_a_random_function_has_eagers_gradients(seed: int) -> None:
    hold(seed)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::fusetune.errors.FusetuneWarning")
def test_random_functions_have_eagers_gradients() -> None:
    ran = [hold(seed) for seed in range(FEW, ALL)]
    assert ran.count("reference") > 0.9 * (ALL - FEW)


def test_what_needs_no_gradient_gets_none() -> None:
    x, w = torch.randn(8, 16, requires_grad=True), torch.randn(16, requires_grad=True)
    jitted = fusetune.jit(
        lambda x, w: (x.exp() * 2, w.detach() + x.detach(), (x > 0).sum(-1)),
        source=ReferenceSource(is_prompt=True), mode="block", grad=True,
    )  # fmt: skip
    found = jitted(x, w)
    assert [y.requires_grad for y in found] == [True, False, False]
    torch.autograd.backward(found[0].sum())
    assert x.grad is not None
    assert w.grad is None
