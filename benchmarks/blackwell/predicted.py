"""What tensor memory is predicted to give: the best schedule with it beside the best without, fusion by fusion.

    python -m benchmarks.blackwell.predicted [SUITE.json] [--case ID ...] [--card CARD] [--drawn N] [--prove]
        [--json F] [--markdown F]

Of each kind of schedule N points are drawn and predicted, the best is compiled, and predicted once more with the
registers that NVRTC gave it. With `--prove` the one with tensor memory is proven in the emulator, too. Every time here
is predicted: no such card was at hand. What tensor memory itself takes is not in the model, since no rate of it is
published; its instructions count as one each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from compiler.analysis.facts import Facts
from compiler.arch import Card, card_or_default
from compiler.errors import CompileError, IllegalSchedule, Unsupported
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from search.cli.load import Named, load_many
from search.cost.predicting import predictor, refiner
from search.proof.emulated.check import verify
from search.space.groups import part_without_tmem, parts_in_tmem
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.plan import Plan

SUITE = Path(__file__).parents[1] / "suite" / "suite_public.json"

SPARE = 4
"""Points drawn for each that is predicted: the whole model refuses some."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """The best of the drawn points of one kind: its schedule, time in microseconds as predicted with the registers that
    NVRTC gave it, bytes of each thread that it spilled, and of tensor memory the columns of a block and the patterns
    with the words of their accesses. `proof`: empty where the emulator was not asked, else what it found."""

    schedule: str
    predicted_us: float
    registers: int
    spilled_bytes: int
    columns: int
    accesses: tuple[str, ...]
    proof: str = ""


@dataclass(frozen=True, slots=True)
class PredictedGain:
    """One fusion: the best with tensor memory (None where no point drawn has any) and without."""

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
    fusions: Iterable[Named], card: Card, drawn: int, pool: CompilePool, *, prove: bool
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
            [(name, part) for name, space in spaces.items() for part in parts_in_tmem(space)],
            [(name, part_without_tmem(space)) for name, space in spaces.items()],
        )
        with_tmem, without = (_drawn(plan, kind, card, drawn) for kind in kinds)
        yield PredictedGain(
            named.name, _best(with_tmem, card, pool, prove=prove), _best(without, card, pool, prove=False)
        )


def _drawn(plan: Plan, parts: Sequence[tuple[str, Space]], card: Card, drawn: int) -> list[tuple[Candidate, Generated]]:
    """Legal points of all these parts of spaces of schedulers, what is predicted to be fastest first."""
    predict = predictor(card)
    found: list[tuple[float, Candidate, Generated]] = []
    every = [Candidate.of(name, point) for name, part in parts for point in part.sample(drawn * SPARE, seed=0)]
    for candidate in Random(0).sample(every, len(every)):
        if len(found) == drawn:
            break
        try:
            made = generate(plan.schedulers[candidate.scheduler].trace(plan.fusion, candidate.knobs), plan.arch)
        except (IllegalSchedule, Unsupported):
            continue
        found.append((sum(predict(launch) for launch in made.launches), candidate, made))
    return [one[1:] for one in sorted(found, key=lambda one: one[0])]


def _best(
    drawn: Sequence[tuple[Candidate, Generated]], card: Card, pool: CompilePool, *, prove: bool
) -> Predicted | None:
    """The first that compiles: accesses of many words may ask for more registers than so many threads leave."""
    for candidate, made in drawn:
        try:
            return _predicted(candidate, made, card, pool, prove=prove)
        except CompileError as error:
            print(f"{candidate}: {error}", file=sys.stderr)
    return None


def _predicted(candidate: Candidate, made: Generated, card: Card, pool: CompilePool, *, prove: bool) -> Predicted:
    built = artifact(made, pool.submit(made.source, made.arch.name).result())
    plans = [Facts(launch.scheduled).tensor_memory for launch in made.launches]
    proof = ""
    if prove:
        proven = verify(made, built, pool)
        proof = proven.fault or proven.undone or "verified_emulated"
    return Predicted(
        str(candidate),
        refiner(card)(made, built.resources).total_us,
        built.resources.registers,
        built.resources.spill_store_bytes + built.resources.spill_load_bytes,
        max(launch.kernel.tmem_columns for launch in made.launches),
        tuple(dict.fromkeys(f"{access.pattern}: {access.words}" for plan in plans for access in plan.accesses)),
        proof,
    )


def markdown(card: Card, drawn: int, found: Iterable[PredictedGain]) -> str:
    """The table that `benchmarks/results` keeps."""
    head = f"""# What tensor memory is predicted to give on a {card.name}

Every time here is **predicted**; nothing ran on a card. Of each kind of schedule up to {drawn} legal points were drawn
at random for each fusion, and the best of either is shown: a difference of a few percent between the two is the luck
of the draw. Neither kind is searched. What tensor memory itself takes is not in the model, as no rate of it is
published; its instructions count as one each. Proof: the emulator ran the PTX that NVRTC made, on all input sets.
"none": no point that keeps something in tensor memory was drawn; for most such fusions none is offered.

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
    parser.add_argument("--drawn", type=int, default=40, metavar="N", help="points of each kind that are predicted")
    parser.add_argument("--prove", action="store_true", help="prove the best with tensor memory in the emulator")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the same as a table")
    given = parser.parse_args(arguments)
    card = card_or_default(given.card)
    fusions = [one for one in load_many([given.suite], {}) if not given.case or one.name in given.case]
    found: list[PredictedGain] = []
    print(HEAD)
    with CompilePool(workers=1) as pool:
        for row in rows(fusions, card, given.drawn, pool, prove=given.prove):
            print(row, flush=True)
            found.append(row)
    if given.json is not None:
        report = {"card": card.name, "times": "predicted", "drawn": given.drawn, "fusions": [asdict(r) for r in found]}
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if given.markdown is not None:
        given.markdown.write_text(markdown(card, given.drawn, found), encoding="utf-8")
    proofs = [row.with_tmem.proof for row in found if row.with_tmem is not None]
    return int(any(proof not in ("", "verified_emulated") for proof in proofs))


if __name__ == "__main__":
    sys.exit(main())
