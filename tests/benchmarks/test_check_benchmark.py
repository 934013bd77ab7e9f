"""The benchmark of verdicts runs, and times what it says."""

from __future__ import annotations

import pytest

from benchmarks.check.run import NAMED, main, renamed
from compiler.verdict import judge_document
from tests.compiler.documents import CASES


def test_a_renamed_case_is_the_same_case() -> None:
    for case in CASES:
        other = renamed(case, 7)
        assert set(other["tensors"]) == {f"{name}_7" for name in case["tensors"]}
        found, before = judge_document(other), judge_document(case)
        assert (found.legal, found.stage, found.smem_bytes) == (before.legal, before.stage, before.smem_bytes)
        assert [(r.dims, r.box, r.tile) for r in found.tma] == [(r.dims, r.box, r.tile) for r in before.tma]


def test_a_table_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gc.collect", lambda: 0)  # of all that tests have made: a second each
    main(["--repeats", "1", "--parts", "3", "--case", NAMED[0]])
    head, row, *parts = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["case", "tensors", "steps"]
    assert row.startswith(NAMED[0])
    assert len(parts) == 3


@pytest.mark.parametrize("options", [["--case", "nothing"], ["--repeats", "0"]])
def test_options_that_cannot_be(options: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(options)
    assert caught.value.code == 2
