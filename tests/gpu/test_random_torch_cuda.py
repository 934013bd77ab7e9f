"""Random torch functions on a card, forward and backward, under jit and through the backend: the search's kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

import fusetune
from compiler.errors import Unsupported
from compiler.nvrtc import CompilePool
from fusetune.kernel import Kernel
from fusetune.torch_compile import CompileBackend
from fusetune.wire.binding import Binding
from tests.sdk.graph.gradients import alike, coarsest, expected, of_copies, step
from tests.sdk.graph.random_functions import random_function
from tests.sdk.torch_compile.emulated_kernels import kernel_of
from tests.sdk.torch_compile.reference_kernels import FixedClock

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]
FUNCTIONS = 100
INSIDE = 16
"""Functions inside Inductor, which compiles each three times."""


class SearchedKernels:
    """A source of kernels, made when they are looked for; what has none is in `without`."""

    any_device = False

    def __init__(self, pool: CompilePool) -> None:
        self.pool = pool
        self.kernels: dict[tuple[str, str], Kernel | None] = {}
        self.without: list[str] = []

    def peek(self, fusion: Any, binding: Binding) -> Kernel | None:
        key = fusion.fingerprint, binding.to_json()
        if key not in self.kernels:
            try:
                self.kernels[key] = kernel_of(fusion, binding, self.pool)
            except (AssertionError, Unsupported) as error:
                self.kernels[key] = None
                self.without.append(f"{fusion}: {error}")
        return self.kernels[key]

    def request(self, fusion: Any, binding: Binding, *, weight: float) -> None:
        """All that there is is there at once."""


@pytest.fixture(scope="module")
def source() -> Iterator[SearchedKernels]:
    with CompilePool(1) as pool:
        yield SearchedKernels(pool)


def under_jit(seed: int, source: Any) -> str:
    """Holds a function and its gradients against eager; what ran it."""
    found = random_function(seed, "cuda")
    function = of_copies(found)
    wanted = expected(function, found.inputs, gradients=True)
    if wanted is None:
        return "eager refuses"
    jitted = fusetune.jit(function, source=source, mode="block", grad=True)
    alike(step(jitted, found.inputs, gradients=True), wanted, 8 * coarsest(found))
    (key,) = jitted.keys()
    return str(key["why"] if key["runs"] == "eager" else "kernels")


def by_the_backend(seed: int, source: Any, *, gradients: bool) -> tuple[int, int]:
    """The same through torch.compile; the regions, and how many ran by kernels."""
    torch._dynamo.reset()
    found = random_function(seed, "cuda")
    function = of_copies(found) if gradients else found
    wanted = expected(function, found.inputs, gradients=gradients)
    if wanted is None:
        return 0, 0
    ours = CompileBackend(source, FixedClock())
    run = torch.compile(function, backend=ours, options={"engine": "eager", "least_bytes": 0, "strict": True})
    for _ in range(3):  # looked for, timed, taken
        made = step(run, found.inputs, gradients=gradients)
    alike(made, wanted, 8 * coarsest(found))
    calls = [x.call for x in ours.proposed if x.call is not None]
    return len(ours.proposed), sum(any(c.is_taken for c in call.choices.values()) for call in calls)


def inside_inductor(seed: int, source: Any, *, gradients: bool) -> tuple[int, int]:
    """The same with Inductor as the host, which rounds where eager does; nothing where Inductor alone fails."""
    torch._dynamo.reset()
    found = random_function(seed, "cuda")
    function = of_copies(found) if gradients else found
    wanted = expected(function, found.inputs, gradients=gradients)
    if wanted is None:
        return 0, 0
    try:
        alone = step(torch.compile(function, options=WITHIN["inductor"]), found.inputs, gradients=gradients)
    except InductorError:
        return 0, 0
    torch._dynamo.reset()
    ours = CompileBackend(source, FixedClock())
    made = step(torch.compile(function, backend=ours, options=WITHIN), found.inputs, gradients=gradients)
    try:
        alike(made, wanted, 8 * coarsest(found))
    except AssertionError:  # the host's own: Inductor gives outputs that are expanded other strides than eager
        alike(made, alone, 8 * coarsest(found))
    choices = [choice for region in ours.reported for choice in region.choices if choice.kernel is not None]
    return len(choices), sum(choice.is_taken for choice in choices)


WITHIN: dict[str, Any] = {
    "engine": "inductor", "mode": "block", "budget_s": 1, "least_bytes": 0, "strict": True,
    "inductor": {"emulate_precision_casts": True},
}  # fmt: skip


@pytest.mark.parametrize("seed", range(FUNCTIONS))
def test_a_function_under_jit(seed: int, source: SearchedKernels) -> None:
    ran = under_jit(seed, source)
    assert ran in ("kernels", "eager refuses") or "computes something" in ran or source.without, ran


@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("seed", range(FUNCTIONS))
def test_a_function_by_the_backend(seed: int, gradients: bool, source: SearchedKernels) -> None:
    regions, taken = by_the_backend(seed, source, gradients=gradients)
    assert taken == regions or source.without


@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("seed", range(INSIDE))
def test_a_function_inside_inductor(seed: int, gradients: bool, source: SearchedKernels) -> None:
    with_kernels, taken = inside_inductor(seed, source, gradients=gradients)
    assert taken == with_kernels
