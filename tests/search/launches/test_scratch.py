"""Buffers between launches: enough of them, no more, and none written while it is still read."""

from __future__ import annotations

import random

import pytest

from compiler.schedule.trace import ProgramTrace, ScheduleTrace
from search.launches import Buffer, cut_at, program_trace, scratch_buffers
from tests.search.launches.made import F32, Written, fusion_of


def program(sizes: list[int], stores: list[list[str]]) -> ProgramTrace:
    """A chain of copies through values of these sizes, each read by the next: v0, v1, …; the last one is the output."""
    ops: list[Written] = [("copy", ["i0"], "v0", (sizes[0],), F32)]
    for n, size in enumerate(sizes[1:], start=1):
        dims = {} if size == sizes[n - 1] else {"dims": (0,)}
        ops.append(("slice" if dims else "copy", [f"v{n - 1}"], f"v{n}", (size,), F32, *dims.values()))
    fusion = fusion_of([("i0", (sizes[0],), F32)], ops, f"v{len(sizes) - 1}")
    cut = cut_at(fusion, stores)
    return program_trace(fusion, cut, [ScheduleTrace(part.fusion, ()) for part in cut.parts])


def alone(count: int) -> list[list[str]]:
    return [[f"v{n}"] for n in range(count)]


@pytest.mark.parametrize(
    ("trace", "buffers"),
    [
        pytest.param(program([64, 64], [["v1"]]), (), id="one-launch"),
        pytest.param(program([64, 64], alone(2)), (Buffer(256, ("s0",)),), id="two"),
        pytest.param(program([64] * 3, alone(3)), (Buffer(256, ("s0",)), Buffer(256, ("s1",))), id="three"),
        pytest.param(
            program([64] * 5, alone(5)), (Buffer(256, ("s0", "s2")), Buffer(256, ("s1", "s3"))), id="in-turns"
        ),
        pytest.param(
            program([64, 32, 16, 8], alone(4)), (Buffer(256, ("s0", "s2")), Buffer(128, ("s1",))), id="smaller-fits"
        ),
        pytest.param(
            program([64, 64, 64, 64], [["v0", "v1"], ["v2"], ["v3"]]),
            (Buffer(256, ("s0", "s2")), Buffer(256, ("s1",))),
            id="never-read",
        ),
    ],
)
def test_buffers_of_a_chain(trace: ProgramTrace, buffers: tuple[Buffer, ...]) -> None:
    assert scratch_buffers(trace) == buffers


@pytest.mark.parametrize("seed", range(20))
def test_no_value_is_overwritten_before_it_was_read_for_the_last_time(seed: int) -> None:
    """Random sums of earlier values, a launch each."""
    draw = random.Random(seed)
    ops: list[Written] = []
    for n in range(8):
        known = ["i0", *(f"v{k}" for k in range(n))]
        ops.append(("add", [draw.choice(known), draw.choice(known)], f"v{n}", (16,), F32))
    fusion = fusion_of([("i0", (16,), F32)], ops, "v7")
    cut = cut_at(fusion, alone(8))
    trace = program_trace(fusion, cut, [ScheduleTrace(part.fusion, ()) for part in cut.parts])
    buffers = scratch_buffers(trace)
    home = {value: n for n, buffer in enumerate(buffers) for value in buffer.values}
    assert sorted(home) == sorted(name for one in trace.launches for name in one.writes if name != "v7")
    holds: dict[int, str] = {}
    for one in trace.launches:
        read = {home[name] for name in one.reads if name in home}
        assert all(holds[home[name]] == name for name in one.reads if name in home)
        for name in one.writes:
            if name in home:
                assert home[name] not in read
                holds[home[name]] = name
