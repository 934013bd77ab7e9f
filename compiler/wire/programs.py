"""Whether launches read from a document fit together: each tensor is written before it is read, and all are like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.errors import InvalidFusion, Problem
from compiler.ir.fusion import Fusion, Value
from compiler.schedule.aliases import late_reads
from compiler.schedule.trace import LaunchTrace, ProgramTrace

_FIX = "Write it as `python -m search trace` does."


def program_of(fusion: Fusion, launches: Sequence[LaunchTrace]) -> ProgramTrace:
    """The launches as a program of `fusion`. Raises InvalidFusion with the place of each fault."""
    problems = tuple(_problems(fusion, launches))
    if problems:
        raise InvalidFusion(problems)
    return ProgramTrace(fusion, tuple(launches))


def _problems(fusion: Fusion, launches: Sequence[LaunchTrace]) -> Iterator[Problem]:
    if not launches:
        yield Problem("launches", "none", "at least one", _FIX)
    there: dict[str, Value] = {name: fusion.value(name) for name in fusion.inputs}
    outputs = {name: fusion.value(name) for name in fusion.outputs}
    written = set[str]()
    for number, one in enumerate(launches):
        own = one.trace.fusion
        for field, names, inner in (("reads", one.reads, own.inputs), ("writes", one.writes, own.outputs)):
            where = f"launches[{number}].{field}"
            if len(names) != len(inner):
                yield Problem(where, f"{len(names)} names", f"{len(inner)}, one for each tensor", _FIX)
                return
        for n, (name, mine) in enumerate(zip(one.reads, map(own.value, own.inputs), strict=True)):
            where = f"launches[{number}].reads[{n}]"
            if name not in there:
                yield Problem(where, repr(name), f"one of {', '.join(there)}", "Read what an earlier launch wrote.")
            elif (fault := _unlike(mine, there[name])) is not None:
                yield Problem(where, *fault, _FIX)
        for n, (name, mine) in enumerate(zip(one.writes, map(own.value, own.outputs), strict=True)):
            where = f"launches[{number}].writes[{n}]"
            if name in fusion.inputs or name in written or not (name in outputs or _is_scratch(name)):
                yield Problem(where, repr(name), "an output or scratch value, each written once", _FIX)
            elif name in outputs and (fault := _unlike(mine, outputs[name])) is not None:
                yield Problem(where, *fault, _FIX)
            written.add(name)
        aliases = {own.outputs.index(o): own.inputs.index(x) for o, x in own.aliases}
        into = {
            one.writes.index(o): one.reads.index(x) for o, x in fusion.aliases if o in one.writes and x in one.reads
        }
        if aliases != into:
            yield Problem(f"launches[{number}].fusion.outputs", f"aliases {aliases}", f"{into}, by position", _FIX)
        there |= dict(zip(one.writes, map(own.value, own.outputs), strict=True))
    for number, name in late_reads(fusion.aliases, [(one.reads, one.writes) for one in launches]):
        expected = "an input that no launch before has written an output into"
        yield Problem(
            f"launches[{number}].reads", repr(name), expected, "Read it in the launch that writes, or before."
        )
    for name in outputs.keys() - written:
        yield Problem("launches", f"no launch writes {name!r}", "one launch for each output", _FIX)


def _is_scratch(name: str) -> bool:
    return name[:1] == "s" and name[1:].isdigit()


def _unlike(mine: Value, whole: Value) -> tuple[str, str] | None:
    """What a launch takes a tensor for, and what it is, where the two differ."""
    found, expected = ((v.dtype.value, list(v.shape), list(v.strides)) for v in (mine, whole))
    return None if found == expected else (str(found), str(expected))
