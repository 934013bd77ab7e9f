"""A file that is no pack: one line that names it and says what to do, and no database is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli.pack import pack


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["import", "--data-dir", "data"], id="import"),
        pytest.param(["sign", "--key", "key.pem"], id="sign"),
    ],
)
def test_what_is_no_pack_is_named(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("no ZIP")
    monkeypatch.setattr("service.cli.pack.Signer.load", lambda path: None)
    done = CliRunner().invoke(pack, [command[0], "notes.txt", *command[1:]])
    assert done.exit_code == 2
    assert "notes.txt: it is no ZIP archive" in done.output
    assert "Have it written again" in done.output
    assert not Path("data").exists()
