"""The container files as text: what a linter, a parser and a reader can hold against them without building them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILES = sorted(DOCKER.glob("*.Dockerfile"))
SECRETS = {"POSTGRES_PASSWORD": "w0rd", "FUSETUNE_API_KEY": "k3y"}
PINNED = re.compile(r"[a-z0-9./-]+:\d[\w.-]*(@sha256:[0-9a-f]{64})?")
ONE_SHOT = {"migrate"}
"""Services that end by themselves: nothing to ask for their health."""


@dataclass(frozen=True)
class Instruction:
    word: str
    text: str


def instructions(path: Path) -> Iterator[Instruction]:
    """Instructions of a Dockerfile, continued lines joined, comments left out."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, text = line.strip().partition(" ")
            yield Instruction(word.upper(), text.strip())


def of(path: Path, word: str) -> list[str]:
    return [one.text for one in instructions(path) if one.word == word]


def final_stage(path: Path) -> list[Instruction]:
    everything = list(instructions(path))
    last = max(i for i, one in enumerate(everything) if one.word == "FROM")
    return everything[last:]


def ids(value: object) -> str:
    return value.name if isinstance(value, Path) else str(value)


each = pytest.mark.parametrize("path", DOCKERFILES, ids=ids)


def test_both_images_are_here() -> None:
    assert [path.name for path in DOCKERFILES] == ["api.Dockerfile", "worker.Dockerfile"]


