"""`python -m search rank`: files in, a ranker out, and what is said of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from search.cli.app import app
from search.cost.ranker import CardRanker, HeldOut
from search.measure.fake import FACTS, FakeDevice
from search.tuning.attached import Attached, card_of
from search.tuning.candidates.draft import DraftSubject
from search.tuning.timed import TimedFusion
from tests.search.cli.test_flow import FUSION
from tests.search.cost.test_ranker import RANKER
from tests.search.tuning.fitted import several

pytestmark = pytest.mark.usefixtures("forked")

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, list(words), catch_exceptions=False)


def put(path: Path, one: TimedFusion, evidence: str = "measured") -> None:
    """As `benchmarks.search.table` writes it."""
    results: list[dict[str, Any]] = [
        {
            "configuration": dict(each.candidate.knobs, scheduler=each.candidate.scheduler),
            "invalidity": "correct",
            "times": {"runtimes": [each.measured_us]},
            "measurements": [{"name": "time", "value": each.measured_us, "unit": "us"}],
        }
        for each in one.trials
    ]
    metadata = {
        "card": one.card, "generator": one.generator, "fingerprint": one.fusion, "binding": "b", "evidence": evidence,
        "predicted_us": [each.predicted_us for each in one.trials],
        "predicted_terms": {name: [each.terms[name] for each in one.trials] for name in one.trials[0].terms},
    }  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"results": results, "metadata": metadata}))


def test_a_ranker_is_fitted_and_shown(run: Run) -> None:
    for one in several():
        put(Path("tables") / f"{one.fusion}.t4.json", one)
    Path("tables/journal.jsonl").write_text("nothing")
    Path("tables/folder.t4.json").mkdir()
    Path("tables/gone.t4.json").symlink_to("nowhere")
    done = run("rank", "fit", "tables", "--out", "ranker.json")
    assert done.exit_code == 0, done.output
    assert "journal.jsonl: no journal" in done.stderr
    ranker = CardRanker.read(Path("ranker.json"))
    assert (ranker.card, ranker.fusions) == ("H200", len(several()))
    shown = run("rank", "show", "ranker.json")
    assert shown.exit_code == 0
    assert f"fitted to {ranker.trials} kernels of {ranker.fusions} fusions" in shown.output
    assert "share of latency" in shown.output
    assert "not used" not in shown.output


@pytest.mark.parametrize(
    ("changes", "words", "more"),
    [
        pytest.param([{}], "1 fusions have", (), id="too-few"),
        pytest.param([{}, {"card": "H100 SXM"}], "H100 SXM, H200. Name one with --card", (), id="several-cards"),
        pytest.param([{}], "--card B200: the files are of H200", ("--card", "B200"), id="another-card"),
        pytest.param([{"generator": "fusetune 0"}], "Left out: kernels of fusetune 0", (), id="older-kernels"),
        pytest.param([{"evidence": "invented"}], "no kernel that was measured", (), id="invented"),
    ],
)
def test_files_of_which_nothing_can_be_learnt(
    run: Run, changes: list[dict[str, Any]], words: str, more: tuple[str, ...]
) -> None:
    for number, change in enumerate(changes):
        evidence = change.pop("evidence", "measured")
        put(Path(f"{number}.t4.json"), replace(several()[number], **change), evidence)
    done = run("rank", "fit", *(f"{number}.t4.json" for number in range(len(changes))), "--out", "r.json", *more)
    assert done.exit_code == 2
    assert words in done.stderr
    assert not Path("r.json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("rank", "fit", "none", "--out", "r.json"), "none does not exist", id="no-file"),
        pytest.param(("rank", "fit", ".", "--out", "r.json"), "has no journal.jsonl", id="an-empty-folder"),
        pytest.param(("rank", "fit", ".", "--out", "."), "--out . is a folder", id="a-folder-to-write"),
        pytest.param(("rank", "show", "r.json"), "r.json is no file", id="nothing-to-show"),
        pytest.param(("tune", "f.json", "--ranker", "r.json"), "--ranker: r.json is no file", id="no-ranker"),
    ],
)
def test_what_is_not_there_is_named(run: Run, words: tuple[str, ...], said: str) -> None:
    if words[0] == "tune":
        Path("f.json").write_text(json.dumps(FUSION))
        words = (*words, "--bind", "M=64")
    done = run(*words)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("ranker", "is_used"),
    [
        pytest.param(replace(RANKER, card="fake"), True, id="of-the-card"),
        pytest.param(RANKER, False, id="of-another-card"),
        pytest.param(replace(RANKER, card="fake", held_out=HeldOut(0.7, 0.6)), False, id="no-better"),
    ],
)
def test_a_search_is_ordered_by_the_ranker_of_its_card(
    run: Run, monkeypatch: pytest.MonkeyPatch, ranker: CardRanker, is_used: bool
) -> None:
    used: list[bool] = []
    monkeypatch.setattr("search.tuning.tune.RANKED_POINTS", 5)
    monkeypatch.setattr("search.cli.tune.find_device", lambda _: Attached(FakeDevice(), FACTS, card_of(FACTS)[0], ()))

    def subject(fusion: Any, card: Any, schedulers: Any, ranker: CardRanker | None) -> DraftSubject:
        used.append(ranker is not None)
        return DraftSubject(fusion, card, schedulers, ranker)

    monkeypatch.setattr("search.tuning.candidates.plan.DraftSubject", subject)
    ranker.write(Path("r.json"))
    Path("square.json").write_text(json.dumps(FUSION))
    done = run("tune", "square.json", "--bind", "M=64", "--trials", "1", "--out", "out", "--ranker", "r.json")
    assert done.exit_code == 0, done.output
    assert used == [is_used]
    assert ("is not used for the fake" in done.stderr) is not is_used
