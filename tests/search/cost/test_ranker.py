"""What a ranker makes of predictions, where it is used, and the file that it stands in."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.generator import GENERATOR
from search.cost.model import Prediction
from search.cost.ranker import MOST_LOG, CardRanker, HeldOut, Learnt, RankerError
from search.cost.ranker_features import FEATURES, features_of, is_number, launch_knobs
from search.space.knobs import KnobValue

RANKER = CardRanker(
    "H200",
    {"load=tma": Learnt(0.0, 0.1), "threads": Learnt(8.0, -0.05), "share of latency": Learnt(0.0, 0.4)},
    fusions=4,
    trials=400,
    held_out=HeldOut(0.6, 0.7),
)


def predicted(us: float, latency: float = 0.0) -> Prediction:
    return Prediction(us, {"bandwidth": us - latency, "latency": latency})


@pytest.mark.parametrize(
    ("knobs", "found"),
    [
        pytest.param({"vector": 8, "load": "tma"}, [{"vector": 8, "load": "tma"}], id="one-launch"),
        pytest.param(
            {"math": "exact", "0.vector": 8, "1.vector": 4},
            [{"math": "exact", "vector": 8}, {"math": "exact", "vector": 4}],
            id="two-launches",
        ),
        pytest.param({f"{n}.rows": n for n in range(11)}, [{"rows": n} for n in range(11)], id="eleven"),
    ],
)
def test_knobs_of_launches(knobs: dict[str, KnobValue], found: list[dict[str, KnobValue]]) -> None:
    assert launch_knobs(knobs) == found


def test_features_are_shares_words_and_logarithms() -> None:
    found = features_of(10.0, {"latency": 2.5}, [{"threads": 256, "load": "tma", "swap": True, "prefetch": -1}])
    assert found == {"share of latency": 0.25, "threads": 8.0, "load=tma": 1.0, "swap=True": 1.0, "prefetch": -1.0}
    assert [name for name in found if is_number(name)] == ["threads", "prefetch"]


def test_of_several_launches_a_feature_is_the_mean() -> None:
    found = features_of(10.0, {}, [{"threads": 256, "load": "tma"}, {"threads": 64, "load": "bulk"}, {"math": "exact"}])
    assert found == {
        "threads": 7.0,
        "load=tma": pytest.approx(1 / 3),
        "load=bulk": pytest.approx(1 / 3),
        "math=exact": pytest.approx(1 / 3),
    }


@pytest.mark.parametrize(
    ("knobs", "one", "log"),
    [
        pytest.param({"threads": 256}, predicted(10.0), 0.0, id="nothing-to-change"),
        pytest.param({"threads": 512, "load": "tma"}, predicted(10.0, 5.0), 0.1 - 0.05 + 0.2, id="all-of-it"),
        pytest.param({"load": "vector", "rows": 4}, predicted(10.0), 0.0, id="what-it-does-not-know"),
        pytest.param({}, predicted(10.0), 0.0, id="a-knob-that-is-lacking-is-as-the-mean"),
    ],
)
def test_a_time_is_corrected(knobs: dict[str, KnobValue], one: Prediction, log: float) -> None:
    assert RANKER.times(knobs, [one]) == [pytest.approx(10.0 * math.exp(log))]


def test_each_launch_is_corrected_by_its_own() -> None:
    both = [predicted(10.0), predicted(20.0)]
    found = RANKER.times({"0.load": "tma", "1.load": "vector"}, both)
    assert found == [pytest.approx(10.0 * math.exp(0.1)), pytest.approx(20.0)]
    assert RANKER.times({"load": "tma"}, both) == [pytest.approx(us * math.exp(0.1)) for us in (10.0, 20.0)]


def test_no_time_is_corrected_beyond_what_was_learnt() -> None:
    wild = replace(RANKER, learnt={"threads": Learnt(0.0, 100.0)})
    assert wild.times({"threads": 1024}, [predicted(1.0)]) == [pytest.approx(math.exp(MOST_LOG))]


@pytest.mark.parametrize(
    ("ranker", "card", "words"),
    [
        pytest.param(RANKER, "H200", None, id="used"),
        pytest.param(RANKER, "H100 SXM", "fitted to the H200", id="another-card"),
        pytest.param(replace(RANKER, generator="fusetune 0"), "H200", f"this is {GENERATOR}", id="older-kernels"),
        pytest.param(replace(RANKER, features=FEATURES - 1), "H200", "other features", id="older-features"),
        pytest.param(replace(RANKER, held_out=HeldOut(0.7, 0.7)), "H200", "no better", id="no-better"),
        pytest.param(replace(RANKER, held_out=HeldOut(0.7, 0.709)), "H200", "no better", id="by-chance"),
        pytest.param(replace(RANKER, held_out=HeldOut(0.7, 0.711)), "H200", None, id="a-little-better"),
    ],
)
def test_where_it_is_used(ranker: CardRanker, card: str, words: str | None) -> None:
    why = ranker.why_not(card)
    assert why is None if words is None else words in (why or "")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "of" / "H200.json"
    RANKER.write(path)
    assert CardRanker.read(path) == RANKER
    assert [one.name for one in path.parent.iterdir()] == ["H200.json"]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "H200.json").mkdir()
    with pytest.raises(OSError, match=r"H200\.json"):
        RANKER.write(tmp_path / "H200.json")
    assert [one.name for one in tmp_path.iterdir()] == ["H200.json"]


def test_who_writes_beside_another_process_does_not_touch_its_part(tmp_path: Path) -> None:
    """Workers with one data folder and cards of one model write the same file."""
    path = tmp_path / "H200.json"
    written = list[str]()

    def replace_into(part: Path, target: Path) -> Path:
        written.append(part.name)
        return Path(part.rename(target))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", replace_into)
        RANKER.write(path)
        patch.setattr("os.getpid", lambda: -1)
        RANKER.write(path)
    assert len(set(written)) == 2


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"format": "fusetune.ranker/0"}, id="another-format"),
        pytest.param({"learnt": [1]}, id="a-list"),
        pytest.param({"learnt": {"threads": {"centre": 1.0}}}, id="no-weight"),
        pytest.param({"learnt": {"threads": {"centre": 1.0, "weight": float("nan")}}}, id="no-number"),
        pytest.param({"held_out": {"model": "high", "ranker": 1.0}}, id="a-word"),
        pytest.param({"trials": None}, id="no-count"),
        pytest.param({"trials": float("inf")}, id="endless"),
        pytest.param({"learnt": {"threads": {"centre": 10**400, "weight": 1.0}}}, id="beyond-floats"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "ranker.json"
    path.write_text(json.dumps(RANKER.to_json() | change))
    with pytest.raises(RankerError, match="rank fit"):
        CardRanker.read(path)
    path.write_text("{")
    with pytest.raises(RankerError, match="damaged"):
        CardRanker.read(path)
