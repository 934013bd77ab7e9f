"""What a call under `jit` costs the host over a bare launch, by how many objects the function reads.

python -m benchmarks.models.calls --ask build/models/calls.json
python -m benchmarks.models.prepare build/models/calls.json --card H200 --per-fusion 4 --out build/models/prepared
python -m benchmarks.models.calls --kernels build/models/prepared --out calls.json

All functions are one fusion, so one kernel runs them all; the rows of a round are taken in turns. `--device cpu` has a
kernel that gives one tensor and launches nothing: what is left is what jit does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

import fusetune
from benchmarks.models.tuning import AskedRegion, FolderSource, write_asked
from fusetune.bindings import binding_of
from fusetune.fusion import Fusion
from fusetune.wire.binding import Binding

CALLS = 1000
"""Of a round."""
SHAPE = (8, 1024)


class Switch:
    """An object that a function asks in every call."""

    def __init__(self) -> None:
        self.is_on = True


A, B, C, D, E = (Switch() for _ in range(5))


def reads_nothing(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A bias and a GELU."""
    return torch.nn.functional.gelu(x.float() + b, approximate="tanh").to(x.dtype)


def reads_one(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The same, where a switch is on."""
    return torch.nn.functional.gelu(x.float() + b, approximate="tanh").to(x.dtype) if A.is_on else x


def reads_five(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The same, where five are."""
    y = x.float() + b if A.is_on and B.is_on else x.float()
    y = torch.nn.functional.gelu(y, approximate="tanh") if C.is_on and D.is_on else y
    return y.to(x.dtype) if E.is_on else y


class Biased(torch.nn.Module):
    """The same as a module, which holds the bias and two switches."""

    def __init__(self, bias: torch.Tensor) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(bias, requires_grad=False)
        self.is_on, self.shape = True, Switch()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the input alone."""
        y = x.float() + self.bias if self.is_on and self.shape.is_on else x.float()
        return torch.nn.functional.gelu(y, approximate="tanh").to(x.dtype)


FUNCTIONS = {"reads_nothing": reads_nothing, "reads_one": reads_one, "reads_five": reads_five}


class Still:
    """A kernel that launches nothing."""

    origin = "stub"

    def __init__(self, out: torch.Tensor) -> None:
        self.out = out

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.out

    def known(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """What a kernel does of tensors like those of a call before."""
        return self.out


class StillSource:
    """One such kernel for all that is asked."""

    any_device = True

    def __init__(self, out: torch.Tensor) -> None:
        self.kernel = Still(out)

    def peek(self, fusion: Fusion, binding: Binding) -> Still:
        """The kernel."""
        return self.kernel

    def request(self, fusion: Fusion, binding: Binding, *, weight: float) -> None:
        """It is there."""


def bare_launch(kernel: Any, x: torch.Tensor, b: torch.Tensor) -> Callable[..., None]:
    """The driver's call alone, into an output that stays: what a program in Python cannot do without."""
    from fusetune.launch.driver import driver
    from fusetune.launch.launcher import Launcher

    launcher = Launcher(kernel.artifact, 0)
    (made,) = kernel.artifact.outputs
    out = torch.empty(made.shape, dtype=x.dtype, device="cuda")
    (params,) = launcher._prepare((x.data_ptr(), b.data_ptr(), out.data_ptr()), ())
    (call,) = launcher._calls
    assert call is not None
    launch, stream = driver().cuLaunchKernel, torch.cuda.current_stream().cuda_stream

    def run(*_: torch.Tensor) -> None:
        launch(*call, stream, params.address, 0)

    run.kept = out, params, launcher  # type: ignore[attr-defined]  # as long as it runs
    return run


def main(arguments: Sequence[str] | None = None) -> None:
    """Times the calls, or with `--ask` writes what their kernel is asked for by."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ask", type=Path)
    parser.add_argument("--kernels", type=Path, default=Path("build/models"), help="folder that has `kernels/`")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=CALLS, help="of a round")
    parser.add_argument("--out", type=Path, default=Path("build/models/calls-results.json"))
    given = parser.parse_args(arguments)
    torch.manual_seed(0)
    x = torch.randn(SHAPE, device="cpu" if given.ask else given.device).bfloat16()
    b = torch.randn(SHAPE[1], device=x.device)
    if given.ask:
        fusion = fusetune.from_torch(reads_nothing)(x, b)
        given.ask.parent.mkdir(parents=True, exist_ok=True)
        write_asked(given.ask, [AskedRegion(fusion, binding_of(fusion, [x, b]), 1.0)])
        return
    found = measured(x, b, given)
    print(json.dumps(found), flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1))


def measured(x: torch.Tensor, b: torch.Tensor, given: argparse.Namespace) -> dict[str, Any]:
    """Microseconds of the host a call, each way, in the median of the rounds; `over_us`: those over the bare launch's,
    by rounds."""
    source: Any = FolderSource(given.kernels) if x.is_cuda else StillSource(reads_nothing(x, b))
    jitted = {name: fusetune.jit(one, mode="cached", source=source) for name, one in FUNCTIONS.items()}
    calls: dict[str, Callable[[], Any]] = {name: partial(one, x, b) for name, one in jitted.items()}
    calls["reads_module"] = partial(fusetune.jit(Biased(b), mode="cached", source=source), x)
    expected = reads_nothing(x, b)
    with torch.no_grad():
        for call in calls.values():
            torch.testing.assert_close(call(), expected)
        runs = [row["runs"] for one in jitted.values() for row in one.keys()]  # noqa: SIM118 (no dict)
        kernel = source.peek(
            jitted["reads_nothing"].lower(x, b), binding_of(jitted["reads_nothing"].lower(x, b), [x, b])
        )
        calls = {"bare": partial(bare_launch(kernel, x, b) if x.is_cuda else kernel.__call__, x, b), **calls}
        rounds = [_round(calls, given.calls, x.is_cuda) for _ in range(1 + given.rounds)][1:]  # the first warms up
    judged = fusetune.jit(reads_nothing, mode="block", source=source)
    judged(x, b)
    return {
        "card": torch.cuda.get_device_name() if x.is_cuda else "no card",
        "torch": torch.__version__,
        "runs": runs,
        "beside_eager": judged.explain(x, b).splitlines()[0],
        "us": {name: round(statistics.median(taken[name] for taken in rounds), 2) for name in calls},
        "over_us": {name: sorted(round(x[name] - x["bare"], 2) for x in rounds) for name in calls if name != "bare"},
    }


def _round(calls: dict[str, Callable[[], Any]], count: int, is_cuda: bool) -> dict[str, float]:
    taken = {}
    for name, call in calls.items():
        begun = time.perf_counter()
        for _ in range(count):
            call()
        taken[name] = 1e6 * (time.perf_counter() - begun) / count
        if is_cuda:
            torch.cuda.synchronize()
    return taken


if __name__ == "__main__":
    main()
