"""Only the products, convolutions and attention of a step: the part of its time that no fusion changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from benchmarks.models.steps import ModelStep
from fusetune.torch_compile.program import boxed

BARE = (
    "mm", "addmm", "bmm", "baddbmm", "convolution", "scaled_dot_product", "linear", "matmul", "flash_attention",
    "efficient_attention", "cudnn_attention",
)  # fmt: skip
"""Parts of the names of the operators that count."""


def bare_calls(step: ModelStep) -> Callable[[], None]:
    """A function that runs those operators of one step, in their order, each on what it gets there."""
    found: list[tuple[Any, Any, Any]] = []

    def kept(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        class Keeping(fx.Interpreter):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                if any(part in str(target) for part in BARE):
                    found.append((target, args, kwargs))
                return super().call_function(target, args, kwargs)

        def run_boxed(args: list[Any]) -> Any:
            return Keeping(gm).run(*args)

        return boxed(run_boxed)

    from torch._dynamo.backends.common import aot_autograd

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=kept, bw_compiler=kept, inference_compiler=kept)
    step.of(torch.compile(step.module, backend=backend))

    def run() -> None:
        with torch.no_grad():
            for target, args, kwargs in found:
                target(*args, **kwargs)

    return run
