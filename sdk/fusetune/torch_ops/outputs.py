"""What a kernel returns, as far as its artifact says: for tracing, where nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fusetune.errors import WrongArguments
from fusetune.torch import DTYPES


def as_returned(kernel: Any, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """New tensors of the sizes, strides and dtypes that the kernel gives, without those that are inputs, changed.

    Raises WrongArguments for tensors of other sizes or dtypes than it was tuned for.
    """
    inputs = kernel.artifact.inputs
    if len(tensors) != len(inputs):
        raise WrongArguments("inputs", str(len(tensors)), str(len(inputs)), "Pass one tensor for each.")
    for position, (tensor, spec) in enumerate(zip(tensors, inputs, strict=True)):
        if tuple(tensor.shape) != spec.shape or tensor.dtype != DTYPES[spec.dtype]:
            found = f"{tensor.dtype} {tuple(tensor.shape)}"
            raise WrongArguments(f"input {position}", found, f"{spec.dtype} {spec.shape}", "Tune the fusion for it.")
    return [
        torch.empty_strided(spec.shape, spec.strides, dtype=DTYPES[spec.dtype], device=tensors[0].device)
        for spec in kernel.artifact.outputs
        if spec.alias is None
    ]


def own_outputs(kernel: Any, made: Any) -> list[torch.Tensor]:
    """Of what a call gave, what is no input."""
    found = made if isinstance(made, tuple) else (made,)
    return [x for x, spec in zip(found, kernel.artifact.outputs, strict=True) if spec.alias is None]


def changed_inputs(kernel: Any) -> list[int]:
    """Positions of the inputs that the kernel writes."""
    return sorted({spec.alias for spec in kernel.artifact.outputs if spec.alias is not None})
