"""`watch`: verify and time a share of stored kernels again, and say which have become slower or wrong."""

from __future__ import annotations

import json
import math
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from compiler.errors import InvalidFusion
from compiler.wire import artifact_from_json, trace_from_json
from fusetune.wire.artifact import KernelArtifact
from search.cli.faults import BROKEN, UsageFault, reports_faults
from search.cli.options import BudgetSeconds
from search.measure.device import Effort
from search.tuning.attached import Attached, Detached, find_device
from search.tuning.budget import Budget
from search.tuning.drops import slower_by
from search.tuning.trial import TrialState

RECORD = "watched.json"
"""In the folder: when each kernel was looked at last, and what came of it."""

_WRONG = frozenset({TrialState.WRONG_RESULT, TrialState.CRASHED})


@dataclass(frozen=True, slots=True)
class Stored:
    """A kernel of the folder that was measured."""

    name: str
    artifact: KernelArtifact


@reports_faults
def watch(
    folder: Annotated[Path, typer.Argument(help="Kernels that were measured: results, or a client's.", metavar="DIR")],
    share: Annotated[float, typer.Option(help="% of the kernels to look at, those first that waited longest.")] = 10.0,
    budget_s: BudgetSeconds = 60.0,
) -> None:
    """Verify and time a share of stored kernels again. Exits with 1 if one is slower beyond noise, or wrong."""
    budget = Budget(seconds=budget_s)
    if not 0.0 < share <= 100.0:
        raise UsageFault(f"--share: found {share:g}, expected more than 0 and at most 100.")
    if not folder.is_dir():
        raise UsageFault(f"{folder} is no folder. Name one that `tune` has written, or where a client keeps kernels.")
    kernels = stored_in(folder)
    if not kernels:
        raise UsageFault(
            f"{folder}: no kernel here was measured. Fill it with `python -m search tune … --out {folder}`."
        )
    record = _read(folder)
    kernels.sort(key=lambda one: (record.get(one.name, {}).get("at", 0.0), one.name))
    console = Console(highlight=False, soft_wrap=True)
    gpu = find_device(None)
    if isinstance(gpu, Detached):
        typer.echo(f"error: nothing can be measured here: {gpu.why}. The kernels stay as they are.", err=True)
        raise typer.Exit(BROKEN)
    mine = [one for one in kernels if one.artifact.timing is not None and one.artifact.timing.card == gpu.facts.name]
    if len(mine) < len(kernels):
        console.print(f"{len(kernels) - len(mine)} kernels were measured on another card than the {gpu.facts.name}.")
    due = mine[: math.ceil(len(mine) * share / 100.0)]
    looked = []
    with closing(gpu.device):
        for one in due:
            if budget.left_s <= 0.0:
                break
            found = _looked_at(one, gpu)
            looked.append(found)
            record[one.name] = found
            console.print(f"{one.name}: {_words(found)}", markup=False)
            (folder / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    bad = [found for found in looked if found.get("slower") or found.get("wrong")]
    console.print(f"{len(looked)} of {len(kernels)} kernels were looked at, {len(bad)} of them are slower or wrong.")
    if bad:
        raise typer.Exit(BROKEN)


def stored_in(folder: Path) -> list[Stored]:
    """The kernels below a folder that carry a timing. What is no kernel is left out."""
    found = []
    for path in sorted(folder.rglob("*.json")):
        try:
            artifact = artifact_from_json(path.read_text(encoding="utf-8"))
        except (InvalidFusion, OSError, ValueError):
            continue
        if artifact.timing is not None:
            found.append(Stored(str(path.relative_to(folder)), artifact))
    return found


def _looked_at(one: Stored, gpu: Attached) -> dict[str, Any]:
    """What came of a kernel; times in microseconds."""
    before = one.artifact.timing
    assert before is not None
    told: dict[str, Any] = {"at": time.time(), "before_us": before.median_us}
    gpu.device.open(trace_from_json(one.artifact.trace).fusion)
    timing = before
    for effort in (Effort.ALL_SETS, Effort.LEADER):
        result = gpu.device.measure(one.artifact, effort)
        if result.state is not TrialState.MEASURED or result.timing is None:
            return {**told, "wrong" if result.state in _WRONG else "undone": f"{result.state}: {result.reason}"}
        timing = result.timing
    told |= {"median_us": timing.median_us, "conditions": dict(timing.conditions)}
    return {**told, "slower": round(slower_by(before.median_us, before.p90_us, timing.samples_us), 4)}


def _words(found: dict[str, Any]) -> str:
    if "wrong" in found:
        return f"WRONG ({found['wrong']})"
    if "undone" in found:
        return f"could not be timed ({found['undone']})"
    times = f"{found['median_us']:.2f} us, before {found['before_us']:.2f} us"
    marks = ", ".join(found["conditions"].get("marks", ()))
    marked = f" (marked: {marks})" if marks else ""
    return f"{times}: {found['slower']:.1%} slower{marked}" if found["slower"] else f"{times}: as fast{marked}"


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    """What is known from before; a record that cannot be read is begun anew."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: told for name, told in record.items() if isinstance(told, dict)} if isinstance(record, dict) else {}
