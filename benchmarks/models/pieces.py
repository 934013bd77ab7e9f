"""The parts of models that hold products, as plain functions under `jit`: beside eager and torch.compile, on a card.

python -m benchmarks.models.pieces --ask build/models/pieces.json
python -m benchmarks.models.prepare build/models/pieces.json --card H200 --per-fusion 8 --out build/models/prepared
python -m benchmarks.models.pieces --kernels build/models/prepared --out pieces.json

Each is one kernel, or two of which one waits for the other. Errors are the root mean square of what differs from f32,
over eager's. `--tiny --device cpu` shows that a run works.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

import fusetune
from benchmarks.models.catalogue import seed
from benchmarks.models.device_time import captured, middle, samples_us, warmed
from benchmarks.models.modes import MODES
from benchmarks.models.tuning import AskedRegion, FolderSource, write_asked
from fusetune.bindings import binding_of

Run = Callable[..., torch.Tensor]


def swiglu(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Llama's gated product."""
    return functional.silu(functional.linear(x, gate)) * functional.linear(x, up)


def widened(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The first half of DiT's MLP."""
    return functional.gelu(functional.linear(x, weight, bias), approximate="tanh")


def narrowed(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor, residual: torch.Tensor
) -> torch.Tensor:
    """The second half of ConvNeXt's MLP."""
    return residual + scale * functional.linear(x, weight, bias)


@dataclass(frozen=True)
class Piece:
    """A function of tensors. `shapes`: of its arguments, as they are used; `tiny`: to try it out."""

    function: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    tiny: tuple[tuple[int, ...], ...]

    def inputs(self, device: str, is_tiny: bool) -> list[torch.Tensor]:
        """Normal numbers, in bf16; weights such that results are about as large as what goes in."""
        seed()
        shapes = self.tiny if is_tiny else self.shapes
        width = shapes[0][-1]
        made = [torch.randn(shape, device=device) for shape in shapes]
        return [(x / width**0.5 if x.shape[-1] == width and n else x).bfloat16() for n, x in enumerate(made)]


PIECES = {
    "llama_swiglu": Piece(swiglu, ((8192, 4096), (14336, 4096), (14336, 4096)), ((16, 64), (32, 64), (32, 64))),
    "dit_widened": Piece(widened, ((32768, 1152), (4608, 1152), (4608,)), ((16, 64), (32, 64), (32,))),
    "convnext_narrowed": Piece(
        narrowed,
        ((50176, 1536), (384, 1536), (384,), (384,), (50176, 384)),
        ((16, 64), (32, 64), (32,), (32,), (16, 32)),
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Times the pieces, or with `--ask` writes what their kernels are asked for by."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ask", type=Path)
    parser.add_argument("--kernels", type=Path, default=Path("build/models"), help="folder that has `kernels/`")
    parser.add_argument("--modes", default="eager,inductor,max-autotune-aten,jit", help="jit and those of models.modes")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--limit-s", type=float, default=1e9, help="no further piece is begun after so many seconds")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/models/pieces-results.json"))
    given = parser.parse_args(arguments)
    if given.ask:
        given.ask.parent.mkdir(parents=True, exist_ok=True)
        write_asked(given.ask, [_asked(piece, given.tiny) for piece in PIECES.values()])
        return
    rows: dict[str, Any] = {}
    until = time.monotonic() + given.limit_s
    for name, piece in PIECES.items():
        rows[name] = _measured(piece, given) if time.monotonic() < until else {"error": "no time was left"}
        print(name, json.dumps(rows[name]), flush=True)
        card = torch.cuda.get_device_name() if given.device == "cuda" else "no card"
        document = {"card": card, "torch": torch.__version__, "rounds": given.rounds, "pieces": rows}
        given.out.write_text(json.dumps(document, indent=1))


def _asked(piece: Piece, is_tiny: bool) -> AskedRegion:
    inputs = piece.inputs("cpu", is_tiny)
    fusion = fusetune.from_torch(piece.function)(*inputs)
    return AskedRegion(fusion, binding_of(fusion, inputs), 1.0)


def _measured(piece: Piece, given: argparse.Namespace) -> dict[str, Any]:
    inputs = piece.inputs(given.device, given.tiny)
    with torch.no_grad():
        wide = piece.function(*(x.float() for x in inputs))
        jitted = fusetune.jit(piece.function, mode="cached", source=FolderSource(given.kernels))
        torch._dynamo.reset()
        modes: dict[str, Run] = {
            name: jitted if name == "jit" else MODES[name](piece.function, given.kernels, {}).run  # type: ignore[arg-type]  # a function will do
            for name in given.modes.split(",")
        }
        errors = {name: _rmse(run(*inputs), wide) for name, run in modes.items()}
        found: dict[str, Any] = {"jit": _runs_of(jitted)}
        calls = {name: partial(run, *inputs) for name, run in modes.items()}
        if given.device == "cuda":
            for call in calls.values():
                warmed(call)
            calls = {name: captured(call).replay for name, call in calls.items()}  # type: ignore[misc]  # a replay is called like a run
        for name, taken in samples_us(calls, given.rounds).items():
            us, iqr = middle(taken)
            found[name + "_us"], found[name + "_iqr_us"] = us, iqr
            found[name + "_rmse_to_eager"] = errors[name] / errors.get("eager", errors[name])
    return found


def _runs_of(jitted: Any) -> list[str]:
    """What ran each kind of call: a kernel, and on what evidence, or eager."""
    rows: list[dict[str, Any]] = jitted.keys()
    return [row["runs"] for row in rows]


def _rmse(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.float() - exact).square().mean().sqrt())


if __name__ == "__main__":
    main()
