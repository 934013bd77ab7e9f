"""`trace`: the schedule of one point of a fusion's space, as JSON for `python -m compiler show`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from compiler.arch import card_or_default
from compiler.wire import trace_to_json
from search.cli.faults import UsageFault, reports_faults
from search.cli.load import load_one, sizes_of
from search.cli.options import Bind, CardName, Case, FusionFile
from search.space.knobs import Knob, KnobValue
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.plan import Plan


@reports_faults
def trace(
    fusion: FusionFile,
    bind: Bind = None,
    card: CardName = None,
    case: Case = None,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", help="Default: the first that has such a point.", metavar="NAME")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Value of a knob; repeat, or separate by commas.", metavar="KNOB=VALUE"),
    ] = None,
) -> None:
    """Print the trace of one point: the knobs as set, the others as in the nearest legal point. Needs no GPU."""
    named = load_one(fusion, case, sizes_of(bind or []))
    plan = Plan.of(named.bound(), card_or_default(card))
    candidate = chosen_point(_spaces(plan, scheduler), _pairs(settings or []))
    typer.echo(str(candidate), err=True)
    schedule = plan.schedulers[candidate.scheduler].trace(plan.fusion, candidate.knobs)
    typer.echo(json.dumps(trace_to_json(schedule), indent=1))


def chosen_point(spaces: Mapping[str, Space], settings: Mapping[str, str]) -> Candidate:
    """The legal point with these settings that is nearest to the first value of every other knob.

    Of several spaces the first that has such a point is taken. Raises UsageFault for a knob or value that no space has,
    and, naming rules, for settings that no legal point has.
    """
    faults: list[str] = []
    for name, space in spaces.items():
        try:
            point = _nearest(_restricted(space, settings))
        except UsageFault as fault:
            faults.append(str(fault))
        else:
            return Candidate.of(name, point)
    raise UsageFault("\n".join(faults))


def _restricted(space: Space, settings: Mapping[str, str]) -> Space:
    """The points of `space` that have the settings. Raises UsageFault for a knob or value that it has not."""
    knobs = {knob.name: knob for knob in space.knobs}
    for name, text in settings.items():
        if name not in knobs:
            raise UsageFault(f"--set: {space.name} has no knob {name!r}. Its knobs are {', '.join(knobs)}.")
        knobs[name] = replace(knobs[name], values=(_value(space, knobs[name], text),))
    return replace(space, knobs=tuple(knobs.values())).reachable


def _value(space: Space, knob: Knob, text: str) -> KnobValue:
    for value in knob.values:
        if str(value).lower() == text.lower():
            return value
    values = ", ".join(map(str, knob.values))
    raise UsageFault(f"--set {knob.name}: found {text!r}, expected one of {values} ({space.name}).")


def _nearest(space: Space) -> dict[str, KnobValue]:
    point = space.nearest_legal({knob.name: knob.values[0] for knob in space.knobs})
    if point is None:
        raise UsageFault(_why_none(space))
    return point


def _why_none(space: Space) -> str:
    """The rules that refuse every point of the space, or those that do it together."""
    alone = [rule for rule, count in space.refused.items() if count == space.points]
    rules = alone or [rule for rule, count in space.refused.items() if count]
    lines = [f"--set: {space.name} has no legal point with these settings. Change what a rule names:"]
    for rule in rules:
        told = [c for c in space.constraints if c.rule == rule]
        knobs = dict.fromkeys(axis for c in told for axis in c.axes)
        reasons = " ".join(dict.fromkeys(c.reason for c in told))
        lines.append(f"  {rule} refuses {space.refused[rule]:,} of {space.points:,} ({', '.join(knobs)}): {reasons}")
    return "\n".join(lines)


def _spaces(plan: Plan, scheduler: str | None) -> Mapping[str, Space]:
    if scheduler is None:
        return plan.spaces
    if scheduler not in plan.spaces:
        known = ", ".join(plan.spaces)
        raise UsageFault(f"--scheduler: found {scheduler!r}, expected one that takes this fusion: {known}.")
    return {scheduler: plan.spaces[scheduler]}


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    """`["load=tma", "stages=3,math=exact"]` as a mapping. Raises UsageFault."""
    pairs: dict[str, str] = {}
    for text in (part for option in texts for part in option.split(",")):
        knob, equals, value = (piece.strip() for piece in text.partition("="))
        if not (knob and equals and value):
            raise UsageFault(f"--set: found {text!r}, expected KNOB=VALUE. Write --set load=tma.")
        if knob in pairs:
            raise UsageFault(f"--set: {knob} is given twice. Give it one value.")
        pairs[knob] = value
    return pairs
