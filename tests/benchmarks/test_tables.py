"""The tables of measured points in the tree: what they hold, and what is printed of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.search.ranked import order_of
from benchmarks.search.replay import SAMPLERS, Replay, Table
from search.tuning.timed import read_timed

ROOT = Path(__file__).parents[2] / "benchmarks"
TABLES = sorted((ROOT / "tables").glob("*.t4.json.gz"))
ORDERED = {row["table"]: row for row in json.loads((ROOT / "results" / "ranked-h200.json").read_text())}
REPLAYED = json.loads((ROOT / "results" / "replay-h200.json").read_text())


def test_there_are_eight_and_each_is_replayed_by_every_sampler() -> None:
    names = {path.name.partition(".")[0] for path in TABLES}
    assert len(names) == 8
    assert ORDERED.keys() == names
    assert {(row["table"], row["sampler"]) for row in REPLAYED} == {(table, one) for table in names for one in SAMPLERS}
    assert {row["seeds"] for row in REPLAYED} == {30}


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name.partition(".")[0])
def test_a_table_is_of_measured_points_and_ordered_as_is_printed(path: Path) -> None:
    found = read_timed(path)
    row = ORDERED[path.name.partition(".")[0]]
    assert (found.card, found.is_measured) == ("H200", True)
    assert len(found.trials) == row["points"] > 1400
    told = order_of(np.array([one.predicted_us for one in found.trials]), found.trials)
    assert {name: getattr(told, name) for name in ("spearman", "first", "tried")} == {
        name: row["model"][name] for name in ("spearman", "first", "tried")
    }


def test_a_search_that_begins_by_prediction_is_ahead_of_chance() -> None:
    table = Table.read(ROOT / "tables" / "softmax_bf16_4096x1024.t4.json.gz")
    replay, spaces = Replay(table), table.spaces
    best = {name: replay.run(SAMPLERS[name](table, spaces, 0), 20, 0)[-1] for name in ("random", "guided, ranked")}
    assert best["guided, ranked"] <= 1.005 * table.best_us < best["random"]
