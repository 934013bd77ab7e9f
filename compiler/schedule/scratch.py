"""Buffers for the values that launches hand on: one buffer serves several values, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.schedule.trace import ProgramTrace


@dataclass(frozen=True, slots=True)
class Buffer:
    """Temporary memory of `nbytes` bytes; `values` lie in it in turn, each from the start. `is_zeroed`: it is cleared
    before each call."""

    nbytes: int
    values: tuple[str, ...] = ()
    is_zeroed: bool = False


def scratch_buffers(trace: ProgramTrace) -> tuple[Buffer, ...]:
    """The buffers of a program. A value takes one that every earlier value in it has left: what reads that one last has
    ended before this one is first written, since launches run one after the other.

    Of the free buffers the one nearest in size is taken, and grown where it is smaller; values are placed in the order
    in which they are written.
    """
    whole = {*trace.fusion.inputs, *trace.fusion.outputs}
    last_read = {name: n for n, one in enumerate(trace.launches) for name in one.reads}
    buffers: list[tuple[int, list[str], int]] = []
    for number, one in enumerate(trace.launches):
        for place, inner in zip(one.writes, one.trace.fusion.outputs, strict=True):
            if place in whole:
                continue
            need = one.trace.fusion.value(inner).storage_bytes
            free = [n for n, (_, _, until) in enumerate(buffers) if until < number]
            until = last_read.get(place, number)
            if not free:
                buffers.append((need, [place], until))
                continue
            best = min(free, key=lambda n: (abs(buffers[n][0] - need), n))
            size, values, _ = buffers[best]
            buffers[best] = (max(size, need), [*values, place], until)
    return tuple(Buffer(size, tuple(values)) for size, values, _ in buffers)
