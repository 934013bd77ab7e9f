"""Explicit schedules on the command line: choosing cases of a file, running them in the emulator, printing CUDA."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from compiler.arch import Arch
from compiler.cli.cases import plain, read_documents
from compiler.emulate.launch import Completion, Options
from compiler.emulate.memory.build import BadLaunch
from compiler.emulate.ptx.errors import PtxError
from compiler.emulated_runs.report import counter_lines
from compiler.emulated_runs.running import fault_json
from compiler.errors import CompilerError
from compiler.explicit.emulated import EmulatedExplicit, run_explicit
from compiler.explicit.generate import generate_explicit
from compiler.explicit.smaller import smaller
from compiler.faults import FAULT, UsageFault, say
from compiler.nvrtc import CompilePool
from compiler.schedule.document import MalformedCase

WRONG = 1
"""Exit code of a run with faults or wrong results."""

REFUSED = (CompilerError, MalformedCase, PtxError, BadLaunch)
"""Why a case has no kernel, or the kernel no run."""

FEW_BLOCKS = 4096
"""Blocks of a kernel that all run where extents may not be made smaller."""


def cases_of(file: Path, case: str | None) -> tuple[Mapping[str, Any], ...]:
    """The cases of a file, or the one of that name. Raises UsageFault."""
    documents = [d for d in read_documents(file) if isinstance(d, dict)]
    if not documents:
        raise UsageFault(f"{file}: found no case, expected an object or a list of objects (docs/contracts.md).")
    if case is None:
        return tuple(documents)
    chosen = tuple(d for d in documents if d.get("name") == case)
    if not chosen:
        names = ", ".join(plain(str(d.get("name", ""))) for d in documents[:12])
        more = f" and {len(documents) - 12} more" if len(documents) > 12 else ""
        raise UsageFault(f"{file}: found no case {plain(case)!r}, expected one of {names}{more}.")
    return chosen


@dataclass(frozen=True)
class Ran:
    """One case: its run, or why there is none. `bound`: the sizes it ran at are not those of the document."""

    name: str
    run: EmulatedExplicit | None
    bound: bool = False
    refused: str = ""

    @property
    def exit_code(self) -> int:
        return FAULT if self.run is None else 0 if self.run.is_right else WRONG

    def to_json(self) -> dict[str, Any]:
        """The result as docs/emulator.md has it."""
        if self.run is None:
            return {"name": self.name, "right": None, "error": self.refused}
        kernel, outcome = self.run.generated.kernel, self.run.outcome
        return {
            "name": self.name,
            "right": self.run.is_right,
            "arch": self.run.generated.arch.name,
            "grid": list(kernel.grid),
            "block": list(kernel.block),
            "smem_bytes": kernel.smem_bytes,
            "shapes": {v.name: list(v.shape) for v in self.run.generated.fusion.values},
            "smaller": self.bound,
            "blocks": None if self.run.options.blocks is None else list(self.run.options.blocks),
            "faults": [fault_json(fault) for fault in outcome.faults],
            "faults_not_listed": outcome.unlisted,
            "outputs": [
                {"tensor": c.tensor, "compared": c.count, "missing": c.missing, "wrong": c.wrong, "error": c.max_error}
                for c in self.run.compared
            ],
            "counters": outcome.counters,
        }

    def lines(self) -> Iterator[str]:
        """The result as text."""
        if self.run is None:
            yield f"{self.name or '(without a name)'}: not run"
            yield from (f"  {line}" for line in self.refused.splitlines())
            return
        generated, outcome = self.run.generated, self.run.outcome
        grid, block = (" x ".join(map(str, n)) for n in (generated.kernel.grid, generated.kernel.block))
        yield f"{self.name} on {generated.arch.name}: grid {grid}, block {block}, {generated.kernel.smem_bytes} bytes"
        if self.bound:
            sizes = ", ".join(f"{n} {list(generated.fusion.value(n).shape)}" for n in generated.fusion.inputs)
            yield f"  extents unknown at compile time are bound to smaller ones: {sizes} (--full-size: as declared)"
        if self.run.options.blocks is not None:
            yield f"  blocks {', '.join(map(str, self.run.options.blocks))} alone ran"
        for fault in outcome.faults:
            yield f"  {fault.kind} ({fault.count} times): {fault.message}"
            yield f"    instruction {fault.instruction} (PTX line {fault.ptx_line})"
            yield f"    by block {fault.block}, thread {fault.thread}"
        yield f"  {len(outcome.faults) + outcome.unlisted} faults" if outcome.faults else "  no faults"
        yield from (f"  {one}" for one in self.run.compared)
        yield "  counters"
        yield from counter_lines(outcome.counters, "    ")


def emulate_cases(
    file: Path, case: str | None, arch: Arch | None, options: Options, *, full_size: bool, as_json: bool
) -> None:
    """Runs cases, prints what came of each, and exits with the largest of: 0 right, 1 wrong or faults, 2 not run."""
    documents = cases_of(file, case)
    with CompilePool(workers=1, time_limit_s=60.0) as pool:
        results = [ran(document, arch, options, pool, full_size=full_size) for document in documents]
    if as_json:
        found = [one.to_json() for one in results]
        typer.echo(json.dumps(found[0] if case is not None or len(found) == 1 else found, indent=1))
    else:
        typer.echo("\n".join(plain(line) for one in results for line in one.lines()))
    raise typer.Exit(max(one.exit_code for one in results))


def ran(document: Mapping[str, Any], arch: Arch | None, options: Options, pool: CompilePool, *, full_size: bool) -> Ran:
    """One case run at its own sizes, or at smaller ones where they are unknown at compile time and many."""
    name = str(document.get("name", ""))
    try:
        generated = generate_explicit(document, arch)
        less = None if full_size else smaller(document)
        is_smaller = False
        if less is not None:
            try:
                generated, is_smaller = generate_explicit(less, arch), True
            except CompilerError:
                is_smaller = False  # legal at the declared sizes alone
        x, y, z = generated.kernel.grid
        blocks = None
        if x * y * z > FEW_BLOCKS and not full_size:
            last = x * y * z - 1
            blocks = tuple(sorted({0, 1, last // 2, last - 1, last}))
        chosen = Options(options.completion, options.seed, blocks)
        return Ran(name, run_explicit(generated, chosen, pool), is_smaller)
    except REFUSED as error:
        return Ran(name, None, refused=str(error))


def emit_cases(file: Path, case: str | None, arch: Arch | None) -> Iterator[str]:
    """The CUDA of each case beside its steps. Says on stderr why one has none; the last item raises typer.Exit."""
    failed = False
    for document in cases_of(file, case):
        try:
            generated = generate_explicit(document, arch)
        except REFUSED as error:
            say(error)
            failed = True
            continue
        yield from beside(document, generated.source)
    if failed:
        raise typer.Exit(FAULT)


def beside(document: Mapping[str, Any], source: str) -> Iterator[str]:
    """Tensors, operators and steps as comments, then the kernel."""
    yield f"// {plain(str(document.get('name', '')))}"
    for op in document["ops"]:
        via = f" via {op['via']}" if "via" in op else ""
        yield f"//   {op['out']} = {op['op']}({', '.join(map(str, op['in']))}){via}"
    for step in document["schedule"]:
        fields = " ".join(f"{k}={v}" for k, v in step.items() if k != "do")
        yield f"//   {plain(str(step.get('do')))} {plain(fields)}"
    yield source


__all__ = ["Completion", "Ran", "beside", "cases_of", "emit_cases", "emulate_cases", "ran"]
