"""`python -m search watch` on a fake GPU: which kernels are looked at, and what is said of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compiler.wire import artifact_from_json
from fusetune.wire.artifact import KernelArtifact
from search.cli.app import app
from search.measure.fake import FACTS, FakeDevice
from search.tuning.attached import Attached, Detached, card_of
from tests.search.cli.test_flow import FUSION, find_fake, find_nothing

pytestmark = pytest.mark.usefixtures("forked")

Watch = Callable[..., Any]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> KernelArtifact:
    """One that takes 10 us on the fake card, by a tuning of its own."""
    folder = tmp_path_factory.mktemp("watched")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("search.tuning.tune.RANKED_POINTS", 5)
        patch.setattr("search.cli.tune.find_device", find_fake)
        Path("square.json").write_text(json.dumps(FUSION))
        done = CliRunner().invoke(
            app, ["tune", "square.json", "--bind", "M=64", "--trials", "1", "--out", "out"], catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
        return artifact_from_json(Path("out/kernels/square.json").read_text())


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    def find(wanted: str | None) -> Attached:
        return Attached(FakeDevice(), FACTS, card_of(FACTS)[0], ())

    monkeypatch.setattr("search.cli.watch.find_device", find)
    return lambda *more: CliRunner().invoke(app, ["watch", str(tmp_path), *more], catch_exceptions=False)


def put(folder: Path, name: str, kernel: KernelArtifact, tag: str) -> None:
    """A kernel that does what a tag says (`search.measure.fake`) and was timed at 10 us."""
    changed = kernel.model_copy(update={"source": f"// fake: {tag}\n", "code_hash": name})
    (folder / f"{name}.json").write_text(changed.model_dump_json())


@pytest.mark.parametrize(
    ("tag", "code", "said"),
    [
        pytest.param("us=10", 0, "10.00 us, before 10.00 us: as fast", id="as-before"),
        pytest.param("us=13", 1, "13.00 us, before 10.00 us: 30.0% slower", id="slower"),
        pytest.param("wrong", 1, "WRONG (wrong_result: element [0]", id="wrong"),
        pytest.param("crash", 1, "WRONG (crashed:", id="crashes"),
        pytest.param("oom", 0, "could not be timed (unsupported: the GPU's memory", id="no-memory"),
    ],
)
def test_what_came_of_a_kernel(
    watch: Watch, tmp_path: Path, kernel: KernelArtifact, tag: str, code: int, said: str
) -> None:
    put(tmp_path, "one", kernel, tag)
    (tmp_path / "other.json").write_text("{}")
    done = watch("--share", "100")
    assert done.exit_code == code, done.output
    assert f"one.json: {said}" in done.output
    assert "1 of 1 kernels were looked at" in done.output


def test_a_share_takes_turns(watch: Watch, tmp_path: Path, kernel: KernelArtifact) -> None:
    for name in "abcd":
        put(tmp_path, name, kernel, "us=10")
    seen = [line for _ in range(2) for line in watch("--share", "50").output.splitlines() if "as fast" in line]
    assert [line[0] for line in seen] == ["a", "b", "c", "d"]


def test_kernels_of_other_cards_are_left_alone(watch: Watch, tmp_path: Path, kernel: KernelArtifact) -> None:
    assert kernel.timing is not None
    foreign = kernel.model_copy(update={"timing": kernel.timing.model_copy(update={"card": "another"})})
    put(tmp_path, "foreign", foreign, "us=10")
    done = watch()
    assert done.exit_code == 0
    assert "1 kernels were measured on another card than the fake" in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--share", "0"], "--share: found 0,"), (["--share", "101"], "--share: found 101,"), ([], "no kernel here")],
)
def test_what_cannot_be_watched_is_refused(watch: Watch, arguments: list[str], said: str) -> None:
    done = watch(*arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_without_a_gpu_nothing_is_said_to_be_slower(
    watch: Watch, tmp_path: Path, kernel: KernelArtifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "one", kernel, "us=10")
    found: Detached = find_nothing(None)
    monkeypatch.setattr("search.cli.watch.find_device", lambda wanted: found)
    done = watch()
    assert done.exit_code == 1
    assert "nothing can be measured here: no GPU is attached" in done.output
