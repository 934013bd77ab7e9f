"""What two trees of fusetune found for the same fusions, timed in turns on one card.

    python -m benchmarks.search.winners OLD NEW [--rounds N] [--budget-s S] [--device fake] [--json FILE]

OLD and NEW are folders as `search measure` and `search tune` leave them, with a kernel of each fusion under `kernels/`;
their names are cases of the public or the varied suite. Each round times the old winner, the new one, and the old one
once more as its twin, verified each time as in a search: what the twin differs by is noise. A case has the median of
its rounds. `benchmarks/search/two_trees.sh` prepares and measures both folders on the card before.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from math import exp, log, sqrt
from pathlib import Path
from statistics import median

from compiler.arch import Card
from compiler.ir.fusion import Fusion
from fusetune.wire.artifact import KernelArtifact
from search.cli.load import load_one
from search.cost.roofline import floor_us
from search.measure.device import TIMING_POLICY, Effort, MeasuringDevice
from search.measure.fake import FACTS, FakeDevice
from search.tuning.attached import Attached, Detached, card_of, find_device

FORMAT = "fusetune.winners/1"
SUITES = [Path(__file__).parents[1] / "suite" / f"suite_{name}.json" for name in ("public", "varied")]
ROUNDS = 7


@dataclass(frozen=True, slots=True)
class WinnerPair:
    """Medians of a case's rounds, in microseconds."""

    case: str
    floor_us: float
    old_us: float
    new_us: float
    twin_us: float

    @property
    def ratio(self) -> float:
        """New over old; the two runs of the old one count alike."""
        return self.new_us / sqrt(self.old_us * self.twin_us)

    def __str__(self) -> str:
        return (
            f"{self.case:36}{self.old_us:10.2f}{self.new_us:10.2f}{self.ratio:8.3f}"
            f"{self.twin_us / self.old_us:8.3f}{self.new_us / self.floor_us:8.3f}"
        )


def pair_of(
    case: str, old: KernelArtifact, new: KernelArtifact, device: MeasuringDevice, card: Card, rounds: int
) -> WinnerPair:
    """Times a case. Raises ValueError where a kernel is wrong or cannot be timed."""
    fusion = fusion_of(case)
    device.open(fusion)
    times: dict[str, list[float]] = {"old": [], "new": [], "twin": []}
    for _ in range(rounds):
        for name, kernel in (("old", old), ("new", new), ("twin", old)):
            found = device.measure(kernel, Effort.LEADER)
            if found.timing is None:
                raise ValueError(f"{case}, {name}: {found.state}: {found.reason}")
            times[name].append(found.timing.median_us)
    return WinnerPair(case, floor_us(fusion, card), *(round(median(times[name]), 4) for name in ("old", "new", "twin")))


def geomean(values: Sequence[float]) -> float:
    """Of at least one."""
    return exp(sum(map(log, values)) / len(values))


def pairs(
    folders: Sequence[Path], measure: Callable[[str, KernelArtifact, KernelArtifact], WinnerPair], budget_s: float
) -> Iterator[WinnerPair]:
    """A pair for each fusion that both folders have a kernel of, until the time is up."""
    begun = time.monotonic()
    old, new = ({path.stem: path for path in (folder / "kernels").glob("*.json")} for folder in folders)
    for case in sorted(old.keys() & new.keys()):
        if time.monotonic() - begun > budget_s:
            print(f"{case} and what follows is left out: the time is up", file=sys.stderr)
            return
        try:
            yield measure(case, _kernel(old[case]), _kernel(new[case]))
        except ValueError as error:
            print(error, file=sys.stderr)
    for case in sorted(old.keys() ^ new.keys()):
        print(f"{case}: {'old' if case in old else 'new'} alone has a kernel", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a line a case and the geometric means; returns 1 where there is nothing to compare."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.winners", description=__doc__)
    parser.add_argument("folders", nargs=2, type=Path, metavar=("OLD", "NEW"))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--budget-s", type=float, default=300.0)
    parser.add_argument("--device", choices=("cuda", "fake"), default="cuda", help="fake: shows that a run works")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(argv)
    gpu = find_device(None) if asked.device == "cuda" else Attached(FakeDevice(), FACTS, card_of(FACTS)[0], ())
    if isinstance(gpu, Detached):
        print(f"error: {gpu.why}. `--device fake` shows that a run works.", file=sys.stderr)
        return 2

    def measure(case: str, old: KernelArtifact, new: KernelArtifact) -> WinnerPair:
        return pair_of(case, old, new, gpu.device, gpu.card, asked.rounds)

    print(f"{'case':36}{'old us':>10}{'new us':>10}{'ratio':>8}{'twin':>8}{'floor':>8}")
    found: list[WinnerPair] = []
    with closing(gpu.device):
        for pair in pairs(asked.folders, measure, asked.budget_s):
            found.append(pair)
            print(pair, flush=True)
            if asked.json is not None:
                _write(asked.json, gpu, asked.rounds, found)
    if not found:
        print("error: no fusion has a kernel in both folders", file=sys.stderr)
        return 1
    ratios = [pair.ratio for pair in found]
    print(f"geometric mean of {len(ratios)}: {geomean(ratios):.4f}, worst {max(ratios):.3f}")
    return 0


def _write(path: Path, gpu: Attached, rounds: int, found: Sequence[WinnerPair]) -> None:
    summary = {
        "format": FORMAT,
        "card": gpu.facts.name,
        "driver": gpu.facts.driver,
        "policy": TIMING_POLICY,
        "rounds": rounds,
        "geomean": round(geomean([pair.ratio for pair in found]), 4),
        "worst": round(max(pair.ratio for pair in found), 4),
        "rows": [asdict(pair) | {"ratio": round(pair.ratio, 4)} for pair in found],
    }
    path.write_text(json.dumps(summary, indent=1) + "\n")


def fusion_of(case: str) -> Fusion:
    """Of the suite that has the case. Raises ValueError where none has."""
    for suite in SUITES:
        if case in {one["id"] for one in json.loads(suite.read_text())["cases"]}:
            return load_one(suite, case, {}).bound()
    raise ValueError(f"{case}: no case of {', '.join(suite.name for suite in SUITES)}")


def _kernel(path: Path) -> KernelArtifact:
    return KernelArtifact.model_validate_json(path.read_text())


if __name__ == "__main__":
    sys.exit(main())
