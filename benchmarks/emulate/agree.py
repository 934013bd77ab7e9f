"""Runs what `prepare` left on a card and in the emulator and compares: `python -m benchmarks.emulate.agree DIR`.

Prints and writes a table: for each family the kernels and the values compared, how many kernels disagree, how many
values have other bits, and the worst error in units of what the PTX ISA documents; then each kernel that disagrees.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.emulate import on_card
from benchmarks.emulate.comparing import Bytes, compare
from benchmarks.emulate.compiling import entry, prepared_forms
from benchmarks.emulate.form import FormTolerance, InstructionForm
from benchmarks.emulate.forms import chosen
from benchmarks.emulate.fusions import FusionKernel, launch_of, prepared_fusions
from compiler.emulate.launch import Launch
from compiler.emulate.ptx.module import Module
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate


@dataclass(frozen=True)
class AgreementRow:
    """How one kernel fared. `failure` says why there is nothing to compare, or which fault the emulator reported."""

    name: str
    family: str
    cases: int = 0
    mismatches: int = 0
    bits: int = 0
    worst: float = 0.0
    first: str = ""
    failure: str = ""
    seconds: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether everything ran, without a fault, and lies close enough."""
        return not self.failure and not self.mismatches


def compare_forms(folder: Path, card: Mapping[int, dict[str, Bytes] | str], processes: int) -> list[AgreementRow]:
    """All forms, module by module in parallel."""
    numbers, start = [], 0
    for number, (_, forms) in enumerate(prepared_forms(chosen(folder / "forms"), folder / "forms")):
        part = {k: card.get(start + k, "it did not run on the card") for k in range(len(forms))}
        numbers.append((folder, number, part))
        start += len(forms)
    with ProcessPoolExecutor(processes) as pool:
        return [row for rows in pool.map(_module_rows, *zip(*numbers, strict=True)) for row in rows]


@cache
def _prepared(folder: Path) -> list[tuple[str, tuple[InstructionForm, ...]]]:
    return [
        (compiled.ptx, tuple(forms)) for compiled, forms in prepared_forms(chosen(folder / "forms"), folder / "forms")
    ]


def _module_rows(folder: Path, number: int, card: Mapping[int, dict[str, Bytes] | str]) -> list[AgreementRow]:
    ptx, forms = _prepared(folder)[number]
    module = parse(ptx)
    return [_form_row(module, form, form.launch(entry(k)), card[k]) for k, form in enumerate(forms)]


def _form_row(module: Module, form: InstructionForm, launch: Launch, there: dict[str, Bytes] | str) -> AgreementRow:
    slot = 8 if form.family in ("integer", "float", "cvt") else 0
    tolerances = dict.fromkeys(form.compared, form.tolerance)
    return _row(form.name, form.family, module, launch, there, tolerances, slot)


def compare_fusions(folder: Path, card: Mapping[int, dict[str, Bytes] | str], processes: int) -> list[AgreementRow]:
    """All kernels of random fusions, in parallel."""
    count = len(prepared_fusions(folder / "fusions"))
    parts = [(folder, k, card.get(k, "it did not run on the card")) for k in range(count)]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(_fusion_row, *zip(*parts, strict=True), chunksize=8))


@cache
def _candidates(folder: Path) -> list[FusionKernel]:
    return prepared_fusions(folder / "fusions")


def _fusion_row(folder: Path, number: int, there: dict[str, Bytes] | str) -> AgreementRow:
    candidate = _candidates(folder)[number]
    launch = launch_of(candidate)
    tolerances = {}
    for k, output in enumerate(candidate.artifact.outputs):
        tolerances[f"out{k}"] = _fusion_tolerance(candidate, output.dtype, there, f"out{k}")
    family = f"fusion {candidate.name.split('-')[1]}"
    return _row(candidate.name, family, parse(candidate.ptx), launch, there, tolerances, 0)