@each
def test_hadolint_passes(path: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@each
def test_bases_are_pinned_and_equal(path: Path) -> None:
    bases = {text.split()[0] for text in of(path, "FROM")}
    assert len(bases) == 1
    assert all(PINNED.fullmatch(base) for base in bases)


@each
def test_it_does_not_run_as_root(path: Path) -> None:
    *_, user = [one.text for one in final_stage(path) if one.word == "USER"]
    uid, gid = user.split(":")
    assert int(uid) >= 1000
    assert int(gid) >= 1000


@each
def test_it_says_how_it_is(path: Path) -> None:
    (check,) = [one.text for one in final_stage(path) if one.word == "HEALTHCHECK"]
    assert "CMD [" in check
    (command,) = [one.text for one in final_stage(path) if one.word == "CMD"]
    assert command == f'["python", "-m", "service", "{"serve" if path.stem == "api" else "worker"}"]'


def kept_by_dockerignore(source: str) -> bool:
    """Whether the build context has `source`: the last pattern that fits it, or a folder above it, decides."""
    kept = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip().removeprefix("!")
        if pattern and not pattern.startswith("#"):
            above = [source, *(str(parent) for parent in Path(source).parents if str(parent) != ".")]
            if pattern.startswith("**/"):
                above += [Path(one).name for one in above]
            if any(fnmatch(one, pattern.removeprefix("**/")) for one in above):
                kept = line.startswith("!")
    return kept


@each
def test_every_source_that_it_copies_is_in_the_context(path: Path) -> None:
    copies = [_without_options(text) for text in of(path, "COPY") if not text.startswith("--from=")]
    sources = [source for *several, _ in copies for source in several]
    assert {"compiler", "search", "sdk", "service", "migrations", "pyproject.toml"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert kept_by_dockerignore(source), source


def _without_options(text: str) -> list[str]:
    """Sources and destination of a COPY."""
    return [word for word in text.split() if not word.startswith("--")]


@each
def test_the_code_is_readable_for_the_user_whatever_the_umask_of_the_checkout(path: Path) -> None:
    code = [text for text in of(path, "COPY") if "pyproject.toml" not in text and not text.startswith("--from=")]
    assert len(code) >= 5
    assert all(text.startswith("--chmod=755 ") for text in code)


@pytest.mark.parametrize(
    "path",
    [".env", "docker/.env", ".git/config", ".venv/bin/python", "fusetune-data/fusetune.db", "service/__pycache__"],
)
def test_what_is_nobodys_business_stays_out_of_the_context(path: str) -> None:
    assert not kept_by_dockerignore(path)


@each
def test_packages_are_installed_before_the_code_comes(path: Path) -> None:
    words = list(instructions(path))
    install = next(i for i, one in enumerate(words) if one.word == "RUN" and "--group" in one.text)
    code = next(i for i, one in enumerate(words) if one.word == "COPY" and "compiler" in one.text.split())
    assert install < code
    before = [one.text.split()[:-1] for one in words[:install] if one.word == "COPY"]
    assert before == [["pyproject.toml", "constraints.txt"]]
    assert "-c constraints.txt" in words[install].text


def test_the_api_has_no_cuda_and_the_worker_has_a_switch_for_torch() -> None:
    api, worker = DOCKERFILES
    assert any("--group api" in text for text in of(api, "RUN"))
    assert any("--group server" in text for text in of(worker, "RUN"))
    assert {"UV_TORCH_BACKEND", "UV_FIND_LINKS"} <= set(of(worker, "ARG"))
    assert not {"UV_TORCH_BACKEND", "UV_FIND_LINKS"} & set(of(api, "ARG"))


@each
def test_no_secret_is_in_an_image(path: Path) -> None:
    names = " ".join(one.text for one in instructions(path) if one.word in ("ENV", "ARG", "LABEL"))
    assert not re.search(r"PASSWORD|API_KEY|TOKEN|SECRET|://", names)


# Compose -------------------------------------------------------------------------------------------------------------


def composed(tmp_path: Path, *files: str, secrets: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """`podman-compose config` of the files. It asks podman for its version even to read a file: a stand-in has one."""
    podman = tmp_path / "podman"
    podman.write_text("#!/bin/sh\necho podman version 5.0.0\n")
    podman.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in SECRETS}
    environment |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", **secrets}
    tool = Path(sys.executable).with_name("podman-compose")
    options = [option for file in files for option in ("-f", str(DOCKER / file))]
    command = [str(tool), "--env-file", os.devnull, *options, "config"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def services(tmp_path: Path, *files: str) -> dict[str, Any]:
    done = composed(tmp_path, *files, secrets=SECRETS)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = yaml.safe_load(done.stdout)["services"]
    return found


def test_compose_starts_the_service_in_order(tmp_path: Path) -> None:
    found = services(tmp_path, "compose.yaml")
    assert found.keys() == {"db", "migrate", "api", "worker"}
    assert found["migrate"]["depends_on"]["db"]["condition"] == "service_healthy"
    assert found["migrate"]["command"] == ["python", "-m", "service", "db", "upgrade"]
    for name in ("api", "worker"):
        assert found[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    for name, service in found.items():
        health = service["healthcheck"]
        assert health == {"disable": True} if name in ONE_SHOT else health["test"], name
        assert service["restart"] == ("no" if name in ONE_SHOT else "unless-stopped")
        if "build" not in service:
            assert PINNED.fullmatch(service["image"]), name
        else:
            assert (ROOT / service["build"]["dockerfile"]).exists()
    (gpu,) = found["worker"]["deploy"]["resources"]["reservations"]["devices"]
    assert (gpu["driver"], gpu["capabilities"]) == ("nvidia", ["gpu"])


def test_compose_keeps_what_must_last_and_listens_on_loopback(tmp_path: Path) -> None:
    found = services(tmp_path, "compose.yaml")
    assert found["db"]["volumes"] == ["database:/var/lib/postgresql/data"]
    assert found["api"]["ports"] == ["127.0.0.1:8765:8765"]
    assert not any("ports" in found[name] for name in ("db", "migrate", "worker"))
    for name in ("migrate", "api", "worker"):
        assert found[name]["cap_drop"] == ["ALL"]
        assert found[name]["read_only"] is True


def test_secrets_reach_those_who_need_them_and_no_other(tmp_path: Path) -> None:
    found = services(tmp_path, "compose.yaml")
    holders = {
        value: {name for name, service in found.items() if value in str(service.get("environment", ""))}
        for value in SECRETS.values()
    }
    assert holders == {"w0rd": {"db", "migrate", "api", "worker"}, "k3y": {"api"}}


@pytest.mark.parametrize("missing", sorted(SECRETS))
@pytest.mark.parametrize("empty", [True, False], ids=["empty", "not-set"])
def test_no_secret_has_a_default(tmp_path: Path, missing: str, empty: bool) -> None:
    secrets = {**SECRETS, missing: ""} if empty else {name: v for name, v in SECRETS.items() if name != missing}
    done = composed(tmp_path, "compose.yaml", secrets=secrets)
    assert done.returncode != 0
    assert f"{missing} is missing a value" in done.stderr


def test_without_a_gpu_nothing_is_reserved(tmp_path: Path) -> None:
    worker = services(tmp_path, "compose.yaml", "compose.no-gpu.yaml")["worker"]
    assert "deploy" not in worker
    assert worker["environment"]["FUSETUNE_DEVICE"] == "none"
    assert worker["healthcheck"]["test"]


def test_the_example_of_an_environment_names_all_and_gives_no_secret() -> None:
    lines = [line for line in (DOCKER / ".env.example").read_text().splitlines() if line and not line.startswith("#")]
    given = dict(line.split("=", 1) for line in lines)
    used = set(re.findall(r"\$\{(\w+)", (DOCKER / "compose.yaml").read_text()))
    assert given.keys() == used
    assert {name: given[name] for name in SECRETS} == dict.fromkeys(SECRETS, "")
    assert ".env" in (DOCKER / ".gitignore").read_text().splitlines()


def test_the_check_script_is_well_formed() -> None:
    script = DOCKER / "check.sh"
    assert os.access(script, os.X_OK)
    done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_an_engine_the_check_lints_and_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", DOCKER / "check.sh"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ENGINE": "docker", "DOCKER_HOST": f"unix://{tmp_path}/none.sock"},
    )
    assert done.returncode == 0, done.stderr
    assert "== hadolint" in done.stdout
    assert "== podman-compose config" in done.stdout or "== docker compose config" in done.stdout
    assert "== not done: building and running the images: no engine" in done.stdout
