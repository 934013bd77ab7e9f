from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.ci.lock import CiLock, LockError, read_lock, write_lock


def test_a_lock_reads_back_equal_and_writes_the_same_bytes(tmp_path: Path, lock: CiLock) -> None:
    path = tmp_path / "lock.json"
    write_lock(path, lock)
    text = path.read_text()
    found = read_lock(path)
    assert found == lock
    write_lock(path, found)
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_change_of_one_entry_changes_its_own_lines_only(lock: CiLock) -> None:
    slower = lock.fusions["add"].model_copy(update={"median_us": 11.5})
    before, after = (
        one.to_json().splitlines()
        for one in (lock, lock.model_copy(update={"fusions": {**lock.fusions, "add": slower}}))
    )
    assert [(b, a) for b, a in zip(before, after, strict=True) if b != a] == [
        ('   "median_us": 10.0,', '   "median_us": 11.5,')
    ]


def test_the_text_is_sorted_json_whose_steps_are_lines(lock: CiLock) -> None:
    turned = CiLock(fusions=dict(reversed(list(lock.fusions.items()))))
    assert turned.to_json() == lock.to_json()
    document = json.loads(lock.to_json())
    steps = document["fusions"]["add"]["trace"]["steps"]
    lines = [line.strip().rstrip(",") for line in lock.to_json().splitlines()]
    assert all(json.dumps(step, sort_keys=True) in lines for step in steps)


def test_no_file_is_no_lock(tmp_path: Path) -> None:
    assert read_lock(tmp_path / "lock.json") is None


def put(*names: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets one field of the document's entry for `add`."""

    def change(document: dict[str, Any]) -> None:
        at = document["fusions"]["add"]
        for name in names[:-1]:
            at = at[name]
        at[names[-1]] = value

    return change


def unsealed(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """A change of a lock from before cards had a hash."""

    def both(document: dict[str, Any]) -> None:
        del document["fusions"]["add"]["card"]["sha256"]
        change(document)

    return both


def rename(document: dict[str, Any]) -> None:
    document["fusions"]["../add"] = document["fusions"].pop("add")


DAMAGES = [
    pytest.param(lambda document: document.update(format="fusetune.lock/2"), "format: ", id="another-format"),
    pytest.param(lambda document: document.update(kernels={}), "kernels: Extra inputs", id="unknown-field"),
    pytest.param(rename, "fusions: found '../add', expected the name of a fusion file", id="name-of-another-folder"),
    pytest.param(put("card", "sm_count", value=100), "fusions.add.card: one of name, arch", id="another-card"),
    pytest.param(put("median_us", value=0), "fusions.add.median_us: ", id="no-time"),
    pytest.param(put("median_us", value=9999), "fusions.add.median_us: found 9999 beside p10_us", id="slow-median"),
    pytest.param(put("median_us", value=0.0001), "fusions.add.median_us: found 0.0001", id="fast-median"),
    pytest.param(put("p10_us", value=10.2), "fusions.add.median_us: found 10 beside p10_us 10.2", id="p10-above-p90"),
    pytest.param(put("median_us", value="10"), "fusions.add.median_us: ", id="time-as-text"),
    pytest.param(put("code_hash", value="abc"), "fusions.add.code_hash: ", id="short-hash"),
    pytest.param(put("evidence", "correct", value="unverified"), "fusions.add.evidence.correct: ", id="unverified"),
    pytest.param(put("evidence", "time", value="predicted"), "fusions.add.evidence.time: ", id="predicted"),
    pytest.param(unsealed(put("card", "arch", value="sm_1")), "fusions.add.card.arch: ", id="unknown-target"),
    pytest.param(put("trace", "format", value="x"), "fusions.add.trace.format: ", id="no-trace"),
    pytest.param(put("trace", "steps", value=[{"do": "fly"}]), "fusions.add.trace.steps[0]", id="unknown-step"),
    pytest.param(put("fingerprint", value="0" * 64), "fusions.add.trace.fusion.fingerprint: ", id="other-fusion"),
    pytest.param(put("binding_hash", value="0" * 64), "fusions.add.trace.fusion.binding_hash: ", id="other-sizes"),
]


def test_of_another_document_no_more_is_told(tmp_path: Path) -> None:
    path = tmp_path / "add.json"
    path.write_text('{"format": "fusetune.fusion/1", "inputs": [], "ops": []}')
    with pytest.raises(LockError) as refused:
        read_lock(path)
    assert "fusetune.lock/1" in str(refused.value)
    assert "inputs" not in str(refused.value)


@pytest.mark.parametrize(("damage", "told"), DAMAGES)
def test_a_damaged_lock_is_refused_with_the_place(
    place: Path, damage: Callable[[dict[str, Any]], None], told: str
) -> None:
    path = place / "lock.json"
    document = json.loads(path.read_text())
    damage(document)
    path.write_text(json.dumps(document))
    with pytest.raises(LockError, match="version control") as refused:
        read_lock(path)
    assert f"{path}: {told}" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "is damaged: ", id="empty"),
        pytest.param('<<<<<<< ours\n{"format": 1}', "is damaged: ", id="merge-conflict"),
        pytest.param('{"format": "fusetune.lock/1", "fusions": {', "is damaged: ", id="torn"),
        pytest.param('{"fusions": {"a": 1, "a": 2}}', "'a' is there twice", id="twins"),
        pytest.param("[" * 100_000, "is damaged: ", id="deep"),
        pytest.param("[]", "lock: ", id="a-list"),
        pytest.param(b"\xff\xfe", "is not UTF-8 text", id="binary"),
    ],
)
def test_a_text_that_is_no_lock_is_refused(tmp_path: Path, text: str | bytes, told: str) -> None:
    path = tmp_path / "lock.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(LockError) as refused:
        read_lock(path)
    assert told in str(refused.value)


def test_a_folder_is_no_lock(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="cannot be read"):
        read_lock(tmp_path)
