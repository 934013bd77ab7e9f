"""What tensor memory is predicted to give: the best schedule with it beside the best without, fusion by fusion.

    python -m benchmarks.blackwell.predicted [SUITE.json] [--case ID ...] [--card CARD] [--ranked N] [--prove]
        [--json F] [--markdown F]

Of each kind of schedule, N structures of every scheduler are ranked as a search ranks them; the best are compiled, and
predicted once more with the registers that NVRTC gave them. With `--prove` the best with tensor memory is proven in the
emulator, too. Every time here is predicted: no such card was at hand. What tensor memory itself takes is not in the
model, since no rate of it is published; its instructions count as one each.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from compiler.analysis.facts import Facts
from compiler.arch import Card, card_or_default
from compiler.errors import CompileError, Unsupported
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from fusetune.wire.artifact import KernelArtifact
from search.cli.load import Named, load_many
from search.cost.predicting import predictor, refiner
from search.proof.emulated.check import verify
from search.space.groups import part_without_tmem, parts_in_tmem
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.draft import DraftSubject, foreseen_here
from search.tuning.candidates.plan import Plan
from search.tuning.candidates.ranking import Ranker
from search.tuning.candidates.spread import Ranked

SUITE = Path(__file__).parents[1] / "suite" / "suite_public.json"

COMPILED = 8
"""Of the best so many are compiled: what registers cost is seen then."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """The best of the ranked points of one kind: its schedule, time in microseconds as predicted with the registers
    that NVRTC gave it, bytes of each thread that it spilled, and of tensor memory the columns of a block and the
    patterns with the words of their accesses. `proof`: empty where the emulator was not asked, else what it found."""

    schedule: str
    predicted_us: float
    registers: int
    spilled_bytes: int
    columns: int
    accesses: tuple[str, ...]
    proof: str = ""


@dataclass(frozen=True, slots=True)
class PredictedGain:
    """One fusion: the best with tensor memory (None where no point has any) and without."""

    fusion: str
    with_tmem: Predicted | None
    without: Predicted | None

    def __str__(self) -> str:
        t, o = self.with_tmem, self.without
        kept = (
            f"{t.columns:4}  {', '.join(t.accesses):24} {t.predicted_us:10.2f}" if t else f"{'':4}  {'none':24} {'':10}"
        )
        return f"{self.fusion:38} {kept} {o.predicted_us if o else float('nan'):10.2f}  {t.proof if t else ''}"


HEAD = f"{'fusion':38} cols  {'accesses':24} {'with, us':>10} {'without':>10}  (predicted)"


def rows(
    fusions: Iterable[Named], card: Card, ranked: int, pool: CompilePool, *, prove: bool
) -> Iterator[PredictedGain]:
    """A row for each fusion that this version compiles; the others are named on stderr."""
    for named in fusions:
        try:
            plan = Plan.of(named.bound(), card)
        except Unsupported as refused:
            print(f"{named.name}: left out. {refused}", file=sys.stderr)
            continue
        spaces = plan.searchable
        kinds = (
            [{name: part} for name, space in spaces.items() for part in parts_in_tmem(space)],
            [{name: part} for name, space in spaces.items() if (part := part_without_tmem(space)) is not None],
        )
        with_tmem, without = (_ranked(plan, kind, card, ranked) for kind in kinds)
        yield PredictedGain(
            named.name, _best(plan, with_tmem, card, pool, prove=prove), _best(plan, without, card, pool, prove=False)
        )


def _ranked(plan: Plan, parts: Iterable[Mapping[str, Space]], card: Card, count: int) -> list[Ranked]:
    """The best points of all these parts of spaces, what is predicted to be fastest first. No clock ends a ranking, so
    that it is the same everywhere."""
    foresee = foreseen_here(DraftSubject(plan.fusion, card, plan.schedulers), predictor(card))
    found = [one for part in parts for one in Ranker(part, foresee).rank(count, seed=0, seconds=math.inf)[:COMPILED]]
    return sorted(found, key=lambda one: one.predicted_us)[:COMPILED]


def _best(plan: Plan, ranked: Sequence[Ranked], card: Card, pool: CompilePool, *, prove: bool) -> Predicted | None:
    """The fastest, as predicted with the registers that it takes; those that do not compile are named on stderr."""
    found: list[tuple[float, Candidate, Generated, KernelArtifact]] = []
    for candidate in (one.candidate for one in ranked):
        made = generate(plan.schedulers[candidate.scheduler].trace(plan.fusion, candidate.knobs), plan.arch)
        try:
            built = artifact(made, pool.submit(made.source, made.arch.name).result())
        except CompileError as error:
            print(f"{candidate}: {error}", file=sys.stderr)
            continue
        found.append((refiner(card)(made, built.resources).total_us, candidate, made, built))
    if not found:
        return None
    us, candidate, made, built = min(found, key=lambda one: one[0])
    plans = [Facts(launch.scheduled).tensor_memory for launch in made.launches]
    proof = ""
    if prove:
        proven = verify(made, built, pool)
        proof = proven.fault or proven.undone or "verified_emulated"
    return Predicted(
        str(candidate),
        us,
        built.resources.registers,
        built.resources.spill_store_bytes + built.resources.spill_load_bytes,
        max(launch.kernel.tmem_columns for launch in made.launches),
        tuple(dict.fromkeys(f"{access.pattern}: {access.words}" for plan in plans for access in plan.accesses)),
        proof,
    )


def markdown(card: Card, ranked: int, found: Iterable[PredictedGain]) -> str:
    """The table that `benchmarks/results` keeps."""
    head = f"""# What tensor memory is predicted to give on a {card.name}

