"""`make demo`: the example fusions, tuned by the command that a user would type, and what came of them.

With a GPU each one is searched for half a minute and its winner is verified. Without one the same command enumerates
the schedules, compiles the most promising and ranks them by prediction; the closing lines say what that leaves open.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
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
    for name, sizes in SIZES.items():
        args = ["tune", f"examples/fusions/{name}.json", "--bind", sizes, "--budget-s", str(SECONDS_EACH)]
        code = _search(*args, "--out", f"{OUT}/{name}")
        if code:
            return code
    measured = {name: row for name in SIZES if (row := _result(name)) and row.get("median_us") is not None}
    print(
        f"\n{'fusion':<12} {'card':<12} {'legal points':>12} {'median us':>10}  evidence" if measured else WITHOUT_GPU
    )
    for name, row in measured.items():
        evidence = f"{row['evidence']['correct']}, {row['evidence']['time']}"
        print(f"{name:<12} {row['card']:<12} {row['legal']:>12,} {row['median_us']:>10.2f}  {evidence}")
    if measured:
        print(f"\nThe kernels are in {OUT}/*/kernels. Call one: fusetune.torch.Kernel.load(path)(*tensors)")
    return 0


def _search(*args: str) -> int:
    print(f"\n$ python -m search {shlex.join(args)}", flush=True)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([".", "sdk"])}
    return subprocess.run([sys.executable, "-m", "search", *args], cwd=ROOT, env=env, check=False).returncode


def _result(name: str) -> dict[str, Any] | None:
    """The fusion's row of the results that `tune` writes; None where it had no GPU to write them for."""
    path = ROOT / OUT / name / "results.json"
    if not path.exists():
        return None
    row: dict[str, Any] = json.loads(path.read_text())["results"][name]
    return row


if __name__ == "__main__":
    sys.exit(main())
