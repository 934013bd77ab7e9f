"""A training loop with a tuned kernel in it that goes on whatever happens to the service.

    python -m examples.training_loop [URL] [--steps 20]

For each new batch size it takes, in this order: the service's kernel, the one that an earlier run left in the store,
the plain operation. A size that nobody has tuned yet is handed to the service, and the kernel is used once it is
there. Ends with 0, with or without a service.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import torch

from examples.tune_and_call import COLUMNS, bias_gelu
from fusetune import Client, EmptyKernel, Kernel, KernelError, KernelNotFound, OutdatedProof, ServiceError

ASK_AGAIN_STEPS = 10
"""Steps after which a size without a kernel is asked for again."""


def plain(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """What the kernel computes, by torch alone."""
    return torch.nn.functional.gelu(x.float() + bias.float(), approximate="tanh").to(x.dtype)


class BiasGelu(torch.autograd.Function):
    """The kernel forward; backward computes the plain operation once more and lets torch differentiate it."""

    @staticmethod
    def forward(ctx: Any, kernel: Kernel | EmptyKernel, x: torch.Tensor, bias: torch.Tensor) -> Any:
        """`kernel(x, bias)`"""
        ctx.save_for_backward(x, bias)
        return kernel(x, bias)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Gradients of x and bias."""
        x, bias = (tensor.detach().requires_grad_() for tensor in ctx.saved_tensors)
        with torch.enable_grad():
            y = plain(x, bias)
        return None, *torch.autograd.grad(y, (x, bias), grads)


class TunedBiasGelu:
    """gelu(x + bias) by the best that can be had: a kernel for exactly these tensors, or the plain operation."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.fusion = bias_gelu()
        self.kernels: dict[tuple[int, ...], Kernel | EmptyKernel] = {}
        self.asked_at: dict[tuple[int, ...], int] = {}
        self.said: set[str] = set()
        self.step = 0

    def __call__(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Differentiable in x and bias."""
        kernel = self.kernel(x, bias)
        if kernel is not None:
            try:
                y: torch.Tensor = BiasGelu.apply(kernel, x, bias)  # type: ignore[no-untyped-call]  # torch types neither autograd.Function nor backward
            except KernelError as error:  # another device, another layout: the plain operation takes any
                self.say(f"plain operation instead of the kernel: {error}")
            else:
                return y
        return plain(x, bias)

    def kernel(self, x: torch.Tensor, bias: torch.Tensor) -> Kernel | EmptyKernel | None:
        """The kernel for these tensors, if there is one; asks for it at the first step and now and then."""
        size = tuple(x.shape)
        if size in self.kernels:
            return self.kernels[size]
        if self.step < self.asked_at.get(size, -ASK_AGAIN_STEPS) + ASK_AGAIN_STEPS:
            return None
        self.asked_at[size] = self.step
        try:
            self.kernels[size] = self.client.kernel(self.fusion, inputs=[x, bias])
            self.say(f"using {self.kernels[size]}")
        except KernelNotFound:
            self.have_it_tuned(x, bias)
        except (ServiceError, OutdatedProof) as error:
            self.say(f"plain operation for {size[0]} rows: {error}")
        return self.kernels.get(size)

    def have_it_tuned(self, x: torch.Tensor, bias: torch.Tensor) -> None:
        """Hands the size to the service and does not wait."""
        try:
            tuning = self.client.submit(self.fusion, inputs=[x, bias], budget_s=60, name="bias_gelu")
            self.say(f"plain operation for {len(x)} rows while tuning {tuning.id} looks for a kernel")
        except ServiceError as error:
            self.say(f"plain operation for {len(x)} rows: {error}")

    def say(self, text: str) -> None:
        """Tells each thing once."""
        if text not in self.said:
            self.said.add(text)
            print(text)


def train(client: Client, steps: int) -> float:
    """A few steps of gradient descent on random data, the last batch shorter; returns the last loss."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        print("torch sees no GPU: every kernel will be replaced by the plain operation")
    torch.manual_seed(0)
    bias = torch.zeros(COLUMNS, device=device, dtype=torch.bfloat16, requires_grad=True)
    optimizer = torch.optim.SGD([bias], lr=0.1)
    activation = TunedBiasGelu(client)
    loss = torch.zeros(())
    for step in range(steps):
        rows = 256 if step < steps - 1 else 96
        activation.step = step
        x = torch.randn(rows, COLUMNS, device=device, dtype=torch.bfloat16)
        loss = activation(x, bias).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code."""
    arguments = argparse.ArgumentParser(description="Train with a tuned kernel, with or without a service.")
    arguments.add_argument("url", nargs="?", help="address of the service")
    arguments.add_argument("--steps", type=int, default=20)
    chosen = arguments.parse_args(argv)
    warnings.simplefilter("once")  # the store answering for a dead service is worth one line
    with Client(chosen.url, timeout_s=5) as client:
        loss = train(client, chosen.steps)
    print(f"{chosen.steps} steps done, loss {loss:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