Every time here is **predicted**; nothing ran on a card. Of each kind of schedule up to {ranked} structures of every
scheduler were ranked, as a search ranks them before it measures, and the best of either is shown: a difference of a few
percent between the two is less than a prediction can tell. What tensor memory itself takes is not in the model, as no
rate of it is published; its instructions count as one each. Proof: the emulator ran the PTX that NVRTC made, on all
input sets. "none": no scheduler of this fusion keeps anything in tensor memory.

| fusion | columns | pattern: words of an access | registers | bytes spilled | with, us | without, us | proof |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
    return head + "".join(f"| {' | '.join(_cells(row))} |\n" for row in found)


def _cells(row: PredictedGain) -> tuple[str, ...]:
    t, without = row.with_tmem, f"{row.without.predicted_us:.2f}" if row.without else ""
    if t is None:
        return (row.fusion, "", "none", "", "", "", without, "")
    accesses, spilled = ", ".join(t.accesses), str(t.spilled_bytes)
    return (row.fusion, str(t.columns), accesses, str(t.registers), spilled, f"{t.predicted_us:.2f}", without, t.proof)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Prints a line a fusion; exit code 1 where the emulator found one wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blackwell.predicted", description=__doc__)
    parser.add_argument("suite", nargs="?", type=Path, default=SUITE, metavar="SUITE.json")
    parser.add_argument("--case", nargs="*", default=[], metavar="ID", help="only these cases")
    parser.add_argument("--card", default="B200", metavar="NAME")
    parser.add_argument(
        "--ranked", type=int, default=400, metavar="N", help="structures of a scheduler that are ranked"
    )
    parser.add_argument("--prove", action="store_true", help="prove the best with tensor memory in the emulator")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the same as a table")
    given = parser.parse_args(arguments)
    card = card_or_default(given.card)
    fusions = [one for one in load_many([given.suite], {}) if not given.case or one.name in given.case]
    found: list[PredictedGain] = []
    print(HEAD)
    with CompilePool(workers=1) as pool:
        for row in rows(fusions, card, given.ranked, pool, prove=given.prove):
            print(row, flush=True)
            found.append(row)
    if given.json is not None:
        report = {
            "card": card.name,
            "times": "predicted",
            "ranked": given.ranked,
            "fusions": [asdict(r) for r in found],
        }
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if given.markdown is not None:
        given.markdown.write_text(markdown(card, given.ranked, found), encoding="utf-8")
    proofs = [row.with_tmem.proof for row in found if row.with_tmem is not None]
    return int(any(proof not in ("", "verified_emulated") for proof in proofs))


if __name__ == "__main__":
    sys.exit(main())
