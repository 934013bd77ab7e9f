"""A table of measured points on the attached GPU: `python -m benchmarks.search.table FUSION.json --out X.t4.json.gz`.

Points are drawn of all schedulers of a fusion alike, verified and timed as in any search, and written as T4 with what
the model predicted of each, term by term. One in `AGAIN_EVERY` is timed once more at the end: by how much a time
differs from itself bounds what any prediction can tell. A search cut short goes on from its journal, in the folder of
the file unless `--journal` names another. For `benchmarks.search.replay` and `benchmarks.search.residuals`.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from compiler.generator import GENERATOR
from compiler.nvrtc import CompilePool
from fusetune.wire import t4
from fusetune.wire.artifact import KernelArtifact
from search.cli.load import load_one, sizes_of
from search.cost.predicting import refiner
from search.measure.device import TIMING_POLICY, Effort, MeasureResult, MeasuringDevice
from search.measure.fake import FACTS, FakeDevice
from search.tuning.attached import Attached, card_of, find_device
from search.tuning.budget import Budget
from search.tuning.build import Builder
from search.tuning.candidates.drafting import DraftPool
from search.tuning.candidates.plan import Plan
from search.tuning.ending import WITHOUT_VERDICT
from search.tuning.hands import compilers, drafters
from search.tuning.identity import KernelId, kernel_id
from search.tuning.journal import Journal, JournalKey, spaces_key
from search.tuning.samplers.uniform import RandomSampler
from search.tuning.trial import Trial, TrialState
from search.tuning.tuner import SearchSettings, Tuner

AGAIN_EVERY = 8
"""Of so many kernels that were measured one is measured again."""


class Remembering:
    """A `MeasuringDevice` that keeps one in `AGAIN_EVERY` of the kernels that it has measured."""

    def __init__(self, device: MeasuringDevice) -> None:
        self._device = device
        self._measured = 0
        self.kept: list[KernelArtifact] = []
        self.open, self.baseline, self.facts = device.open, device.baseline, device.facts
        self.tell, self.close = device.tell, device.close

    def measure(self, artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
        """Verifies and times, as the device does."""
        result = self._device.measure(artifact, effort)
        if result.timing is not None:
            if self._measured % AGAIN_EVERY == 0:
                self.kept.append(artifact)
            self._measured += 1
        return result

    def again(self) -> dict[KernelId, float]:
        """Times in microseconds of what was kept, measured once more in the order in which it was."""
        found = ((kernel_id(one), self._device.measure(one, Effort.SCREEN).timing) for one in self.kept)
        return {which: timing.median_us for which, timing in found if timing is not None}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and writes one table."""
    parser = argparse.ArgumentParser(prog="benchmarks.search.table")
    parser.add_argument("fusion", type=Path)
    parser.add_argument("--case")
    parser.add_argument("--bind", action="append", default=[])
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--budget-s", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cuda", "fake"), default="cuda", help="fake: shows that a run works")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--journal", type=Path, help="folder of the journal")
    asked = parser.parse_args(arguments)
    fusion = load_one(asked.fusion, asked.case, sizes_of(asked.bind)).bound()
    gpu = find_device(None) if asked.device == "cuda" else Attached(FakeDevice(), FACTS, card_of(FACTS)[0], ())
    if not isinstance(gpu, Attached):
        raise SystemExit(f"error: nothing can be measured here: {gpu.why}.")
    plan = Plan.of(fusion, gpu.card)
    with closing(gpu.device):
        measured(gpu, plan, asked.points, asked.budget_s, asked.seed, asked.out, asked.journal)


def measured(
    gpu: Attached, plan: Plan, points: int, budget_s: float, seed: int, out: Path, journals: Path | None = None
) -> int:
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
        Journal.open((journals or out.parent) / (out.name.partition(".")[0] + ".journal.jsonl"), key) as journal,
        DraftPool(drafters(processes)) as drafting,
        CompilePool(processes) as pool,
    ):
        drafting.start()
        pool.start()
        gpu.device.open(plan.fusion)
        device = Remembering(gpu.device)
        drafts = drafting.of(plan.subject(gpu.card))
        builder = Builder(drafts, pool, plan.arch.name, refiner(gpu.card))
        settings = SearchSettings(queue_depth=processes + 4, leaders=1, rounds=0, finals_share=0.0)
        budget = Budget(seconds=budget_s, trials=points)
        Tuner(builder, device, RandomSampler(spaces, seed), journal, budget, settings).run()
        again, trials = device.again(), journal.trials
    document = written(plan, gpu, trials, again)
    raw = (json.dumps(document, separators=(",", ":"), sort_keys=True) + "\n").encode()
    out.write_bytes(gzip.compress(raw, mtime=0) if out.suffix == ".gz" else raw)
    timed = sum(result.us is not None for result in t4.read(document))
    print(f"{out}: {len(document['results'])} points, {timed} of them with a time")
    return timed


def written(plan: Plan, gpu: Attached, trials: Sequence[Trial], again: Mapping[KernelId, float]) -> dict[str, Any]:
    """A T4 document; lists in its metadata have a value, or null, for each of its results."""
    kept = [trial for trial in trials if trial.state not in WITHOUT_VERDICT and trial.state is not TrialState.PRUNED]
    document = t4.written(trial.to_json() for trial in kept)
    for result in document["results"]:
        times = result["times"]
        result["times"] = {name: _rounded(value) for name, value in times.items()}
    names = sorted({name for trial in kept for name in trial.predicted_terms})
    document["metadata"] = {
        "card": gpu.card.name,
        "evidence": "invented" if gpu.card.name == "fake" else "measured",
        "fingerprint": plan.fusion.fingerprint,
        "binding": plan.fusion.binding_hash,
        "policy": TIMING_POLICY,
        "generator": GENERATOR,
        "driver": gpu.facts.driver,
        "predicted_us": [trial.predicted_us and round(trial.predicted_us, 4) for trial in kept],
        "predicted_terms": {name: [_rounded(trial.predicted_terms.get(name)) for trial in kept] for name in names},
        "again_us": [
            again.get((trial.code_hash, trial.launch_hash)) if trial.code_hash and trial.launch_hash else None
            for trial in kept
        ],
    }
    return document


def _rounded(value: Any) -> Any:
    """Milliseconds to a tenth of a nanosecond, lists of them too."""
    return [_rounded(one) for one in value] if isinstance(value, list) else None if value is None else round(value, 7)


if __name__ == "__main__":
    main()
