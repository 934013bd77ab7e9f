"""Compiles the most promising kernels of what `benchmarks.models.asked` wrote; needs no card.

python -m benchmarks.models.prepare build/models/asked.json --card H100 --per-fusion 80 --out build/models/prepared

Where the card is, `python -m search measure build/models/prepared` verifies and times them, and leaves the best in
`kernels/`, which `benchmarks.models.run --kernels` takes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.models.tuning import AskedRegion, read_asked
from compiler.arch import Card, card_or_default
from compiler.errors import CompilerError
from compiler.nvrtc import CompilePool
from search.cli.load import Named
from search.cli.prepare import prepare_one
from search.proof.decidable import refuse_undecidable
from search.tuning.candidates.drafting import DraftPool
from search.tuning.candidates.plan import Plan
from search.tuning.hands import compilers, drafters
from search.tuning.prepared import MANIFEST


def main(arguments: Sequence[str] | None = None) -> None:
    """One folder a region; those that are there already are left as they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("asked", type=Path)
    parser.add_argument("--card", default=None)
    parser.add_argument("--per-fusion", type=int, default=80)
    parser.add_argument("--budget-s", type=float, default=1e9, help="seconds a region")
    parser.add_argument("--out", type=Path, default=Path("build/models/prepared"))
    given = parser.parse_args(arguments)
    card = card_or_default(given.card)
    given.out.mkdir(parents=True, exist_ok=True)
    with CompilePool(compilers()) as pool, DraftPool(drafters(compilers())) as drafting:
        drafting.start()
        for one in read_asked(given.asked):
            if not (given.out / one.name / MANIFEST).exists():
                print(_prepared(one, card, pool, drafting, given), flush=True)


def _prepared(one: AskedRegion, card: Card, pool: CompilePool, drafting: DraftPool, given: argparse.Namespace) -> str:
    named = Named(one.name, one.fusion, one.binding)
    started = time.monotonic()
    try:
        fusion = named.bound()
        refuse_undecidable(fusion)
        folder, kernels = given.out / one.name, given.per_fusion
        found = prepare_one(named, Plan.of(fusion, card), card, pool, drafting, folder, kernels, 0, given.budget_s)
    except CompilerError as error:
        return f"{one.name}: {type(error).__name__}: {str(error).splitlines()[0]}"
    best = min((c.predicted_us for c in found.candidates if c.predicted_us is not None), default=None)
    told = f"best predicted {best:.1f} us, floor {found.floor_us:.1f} us" if best and found.floor_us else ""
    seconds = time.monotonic() - started
    return f"{one.name}: {len(found.candidates)} kernels of {found.legal} points, {told}, {seconds:.0f} s"


if __name__ == "__main__":
    main()
