"""What the docs show works, and what the commands offer is in the docs."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup

from compiler.cli import ShownStage
from compiler.cli import app as compiler_app
from docs.generate_api import PAGE as API_PAGE
from docs.generate_api import api_page
from docs.generate_operators import PAGE as OPERATORS_PAGE
from docs.generate_operators import operators_page
from docs.generate_rules import PAGE, rules_page
from fusetune.cli.app import parser as script_parser
from fusetune.client import Client
from fusetune.errors import FusetuneWarning
from fusetune.fusion import Fusion
from fusetune.query import Query, query_of
from fusetune.wire.parse import parse_fusion
from search.cli.app import app as search_app
from service.cli.app import COMMANDS
from service.cli.app import command as service_command
from service.settings import Settings

ROOT = Path(__file__).parents[1]
CLI = (ROOT / "docs" / "cli.md").read_text()


def script_commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The commands of the console script."""
    yield from _script_commands_of("fusetune", script_parser())


def _script_commands_of(name: str, command: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    below = [x.choices for x in command._actions if isinstance(x, argparse._SubParsersAction)]
    if not below:
        yield name, command
    for word, one in (pair for choices in below for pair in choices.items()):
        yield from _script_commands_of(f"{name} {word}", one)


@pytest.mark.parametrize(("name", "command"), list(script_commands()), ids=lambda x: x if isinstance(x, str) else "")
def test_every_option_of_the_script_is_documented_and_no_other(name: str, command: argparse.ArgumentParser) -> None:
    offered = {option for action in command._actions for option in action.option_strings if option.startswith("--")}
    assert set(re.findall(r"^\| `(--[a-z0-9-]+)", section(name), re.MULTILINE)) == offered - {"--help"}


def test_every_documented_command_of_the_script_exists() -> None:
    assert set(re.findall(r"^## `(fusetune .*)`$", CLI, re.MULTILINE)) == {name for name, _ in script_commands()}


def commands() -> Iterator[tuple[str, TyperCommand]]:
    for package, app in (("search", search_app), ("compiler", compiler_app)):
        yield from _commands_of(f"python -m {package}", typer.main.get_command(app))
    for name in COMMANDS:
        yield from _commands_of(f"python -m service {name}", service_command(name))


def _commands_of(name: str, command: object) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(command, TyperGroup):
        for sub_name, sub_command in command.commands.items():
            yield from _commands_of(f"{name} {sub_name}", sub_command)
    else:
        assert isinstance(command, TyperCommand)
        yield name, command


def section(command: str) -> str:
    """The part of docs/cli.md under the heading of one command."""
    found = re.search(rf"^## `{re.escape(command)}`$(.*?)(?=^## |\Z)", CLI, re.MULTILINE | re.DOTALL)
    assert found, f"docs/cli.md has no section ## `{command}`"
    return found.group(1)


@pytest.mark.parametrize(
    ("name", "command"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_option_is_documented_and_no_other(name: str, command: TyperCommand) -> None:
    offered = {opt for param in command.params for opt in (*param.opts, *param.secondary_opts) if opt.startswith("--")}
    documented = set(re.findall(r"^\| `(--[a-z0-9-]+)", section(name), re.MULTILINE))
    assert documented == offered - {"--help"}


def test_every_documented_command_exists() -> None:
    assert set(re.findall(r"^## `(python -m .*)`$", CLI, re.MULTILINE)) == {name for name, _ in commands()}


def test_every_default_is_documented() -> None:
    for name, command in commands():
        for param in command.params:
            if isinstance(param.default, int | float) and not isinstance(param.default, bool):
                assert f"`{param.opts[0]} {param.default:g}`" in section(name), (name, param.opts)


def test_every_stage_is_documented() -> None:
    documented = re.findall(r"^\| `([a-z]+)` \|", section("python -m compiler show"), re.MULTILINE)
    assert documented == [stage.value for stage in ShownStage]


def test_every_setting_is_documented_and_no_other() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    documented = re.findall(r"^\| `FUSETUNE_([A-Z_]+)` \|", page, re.MULTILINE)
    assert documented == [name.upper() for name in Settings.model_fields]


def test_the_api_reference_is_up_to_date() -> None:
    assert API_PAGE.read_text() == api_page(), "docs/api.md is out of date: run `make docs`"


def test_the_page_of_rules_is_up_to_date() -> None:
    assert PAGE.read_text() == rules_page(), "docs/rules.md is out of date: run `make docs`"


def test_the_page_of_operators_is_up_to_date() -> None:
    assert OPERATORS_PAGE.read_text() == operators_page(), "docs/operators.md is out of date: run `make docs`"


def test_sources_that_the_code_names_are_resolved() -> None:
    code = " ".join(
        path.read_text() for top in ("compiler", "search", "sdk", "service") for path in (ROOT / top).rglob("*.py")
    )
    code = re.sub(r"\s+", " ", code)
    named = set(re.findall(r"nvFuser, [^:;)]+", code))
    listed = set(re.findall(r"^\| (nvFuser, [^|]+?) \|", (ROOT / "docs" / "sources.md").read_text(), re.MULTILINE))
    assert named == listed
    contracts = set(re.findall(r'docs/contracts\.md, "([^"]+)"', code))
    headings = set(re.findall(r"^## (.+)$", (ROOT / "docs" / "contracts.md").read_text(), re.MULTILINE))
    assert contracts <= headings


def readme_examples() -> list[str]:
    """A function under jit, a model under torch.compile, a fusion by the builder, and the client that goes on."""
    found = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(found) == 4
    return found


def test_the_first_example_of_the_readme_runs_as_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a GPU it says plainly that eager ran, and shows what would be tuned."""
    import torch

    monkeypatch.setenv("FUSETUNE_HOME", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    printed = io.StringIO()
    typed: dict[str, Any] = {}
    with contextlib.redirect_stdout(printed), pytest.warns(FusetuneWarning, match="eager runs"):
        exec(compile(readme_examples()[0].replace("8192", "64"), "README.md", "exec"), typed)
    assert "eager runs: its tensors are on cpu" in printed.getvalue()
    assert "gelu" in printed.getvalue()
    assert typed["y"].shape == typed["x"].shape


@pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")
def test_the_second_example_of_the_readme_runs_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree has no entry points, so the backend is named to torch by hand; the rest is as it stands there."""
    import torch

    import fusetune
    from fusetune.torch_compile import backend

    if "fusetune" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(backend, name="fusetune")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    printed, typed = io.StringIO(), {"torch": torch, "fusetune": fusetune, "device": "cpu"}
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore", FusetuneWarning)
        exec(compile(readme_examples()[1].replace("4096", "512"), "README.md", "exec"), typed)
    assert "no kernel yet" in printed.getvalue()


def test_the_builder_example_of_the_readme_makes_a_fusion() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(readme_examples()[2], "README.md", "exec"), {})
    assert parse_fusion(printed.getvalue()).outputs


def test_the_client_example_of_the_readme_goes_on_from_the_builders(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands there, but on the CPU: the tensors are made, and given to a client that has no service."""
    _, _, first, second = readme_examples()
    typed: dict[str, Any] = {}
    asked: list[Query] = []

    def tune(_: Client, fusion: Fusion, *, inputs: Sequence[Any], budget_s: float, progress: bool) -> Any:
        asked.append(query_of(fusion, inputs, None))
        return lambda *tensors: tensors

    monkeypatch.setattr(Client, "tune", tune)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(first, "README.md", "exec"), typed)
        exec(compile(second.replace('device="cuda", ', ""), "README.md", "exec"), typed)
    assert [query.binding.sizes for query in asked] == [{"M": 8192}]
    assert typed["y"] == (typed["x"], typed["bias"])


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        "docs/api.md",
        "docs/architecture.md",
        "docs/cli.md",
        "docs/containers.md",
        "docs/emulator.md",
        "docs/jit.md",
        "docs/operating.md",
        "docs/rules.md",
        "docs/torch_compile.md",
        "docs/tutorial.md",
        "docs/tutorial_model.md",
        "docs/sources.md",
        "benchmarks/README.md",
    ],
)
def test_links_to_files_lead_somewhere(page: str) -> None:
    path = ROOT / page
    targets = [t for t in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()) if "://" not in t]
    assert [t for t in targets if not (path.parent / t).exists()] == []


def test_the_make_commands_of_the_docs_exist() -> None:
    named = {
        m
        for page in ("README.md", "CONTRIBUTING.md")
        for m in re.findall(r"\bmake ([a-z][a-z-]+)", (ROOT / page).read_text())
    }
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named <= targets
