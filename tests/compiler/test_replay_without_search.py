"""A trace is enough: replayed from JSON in a process without `search`, it gives the CUDA it gave when it was found.

`data/replay_*.json` are traces that the schedulers wrote; running this file as a script writes them anew.
`data/replay_*.cu` are their kernels, without the device code before; `pytest --update-golden` rewrites those.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emit.cuda import kernel_only
from compiler.pipeline import generate
from compiler.schedule.trace import ScheduleTrace
from compiler.wire import trace_from_json, trace_to_json

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent / "data"
ARCH = "sm_90a"
NAMES = ("replay_flat", "replay_tile2d")
BLOCKED = ("search", "torch", "optuna", "benchmarks")

CHILD = f"""
import json, sys
from importlib.abc import MetaPathFinder

class Blocker(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED!r}:
            raise ImportError(name + " is blocked")
        return None

sys.meta_path.insert(0, Blocker())
for name in {BLOCKED!r}:
    try:
        __import__(name)
    except ImportError:
        continue
    sys.exit(name + " could be imported")

from compiler.arch import arch_named
from compiler.emit.cuda import kernel_only
from compiler.pipeline import generate
from compiler.wire import trace_from_json

sources = {{}}
for path in sys.argv[2:]:
    with open(path) as file:
        sources[path] = generate(trace_from_json(json.load(file)), arch_named(sys.argv[1])).source
print(json.dumps(sources))
"""


def trace_of(name: str) -> ScheduleTrace:
    trace = trace_from_json(json.loads((DATA / f"{name}.json").read_text(encoding="utf-8")))
    assert isinstance(trace, ScheduleTrace), "one kernel is stored"
    return trace


@pytest.fixture(scope="module")
def there() -> dict[str, str]:
    """Name -> the source that comes of its trace in a process without search."""
    paths = {name: str(DATA / f"{name}.json") for name in NAMES}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "sdk"))), "PYTHONHASHSEED": "7"}
    child = subprocess.run(
        [sys.executable, "-c", CHILD, ARCH, *paths.values()],
        capture_output=True,
        env=environment,
        cwd=ROOT,
        timeout=120,
    )
    assert child.returncode == 0, child.stderr.decode()
    sources: dict[str, str] = json.loads(child.stdout)
    return {name: sources[path] for name, path in paths.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_trace_gives_the_same_bytes_in_a_process_without_search(
    name: str, there: dict[str, str], request: pytest.FixtureRequest
) -> None:
    here = generate(trace_of(name), arch_named(ARCH)).source
    assert there[name] == here
    golden = DATA / f"{name}.cu"
    if request.config.getoption("--update-golden"):
        golden.write_text(kernel_only(here), encoding="utf-8")
    assert kernel_only(here) == golden.read_text(encoding="utf-8"), "if the change is meant: --update-golden"


@pytest.mark.parametrize("name", NAMES)
def test_stored_traces_are_in_the_form_that_is_written_today(name: str) -> None:
    stored = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    assert trace_to_json(trace_from_json(stored)) == stored


# Writing the files ---------------------------------------------------------------------------------------------------


def searched() -> dict[str, ScheduleTrace]:
    """One point of each scheduler, for a grid of 4 multiprocessors: several tiles a block, so that stages are used."""
    from search.space.schedulers.flat import Flat
    from search.space.schedulers.tile2d import Tile2d
    from tests.compiler.schedules import from_wire

    x: dict[str, Any] = {"name": "x", "shape": [64, 512], "dtype": "bf16"}
    bias_gelu = from_wire(
        [x, {"name": "b", "shape": [512], "dtype": "bf16"}],
        [
            {"op": "cast", "in": ["x"], "out": "xf", "dtype": "f32"},
            {"op": "cast", "in": ["b"], "out": "bf", "dtype": "f32"},
            {"op": "broadcast_to", "in": ["bf"], "out": "bb", "shape": [64, 512], "dims": [1]},
            {"op": "add", "in": ["xf", "bb"], "out": "s"},
            {"op": "gelu", "in": ["s"], "out": "g"},
            {"op": "cast", "in": ["g"], "out": "y", "dtype": "bf16"},
        ],
        "y",
    )
    flat_point = {
        "view": "2d", "load": "tma", "store": "tma", "vector": 2, "threads_x": 32, "threads_y": 2, "rows": 2,
        "column_steps": 1, "blocks_per_sm": 1, "stages": 3, "tile_order": "columns_inner", "row_order": "natural",
        "cache_load": "no_allocate", "cache_store": "default", "math": "coarse",
        "rows_begin": "as_they_are", "multicast": 1, "prefetch": -1, "fill": "elected",
        "cache_broadcast": "default",
    }  # fmt: skip
    transpose = from_wire(
        [{"name": "x", "shape": [128, 256], "dtype": "f32"}],
        [{"op": "permute", "in": ["x"], "out": "y", "dims": [1, 0]}],
        "y",
    )
    tile2d_point = {
        "load": "tma", "store": "vector", "tile_in": 64, "tile_out": 32, "vector_in": 4, "vector_out": 4,
        "lanes_out": 8, "threads": 128, "load_vector": 4, "shift_load": False, "shift_store": False,
        "layout": "128B", "store_layout": "none", "blocks_per_sm": 1,
        "stages": 2, "tile_order": "columns_inner", "cache_load": "default", "cache_store": "streaming",
        "math": "exact", "move": "vector", "operands": "late", "prefetch": -1, "fill": "elected",
        "row_span": "vector", "halo": False,
    }  # fmt: skip
    return {
        "replay_flat": Flat(4).trace(bias_gelu, flat_point),
        "replay_tile2d": Tile2d(4).trace(transpose, tile2d_point),
    }


if __name__ == "__main__":
    for name, trace in searched().items():
        (DATA / f"{name}.json").write_text(json.dumps(trace_to_json(trace)) + "\n", encoding="utf-8")
