"""What the tutorial says of its schedules, from the command line: refusals with their numbers, and bytes allocated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compiler.cli import app
from compiler.ir.ops import OpKind
from compiler.schedule.trace import ScheduleTrace
from compiler.wire import trace_to_json
from tests.compiler.documents import CASES
from tests.compiler.schedules import unary
from tests.compiler.tmem.kernels import Document, shifted, tiles
from tests.compiler.tmem.traces import kept_flat

BY_NAME = {c["name"]: c for c in CASES}
REFUSED = {
    "TooManyLanes": ("tmem_lanes_fit", "429 lanes are needed, and tensor memory has 128"),
    "TooManyCols": ("tmem_columns_fit", "1105 columns of 4 bytes are needed, and tensor memory has 512"),
    "NotWarpCollective": ("tmem_access_is_warp_collective", "found a run of 16 threads"),
    "NotContiguous": ("tmem_lane_stride_is_one", "the threads of a warp lie 2 lanes apart"),
    "OneLane": ("tmem_access_has_a_hardware_pattern", "impossible: threads 1, 2, 4, 8 and 16 of a warp lie"),
    "WrongSubpartition": ("tmem_warps_stay_in_their_subpartition", "a warp begins 32 lanes from"),
    "WrongSubpartition2": ("tmem_warps_stay_in_their_subpartition", "a warp begins -32 lanes from"),
}
BYTES = {
    "no_inline": 32,
    "no_inline_BIDx": 8,
    "inline1": 16,
    "inline1_BIDx": 4,
    "inline1_TIDx": 32,
    "inline1_TIDx_BIDx": 8,
}


def told(command: str, name: str, tmp_path: Path) -> tuple[int, str]:
    """Exit code and output of a command on one case."""
    file = tmp_path / "case.json"
    file.write_text(json.dumps(BY_NAME[name]))
    found = CliRunner().invoke(app, [command, str(file)])
    return found.exit_code, " ".join(found.output.split())


@pytest.mark.parametrize("command", ["check", "explain"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_schedule_that_cannot_be_is_refused_with_its_numbers(name: str, command: str, tmp_path: Path) -> None:
    code, text = told(command, f"TMemTutorialC.{name}", tmp_path)
    assert code == 1
    assert all(words in text for words in REFUSED[name])


@pytest.mark.parametrize("name", BYTES)
def test_allocation_follows_inlining_and_parallel_types(name: str, tmp_path: Path) -> None:
    case = f"ReviewInliningParallelization.GSGCopy/{name}"
    assert f"{BYTES[name]} bytes of shared memory" in told("check", case, tmp_path)[1]
    assert f"in all: {BYTES[name]} bytes a block" in told("explain", case, tmp_path)[1]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        pytest.param(tiles(32), "filled from s: tiles of all 128 lanes, which one thread asks for", id="tiles"),
        pytest.param(shifted(8), "shifted from t: every row to the next lane, in the same columns", id="rows"),
    ],
)
def test_what_one_thread_asks_for_is_explained(case: Document, words: str, tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    file.write_text(json.dumps(case))
    found = CliRunner().invoke(app, ["explain", str(file)])
    assert found.exit_code == 0
    assert words in found.output


def test_what_a_trace_keeps_there_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace_to_json(ScheduleTrace(unary((4096,), OpKind.NEG), tuple(kept_flat(4, 2))))))
    found = CliRunner().invoke(app, ["explain", str(file), "--arch", "sm_100a", "--out", str(tmp_path / "pictures")])
    assert found.exit_code == 0
    assert "trace.json: legal on sm_100a" in found.output
    assert "Map: store to t" in found.output
    assert (tmp_path / "pictures" / "t_tmem.svg").exists()
    found = CliRunner().invoke(app, ["explain", str(file), "--arch", "sm_90a"])
    assert found.exit_code == 1
    assert "(architecture_has_the_instruction" in found.output


def test_a_fusion_has_nothing_to_explain(tmp_path: Path) -> None:
    file = tmp_path / "fusion.json"
    file.write_text(json.dumps({"format": "fusetune.fusion/1", "inputs": []}))
    found = CliRunner().invoke(app, ["explain", str(file)])
    assert (found.exit_code, "A fusion has no schedule yet" in found.stderr) == (2, True)
