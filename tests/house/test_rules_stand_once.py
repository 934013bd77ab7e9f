"""A rule has one home: its name is one function of `compiler/legality` or `compiler/schedule/refusals`, and no analysis
names a rule. Analyses give facts; what of them is wrong is said in one place, under one name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from compiler.renamed import RENAMED, counts_today
from tests.house.syntax import syntax
from tests.test_import_directions import ROOT, sources

HOMES = ("compiler.legality", "compiler.schedule.refusals")
REGISTERING = {"rule", "model_rule", "structure_rule", "step_rule"}

TABLES = {
    "compiler.legality.rules": "which rules of the model the lowering has others for, and why",
    "compiler.explicit.generate": "what this way refuses by other words than the rules of the lowering",
    "compiler.renamed": "the names that rules had before",
}
"""Modules of the compiler that speak of rules of others, and what of them."""


def rules(root: Path) -> Mapping[str, list[str]]:
    """Every rule's name with the modules of its functions."""
    found = defaultdict(list)
    for module, path in _under(root, HOMES):
        for node in syntax(path).body:
            if isinstance(node, ast.FunctionDef) and any(_registers(d) for d in node.decorator_list):
                found[node.name].append(module)
    return found


def _registers(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id in REGISTERING


def _under(root: Path, packages: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    for module, path in sources(root).items():
        if module.startswith(tuple(f"{package}." for package in packages)):
            yield module, path


def spoken_of(root: Path) -> set[tuple[str, str]]:
    """Modules of the compiler that hold the name of a rule as a string and are not its home, with the name."""
    homes = rules(root)
    return {
        (module, node.value)
        for module, path in _under(root, ("compiler",))
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if module not in homes.get(node.value, [module])
    }


def mistaken(root: Path) -> set[tuple[str, str]]:
    """Rules whose function holds the name of another rule, with that name: breaches would be counted under it."""
    every = rules(root)
    return {
        (node.name, said.value)
        for _, path in _under(root, HOMES)
        for node in syntax(path).body
        if isinstance(node, ast.FunctionDef) and any(_registers(d) for d in node.decorator_list)
        for said in ast.walk(node)
        if isinstance(said, ast.Constant)
        and isinstance(said.value, str)
        and said.value in every
        and said.value != node.name
    }


SPEAKING = {
    "compiler.errors": "makes of a condition that is kept what a launch is asked",
    "compiler.verdict": "what a document itself asks of a card: it may name the least it wants",
}
"""Modules of the compiler that judge and are no home of rules, and what they judge."""


def judging(root: Path) -> set[str]:
    """Modules of the compiler that make a violation or a kept condition of their own."""
    return {
        module
        for module, path in _under(root, ("compiler",))
        if not module.startswith(tuple(f"{home}." for home in HOMES))
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Violation", "Kept")
    }


def test_every_rule_has_one_home() -> None:
    assert {name: modules for name, modules in rules(ROOT).items() if len(modules) > 1} == {}


def test_only_tables_speak_of_rules_of_others() -> None:
    assert {module for module, _ in spoken_of(ROOT)} <= TABLES.keys()


def test_every_rule_speaks_of_itself() -> None:
    assert mistaken(ROOT) == set()


def test_only_rules_judge() -> None:
    assert judging(ROOT) == SPEAKING.keys()


@pytest.mark.parametrize(
    ("path", "source", "found"),
    [
        pytest.param("analysis/planted.py", 'FAULT = "fits"', {("compiler.analysis.planted", "fits")}, id="analysis"),
        pytest.param("lower/planted.py", 'print("fits")', {("compiler.lower.planted", "fits")}, id="lowering"),
        pytest.param("analysis/planted.py", 'FAULT = "other"', set(), id="no-rule"),
        pytest.param("legality/second.py", 'print("fits")', {("compiler.legality.second", "fits")}, id="next-door"),
    ],
)
def test_a_planted_name_is_found(tmp_path: Path, path: str, source: str, found: set[tuple[str, str]]) -> None:
    plant(tmp_path, path, source)
    assert spoken_of(tmp_path) == found


def test_a_planted_second_home_and_breach_are_found(tmp_path: Path) -> None:
    plant(tmp_path, "schedule/refusals/planted.py", "@step_rule(int)\ndef fits(site, step):\n    yield 1")
    plant(tmp_path, "analysis/planted.py", 'from compiler.errors import Violation\nprint(Violation("x"))')
    plant(tmp_path, "lower/planted.py", 'from compiler.errors import Kept\nprint(Kept("x"))')
    assert rules(tmp_path) == {"fits": ["compiler.legality.first", "compiler.schedule.refusals.planted"]}
    assert judging(tmp_path) == {"compiler.analysis.planted", "compiler.lower.planted"}
    plant(tmp_path, "legality/planted.py", "@rule\ndef binds(s):\n    yield Violation('fits')")
    assert mistaken(tmp_path) == {("binds", "fits")}


def plant(root: Path, path: str, source: str) -> None:
    """A compiler with the rule `fits`, and one file more."""
    first = 'from a import rule\n\n\n@rule\ndef fits(s):\n    yield Violation("fits")'
    for name, text in (("legality/first.py", first), (path, source)):
        file = root / "compiler" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")


def misnamed(renamed: Mapping[str, Mapping[str, str]], today: Collection[str]) -> set[str]:
    """Old names that are of a rule still, and new ones that are of none."""
    old = {name for names in renamed.values() for name in names}
    new = {name for names in renamed.values() for name in names.values()}
    return old & {*today} | new - old - {*today}


def test_renamed_rules_are_rules_of_today() -> None:
    today = rules(ROOT)
    assert misnamed(RENAMED, today) == set()
    planted = {"9": {"register_caps_are_multiples_of_8": "registers_have_constant_extents", "gone": "never_made"}}
    assert misnamed(planted, today) == {"register_caps_are_multiples_of_8", "never_made"}


def test_counts_of_rules_that_became_one_are_added() -> None:
    counts = {"circular_buffers_are_filled_by_copies": 2, "circular_buffer_is_filled_by_a_copy": 3, "b": 1}
    assert counts_today(counts) == {"circular_buffer_is_filled_by_a_copy": 5, "b": 1}
