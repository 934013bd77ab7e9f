"""`make demo`: a service tunes the example fusions, and the client calls what comes of it.

A service and a worker are started on a database in `.demo`, the fusions are posted through the SDK, and everything is
stopped again. With a GPU each fusion is searched for half a minute, and its kernel is called on torch tensors and held
against torch. Without one the worker proves the best predicted kernels in the emulator and serves them, since the demo
accepts that evidence; the closing lines say what that leaves open.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusetune import Client, FusetuneError, Kernel, NoKernel
from fusetune.wire.service import Accept, TuningView

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).parents[1]
DATA = ROOT / ".demo"
SECONDS_EACH = 30
START_S = 60.0

HOW_TO_LOOK = """
Everything is kept in .demo: `make serve` brings the service up on it, with its dashboard on http://127.0.0.1:8765"""

WITHOUT_GPU = Accept(correct=("verified_on_gpu", "verified_emulated"), time=("measured", "predicted"))
"""What is accepted where no worker has a GPU: what was proven in the emulator is served only to who asks for it."""

IN_EMULATOR = """
This machine has no GPU that could run these kernels. What was proven: the PTX of each, instruction by instruction on
the CPU, at small sizes of the same schedule class, on every input set and with asynchronous copies that complete early,
late and at random; and the served PTX on its first, last and boundary blocks. No fault, every output right. What was
not: its other blocks, the machine code that ptxas makes of the PTX, and its speed; every time above is a prediction.
Such a kernel is served only where accept names verified_emulated. Run `make demo` on a machine with a Hopper GPU to
have them verified and measured there."""

NO_KERNEL = """
No kernel was verified or timed: this machine has no GPU, and none was proven in the emulator. Every time above is a
prediction; the tunings' notes say what was found wrong or could not be done."""


@dataclass(frozen=True, slots=True)
class Example:
    """A fusion of `examples/fusions` with sizes, and the same in torch.

    `tolerance` is how near a kernel must come to torch, relative to the element or to the mean one, if that is larger;
    0: every element is equal.
    """

    name: str
    sizes: dict[str, int]
    shapes: tuple[tuple[int, ...], ...]
    plain: Callable[..., Any]
    tolerance: float = 0.0


def _bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    import torch.nn.functional

    return torch.nn.functional.gelu(x.float() + bias.float(), approximate="tanh").to(x.dtype)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return x.float().softmax(dim=1).to(x.dtype)


EXAMPLES = (
    Example("bias_gelu", {"M": 8192}, ((8192, 4096), (4096,)), _bias_gelu, tolerance=2.0**-6),
    Example("add", {"M": 8192, "N": 4096}, ((8192, 4096), (8192, 4096)), lambda x, y: x + y),
    Example("transpose", {"M": 8192, "N": 8192}, ((8192, 8192),), lambda x: x.t().contiguous()),
    Example("softmax", {"M": 8192, "N": 4096}, ((8192, 4096),), _softmax, tolerance=2.0**-6),
)


@dataclass(frozen=True, slots=True)
class DemoRow:
    """What came of one example."""

    name: str
    tuning: TuningView
    kernel: Kernel | None = None
    predicted_us: float | None = None
    again_ms: float | None = None
    agrees: bool | None = None


def main() -> int:
    """Runs the demo; returns the exit code."""
    with service() as url, Client(url, store=DATA / "store") as client:
        print(f"The service is up on {url}.", flush=True)
        has_gpu = any(worker.attached for status in client.cards() for worker in status.workers if worker.alive)
        rows = [tuned(client, example, Accept() if has_gpu else WITHOUT_GPU) for example in EXAMPLES]
    print(table(rows))
    if any(row.kernel is not None and row.kernel.artifact.timing is None for row in rows):
        print(IN_EMULATOR)
    elif all(row.kernel is None for row in rows):
        print(NO_KERNEL)
    print(HOW_TO_LOOK)
    return 1 if any(row.agrees is False or row.tuning.state != "done" for row in rows) else 0


