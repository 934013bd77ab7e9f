"""Generates and compiles what `agree` runs: `python -m benchmarks.emulate.prepare --out DIR`. Needs no GPU."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.emulate.compiling import prepare_forms
from benchmarks.emulate.forms import choose
from benchmarks.emulate.fusions import prepare_fusions

FUSIONS = 200
"""Random fusions, each with some schedules."""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulate.prepare", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for cubins and PTX")
    parser.add_argument("--fusions", type=int, default=FUSIONS, help="random fusions; 0 for none")
    parser.add_argument("--seed", type=int, default=0, help="of the random fusions")
    parser.add_argument("--workers", type=int, default=2, help="compiles at a time")
    parser.add_argument("--families", nargs="*", default=(), help="only these families of forms, such as product")
    given = parser.parse_args()
    started = time.perf_counter()
    try:
        forms = choose(given.out / "forms", given.families)
    except ValueError as problem:
        parser.error(str(problem))
    prepare_forms(forms, given.out / "forms", given.workers)
    print(f"{len(forms)} forms in {time.perf_counter() - started:.1f} s", flush=True)
    if given.fusions:
        count = prepare_fusions(given.out / "fusions", given.fusions, given.seed, given.workers)
        print(f"{count} kernels of {given.fusions} fusions in {time.perf_counter() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
