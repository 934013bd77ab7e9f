"""Steps of layers and blocks on a card: eager, torch.compile with Inductor, and with fusetune beside either.

python -m benchmarks.models.run --models llama,dit,convnext --kernels build/models/prepared --out results.json

`--device cpu --tiny` shows without a card that a run works; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

import fusetune
from benchmarks.models.bare import bare_calls
from benchmarks.models.catalogue import MODELS, Model, Setting
from benchmarks.models.device_time import ROUNDS, captured, middle, samples_us, warmed
from benchmarks.models.modes import BESIDE, MODES, Made
from benchmarks.models.split import Split, split
from benchmarks.models.steps import ModelStep, exact, made
from benchmarks.models.tuning import AskedRegion, FolderSource, Key, tune_all, write_asked
from fusetune.torch_compile.reporting import report_of


def main(arguments: Sequence[str] | None = None) -> None:
    """Times the models in all modes and writes JSON; with `--tune-s` searches first for kernels that are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="llama,dit,convnext")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--training", action="store_true", help="forward and backward, in place of inference")
    parser.add_argument("--kernels", type=Path, default=Path("build/models"), help="folder that has `kernels/`")
    parser.add_argument("--tune-s", type=float, default=0.0, help="seconds of search for missing kernels")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--limit-s", type=float, default=1e9, help="no further mode is begun after so many seconds")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, help="of a model that is several, BERT")
    parser.add_argument("--tiny", action="store_true", help="small models, for tests without a GPU")
    parser.add_argument("--out", type=Path, default=Path("build/models/results.json"))
    given = parser.parse_args(arguments)
    torch.set_float32_matmul_precision("high")
    setting = Setting(torch.device(given.device), is_small=given.tiny, layers=given.layers)
    until = time.monotonic() + given.limit_s
    rows: list[dict[str, Any]] = []
    for name in given.models.split(","):
        model = MODELS[name]
        if given.tune_s > 0:
            _tune(model, setting, given)
        keep = partial(_keep, rows, given)
        rows.append(measured(model, setting, given.modes.split(","), given, until, keep))
        _write(given.out, rows, given)


def measured(
    model: Model,
    setting: Setting,
    modes: Sequence[str],
    given: argparse.Namespace,
    until: float,
    keep: Callable[[dict[str, Any]], None] = lambda row: None,
) -> dict[str, Any]:
    """One model in all modes. A mode that fails is told, and the others go on. `keep` gets the row after every mode,
    with the times of those so far: a run that is cut off has lost only what it was at."""
    step = made(model, setting, given.training)
    wide = None if step.draws else exact(made(model, setting, given.training))
    facts: dict[str, dict[str, Any]] = {}
    row = {"model": model.name, "title": model.title, "training": given.training, "modes": facts}
    bare = bare_calls(step)
    bare()
    replays: dict[str, Callable[[], object]] = {"bare": _replay(bare, setting.device)}
    options: dict[str, Any] = {"least_bytes": 0} if given.tiny else {}
    rmse_of_eager: list[float] = []
    for name in modes:
        if time.monotonic() > until:
            facts[name] = {"error": "no time was left"}
            continue
        try:
            torch._dynamo.reset()
            compiled = MODES[name](step.module, given.kernels, options if name.startswith(("fuse", "part")) else {})
            facts[name] = _facts(step, compiled, wide)
            rmse = facts[name].pop("rmse")
            rmse_of_eager = rmse_of_eager or rmse
            facts[name]["worst_rmse_to_eager"] = _worst(rmse, rmse_of_eager) if rmse else None
            print(f"{model.name} {name}: {json.dumps({k: v for k, v in facts[name].items() if k != 'regions'})[:600]}",
                  flush=True)  # fmt: skip
            keep(row)
            _note_asked(compiled, given.out)
            replays[name] = _replay(partial(step.of, compiled.run), setting.device)
            _time(replays, given.rounds, facts)
        except Exception as error:  # noqa: BLE001 (the others go on)
            traceback.print_exc()
            facts.setdefault(name, {})["error"] = f"{type(error).__name__}: {error}"[:500]
        keep(row)
    return row


def _note_asked(compiled: Made, out: Path) -> None:
    """Writes what had no kernel beside the results, for `benchmarks.models.prepare`."""
    source: Any = compiled.backend.source if compiled.backend is not None else FolderSource()
    asked: dict[Key, AskedRegion] = source.asked
    if asked:
        write_asked(out.with_suffix(".asked.json"), list(asked.values()))