def _fusion_tolerance(candidate: FusionKernel, dtype: str, there: dict[str, Bytes] | str, name: str) -> FormTolerance:
    """Equal where the PTX leaves no freedom. Else errors of approximate instructions, which operators after them may
    magnify: in proportion to the largest value of the tensor."""
    if candidate.is_exact or isinstance(there, str):
        return FormTolerance(dtype)
    data = there[name].view({"f32": np.float32, "f16": np.float16, "bf16": np.uint16}[dtype])
    values = (data.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else data.astype(np.float32)
    finite = np.abs(values[np.isfinite(values)])
    unit = 2.0**-9 if "tanh.approx" in candidate.ptx else 2.0**-18
    return FormTolerance(dtype, relative=unit, absolute=unit * float(finite.max(initial=1.0)))


def _row(
    name: str,
    family: str,
    module: Module,
    launch: Launch,
    there: dict[str, Bytes] | str,
    tolerances: Mapping[str, FormTolerance],
    slot: int,
) -> AgreementRow:
    if isinstance(there, str):
        return AgreementRow(name, family, failure=f"card: {there}")
    started = time.perf_counter()
    outcome = emulate(module, launch)
    seconds = time.perf_counter() - started
    if outcome.faults:
        fault = outcome.faults[0]
        return AgreementRow(
            name, family, failure=f"emulator: {fault.kind} at `{fault.instruction}`: {fault.message}", seconds=seconds
        )
    parts = [compare(there[n], launch.tensors[n].data, t, slot) for n, t in tolerances.items()]
    return AgreementRow(
        name,
        family,
        sum(p.cases for p in parts),
        sum(p.mismatches for p in parts),
        sum(p.bits for p in parts),
        max((p.worst for p in parts), default=0.0),
        next((p.first for p in parts if p.first), ""),
        seconds=seconds,
    )


def markdown(rows: Iterable[AgreementRow], card: str = "") -> str:
    """What was compared on `card`, a line a family, then every kernel that disagrees."""
    rows = list(rows)
    wrong = [r for r in rows if not r.agrees]
    lines = [
        f"{len(rows)} kernels compared in {sum(r.cases for r in rows):,} values: "
        f"{f'disagreeing: {len(wrong)}' if wrong else 'all agree'}{f', on {card}' if card else ''}.",
        "",
        "| family | kernels | values compared | kernels that disagree | other bits | worst error |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for family in dict.fromkeys(r.family for r in rows):
        of = [r for r in rows if r.family == family]
        worst = max(r.worst for r in of)
        cells = (
            family,
            len(of),
            f"{sum(r.cases for r in of):,}",
            sum(not r.agrees for r in of),
            f"{sum(r.bits for r in of):,}",
            f"{worst:.2f}" if any(r.bits for r in of) else "",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    if wrong:
        lines += ["", "| disagrees | values | wrong | first |", "| --- | --- | --- | --- |"]
        lines += [f"| `{r.name}` | {r.cases} | {r.mismatches} | {_cell(r.failure or r.first)} |" for r in wrong]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:240]


def measure(folder: Path, processes: int) -> list[AgreementRow]:
    """Runs everything in `folder`. The card first, then the emulator."""
    rows: list[AgreementRow] = []
    if (folder / "forms").is_dir():
        rows += compare_forms(folder, on_card.results(folder, "forms"), processes)
    if (folder / "fusions").is_dir():
        rows += compare_fusions(folder, on_card.results(folder, "fusions"), processes)
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """The command: exit code 1 if anything disagrees, 2 if there is nothing to compare."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulate.agree", description=__doc__)
    parser.add_argument("folder", type=Path, help="what `python -m benchmarks.emulate.prepare --out` wrote")
    parser.add_argument("--json", type=Path, help="write every row there")
    parser.add_argument("--markdown", type=Path, help="write the table there")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 16))
    given = parser.parse_args(argv)
    rows = measure(given.folder, given.processes)
    if not rows:
        fix = "Fill it with `python -m benchmarks.emulate.prepare --out DIR`."
        parser.error(f"{given.folder}: nothing was prepared there, so that nothing could agree. {fix}")
    table = markdown(rows, on_card.described(given.folder))
    print(table)
    if given.json:
        given.json.write_text(json.dumps([asdict(r) for r in rows], indent=1), encoding="utf-8")
    if given.markdown:
        given.markdown.write_text(table, encoding="utf-8")
    return int(any(not r.agrees for r in rows))


if __name__ == "__main__":
    sys.exit(main())
