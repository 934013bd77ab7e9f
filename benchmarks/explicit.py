"""Explicit schedules timed on a GPU beside tuned kernels of the same fusions.

    python -m benchmarks.explicit tests/data/document_cases.json NAME ... [--tune-s 15] [--json FILE]

A case is lowered as given, verified against its operators and timed as the search times a candidate; then its fusion is
tuned for so many seconds (0: not at all). Microseconds, a line a case.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.arch import arch_named, arch_names
from compiler.errors import CompilerError
from compiler.explicit.artifact import explicit_artifact, meaning
from compiler.explicit.generate import generate_explicit
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from search.measure.device import DeviceLost, Effort, MeasureResult
from search.tuning.attached import Attached, find_device
from search.tuning.budget import Budget
from search.tuning.candidates.plan import Plan
from search.tuning.trial import Trial
from search.tuning.tune import tune_on

SEED = 0


@dataclass(frozen=True, slots=True)
class ExplicitTimes:
    """One case: its own time and that of the tuned kernel, in microseconds, and what was wrong."""

    case: str
    explicit_us: float | None
    tuned_us: float | None
    tuned_point: str
    note: str

    def __str__(self) -> str:
        own, tuned = (f"{us:.2f} us" if us is not None else "-" for us in (self.explicit_us, self.tuned_us))
        return f"{self.case}: as given {own}, tuned {tuned} {self.tuned_point} {self.note}".rstrip()


class _Trials:
    """Keeps the trials of one tuning in memory."""

    def __init__(self) -> None:
        self._by_number: dict[int, Trial] = {}

    @property
    def trials(self) -> tuple[Trial, ...]:
        return tuple(self._by_number[n] for n in sorted(self._by_number))

    def record(self, trial: Trial) -> None:
        self._by_number[trial.number] = trial


def measured(case: Mapping[str, Any], gpu: Attached, effort: Effort = Effort.ALL_SETS) -> tuple[Fusion, MeasureResult]:
    """What a case means, and its time as given. Raises what `generate_explicit` does, CompileError and DeviceLost."""
    arch = next(a for name in arch_names() if (a := arch_named(name)).capability == gpu.facts.capability)
    made = generate_explicit(case, arch)
    fusion = meaning(made)
    with CompilePool(workers=1, time_limit_s=60.0) as pool:
        compiled = pool.submit(made.source, arch.name).result()
    gpu.device.open(fusion)
    return fusion, gpu.device.measure(explicit_artifact(made, compiled), effort)


def run(case: Mapping[str, Any], gpu: Attached, tune_s: float) -> ExplicitTimes:
    """One case, as given and tuned."""
    name, us, note = str(case["name"]), None, ""
    tuned_us, point = None, ""
    try:
        fusion, result = measured(case, gpu)
        us = result.timing.median_us if result.timing is not None else None
        note = result.reason
        if tune_s:
            outcome = tune_on(gpu, Plan.of(fusion, gpu.card), _Trials(), Budget(seconds=tune_s), SEED)
            if outcome.winner is not None:
                trial = outcome.winner.trial
                tuned_us, point = trial.median_us, f"({trial.candidate})"
    except (CompilerError, DeviceLost) as error:
        note = f"{type(error).__name__}: {error}"
    return ExplicitTimes(name, us, tuned_us, point, note)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a line for each case of the file, or for those named; 1 if one could not be timed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explicit", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*", help="of cases; all of the file without any")
    parser.add_argument("--tune-s", type=float, default=15.0, help="seconds of search for the same fusion; 0 for none")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    args = parser.parse_args(argv)
    try:
        cases = json.loads(args.file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        parser.error(f"{args.file}: cannot be read ({error}). Name a file of explicit schedules.")
    gpu = find_device(None)
    if not isinstance(gpu, Attached):
        parser.error(f"no GPU: {gpu.why}")
    rows = [run(case, gpu, args.tune_s) for case in _chosen(cases, args.names)]
    gpu.device.close()
    for row in rows:
        print(row)
    if args.json:
        args.json.write_text(json.dumps([_to_json(row) for row in rows], indent=1) + "\n")
    return 0 if rows and all(row.explicit_us is not None for row in rows) else 1


def _chosen(cases: object, names: Sequence[str]) -> Iterable[Mapping[str, Any]]:
    listed: list[Any] = cases if isinstance(cases, list) else [cases]
    return [case for case in listed if not names or case["name"] in names]


def _to_json(row: ExplicitTimes) -> dict[str, Any]:
    return {
        "case": row.case,
        "explicit_us": row.explicit_us,
        "tuned_us": row.tuned_us,
        "tuned": row.tuned_point,
        "note": row.note,
    }


if __name__ == "__main__":
    sys.exit(main())
