"""A table of measured points on the attached GPU: `python -m benchmarks.search.table FUSION.json --out X.t4.json.gz`.

Points are drawn of all schedulers of a fusion alike, verified and timed as in any search, and written as T4 with what
the model predicted of each. A search cut short goes on from its journal, beside the file. For
`benchmarks.search.replay`.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from compiler.generator import GENERATOR
from compiler.nvrtc import CompilePool
from fusetune.wire import t4
from search.cli.load import load_one, sizes_of
from search.cost.predicting import refiner
from search.measure.device import TIMING_POLICY
from search.tuning.attached import Attached, find_device
from search.tuning.budget import Budget
from search.tuning.build import Builder
from search.tuning.candidates.drafting import DraftPool, drafters
from search.tuning.candidates.plan import Plan
from search.tuning.journal import Journal, JournalKey, spaces_key
from search.tuning.samplers.uniform import RandomSampler
from search.tuning.tune import compilers
from search.tuning.tuner import SearchSettings, Tuner


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and writes one table."""
    parser = argparse.ArgumentParser(prog="benchmarks.search.table")
    parser.add_argument("fusion", type=Path)
    parser.add_argument("--case")
    parser.add_argument("--bind", action="append", default=[])
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--budget-s", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)
    fusion = load_one(asked.fusion, asked.case, sizes_of(asked.bind)).bound()
    gpu = find_device(None)
    if not isinstance(gpu, Attached):
        raise SystemExit(f"error: nothing can be measured here: {gpu.why}.")
    plan = Plan.of(fusion, gpu.card)
    with closing(gpu.device):
        measured(gpu, plan, asked.points, asked.budget_s, asked.seed, asked.out)


def measured(gpu: Attached, plan: Plan, points: int, budget_s: float, seed: int, out: Path) -> int:
    """Times so many points, and writes what there is; returns how many have a time."""
    spaces, processes = plan.searchable, compilers()
    key = JournalKey(
        fingerprint=plan.fusion.fingerprint,
        binding=plan.fusion.binding_hash,
        card=gpu.card.key,
        policy=TIMING_POLICY,
        generator=GENERATOR,
        spaces=spaces_key(spaces),
    )
    with (
        Journal.open(out.with_name(out.name.partition(".")[0] + ".journal.jsonl"), key) as journal,
        DraftPool(drafters(processes)) as drafting,
        CompilePool(processes) as pool,
    ):
        drafting.start()
        pool.start()
        gpu.device.open(plan.fusion)
        drafts = drafting.of(plan.subject(gpu.card))
        builder = Builder(drafts, pool, plan.arch.name, refiner(gpu.card))
        settings = SearchSettings(queue_depth=processes + 4, leaders=1, rounds=0, finals_share=0.0)
        budget = Budget(seconds=budget_s, trials=points)
        Tuner(builder, gpu.device, RandomSampler(spaces, seed), journal, budget, settings).run()
        trials = [trial.to_json() for trial in journal.trials]
    document = t4.written(trials)
    kept = [trial for trial in trials if trial["state"] != "cancelled" and trial["state"] != "pruned"]
    document["metadata"] = {
        "card": gpu.card.name,
        "evidence": "invented" if gpu.card.name == "fake" else "measured",
        "fingerprint": plan.fusion.fingerprint,
        "binding": plan.fusion.binding_hash,
        "policy": TIMING_POLICY,
        "generator": GENERATOR,
        "driver": gpu.facts.driver,
        "predicted_us": [trial.get("predicted_us") for trial in kept],
    }
    raw = (json.dumps(document, separators=(",", ":"), sort_keys=True) + "\n").encode()
    out.write_bytes(gzip.compress(raw, mtime=0) if out.suffix == ".gz" else raw)
    timed = sum(result.us is not None for result in t4.read(document))
    print(f"{out}: {len(document['results'])} points, {timed} of them with a time")
    return timed


if __name__ == "__main__":
    main()
