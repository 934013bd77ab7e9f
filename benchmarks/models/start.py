"""How long a process waits for its first step: with empty caches, and with those that a process before it has filled.

python -m benchmarks.models.start --models llama --kernels build/models/prepared --out start.json

Every figure is of a process of its own. `first_s`: the wall time of the first step, its compilations in it; torch is
loaded and the model made before. `named_s`: that of torch.compile itself, which loads what the mode needs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import fusetune
from benchmarks.models.catalogue import MODELS, Setting
from benchmarks.models.steps import ModelStep, made
from benchmarks.models.tuning import FolderSource
from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.entry import get_ready
from fusetune.torch_compile.inside.notes import Notes

MODES = ("inductor", "fusetune-eager", "fusetune-inductor")

SETTLING_STEPS = 60
"""After the first step: kernels are timed and versions compiled meanwhile."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a process for each model, mode and turn, and writes what they say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="llama")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--kernels", type=Path, default=Path("build/models"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, help="of a model that is several, BERT")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--turns", type=int, default=2, help="processes one after another on the same caches")
    parser.add_argument("--out", type=Path, default=Path("build/models/start.json"))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        print("RESULT " + json.dumps(_first(given, given.child)), flush=True)
        return
    given.out.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for model in given.models.split(","):
        for mode in given.modes.split(","):
            with tempfile.TemporaryDirectory() as caches:
                for turn in range(given.turns):
                    found = _in_a_process(given, model, mode, caches)
                    rows.append({"model": model, "mode": mode, "turn": turn, **found})
                    print(json.dumps(rows[-1]), flush=True)
                    given.out.write_text(json.dumps(rows, indent=1))


def _in_a_process(given: argparse.Namespace, model: str, mode: str, caches: str) -> dict[str, Any]:
    command = [
        sys.executable, "-m", "benchmarks.models.start", "--models", model, "--child", mode, "--device", given.device,
        "--kernels", str(given.kernels),
        *(["--layers", str(given.layers)] if given.layers else []),
        *(["--tiny"] if given.tiny else []),
        *(["--training"] if given.training else []),
    ]  # fmt: skip
    folders = {"TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor", "TRITON_CACHE_DIR": f"{caches}/triton",
               "FUSETUNE_HOME": f"{caches}/fusetune"}  # fmt: skip
    done = subprocess.run(command, env={**os.environ, **folders}, capture_output=True, text=True, check=False)
    line = next((x for x in done.stdout.splitlines() if x.startswith("RESULT ")), None)
    if line is None:
        return {"error": done.stderr[-800:]}
    found: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return found


def _first(given: argparse.Namespace, mode: str) -> dict[str, Any]:
    from torch._dynamo.utils import counters

    step = made(
        MODELS[given.models],
        Setting(torch.device(given.device), is_small=given.tiny, layers=given.layers),
        given.training,
    )
    backend = None if mode == "inductor" else _backend(given)
    options: dict[str, Any] = {"engine": mode.removeprefix("fusetune-"), **({"least_bytes": 0} if given.tiny else {})}
    torch.set_float32_matmul_precision("high")
    started = time.perf_counter()
    if backend is None:
        run = torch.compile(step.module)
    else:
        get_ready()
        run = torch.compile(step.module, backend=backend, options=options)
    named_s = time.perf_counter() - started
    step.of(step.module)  # libraries of the products are loaded
    _wait(step)
    started = time.perf_counter()
    step.of(run)
    _wait(step)
    found: dict[str, Any] = {"named_s": named_s, "first_s": time.perf_counter() - started, **_hits(counters)}
    if backend is None:
        return found
    found["kernels_at_first"] = _taken(backend)
    for _ in range(SETTLING_STEPS):
        before = time.perf_counter()
        step.of(run)
        _wait(step)
        found["longest_later_step_s"] = max(time.perf_counter() - before, found.get("longest_later_step_s", 0.0))
        fusetune.wait(60.0)
    source: Any = backend.source
    return {**found, "settled_s": time.perf_counter() - started, "kernels": _taken(backend), "asked": len(source.asked)}


def _backend(given: argparse.Namespace) -> CompileBackend:
    folder = Path(os.environ["FUSETUNE_HOME"]) / "graphs"
    return CompileBackend(FolderSource(given.kernels), notes=Notes(folder))


def _taken(backend: CompileBackend) -> int:
    return sum(any(choice.is_taken for choice in x.choices) for x in backend.reported)


def _hits(counters: Any) -> dict[str, int]:
    return {
        "graph_hits": counters["inductor"]["fxgraph_cache_hit"],
        "graph_misses": counters["inductor"]["fxgraph_cache_miss"],
        "autograd_hits": counters["aot_autograd"]["autograd_cache_hit"],
    }  # fmt: skip


def _wait(step: ModelStep) -> None:
    if step.inputs[0].is_cuda:
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