def _time(replays: Mapping[str, Callable[[], object]], rounds: int, facts: dict[str, dict[str, Any]]) -> None:
    """Of every replay, all in turns, the last with those before: figures of one row are of the same rounds."""
    samples = samples_us(replays, rounds)
    for name, taken in samples.items():
        us, iqr = middle(taken)
        above, above_iqr = middle([x - y for x, y in zip(taken, samples["bare"], strict=True)])
        facts.setdefault(name, {}).update(us=us, iqr_us=iqr, above_bare_us=above, above_bare_iqr_us=above_iqr)


def _replay(call: Callable[[], object], device: torch.device) -> Callable[[], object]:
    return captured(call).replay if device.type == "cuda" else call


def _keep(before: Sequence[Mapping[str, Any]], given: argparse.Namespace, row: Mapping[str, Any]) -> None:
    _write(given.out, [*before, row], given)


def _facts(step: ModelStep, compiled: Made, wide: Sequence[torch.Tensor] | None) -> dict[str, Any]:
    """What one mode gives, needs and launches, after it has come to rest. Errors are worked out where `wide` is."""
    is_cuda = step.inputs[0].is_cuda

    def once() -> list[torch.Tensor]:
        return step.of(compiled.run)

    started = time.perf_counter()
    once()
    _wait(is_cuda)
    facts: dict[str, Any] = {"first_s": time.perf_counter() - started}
    if is_cuda:
        warmed(once)
    else:
        for _ in range(4):
            once()
    fusetune.wait(120.0)
    once()
    _wait(is_cuda)
    if is_cuda:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    found = once()
    if is_cuda:
        facts["peak_bytes"] = torch.cuda.max_memory_allocated() - before
    facts["rmse"] = [] if wide is None else [_rmse(x, y) for x, y in zip(found, wide, strict=True)]
    del found
    if is_cuda:
        facts |= _as_json(split(once))
        facts["host_us"] = _host_us(once)
    if compiled.backend is not None:
        facts["regions"] = [
            {"region": row.region, "line": row.line.rpartition("/")[2], "operators": row.operators,
             "bytes": row.moved_bytes, "otherwise_us": row.otherwise_us, "kernel_us": row.kernel_us, "why": row.why}
            for row in report_of(compiled.backend.reported).rows
        ]  # fmt: skip
    return facts


def _as_json(found: Split) -> dict[str, Any]:
    return {"by_kind_us": found.us, "beside_products_us": found.beside_products_us, "launches": found.launches,
            "heaviest": found.heaviest}  # fmt: skip


def _host_us(once: Callable[[], object], calls: int = 5) -> float:
    """Of the host, to queue a step: the device is behind."""
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)
    started = time.perf_counter()
    for _ in range(calls):
        once()
    spent = time.perf_counter() - started
    torch.cuda.synchronize()
    return 1e6 * spent / calls


def _wait(is_cuda: bool) -> None:
    if is_cuda:
        torch.cuda.synchronize()


def _rmse(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.detach().float().cpu() - exact).square().mean().sqrt())


def _worst(found: Sequence[float], eager: Sequence[float]) -> float:
    """The largest of a mode's errors over eager's."""
    return max((mine / theirs for mine, theirs in zip(found, eager, strict=True) if theirs > 0), default=1.0)


def _tune(model: Model, setting: Setting, given: argparse.Namespace) -> None:
    from benchmarks.models.asked import asked_by

    have = FolderSource(given.kernels).kernels
    engines = sorted({BESIDE.get(mode, "inductor") for mode in given.modes.split(",") if mode.startswith("fusetune")})
    wanted = [x for x in asked_by(model, setting, given.training, engines) if x.key not in have]
    print(f"{model.name}: {len(wanted)} regions without a kernel", flush=True)
    for line in tune_all(wanted, given.kernels, given.tune_s):
        print(line, flush=True)


def _write(path: Path, rows: Sequence[Mapping[str, Any]], given: argparse.Namespace) -> None:
    card = torch.cuda.get_device_name() if given.device.startswith("cuda") else "no card"
    document = {
        "card": card,
        "torch": torch.__version__,
        "rounds": given.rounds,
        "tiny": given.tiny,
        "layers": given.layers,
        "models": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