@contextlib.contextmanager
def service() -> Iterator[str]:
    """A service with one worker, as `make serve` starts it, on a free port; ended with all its processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    DATA.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "service", "serve", "--worker", "--data-dir", str(DATA), "--port", str(port)]
    with (DATA / "service.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            _wait_until_ready(process, f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    """Until the service answers and its worker has announced itself. Raises SystemExit with the end of the log."""
    deadline = time.monotonic() + START_S
    with Client(url, store=None, timeout_s=2.0) as client:
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(FusetuneError):
                if any(worker.alive for status in client.cards() for worker in status.workers):
                    return
            time.sleep(0.2)
    tail = "\n".join((DATA / "service.log").read_text().splitlines()[-15:])
    code = process.poll()
    what = f"did not come up within {START_S:.0f} s" if code is None else f"ended with exit code {code}"
    raise SystemExit(f"demo: the service {what}. The end of .demo/service.log:\n{tail}")


def tuned(client: Client, example: Example, accept: Accept) -> DemoRow:
    """Tune one example through the service; with a kernel, ask for it again, and call it where there is its GPU."""
    fusion = (ROOT / "examples" / "fusions" / f"{example.name}.json").read_text()
    print(f"{example.name} {example.sizes}", flush=True)
    begun = time.monotonic()
    tuning = client.submit(fusion, binding=example.sizes, accept=accept, budget_s=SECONDS_EACH, name=example.name)
    try:
        kernel = client.wait(tuning, accept=accept, progress=True)
    except NoKernel:
        predicted = [trial.predicted_us for trial in client.trials(tuning.id) if trial.predicted_us is not None]
        return DemoRow(example.name, client.tuning(tuning.id), predicted_us=min(predicted, default=None))
    print(f"  found after {time.monotonic() - begun:.1f} s: {kernel!r}")
    begun = time.monotonic()
    client.tune(fusion, binding=example.sizes, accept=accept)
    again_ms = 1e3 * (time.monotonic() - begun)
    agrees = None if kernel.artifact.timing is None else _agrees(kernel, example)
    return DemoRow(example.name, client.tuning(tuning.id), kernel, kernel.artifact.predicted_us, again_ms, agrees)


def _agrees(kernel: Kernel, example: Example) -> bool:
    """Whether the kernel on torch tensors gives what torch gives, within the example's tolerance."""
    import torch

    generator = torch.Generator("cuda").manual_seed(0)
    dtypes = [
        {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[s.dtype] for s in kernel.artifact.inputs
    ]
    inputs = [
        torch.randn(shape, generator=generator, device="cuda").to(dtype)
        for shape, dtype in zip(example.shapes, dtypes, strict=True)
    ]
    output = kernel(*inputs)
    assert isinstance(output, torch.Tensor)  # the examples have one output each
    expected = example.plain(*inputs)
    expected = expected.float()
    near_zero = example.tolerance * expected.abs().mean().item()
    return torch.allclose(output.float(), expected, rtol=example.tolerance, atol=near_zero)


def table(rows: list[DemoRow]) -> str:
    """A line for each example. Measured and predicted times have columns of their own."""
    times = f"{'measured us':>11} {'predicted us':>12}"
    head = f"{'fusion':<10} {'card':<9} {'legal points':>12} {'trials':>6} {times}  evidence"
    return "\n".join(["", head, *map(_line, rows)])


def _line(row: DemoRow) -> str:
    tuning, kernel = row.tuning, row.kernel
    legal = "-" if tuning.legal is None else f"{tuning.legal:,}"
    facts = f"{row.name:<10} {tuning.card.name:<9} {legal:>12} {sum(tuning.trials.values()):>6}"
    predicted = "-" if row.predicted_us is None else f"{row.predicted_us:.1f}"
    if kernel is None:
        why = tuning.error if tuning.state == "failed" else "unverified, predicted" if row.predicted_us else tuning.note
        return f"{facts} {'-':>11} {predicted:>12}  {why}"
    evidence = f"{kernel.artifact.evidence.correct}, {kernel.artifact.evidence.time}"
    if kernel.artifact.timing is None:
        return f"{facts} {'-':>11} {predicted:>12}  {evidence}; asked again, {row.again_ms:.0f} ms"
    agrees = "as torch has it" if row.agrees else "NOT AS TORCH HAS IT"
    again = f"called, {agrees}; asked again, {row.again_ms:.0f} ms"
    return f"{facts} {kernel.artifact.timing.median_us:>11.2f} {'-':>12}  {evidence}; {again}"


if __name__ == "__main__":
    sys.exit(main())
