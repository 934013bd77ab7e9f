"""Tables replayed without a GPU: synthetic ones, whose times a formula made and nobody measured."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.search import table
from benchmarks.search.replay import SAMPLERS, Replay, Table, main, replayed
from compiler.wire import bind
from fusetune.wire.parse import parse_binding, parse_fusion
from search.measure.fake import FACTS, FakeDevice
from search.tuning.attached import Attached, card_of
from search.tuning.candidates.plan import Plan

pytestmark = pytest.mark.usefixtures("forked")


def synthetic(hole: int = 6) -> dict[str, Any]:
    """A T4 document of no tuner of ours: a bowl over three numbers and a word, every `hole`th point failed."""
    results = []
    places = itertools.product(range(8), range(8), (1, 2, 4, 8), ("a", "b", "c"))
    for number, (x, y, width, word) in enumerate(places):
        ms = 1.0 + 0.05 * ((x - 5) ** 2 + (y - 2) ** 2) + 0.1 * abs(width - 4) + 0.2 * (word != "b")
        failed = number % hole == 0
        results.append(
            {
                "configuration": {"x": x, "y": y, "width": width, "word": word},
                "objectives": ["time"],
                "invalidity": "runtime" if failed else "correct",
                "measurements": [] if failed else [{"name": "time", "value": ms, "unit": "ms"}],
            }
        )
    return {"schema_version": "1.0.0", "metadata": {"evidence": "synthetic"}, "results": results}


@pytest.fixture
def synthetic_file(tmp_path: Path) -> Path:
    path = tmp_path / "bowl.t4.json.gz"
    path.write_bytes(gzip.compress(json.dumps(synthetic()).encode()))
    return path


def test_a_table_says_how_hard_it_is(synthetic_file: Path) -> None:
    found = Table.read(synthetic_file)
    assert (found.name, len(found.us), found.ranked) == ("bowl", 768, ())
    assert found.best_us == pytest.approx(1000.0)
    (space,) = found.spaces.values()
    assert space.points == 768
    near = [us for us in found.us.values() if us is not None and us <= 1050.0]
    timed = [us for us in found.us.values() if us is not None]
    assert found.near == len(near) / len(timed)


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_every_trial_is_a_point_of_the_table_and_each_comes_once(synthetic_file: Path, name: str) -> None:
    found = Table.read(synthetic_file)
    replay = Replay(found)
    best = replay.run(SAMPLERS[name](found, found.spaces, 0), 60, 0)
    assert len(best) == 60
    assert best == sorted(best, reverse=True)
    assert int(replay._is_left.sum()) == len(found.us) - 60


def test_a_sampler_that_learns_is_ahead_of_chance(synthetic_file: Path) -> None:
    rows = {row["sampler"]: row for row in replayed(Table.read(synthetic_file), seeds=5, after=(10, 60))}
    assert set(rows) == {"random", "plain TPE", "guided"}
    assert rows["guided"]["after 60"] < rows["random"]["after 60"]
    assert all(row["after 60"] <= row["after 10"] for row in rows.values())


def test_points_that_a_table_lacks_are_answered_by_the_nearest(tmp_path: Path) -> None:
    document = synthetic()
    document["results"] = document["results"][1::5]
    path = tmp_path / "thin.t4.json"
    path.write_text(json.dumps(document))
    found = Table.read(path)
    (space,) = found.spaces.values()
    assert space.points > len(found.us)
    best = Replay(found).run(SAMPLERS["plain TPE"](found, found.spaces, 1), len(found.us), 1)
    assert best[-1] == found.best_us, "the whole table was told"


def test_what_is_no_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.t4.json"
    path.write_text(json.dumps({"results": [{"configuration": {}}]}))
    with pytest.raises(SystemExit, match=r"results\[0\]\.configuration"):
        main([str(path)])


def test_a_table_is_written_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a fake GPU, which the file says: its times are invented."""
    fusion = {
        "format": "fusetune.fusion/1",
        "inputs": [{"name": "x", "shape": ["M", 256], "dtype": "f32"}],
        "ops": [{"op": "square", "in": ["x"], "out": "y"}],
        "outputs": [{"name": "y"}],
    }
    plan = Plan.of(bind(parse_fusion(fusion), parse_binding({"sizes": {"M": 64}})), card_of(FACTS)[0])
    out = tmp_path / "square.t4.json.gz"
    with FakeDevice() as device:
        gpu = Attached(device, FACTS, card_of(FACTS)[0], ())
        timed = table.measured(gpu, plan, 6, 60.0, 0, out)
    document = json.loads(gzip.decompress(out.read_bytes()))
    assert document["metadata"]["evidence"] == "invented"
    assert len(document["results"]) == len(document["metadata"]["predicted_us"]) == 6
    assert 0 < timed <= 6
    assert len(Table.read(out).ranked) > 0
    main([str(out), "--seeds", "2"])
    assert "guided, ranked" in capsys.readouterr().out
