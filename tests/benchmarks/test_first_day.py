"""The questions to a Blackwell card: what the emulator answers in every order, and what is said without a card."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.blackwell import first_day, on_card
from benchmarks.blackwell.catalogue import catalogue, question_named
from benchmarks.blackwell.question import HardwareQuestion, Words
from compiler.emulate.launch import Completion, Options
from fusetune.errors import NoDevice
from tests.shares import shared

SHIFT = "direction of shift.down"


@pytest.mark.parametrize("completion", Completion)
@pytest.mark.parametrize("name", shared((one.name for one in catalogue()), 2))
def test_the_emulator_gives_the_answer_it_was_written_by(name: str, completion: Completion) -> None:
    question = question_named(name)
    found = first_day.emulated(question, options=Options(completion, 1))
    assert first_day.in_words(question, found) == question.believed


@pytest.mark.parametrize("question", catalogue(), ids=lambda one: one.name)
def test_answers_can_be_told_apart(question: HardwareQuestion) -> None:
    kept = list(question.answers.values())
    assert {one.size for one in kept} == {question.words}
    for i, one in enumerate(kept):
        assert all(np.any(one != other) for other in kept[:i])
        assert question.answer(one.ravel()) == list(question.answers)[i]


def test_names_are_names() -> None:
    assert len({one.name for one in catalogue()}) == len(catalogue())


def test_a_question_also_compiles_for_the_other_card() -> None:
    question = question_named("ld 16x256b")
    assert first_day.in_words(question, first_day.emulated(question, "sm_103a")) == question.believed


def believed(question: HardwareQuestion) -> Words:
    return question.answers[question.believed].ravel()


def other(question: HardwareQuestion) -> Words:
    return list(question.answers.values())[1].ravel()


def strange(question: HardwareQuestion) -> Words:
    found = believed(question).copy()
    found[3:5] ^= 1
    return found


@pytest.mark.parametrize(
    ("card", "says", "agreement", "differs"),
    [
        pytest.param(believed, "rows move to the next lane, the first stays", "yes", False, id="as-believed"),
        pytest.param(other, "rows move to the lane before, the last stays", "no", True, id="the-other-way"),
        pytest.param(strange, "none of the answers: 2 of 4096 words differ", "no", True, id="none-of-them"),
        pytest.param(lambda question: "failed: LaunchFailed", "failed: LaunchFailed", "no", False, id="failed"),
    ],
)
def test_a_cards_answer_beside_the_emulators(card: first_day.Ask, says: str, agreement: str, differs: bool) -> None:
    found = first_day.ask(question_named(SHIFT), "sm_100a", card, on="NVIDIA B200")
    assert found.card.startswith(says)
    assert found.agreement == agreement
    assert (found.differing_words > 0) == differs
    assert "1 asked of a card" in first_day.table([found])


def test_without_a_card_the_table_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def nothing() -> tuple[str, str]:
        raise NoDevice("NVIDIA H200 has no tensor memory", "Attach one.")

    monkeypatch.setattr(first_day, "attached", nothing)
    assert first_day.main(["--only", "shift", "--json", str(tmp_path / "a.json")]) == 0
    shown = capsys.readouterr().out
    assert "emulator  rows move to the next lane" in shown
    assert "card      no card attached: not run (NVIDIA H200 has no tensor memory)" in shown
    assert "1 questions, 0 asked of a card, 0 agree" in shown
    (row,) = json.loads((tmp_path / "a.json").read_text())
    assert (row["name"], row["card"], row["agreement"]) == (SHIFT, "", "-")


@pytest.mark.parametrize(("card", "code"), [(believed, 0), (other, 1)])
def test_the_exit_code_tells_of_a_disagreement(monkeypatch: pytest.MonkeyPatch, card: first_day.Ask, code: int) -> None:
    monkeypatch.setattr(first_day, "attached", lambda: ("NVIDIA B300", "sm_103a"))
    monkeypatch.setattr(first_day, "card_words", lambda question, arch: card(question))
    assert first_day.main(["--only", SHIFT]) == code


def test_a_card_that_hangs_or_dies_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    question = question_named(SHIFT)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert str(on_card.card_words(question, "sm_100a")).startswith("failed: ")
    monkeypatch.setattr(on_card, "HANG_S", 0.01)
    assert "it hangs" in str(on_card.card_words(question, "sm_100a"))


def test_the_list_and_a_name_that_nothing_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert first_day.main(["--list"]) == 0
    assert f"{SHIFT}: where tcgen05.shift.down moves its rows" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        first_day.main(["--only", "nope"])
    assert ended.value.code == 2
    assert "no question's name contains 'nope'" in capsys.readouterr().err
