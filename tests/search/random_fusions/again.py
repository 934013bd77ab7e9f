"""One random fusion again: `python -m tests.search.random_fusions.again tiny:17 --seed 1 --candidate JSON`."""

from __future__ import annotations

import argparse
import json
import sys

from compiler.nvrtc import CompilePool
from search.tuning.candidates.candidate import Candidate
from tests.search.random_fusions.cases import random_case
from tests.search.random_fusions.proving import candidate_of, kernels, outcome


def main() -> int:
    """Prints the case and what came of it; 1 if it is wrong or unsupported."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", help="LIMITS:SEED, as a failure names it")
    parser.add_argument("--seed", type=int, default=0, help="of the points")
    parser.add_argument("--points", type=int, default=1)
    parser.add_argument("--candidate", help="a scheduler and its point as JSON, in place of drawn ones")
    parser.add_argument("--cuda", action="store_true", help="print the generated source")
    chosen = parser.parse_args()
    limits, _, number = chosen.case.partition(":")
    case = random_case(int(number), limits)
    print(case)
    with CompilePool(1) as pool:
        found = kernels(case, chosen.seed, chosen.points, pool) if chosen.candidate is None else []
        if chosen.candidate is not None:
            candidate = Candidate.from_json(json.loads(chosen.candidate))
            found = [candidate_of(case, chosen.seed, candidate, pool)]
        results = [outcome(kernel) for kernel in found]
    for result in results:
        if chosen.cuda and result.kernel.made is not None:
            print(result.kernel.made.source)
        print(f"{result.kernel.candidate}: {result.fault or result.unsupported or 'right'}")
    return int(any(result.fault or result.unsupported for result in results))


if __name__ == "__main__":
    sys.exit(main())
