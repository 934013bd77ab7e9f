"""`prepare`: enumerate, rank by prediction and compile the most promising candidates. Needs no GPU."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from compiler.arch import Card, card_or_default
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.ir.ops import CONTRACTIONS
from compiler.nvrtc import CompilePool
from search.cli.faults import UsageFault, reports_faults
from search.cli.load import Named, load_many, sizes_of
from search.cli.options import Bind, CardName, RankerFile, Seed
from search.cli.rank import learnt_of
from search.cli.report import describe_prepared
from search.cost.predicting import refiner
from search.cost.roofline import floor_us
from search.proof.decidable import refuse_undecidable
from search.tuning.build import Builder
from search.tuning.candidates.drafting import DraftPool
from search.tuning.candidates.plan import Plan
from search.tuning.candidates.spread import spread
from search.tuning.hands import compilers, drafters
from search.tuning.prepare import compile_promising
from search.tuning.prepared import Prepared
from search.tuning.results import usable_folder
from search.tuning.timeline import SearchStage, Timeline

_PER_KERNEL = 12
"""Points ranked for each kernel that is wanted: enough to choose from. A quarter of them is made (`ranking`), so that
three are made for each that is compiled."""

_LEAST_OF_PRODUCTS = 480
"""Points ranked at least of a fusion with matrix products, whose spaces have structures of many kinds. The best of 192
points of 1280^3, 19x456x384x272 and 264x1016x12424 was predicted 15.7, 11.5 and 28.3 us, that of 480 11.7, 9.5 and 27.1
(H200)."""

_RANKING_S = 60.0


@reports_faults
def prepare(
    fusions: Annotated[list[Path], typer.Argument(help="Fusion files, suite files, or folders of them.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to fill, one folder a fusion.", metavar="DIR")],
    card: CardName = None,
    bind: Bind = None,
    per_fusion: Annotated[int, typer.Option("--per-fusion", help="Kernels to compile a fusion.", min=1)] = 160,
    seed: Seed = 0,
    ranker: RankerFile = None,
) -> None:
    """Compile the most promising kernels of each fusion, for `measure` to time where the GPU is."""
    console = Console(highlight=False, soft_wrap=True)
    chosen = card_or_default(card)
    learnt = learnt_of(chosen, ranker)
    named = load_many(fusions, sizes_of(bind or []))
    bound: list[tuple[Named, Fusion]] = []
    for one in named:  # all of them before the first compile: a fault of the last must not cost the work on the others
        try:
            bound.append((one, one.bound()))
        except Unsupported as error:
            console.print(f"{one.name}: skipped. {error}", markup=False)
    usable_folder(out)
    prepared = 0
    with CompilePool(compilers()) as pool, DraftPool(drafters(compilers())) as drafting:
        drafting.start()
        for one, fusion in bound:
            try:
                refuse_undecidable(fusion)
                plan = Plan.of(fusion, chosen).ranked_by(learnt)
                found = prepare_one(one, plan, chosen, pool, drafting, out / one.name, per_fusion, seed)
            except Unsupported as error:
                console.print(f"{one.name}: skipped. {error}", markup=False)
                continue
            console.print(describe_prepared(found), markup=False)
            prepared += 1
            if found.was_interrupted:
                console.print("Interrupted: what was compiled is kept, the rest was not prepared.", markup=False)
                break
    if not prepared:
        raise UsageFault("none of the fusions can be compiled by this version; the reasons stand above.")
    console.print(f"{prepared} of {len(named)} fusions are in {out}. Nothing was verified or timed.", markup=False)
    console.print(f"On a machine with the {chosen.name}: python -m search measure {out}", markup=False)


def prepare_one(
    named: Named,
    plan: Plan,
    card: Card,
    pool: CompilePool,
    drafting: DraftPool,
    folder: Path,
    kernels: int,
    seed: int,
    budget_s: float = 1e9,
    timeline: Timeline | None = None,
) -> Prepared:
    """Rank and compile one fusion into `folder`. Raises Unsupported if it has no legal point.

    Ctrl-C ends it early, once there are kernels: those are kept. What is compiled when the budget ends is given up.
    """
    begun = time.monotonic()
    timeline = timeline or Timeline()
    drafts = drafting.of(plan.subject(card), timeline)
    least = _LEAST_OF_PRODUCTS if any(op.kind in CONTRACTIONS for op in plan.fusion.ops) else 0
    with timeline.span(SearchStage.RANKING):
        points = max(least, _PER_KERNEL * kernels)
        ranking = plan.ranking(drafts.foresee, points, seed, min(_RANKING_S, 0.4 * budget_s))
    compiled = compile_promising(
        Builder(drafts, pool, plan.arch.name, refiner(card), timeline),
        spread(ranking),
        folder,
        kernels,
        queue_depth=2 * compilers(),
        left_s=lambda: budget_s - (time.monotonic() - begun),
    )
    found = Prepared(
        name=named.name,
        card=card.name,
        fusion=plan.fusion,
        points=plan.points,
        legal=plan.legal,
        floor_us=floor_us(plan.fusion, card),
        candidates=tuple(compiled.candidates),
        failed=tuple(compiled.failed),
        was_interrupted=compiled.was_interrupted,
        given_up=compiled.given_up,
    )
    found.write(folder)
    return found
