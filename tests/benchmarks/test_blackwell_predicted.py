"""The table of what tensor memory is predicted to give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.blackwell.predicted import main


def test_a_fusion_has_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "predicted.json"
    assert main(["--case", "add_bf16_1m", "--ranked", "2", "--prove", "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    assert (report["card"], report["times"]) == ("B200", "predicted")
    (row,) = report["fusions"]
    assert row["with_tmem"]["columns"] >= 32
    assert row["with_tmem"]["proof"] == "verified_emulated"
    assert row["without"]["columns"] == 0
    assert "(predicted)" in capsys.readouterr().out
