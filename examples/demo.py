"""`make demo`: the example fusions, tuned by the command that a user would type, and what came of them.

With a GPU each one is searched for half a minute and its winner is verified. Without one the same command enumerates
the schedules, compiles the most promising and ranks them by prediction; the closing lines say what that leaves open.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUT = ".demo"
SIZES = {"bias_gelu": "M=8192", "add": "M=8192,N=4096", "transpose": "M=8192,N=8192"}
SECONDS_EACH = 30

WITHOUT_GPU = """
No kernel was verified or timed: this machine has no GPU that could run one. The schedules were enumerated, the most
promising compiled for a Hopper card (sm_90a) and ranked by prediction; every time above is a prediction. Run
`make demo` on a machine with a Hopper GPU to have them verified and measured."""


def main() -> int:
    """Tunes each example in a process of its own; returns the first exit code that is not 0."""
    started = time.time()
    for name, sizes in SIZES.items():
        args = ["tune", f"examples/fusions/{name}.json", "--bind", sizes, "--budget-s", str(SECONDS_EACH)]
        code = _search(*args, "--out", f"{OUT}/{name}")
        if code:
            return code
    rows = {name: row for name in SIZES if (row := _result(name, since=started))}
    print(_table(rows) if rows else _predicted_table() + "\n" + WITHOUT_GPU)
    return 0


def _predicted_table() -> str:
    """What a machine without a GPU can say, a line for each fusion."""
    lines = ["", f"{'fusion':<12} {'card':<12} {'legal points':>12} {'compiled':>9} {'predicted us':>13}  evidence"]
    for name in SIZES:
        prepared: dict[str, Any] = json.loads((ROOT / OUT / name / name / "manifest.json").read_text())
        predicted = [c["predicted_us"] for c in prepared["candidates"] if c["predicted_us"] is not None]
        best = f"{min(predicted):.1f}" if predicted else "-"
        counts = f"{prepared['legal']:>12,} {len(prepared['candidates']):>9}"
        lines.append(f"{name:<12} {prepared['card']:<12} {counts} {best:>13}  unverified, predicted")
    return "\n".join(lines)


def _table(rows: dict[str, dict[str, Any]]) -> str:
    """What was measured, a line for each fusion; one without a winner says so."""
    lines = ["", f"{'fusion':<12} {'card':<12} {'legal points':>12} {'median us':>10}  evidence"]
    for name, row in rows.items():
        won = row.get("median_us") is not None
        time_us = f"{row['median_us']:.2f}" if won else "-"
        evidence = (
            f"{row['evidence']['correct']}, {row['evidence']['time']}" if won else "no kernel was verified in time"
        )
        lines.append(f"{name:<12} {row['card']:<12} {row['legal']:>12,} {time_us:>10}  {evidence}")
    lines += ["", f"The kernels are in {OUT}/*/kernels. Call one: fusetune.torch.Kernel.load(path)(*tensors)"]
    return "\n".join(lines)


def _search(*args: str) -> int:
    print(f"\n$ python -m search {shlex.join(args)}", flush=True)
    return subprocess.run([sys.executable, "-m", "search", *args], cwd=ROOT, check=False).returncode


def _result(name: str, since: float) -> dict[str, Any] | None:
    """The fusion's row of the results that `tune` writes on a GPU; None if this run wrote none."""
    path = ROOT / OUT / name / "results.json"
    if not path.exists() or path.stat().st_mtime < since:
        return None
    row: dict[str, Any] = json.loads(path.read_text())["results"][name]
    return row


if __name__ == "__main__":
    sys.exit(main())
