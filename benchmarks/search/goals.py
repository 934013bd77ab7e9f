"""How soon a search is near the best that is known, of what `benchmarks.search.first` and `search tune` have written.

    python -m benchmarks.search.goals near.json few.json … [--known FILE …] [--json FILE]
    python -m benchmarks.search.goals --cold FOLDER … [--json FILE]

The best known time of a case is the least of all files named, those of `--known` among them, of which nothing else is
told: times of one run on one card compare. Of a case, `near_s` is when the fastest kernel so far was first within
`NEAR` of it. `--cold` reads folders of results of the command line: when the first kernel was timed and, of a fusion
that was tuned several times, how far apart what was served is and how often it was the same kernel.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

NEAR = 0.02
"""Share beyond the best time within which a kernel counts as near it."""


def near_s(curve: Iterable[Sequence[float]], best_us: float) -> float | None:
    """Seconds until the fastest so far was near the best; None where it never was."""
    return next((seconds for seconds, us in curve if us <= (1 + NEAR) * best_us), None)


def best_known(files: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The least time of each case, in any of the files."""
    best: dict[str, float] = {}
    for one in (case for file in files for case in file["cases"]):
        times = [us for _, us in one.get("curve", ())] + [us for us in (one["median_us"], one["final_us"]) if us]
        if times:
            best[one["case"]] = min(best.get(one["case"], math.inf), *times)
    return best


def nearness(file: Mapping[str, Any], best: Mapping[str, float]) -> dict[str, Any]:
    """Of one file: a row a case, and what they come to. A case that was never near counts as infinitely late."""
    rows = [
        {
            "case": one["case"],
            "first_s": one["first_s"],
            "near_s": near_s(one.get("curve", ()), best[one["case"]]),
            "best_us": best[one["case"]],
            "ended_at": None if one["final_us"] is None else round(one["final_us"] / best[one["case"]] - 1, 4),
            "after_2_s": _share_after(one.get("curve", ()), 2.0, best[one["case"]]),
            "gpu_idle": one["gpu_idle"],
        }
        for one in file["cases"]
        if one["case"] in best
    ]
    late = [math.inf if row["near_s"] is None else row["near_s"] for row in rows]
    idle = [row["gpu_idle"] for row in rows if row["gpu_idle"] is not None]
    after = [math.inf if row["after_2_s"] is None else row["after_2_s"] for row in rows]
    return {
        "rows": rows,
        "cases": len(rows),
        "near_median_s": _finite(median(late)) if late else None,
        "near_worst_s": _finite(max(late)) if late else None,
        "never_near": sum(map(math.isinf, late)),
        "after_2_s_median": _finite(median(after)) if after else None,
        "gpu_idle_median": median(idle) if idle else None,
    }


def _share_after(curve: Iterable[Sequence[float]], seconds: float, best_us: float) -> float | None:
    """How much slower than the best the fastest of so many seconds is; None where there was none by then."""
    times = [us for at, us in curve if at <= seconds]
    return round(min(times) / best_us - 1, 4) if times else None


def _finite(number: float) -> float | None:
    return None if math.isinf(number) else round(number, 4)


def cold(folders: Iterable[Path]) -> dict[str, Any]:
    """Of folders that `search tune` has written: runs of each fusion."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for folder in sorted(folders):
        for name, row in json.loads((folder / "results.json").read_text())["results"].items():
            if row.get("median_us") is None:
                continue
            line = row["timeline"] or {}
            kernel = json.dumps(row["winner"], sort_keys=True)
            runs.setdefault(name, []).append(
                {
                    "us": row["median_us"],
                    "first_kernel_s": line.get("first_kernel_s"),
                    "gpu_idle": line.get("gpu_idle"),
                    "trials": row["trials"],
                    "winner": kernel,
                }
            )
    return {
        name: {
            "runs": [{key: value for key, value in run.items() if key != "winner"} for run in of],
            "apart": round(max(run["us"] for run in of) / min(run["us"] for run in of) - 1, 4),
            "the_same": max(Counter(run["winner"] for run in of).values()),
        }
        for name, of in runs.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.goals", description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--known", nargs="+", type=Path, default=[], help="more files with times of the cases")
    parser.add_argument("--cold", nargs="+", type=Path, default=[], help="folders of `search tune`")
    parser.add_argument("--json", type=Path, help="file to write")
    asked = parser.parse_args(arguments)
    if not asked.files and not asked.cold:
        parser.error("name files of `benchmarks.search.first`, or folders with --cold")
    told: dict[str, Any] = {}
    if asked.files:
        files = {path.name: json.loads(path.read_text()) for path in asked.files}
        best = best_known([*files.values(), *(json.loads(path.read_text()) for path in asked.known)])
        told = {name: nearness(file, best) for name, file in files.items()}
        for name, one in told.items():
            for row in one["rows"]:
                print(f"{name:12} {row['case']:42} near after {row['near_s']} s, ended {row['ended_at']}")
            print(f"{name:12} {json.dumps({key: value for key, value in one.items() if key != 'rows'})}")
    if asked.cold:
        told["cold"] = cold(asked.cold)
        for name, one in told["cold"].items():
            firsts = ", ".join(str(run["first_kernel_s"]) for run in one["runs"])
            print(
                f"{name:42} {one['apart']:.2%} apart, the same kernel {one['the_same']} times, first after {firsts} s"
            )
    if asked.json is not None:
        asked.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
