"""The result of a run as text: faults first, then tensors, then counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from compiler.emulate.report import EmulatorFault, FaultKind
from compiler.emulated_runs.running import EmulatedRun
from compiler.emulated_runs.subject import Subject

_NO_LINES = "This PTX has no line information: faults name its own lines. Compile with -lineinfo to see the source's."


def report(ran: EmulatedRun) -> str:
    """The whole report."""
    return "\n".join(_lines(ran))


def _lines(ran: EmulatedRun) -> Iterator[str]:
    subject, launch = ran.subject, ran.launch
    cluster = f", cluster {_times(launch.cluster)}" if launch.cluster != (1, 1, 1) else ""
    completion = ran.options.completion.value
    order = f"{completion}, seed {ran.options.seed}" if completion == "random" else completion
    sizes = f"grid {_times(launch.grid)}, block {_times(launch.block)}{cluster}"
    yield f"{launch.entry} on {launch.arch}: {sizes}; order {order}"
    if (launches := len(subject.spec.launches)) > 1:
        yield f"{ran.finished} of {launches} launches ran"
    if not subject.has_lines:
        yield _NO_LINES
    for fault in ran.faults:
        yield ""
        yield from _fault(fault, subject)
    yield ""
    yield _verdict(ran.faults)
    if ran.unlisted:
        yield f"{ran.unlisted} more occurrences at other instructions are not listed"
    if ran.tensors:
        yield ""
        yield from _tensors(ran)
    yield ""
    yield "counters"
    yield from counter_lines(ran.counters, "  ")


def _verdict(faults: tuple[EmulatorFault, ...]) -> str:
    if not faults:
        return "no faults"
    kinds = ", ".join(f"{sum(f.kind is kind for f in faults)} {kind}" for kind in FaultKind if _has(faults, kind))
    return f"{len(faults)} fault{'s' if len(faults) > 1 else ''}: {kinds}"


def _has(faults: tuple[EmulatorFault, ...], kind: FaultKind) -> bool:
    return any(f.kind is kind for f in faults)


def _fault(fault: EmulatorFault, subject: Subject) -> Iterator[str]:
    """What was wrong, then where: the line of the source with its text, the instruction, who, which address."""
    times = f" ({fault.count} times)" if fault.count > 1 else ""
    yield f"{fault.kind}{times}"
    for line in fault.message.splitlines():
        yield f"  {line}"
    place = subject.source_line(fault.ptx_line)
    if place is not None:
        file, number, text = place
        yield f"    source       {Path(file).name}:{number}{f'  {text}' if text else ''}"
    yield f"    instruction  {fault.instruction}  (PTX line {fault.ptx_line})"
    if fault.block is not None or fault.thread is not None:
        who = [f"{what} {at}" for what, at in (("block", fault.block), ("thread", fault.thread)) if at is not None]
        yield f"    by           {', '.join(who)}"
    if fault.address is not None or fault.tensor is not None:
        address = "" if fault.address is None else f"{fault.address:#x}"
        yield f"    address      {' in '.join(part for part in (address, fault.tensor or '') if part)}"


def _tensors(ran: EmulatedRun) -> Iterator[str]:
    rows = [
        (
            name,
            f"{t.dtype} {_times(t.shape) or 'scalar'}",
            f"{t.written} of {t.count} written" if t.written else "not written",
            f"sha256 {t.sha256[:16]}…",
        )
        for name, t in ran.tensors.items()
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield "tensors"
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def counter_lines(counters: Mapping[str, Any], indent: str) -> Iterator[str]:
    """A line for each group of numbers, its names before; what is zero or empty is left out."""
    shown = {name: value for name, value in counters.items() if _is_shown(value)}
    numbers = [f"{name} {value}" for name, value in shown.items() if not isinstance(value, Mapping)]
    if numbers:
        yield f"{indent}{', '.join(numbers)}"
    groups = {name: value for name, value in shown.items() if isinstance(value, Mapping)}
    width = max(map(len, groups), default=0)
    for name, group in groups.items():
        if any(isinstance(value, Mapping) for value in group.values()):
            yield f"{indent}{name}"
            yield from counter_lines(group, f"{indent}  ")
        else:
            inside = ", ".join(f"{inner} {value}" for inner, value in group.items() if value)
            yield f"{indent}{name.ljust(width)}  {inside}"


def _is_shown(value: Any) -> bool:
    """Whether there is anything but zeros in it."""
    return any(map(_is_shown, value.values())) if isinstance(value, Mapping) else bool(value)


def _times(numbers: tuple[int, ...]) -> str:
    """`128 x 4`"""
    return " x ".join(map(str, numbers))
