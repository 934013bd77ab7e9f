"""The example of a workflow runs the image's command with options that it has, with a GPU and without."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.cli.app import command

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "ci" / "kernels.yaml"


def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text())["jobs"]
    return found


def words(job: str) -> list[str]:
    """The one command of a job."""
    (run,) = [step["run"] for step in jobs()[job]["steps"] if "run" in step]
    return shlex.split(run)


@pytest.mark.parametrize("job", ["rebuilt", "timed"])
def test_the_command_is_one_of_ours(job: str) -> None:
    docker, _, ours = " ".join(words(job)).partition(" registry.example/fusetune-worker:1 ")
    assert docker.startswith("docker run --rm ")
    *start, _ = ours.split(" --", 1)
    assert start == ["python -m service ci"]
    known = {option for parameter in command("ci").params for option in parameter.opts}
    assert set(re.findall(r"--[a-z-]+", ours)) <= known
    assert "--junit /repo/fusetune.xml" in ours
    uploads = [step["with"]["path"] for step in jobs()[job]["steps"] if "upload-artifact" in step.get("uses", "")]
    assert uploads == ["fusetune.xml"]


def test_one_has_a_gpu_and_the_other_asks_for_none() -> None:
    assert "--gpus" in words("timed")
    assert "none" not in words("timed")
    assert jobs()["timed"]["runs-on"] == ["self-hosted", "gpu"]
    assert "--gpus" not in words("rebuilt")
    assert words("rebuilt")[words("rebuilt").index("--device") + 1] == "none"
