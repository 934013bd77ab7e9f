"""One witnessed fusion again: `python -m tests.search.random_fusions.witnesses.again tiny:17 --seed 1`."""

from __future__ import annotations

import argparse
import json
import sys

from compiler.nvrtc import CompilePool
from search.tuning.candidates.candidate import Candidate
from tests.search.random_fusions.proving import candidate_of, kernels
from tests.search.random_fusions.witnesses.running import asked
from tests.search.random_fusions.witnesses.winners import winner
from tests.search.random_fusions.witnesses.witnessed import Witnessed, witnessed


def main() -> int:
    """Prints the case and what its witnesses say; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "case", help="LIMITS:SEED as a failure names it, or a fusion of winners, of which no more than faults are told"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the points")
    parser.add_argument("--points", type=int, default=1)
    parser.add_argument("--candidate", help="a scheduler and its point as JSON, in place of drawn ones")
    chosen = parser.parse_args()
    limits, _, number = chosen.case.partition(":")
    one = witnessed(int(number), limits) if number else Witnessed(winner(limits), ())
    print(one.case, *one.witnesses, sep="\n")
    with CompilePool(1) as pool:
        if not chosen.candidate:
            found = kernels(one.case, chosen.seed, chosen.points, pool)
        else:
            found = [candidate_of(one.case, chosen.seed, Candidate.from_json(json.loads(chosen.candidate)), pool)]
        results = [asked(kernel, one) for kernel in found]
    for result in results:
        print(f"{result.kernel.candidate}: {result.words or 'every witness holds'}")
    return int(not all(result.is_right for result in results))


if __name__ == "__main__":
    sys.exit(main())
