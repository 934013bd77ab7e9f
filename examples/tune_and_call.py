"""Describe a fusion, have its kernel found by a service, call it on torch tensors, compare with plain torch.

    python -m examples.tune_and_call [URL] [--rows 8192] [--budget-s 30]

URL is FUSETUNE_URL or http://127.0.0.1:8765 unless given (`make serve` starts one). Ends with 0 if a kernel came, 1 if
the search ended without one that was verified and measured, 2 if no service could be had.
"""

from __future__ import annotations

import argparse
import sys

import fusetune
from fusetune import Client, FusionBuilder, Kernel

COLUMNS = 4096


def bias_gelu() -> fusetune.Fusion:
    """gelu(x + bias) in float, between tensors of bf16, for any number M of rows."""
    f = FusionBuilder()
    x = f.input("x", ("M", COLUMNS), "bf16")
    bias = f.input("bias", (COLUMNS,), "bf16")
    rows = bias.cast("f32").broadcast_to(x.shape, dims=(1,))
    f.output(f.gelu(x.cast("f32") + rows).cast("bf16"), name="out")
    return f.build()


def compare(kernel: Kernel, rows: int) -> str:
    """Calls the kernel and torch on the same tensors. Raises AssertionError where they differ."""
    try:
        import torch
    except ImportError:
        return "It was not called: this Python has no torch."
    if not torch.cuda.is_available():
        return "It was not called: torch sees no GPU on this machine. The kernel is in the store for one that has it."
    x = torch.randn(rows, COLUMNS, device="cuda", dtype=torch.bfloat16)
    bias = torch.randn(COLUMNS, device="cuda", dtype=torch.bfloat16)
    expected = torch.nn.functional.gelu(x.float() + bias.float(), approximate="tanh").bfloat16()
    torch.testing.assert_close(kernel(x, bias), expected)
    out = torch.empty_like(x)
    kernel(x, bias, out=out)  # the same into memory of one's own
    torch.testing.assert_close(out, expected)
    return f"Called on {tuple(x.shape)}: the results are those of plain torch, within the rounding of bf16."


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code."""
    arguments = argparse.ArgumentParser(description="Tune a fusion and call its kernel.")
    arguments.add_argument("url", nargs="?", help="address of the service")
    arguments.add_argument("--rows", type=int, default=8192)
    arguments.add_argument("--budget-s", type=float, default=30.0)
    chosen = arguments.parse_args(argv)
    fusion = bias_gelu()
    print(fusion)
    try:
        with Client(chosen.url) as client:
            kernel = client.tune(
                fusion, binding={"M": chosen.rows}, budget_s=chosen.budget_s, name="bias_gelu", progress=True
            )
    except fusetune.NoKernel as error:
        print(f"No kernel: {error.why}")
        return 1
    except fusetune.ServiceError as error:
        print(error, file=sys.stderr)
        return 2
    print(kernel)
    if isinstance(kernel, Kernel):
        print(compare(kernel, chosen.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
