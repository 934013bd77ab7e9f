"""What the commands of the benchmarks say to who uses them wrongly: no traceback, and nothing done or claimed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import explicit
from benchmarks.emulate import agree, on_card
from benchmarks.suite import export


@pytest.mark.parametrize(
    ("main", "args", "code", "says"),
    [
        pytest.param(export.main, ["--help"], 0, "", id="help-exports-nothing"),
        pytest.param(export.main, ["nope"], 2, "unrecognized arguments: nope", id="export-takes-nothing"),
        pytest.param(agree.main, ["nope"], 2, "nothing was prepared there", id="no-kernels-do-not-agree"),
        pytest.param(explicit.main, ["nope"], 2, "nope: cannot be read", id="no-schedules"),
        pytest.param(explicit.main, ["torn.json"], 2, "torn.json: cannot be read", id="torn-schedules"),
        pytest.param(on_card.main, [], 2, "required: folder, what, first", id="nothing-to-run"),
        pytest.param(on_card.main, [".", "nope", "0"], 2, "invalid choice: 'nope'", id="not-what-is-prepared"),
    ],
)
def test_a_wrong_use_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    main: Callable[[list[str]], object],
    args: list[str],
    code: int,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(export, "FUSIONS", tmp_path / "fusions")
    (tmp_path / "torn.json").write_text("{")
    with pytest.raises(SystemExit) as ended:
        main(args)
    assert ended.value.code == code
    assert says in capsys.readouterr().err
    assert not export.FUSIONS.exists()
