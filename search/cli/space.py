"""`space`: how many schedules a fusion has, how many of them are legal, and what refuses the others."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console

from compiler.arch import card_or_default
from compiler.errors import IllegalSchedule, InvalidStep, Unsupported
from search.cli.faults import reports_faults
from search.cli.load import load_one, sizes_of
from search.cli.options import Bind, CardName, Case, FusionFile, Seed
from search.space.constraints import Constraint
from search.space.counted import told
from search.space.groups import ACCUMULATORS
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.plan import Plan


@reports_faults
def space(
    fusion: FusionFile,
    bind: Bind = None,
    card: CardName = None,
    case: Case = None,
    samples: Annotated[int, typer.Option(help="Legal schedules to show.", min=0)] = 3,
    seed: Seed = 0,
    conditions: Annotated[bool, typer.Option("--conditions", help="Print what each rule wants of knobs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Count a fusion's schedules: points, legal ones, what each rule refuses, and a few samples. Needs no GPU."""
    named = load_one(fusion, case, sizes_of(bind or []))
    chosen = card_or_default(card)
    plan = Plan.of(named.bound(), chosen)
    report = {
        "name": named.name,
        "fingerprint": plan.fusion.fingerprint,
        "binding": plan.fusion.binding_hash,
        "card": chosen.name,
        "arch": plan.arch.name,
        "points": plan.points,
        "legal": plan.legal,
        "refused": plan.refused,
        "schedulers": {
            name: {
                "points": one.points,
                "legal": one.legal,
                "refused": one.refused,
                "by_tmem": _by_tmem(one),
                "knobs": _knobs(plan, name),
                "constraints": [constraint.to_json() for constraint in one.constraints],
            }
            for name, one in plan.spaces.items()
        },
        "samples": [_sample(plan, candidate) for candidate in _samples(plan, samples, seed)],
    }
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        _print(report, plan, conditions)


def _by_tmem(one: Space) -> dict[str, dict[str, int]]:
    """Of a scheduler's legal points, how many keep what in tensor memory; of several launches, in each of them."""
    knobs = (knob.name for knob in one.knobs if knob.name.rpartition(".")[2] in ("tmem", ACCUMULATORS))
    return {name: {str(value): count for value, count in one.legal_by(name).items()} for name in knobs}


def _knobs(plan: Plan, scheduler: str) -> dict[str, list[Any]]:
    return {knob.name: list(knob.values) for knob in plan.spaces[scheduler].knobs}


def _samples(plan: Plan, n: int, seed: int) -> list[Candidate]:
    return plan.sample(n, seed)[:n] if plan.legal else []


def _sample(plan: Plan, candidate: Candidate) -> dict[str, Any]:
    try:
        steps = str(plan.schedulers[candidate.scheduler].trace(plan.fusion, candidate.knobs)).splitlines()
    except (IllegalSchedule, InvalidStep, Unsupported) as error:
        return {**candidate.to_json(), "refused": str(error)}
    return {**candidate.to_json(), "steps": steps}


def _print(report: dict[str, Any], plan: Plan, conditions: bool) -> None:
    """Samples first and counts last, where a terminal leaves them in view."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{report['name']} on {report['card']} ({report['arch']})", markup=False)
    for number, sample in enumerate(report["samples"], start=1):
        knobs = ", ".join(f"{knob}={value}" for knob, value in sample["point"].items())
        console.print(f"sample {number}: {sample['scheduler']}({knobs})", markup=False)
        for line in sample.get("steps") or [sample["refused"]]:
            console.print(f"  {line}", markup=False)
    console.print(f"points {report['points']:,}  legal {report['legal']:,}")
    for name, one in plan.spaces.items():
        console.print(f"{name}: {told(one.legal)} of {told(one.points)} legal; refused by rule:", markup=False)
        for knob, found in report["schedulers"][name]["by_tmem"].items():
            counted = ", ".join(f"{value} {count:,}" for value, count in found.items())
            console.print(f"  in tensor memory ({knob}), legal: {counted}", markup=False)
        by_rule: dict[tuple[str, str], list[Constraint]] = {}
        for constraint in one.constraints:
            by_rule.setdefault((constraint.rule, _measured(constraint)), []).append(constraint)
        counts = {found: one.refused_by(alike) for found, alike in by_rule.items()}
        for (rule, slow), count in sorted(counts.items(), key=lambda item: -item[1]):
            reasons = dict.fromkeys(c.reason for c in by_rule[rule, slow])
            console.print(f"  {count:>14,}  {rule}{slow}: {' '.join(reasons)}", markup=False)
            for constraint in by_rule[rule, slow] if conditions else ():
                console.print(f"{'':>18}legal where {constraint.condition}", markup=False)


def _measured(constraint: Constraint) -> str:
    """What is said of a constraint that is no law: the card it was measured on, and what becomes of it here."""
    here = "refused" if constraint.refuses else "on this card not refused, but tried late"
    return f" (legal; measured slower on {constraint.measured_on}: {here})" if constraint.measured_on else ""
