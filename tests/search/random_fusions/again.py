"""One random fusion again: `python -m tests.search.random_fusions.again tiny:17 --seed 1 --candidate JSON`."""

from __future__ import annotations

import argparse
import json
import sys

from compiler.arch import card_or_default
from compiler.nvrtc import CompilePool
from search.candidate import Candidate
from search.plan import Plan
from tests.search.random_fusions.cases import Case, random_case
from tests.search.random_fusions.proving import CARDS, Kernel, kernel_of, kernels, outcome


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
            found = [_at(case, chosen.seed, candidate, pool)]
        results = [outcome(kernel) for kernel in found]
    for result in results:
        if chosen.cuda and result.kernel.made is not None:
            print(result.kernel.made.source)
        print(f"{result.kernel.candidate}: {result.fault or result.unsupported or 'right'}")
    return int(any(result.fault or result.unsupported for result in results))


def _at(case: Case, seed: int, candidate: Candidate, pool: CompilePool) -> Kernel:
    """The candidate on the first of the cards on which it is legal."""
    for card in (*CARDS, card_or_default("H200")):
        plan = Plan.of(case.bound(), card)
        space = plan.spaces[candidate.scheduler]
        try:
            if space.is_legal(candidate.knobs):
                return kernel_of(case, seed, plan, candidate, pool)
        except ValueError:
            continue
    raise SystemExit(f"{candidate} is no legal point of this fusion any more")


if __name__ == "__main__":
    sys.exit(main())
