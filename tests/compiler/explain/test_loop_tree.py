"""The loop nest of a schedule as text."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from compiler.cli import app
from compiler.explain.loop_tree import loop_tree_text
from compiler.schedule.steps import CircularBuffer, InlineAt, SetAllocationDomain, Split, Step
from compiler.schedule.trace import ScheduleTrace
from compiler.wire import trace_to_json
from tests.compiler.emit.golden_schedules import GOLDEN
from tests.compiler.schedules import P, parallel, unary
from tests.compiler.scheduling import load

TRANSPOSED = """\
i0: bf16 global 504 x 1000

for BIDx 64:
  for Bulk 128, Bulk 64:
    i0_s: bf16 shared 16 x 8 x 8 x 8 swizzled = copy(i0) via tma
  for TIDx 128, Unroll 8:
    for Unroll 4, Vectorize 2:
      i0_r: bf16 local 4 x 2 = copy(i0_s)
    for Unroll 2:
      for Unroll 4:
        w0: bf16 local 4 = permute(i0_r, dims=(1, 0))
      for Unroll 4:
        v0_r: bf16 local 4 = copy(w0)
      for Vectorize 4:
        v0_s: bf16 shared 2 x 8 x 8 x 8 x 8 swizzled = copy(v0_r)
  for Unroll 2, Bulk 64, Bulk 64:
    v0: bf16 global 1000 x 504 = copy(v0_s) via tma"""

FOLDED_IN_ONE_PASS = """\
i0: bf16 global 16 x 32768

for BIDx 16:
  for TIDx 256 folded, Serial 4 folded:
    for Unroll 4, Vectorize 8:
      i0_r: bf16 local 4 x 8 = copy(i0)
    for Unroll 4 folded, Unroll 8 folded:
      v1_amax: bf16 local = amax(i0_r)
    for Unroll 4 folded, Unroll 8 folded:
      v0: f32 local = cast(i0_r)
      v3: f32 local = sub(v0, v1_amax_running)
      v4: f32 local = exp(v3) grade approx
      v5_sum: f32 local = sum(v4)
  v1_amax_running: f32 local = broadcast_to(v1_amax, dims=(0)) running
  w1: f32 local = cast(v1_amax)
  w8: f32 local = log(v5_sum) grade approx
  w9: f32 local = add(w1, w8)
  v8_r: f32 local = copy(w9)
  v8: f32 global 16 = copy(v8_r)"""

BESIDE_A_BROADCAST = """\
i0: bf16 global 64 x 1023
i1: bf16 global 1023

for BIDx 40, TIDy 2, TIDx 32:
  for Unroll 4, Vectorize 8:
    i0_r: bf16 local 4 x 8 = copy(i0)
  for Unroll 8:
    w1: bf16 local 8 = broadcast_to(i1, dims=(1))
  for Unroll 4:
    for Unroll 8:
      v0: f32 local = cast(i0_r)
      w2: f32 local = cast(w1)
      v3: f32 local = add(v0, w2)
      v4: f32 local 8 = gelu(v3)
    for Vectorize 8:
      v5_r: bf16 local 8 = cast(v4)
    for Vectorize 8:
      v5: bf16 global 64 x 1023 = copy(v5_r)"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("tile2d_tma_both_ways", TRANSPOSED, id="loops-apart-in-one-tile"),
        pytest.param("row_read_once_by_an_online_fold", FOLDED_IN_ONE_PASS, id="folds-in-the-order-of-their-values"),
        pytest.param("flat_rows_of_odd_pitch", BESIDE_A_BROADCAST, id="no-loop-of-what-a-broadcast-repeats"),
    ],
)
def test_the_loops_of_a_kernel(name: str, text: str) -> None:
    (launch,) = GOLDEN[name].generate().launches
    assert loop_tree_text(launch.scheduled) == text


TILE = (*parallel("s", P.BIDX, P.BULK), *parallel("v0", P.BIDX, P.TIDX))


@pytest.mark.parametrize(
    ("more", "place"),
    [
        pytest.param((), "shared 8", id="inside-a-block-s-loop"),
        pytest.param(
            (SetAllocationDomain("s", (0, 1), (Split("s", 1, 4),), (None, 6, 1)),),
            "shared 2 x 4 in 12 places",
            id="with-places-between",
        ),
        pytest.param((CircularBuffer("s", 3, 2),), "shared 8, 3 stages, 2 ahead", id="in-a-ring"),
    ],
)
def test_where_a_tensor_lies(more: tuple[Step, ...], place: str) -> None:
    sf = load((8, 8), *TILE, InlineAt("s", 1), *more)
    assert f"  for Bulk 8:\n    s: f32 {place} = copy(i0) via tma\n" in loop_tree_text(sf)


def test_loops_that_are_not_shared_stand_one_after_the_other() -> None:
    assert loop_tree_text(load((8, 8), *TILE)).splitlines()[2:] == [
        "for BIDx 8, Bulk 8:",
        "  s: f32 shared 8 = copy(i0) via tma",
        "for BIDx 8, TIDx 8:",
        "  v0: f32 global 8 x 8 = copy(s)",
    ]


def shown(trace: ScheduleTrace) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["show", "-", "--stage", "trace"], input=json.dumps(trace_to_json(trace)))
    return result.exit_code, result.stdout, result.stderr


def test_show_tells_the_loops_behind_the_steps() -> None:
    trace = ScheduleTrace(unary((8, 1)), tuple(parallel("v0", P.TIDX)))
    code, out, err = shown(trace)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "parallelize(tv=v0, axis=0, type=TIDx)",
        "",
        "i0: f32 global 8 x 1",
        "",
        "for TIDx 8:",
        "  v0: f32 global 8 x 1 = copy(i0)",
    ]


def test_steps_that_cannot_be_taken_are_told_all_the_same() -> None:
    code, out, err = shown(ScheduleTrace(unary((8, 4)), (Split("v0", 2, 2),)))
    assert (code, out.splitlines()) == (2, ["split(tv=v0, axis=2, factor=2, inner=True)", ""])
    assert "split" in err
