"""What is timed of a model: its forward, or forward and backward, on the same numbers each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from benchmarks.models.catalogue import Inputs, Model, Setting, seed

Run = Callable[..., Any]


@dataclass(frozen=True)
class ModelStep:
    """A model with its inputs. `slope`: the gradient of its result, None for inference. Gradients are returned, not
    added up, so that all of what is timed is the model's."""

    module: nn.Module
    inputs: Inputs
    slope: torch.Tensor | None

    def of(self, run: Run) -> list[torch.Tensor]:
        """The result and, in training, the gradients of all inputs and parameters that have one."""
        if self.slope is None:
            with torch.no_grad():
                return [run(*self.inputs)]
        out = run(*self.inputs)
        return [out.detach(), *torch.autograd.grad(out, self.leaves, self.slope)]

    @property
    def draws(self) -> bool:
        """Whether there is dropout in it: no two modes draw the same numbers then, and errors say nothing."""
        return any(isinstance(part, nn.Dropout) and part.p > 0 and part.training for part in self.module.modules())

    @property
    def leaves(self) -> list[torch.Tensor]:
        """What gradients are taken of."""
        return [x for x in (*self.inputs, *self.module.parameters()) if x.requires_grad]


def made(model: Model, setting: Setting, is_training: bool) -> ModelStep:
    """The model at a setting, with the same weights and inputs for each: element types aside."""
    seed()
    module, inputs = model.make(setting)
    if not is_training:
        return ModelStep(module.eval(), inputs, None)
    given = tuple(x.requires_grad_() if x.is_floating_point() else x for x in inputs)
    with torch.no_grad():
        like = module(*given)
    slope = torch.ones_like(like) if like.dim() == 0 else torch.randn_like(like)
    return ModelStep(module, given, slope)


def exact(step: ModelStep) -> list[torch.Tensor]:
    """The results in f32, of the weights and inputs of `step`, on the host. The step is used up."""
    wide = [x.detach().float().requires_grad_(x.requires_grad) if x.is_floating_point() else x for x in step.inputs]
    slope = None if step.slope is None else step.slope.float()
    module = step.module.float()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        return [x.cpu() for x in ModelStep(module, tuple(wide), slope).of(module)]
    finally:
        torch.set_float32_matmul_precision(before)
