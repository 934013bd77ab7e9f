"""Forwards of layers and blocks on a card: eager, torch.compile with Inductor, and with fusetune.

python -m benchmarks.models.run --models llama,dit,convnext --budget-s 600 --kernels build/models --out results.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.models.bare import bare_calls
from benchmarks.models.catalogue import MODELS, Inputs, Model, Setting, seed
from benchmarks.models.device_time import captured, middle, samples_us
from benchmarks.models.tuning import AskedRegion, FolderSource, Key, tune_all
from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.reporting import report_of

INDUCTOR = {"default": "default", "max-autotune": "max-autotune-no-cudagraphs"}
"""Our name of a mode -> torch's."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Tunes the models' regions unless `--no-tune`, then times them and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="llama,dit,convnext")
    parser.add_argument("--budget-s", type=float, default=600.0, help="seconds of search, over all regions")
    parser.add_argument("--kernels", type=Path, default=Path("build/models"), help="folder of kernels, kept")
    parser.add_argument("--out", type=Path, default=Path("build/models/results.json"))
    parser.add_argument("--no-tune", action="store_true", help="take the kernels that are there")
    parser.add_argument("--no-time", action="store_true", help="tune only")
    given = parser.parse_args(arguments)
    models = [MODELS[name] for name in given.models.split(",")]
    torch.set_float32_matmul_precision("high")
    if not given.no_tune:
        wanted = asked_by(models, given.kernels)
        print(f"{len(wanted)} distinct regions without a kernel", flush=True)
        tune_all(list(wanted.values()), given.kernels, given.budget_s)
    if given.no_time:
        return
    rows = []
    for model in models:
        rows.append(measured(model, given.kernels))
        print(json.dumps(rows[-1], indent=1), flush=True)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        document = {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "models": rows}
        given.out.write_text(json.dumps(document, indent=1))


def asked_by(models: Sequence[Model], folder: Path) -> dict[Key, AskedRegion]:
    """The regions of the models' forwards that have no kernel in the folder."""
    source = FolderSource(folder)
    for model in models:
        module, inputs = made(model)
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(module, backend=CompileBackend(source))(*inputs)
        del module, inputs
        torch.cuda.empty_cache()
    return source.asked


def made(model: Model, dtype: torch.dtype = torch.bfloat16) -> tuple[nn.Module, Inputs]:
    """The model as it is used, on the card, always with the same numbers."""
    seed()
    return model.make(Setting(torch.device("cuda"), dtype))


def measured(model: Model, folder: Path) -> dict[str, Any]:
    """One model in all modes: device times, errors against f32, peaks of memory, and what was taken."""
    module, inputs = made(model)
    backend = CompileBackend(FolderSource(folder))
    modes: dict[str, Callable[..., Any]] = {"eager": module}
    modes |= {name: torch.compile(module, mode=mode) for name, mode in INDUCTOR.items()}
    modes["fusetune"] = torch.compile(module, backend=backend)
    graphs, facts = {}, {}
    exact = _exact(model)
    with torch.no_grad():
        for name, run in modes.items():
            torch._dynamo.reset()
            started = time.perf_counter()
            out = run(*inputs)
            torch.cuda.synchronize()
            first_s = time.perf_counter() - started
            graphs[name] = captured(lambda run=run: run(*inputs))  # type: ignore[misc]
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            out = run(*inputs)
            peak = torch.cuda.max_memory_allocated() - before
            facts[name] = {"first_s": first_s, "peak_bytes": peak, "rmse": _rmse(out, exact)}
            del out
        bare = bare_calls(module, inputs)
        graphs["bare"] = captured(bare)
        samples = samples_us(graphs)
    for name, taken in samples.items():
        us, iqr = middle(taken)
        above, above_iqr = middle([x - y for x, y in zip(taken, samples["bare"], strict=True)])
        facts.setdefault(name, {}).update(us=us, iqr_us=iqr, above_bare_us=above, above_bare_iqr_us=above_iqr)
    table = report_of(backend.proposed)
    regions = [
        {"region": row.region, "line": row.line.rpartition("/")[2], "operators": row.operators,
         "bytes": row.moved_bytes, "eager_us": row.eager_us, "kernel_us": row.kernel_us, "why": row.why}
        for row in table.rows
    ]  # fmt: skip
    beyond = {name: facts[name]["above_bare_us"] for name in modes}
    return {
        "model": model.name,
        "title": model.title,
        "modes": facts,
        "regions": regions,
        "above_bare_to_max_autotune": beyond["fusetune"] / beyond["max-autotune"],
    }


def _exact(model: Model) -> torch.Tensor:
    """The output in f32, of the weights and inputs that the others have."""
    module, inputs = made(model)
    wide = [x.float() if x.is_floating_point() else x for x in inputs]
    with torch.no_grad():
        found: torch.Tensor = module.float()(*wide)
    del module, inputs, wide
    torch.cuda.empty_cache()
    return found.cpu()


def _rmse(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.float().cpu() - exact).square().mean().sqrt())


if __name__ == "__main__":
    main()
