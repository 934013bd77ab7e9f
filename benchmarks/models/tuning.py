"""Kernels for the regions of models, by the search itself, into a folder; and a source that reads the folder."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from compiler.errors import CompilerError
from compiler.generator import GENERATOR
from compiler.wire import bind
from fusetune.errors import OutdatedProof
from fusetune.kernel import Kernel
from fusetune.wire.binding import Binding
from fusetune.wire.canonical import binding_hash, fingerprint
from fusetune.wire.fusion import Fusion
from fusetune.wire.parse import parse_binding, parse_fusion
from search.cost.roofline import floor_us
from search.measure.device import TIMING_POLICY
from search.tuning.attached import Attached, find_device
from search.tuning.budget import Budget
from search.tuning.candidates.plan import Plan
from search.tuning.journal import Journal, JournalKey, spaces_key
from search.tuning.results import KERNELS, TunedSubject, usable_folder, write_outcome
from search.tuning.tune import tune_on

LEAST_S = 12.0
"""Seconds that every fusion gets at least: ranking and one round of candidates."""

Key = tuple[str, str]


@dataclass(frozen=True)
class AskedRegion:
    """What a region asked for, and what it is worth."""

    fusion: Fusion
    binding: Binding
    weight: float

    @cached_property
    def key(self) -> Key:
        """Fingerprint and hash of the binding."""
        return key_of(self.fusion, self.binding)

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.key[0][:16]}_{self.key[1][:8]}"

    def with_more(self, other: AskedRegion) -> AskedRegion:
        """The same, worth what both are."""
        return replace(self, weight=self.weight + other.weight)


def write_asked(path: Path, asked: Sequence[AskedRegion]) -> None:
    """Writes them, the heaviest first."""
    rows = [
        {"fusion": json.loads(one.fusion.to_json()), "binding": json.loads(one.binding.to_json()), "weight": one.weight}
        for one in sorted(asked, key=lambda one: (-one.weight, one.key))
    ]
    path.write_text(json.dumps(rows, indent=1))


def read_asked(path: Path) -> list[AskedRegion]:
    """What `write_asked` wrote."""
    return [
        AskedRegion(parse_fusion(json.dumps(row["fusion"])), parse_binding(row["binding"]), row["weight"])
        for row in json.loads(path.read_text())
    ]


def key_of(fusion: Fusion, binding: Binding) -> Key:
    """What the folder knows a kernel by."""
    return fingerprint(fusion), binding_hash(fusion, binding)


class FolderSource:
    """The kernels that a search has left in `DIR/kernels`; those that an older verifier proved are told and left out.
    What is asked for and not there is in `asked`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.kernels: dict[Key, Kernel] = {}
        self.asked: dict[Key, AskedRegion] = {}
        for path in sorted((folder / KERNELS).glob("*.json")) if folder is not None else ():
            try:
                kernel = Kernel.load(path)
            except OutdatedProof as error:
                print(error, flush=True)
                continue
            self.kernels[kernel.artifact.fingerprint, kernel.artifact.binding] = kernel

    def peek(self, fusion: Fusion, binding: Binding) -> Kernel | None:
        """The kernel of this key."""
        return self.kernels.get(key_of(fusion, binding))

    def request(self, fusion: Fusion, binding: Binding, *, weight: float) -> None:
        """Notes it."""
        asked = AskedRegion(fusion, binding, weight)
        self.asked[asked.key] = asked

    def failure_of(self, key: Key) -> str | None:
        """Nothing comes of what is not there."""
        return None if key in self.kernels else "not in the folder"


def tune_all(asked: Sequence[AskedRegion], folder: Path, budget_s: float) -> list[str]:
    """Searches for the kernels of what was asked, the heaviest first, each for its share of the seconds; none is begun
    once they are over. Returns a line for each: how it went. What fails is told there, and the others go on."""
    target = find_device(None)
    if not isinstance(target, Attached):
        return [f"nothing was tuned: {target.why}"]
    lines = []
    with closing(target.device):
        left, weights = budget_s, sum(one.weight for one in asked)
        for one in sorted(asked, key=lambda one: (-one.weight, one.key)):
            if left <= 0:
                lines.append(f"{one.name}: no time was left")
                continue
            seconds = max(LEAST_S, left * one.weight / max(weights, 1.0))
            weights -= one.weight
            started = time.monotonic()
            lines.append(_tuned(one, target, folder, seconds))
            left = max(0.0, left - (time.monotonic() - started))
            print(lines[-1], flush=True)
    return lines


def _tuned(one: AskedRegion, gpu: Attached, folder: Path, seconds: float) -> str:
    name = one.name
    told = f"{name}: {len(one.fusion.ops)} operators, {seconds:.0f} s"
    try:
        plan = Plan.of(bind(one.fusion, one.binding), gpu.card)
        key = JournalKey(*one.key, gpu.card.key, TIMING_POLICY, GENERATOR, spaces_key(plan.searchable))
        kept = usable_folder(folder)
        with Journal.open(folder / "journals" / f"{name}.jsonl", key) as journal:
            outcome = tune_on(gpu, plan, journal, Budget(seconds=seconds), 0)
        floor = floor_us(plan.fusion, gpu.card)
        subject = TunedSubject(name, plan.fusion, gpu.card.name, plan.points, plan.legal, floor)
        row = write_outcome(kept, subject, outcome)
    except CompilerError as error:
        return f"{told}: {type(error).__name__}: {str(error).splitlines()[0]}"
    return f"{told}: {row.get('median_us')} us, floor {floor:.1f} us, {row['trials']}"
