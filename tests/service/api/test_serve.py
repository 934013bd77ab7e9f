"""`serve`: what it refuses to start with, what it says, and how it stops."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import typer
from typer.testing import CliRunner

from service.cli import serve as module
from service.supervisor import Supervisor
from tests.nursery import Forked, Nursery
from tests.service.api.world import REQUEST

ROOT = Path(__file__).parents[3]
COMMAND = "import typer; from service.cli.serve import serve; typer.run(serve)"


def refusal(monkeypatch: pytest.MonkeyPatch, *options: str) -> str:
    """What `serve` says when it exits with 2."""
    monkeypatch.setattr("service.log.configure", lambda *_: None)
    app = typer.Typer()
    app.command()(module.serve)
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    return " ".join(done.output.split())


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_others_are_let_in_with_a_key_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str) -> None:
    said = refusal(monkeypatch, "--host", host, "--port", "0", "--data-dir", str(tmp_path))
    assert f"--host {host}: every request will need a key, and there is none" in said
    assert "keys create" in said


def test_an_empty_key_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FUSETUNE_API_KEY", "")
    said = refusal(monkeypatch, "--host", "0.0.0.0", "--port", "0", "--data-dir", str(tmp_path))
    assert "there is none" in said


def test_a_port_in_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(monkeypatch, "--port", str(port), "--data-dir", str(tmp_path))
    assert f"--port {port}: in use on 127.0.0.1" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(["--database-url", "mysql://x/y"], "expected sqlite or postgresql+psycopg", id="database"),
        pytest.param(["--database-url", "sqlite://"], "sqlite:///PATH", id="no-file"),
        pytest.param(["--host", ""], "every request will need a key", id="no-host"),
        pytest.param(["--data-dir", "/dev/null/data"], "cannot be made", id="no-folder"),
        pytest.param(["--jobs-url", "mysql://x/y"], "found mysql, expected sqlite", id="jobs"),
        pytest.param(["--jobs-url", "nonsense"], "its URL cannot be read", id="jobs-no-url"),
        pytest.param(["--worker", "--card", "GTX"], "--card: Found card 'GTX', expected one of", id="card"),
    ],
)
def test_options_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: list[str], words: str
) -> None:
    assert words in refusal(monkeypatch, "--data-dir", str(tmp_path), "--port", "0", *options)


def test_a_damaged_job_queue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_bytes(b"no database " * 400)
    said = refusal(monkeypatch, "--data-dir", str(tmp_path), "--port", "0")
    assert "--jobs-url: the job queue cannot be reached: file is not a database" in said


@pytest.mark.parametrize(
    ("host", "words"),
    [
        pytest.param("256.0.0.1", "Name an address of this machine", id="no-address"),
        pytest.param("192.0.2.1", "Choose others", id="of-another-machine"),  # TEST-NET-1, RFC 5737
    ],
)
def test_addresses_that_this_machine_does_not_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str, words: str
) -> None:
    monkeypatch.setenv("FUSETUNE_API_KEY", "k")
    said = refusal(monkeypatch, "--host", host, "--port", "0", "--data-dir", str(tmp_path))
    assert f"--host {host}" in said
    assert words in said


def test_a_variable_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FUSETUNE_MAX_QUEUED", "many")
    assert "FUSETUNE_MAX_QUEUED" in refusal(monkeypatch, "--data-dir", str(tmp_path))


def test_keys_to_trust_that_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FUSETUNE_TRUST", "ed25519:nonsense")
    assert "FUSETUNE_TRUST: trust: found" in refusal(monkeypatch, "--data-dir", str(tmp_path), "--port", "0")


@contextmanager
def serving(nursery: Nursery, folder: Path, *options: str) -> Iterator[tuple[Forked, str]]:
    """A service in a process of its own, and its address."""
    environment = {**os.environ, "PYTHONPATH": ".:sdk"}
    arguments = ["--port", "0", "--data-dir", str(folder), *options]
    heard, said = os.pipe()
    with open(heard) as told:
        with (folder / "stderr").open("w") as errors, open(said, "w"):
            process = nursery.process(COMMAND, arguments, environment, ROOT, {1: said, 2: errors.fileno()})
        try:
            found = re.search(r"http://\S+", told.readline())
            assert found, (folder / "stderr").read_text()
            yield process, found.group()
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["sigterm", "ctrl-c"])
def test_it_stops_soon_with_a_watcher_at_hand(nursery: Nursery, tmp_path: Path, number: signal.Signals) -> None:
    with serving(nursery, tmp_path) as (process, url), httpx2.Client(base_url=url, timeout=20) as client:
        assert client.get("/readyz").json()["status"] == "ok"
        id = client.post("/v1/tunings", json=REQUEST).json()["id"]
        with client.stream("GET", f"/v1/tunings/{id}/events") as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: progress"
            process.send_signal(number)
            began = time.monotonic()
            list(lines)
        assert process.wait(60) == 0
        assert time.monotonic() - began < 5
    assert "Traceback" not in (tmp_path / "stderr").read_text()


def test_what_is_no_http_is_answered_by_the_service_itself(nursery: Nursery, tmp_path: Path) -> None:
    with serving(nursery, tmp_path) as (_, url):
        host, _, port = url.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(b"BREW /pot HTTP/1.1\r\n\r\n")
            assert b"urn:fusetune:problem:not-http" in connection.recv(4096)


# A worker beside it -------------------------------------------------------------------------------------------------

NOTE = """\
import pathlib, os, sys, time
with pathlib.Path(sys.argv[1]).open("a") as file:
    file.write(f"{os.getpid()} {os.environ.get('FUSETUNE_DATA_DIR')}\\n")
"""


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_that_dies_is_started_again(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    supervisor = Supervisor({"FUSETUNE_DATA_DIR": "here"}, [sys.executable, "-c", NOTE, str(notes)], first_pause_s=0.01)
    supervisor.start()
    try:
        wait_for(lambda: len(lines(notes)) >= 3)
    finally:
        supervisor.stop()
    assert len({line.split()[0] for line in lines(notes)}) >= 3
    assert {line.split()[1] for line in lines(notes)} == {"here"}


DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


@pytest.mark.parametrize("before", [pytest.param("", id="asked"), pytest.param(DEAF, id="by-force")])
def test_a_worker_is_stopped_and_not_started_again(tmp_path: Path, before: str) -> None:
    notes = tmp_path / "notes"
    supervisor = Supervisor({}, [sys.executable, "-c", before + NOTE + "time.sleep(60)", str(notes)])
    supervisor.start()
    wait_for(lambda: len(lines(notes)) == 1)
    began = time.monotonic()
    supervisor.stop(within_s=0.5)
    assert time.monotonic() - began < 5
    assert not is_running(int(lines(notes)[0].split()[0]))


def test_stopping_what_was_never_started() -> None:
    Supervisor({}).stop()


def test_a_worker_does_not_outlive_a_killed_service(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    worker = NOTE + "time.sleep(60)"
    parent = (
        "import sys, time; from service.supervisor import Supervisor; "
        f"Supervisor({{}}, [sys.executable, '-c', {worker!r}, {str(notes)!r}]).start(); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], cwd=ROOT, env={**os.environ, "PYTHONPATH": ".:sdk"})
    wait_for(lambda: len(lines(notes)) == 1)
    pid = int(lines(notes)[0].split()[0])
    assert is_running(pid)
    process.kill()
    process.wait()
    wait_for(lambda: not is_running(pid))
