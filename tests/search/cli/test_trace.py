"""`python -m search trace`: the point it takes, and what is said of settings that no legal point has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compiler.cli import app as compiler_app
from search.cli.app import app
from search.cli.faults import UsageFault
from search.cli.trace import chosen_point
from search.space.constraints import Constraint
from search.space.knobs import Knob
from search.space.space import Space

SQUARE = {
    "format": "fusetune.fusion/1",
    "inputs": [{"name": "x", "shape": ["M", 256], "dtype": "f32"}],
    "ops": [{"op": "square", "in": ["x"], "out": "y"}],
    "outputs": [{"name": "y"}],
}
TRANSPOSE = {
    "format": "fusetune.fusion/1",
    "inputs": [{"name": "x", "shape": [512, 256], "dtype": "f32"}],
    "ops": [{"op": "permute", "in": ["x"], "out": "y", "dims": [1, 0]}],
    "outputs": [{"name": "y"}],
}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Traces a fusion with options; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    Path("square.json").write_text(json.dumps(SQUARE))
    Path("transpose.json").write_text(json.dumps(TRANSPOSE))

    def invoke(*args: str) -> tuple[int, str, str]:
        sizes = ("--bind", "M=4096") if args[0] == "square.json" else ()
        result = CliRunner().invoke(app, ["trace", *args, *sizes])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    return invoke


def shown(trace: str, stage: str) -> str:
    result = CliRunner().invoke(compiler_app, ["show", "-", "--stage", stage], input=trace)
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    ("fusion", "settings", "has", "code"),
    [
        pytest.param("square.json", [], "flat(", "ft_load_global", id="as-it-comes"),
        pytest.param("square.json", ["load=tma"], "load=tma", "ft_tma_load", id="one-knob"),
        pytest.param("square.json", ["load=bulk,stages=3"], "stages=3", "ft_bulk_load", id="commas"),
        pytest.param("square.json", ["vector=4", "store=tma"], "vector=4", "ft_tma_store", id="number"),
        pytest.param("transpose.json", ["layout=128B", "load=tma"], "layout=128B", "ft_tma_load", id="transpose"),
    ],
)
def test_the_trace_of_a_point_can_be_shown(run: Run, fusion: str, settings: list[str], has: str, code: str) -> None:
    exit_code, stdout, stderr = run(fusion, *(arg for setting in settings for arg in ("--set", setting)))
    assert exit_code == 0
    assert has in stderr
    assert code in shown(stdout, "cuda")
    assert json.loads(stdout)["format"] == "fusetune.trace/1"


def test_a_scheduler_may_be_named(run: Run) -> None:
    assert run("square.json", "--scheduler", "flat") == run("square.json")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param(["--set", "lod=tma"], ("'lod'", "flat", "load, store"), id="unknown-knob"),
        pytest.param(["--set", "load=tmb"], ("load", "'tmb'", "vector, tma, bulk"), id="unknown-value"),
        pytest.param(["--set", "vector=3"], ("vector", "'3'", "1, 2, 4"), id="unknown-number"),
        pytest.param(["--set", "vector=nan"], ("vector", "'nan'", "1, 2, 4"), id="no-number"),
        pytest.param(["--set", "load"], ("'load'", "KNOB=VALUE", "--set load=tma"), id="no-value"),
        pytest.param(["--set", "=tma"], ("'=tma'", "KNOB=VALUE"), id="no-knob"),
        pytest.param(["--set", "load=tma", "--set", "load=bulk"], ("load", "twice"), id="twice"),
        pytest.param(["--scheduler", "tile2d"], ("'tile2d'", "expected one", "flat"), id="scheduler-of-other-fusions"),
        pytest.param(
            ["--set", "load=vector,stages=2"],
            ("no legal point", "redundant_stages", "load, blocks_per_sm, stages", "Stages overlap"),
            id="one-rule-refuses",
        ),
        pytest.param(["--card", "A100", "--set", "load=tma"], ("load", "'tma'", "vector"), id="not-on-this-card"),
        pytest.param(["--card", "Voodoo"], ("'Voodoo'", "H200"), id="unknown-card"),
    ],
)
def test_a_setting_that_no_legal_point_has_is_refused_by_name(run: Run, args: list[str], says: tuple[str, ...]) -> None:
    code, stdout, stderr = run("square.json", *args)
    assert (code, stdout) == (2, "")
    for part in says:
        assert part in stderr


A, B, C = Knob("a", (1, 2, 4)), Knob("b", (1, 2, 4)), Knob("c", ("x", "y"))


def space(name: str, *constraints: Constraint) -> Space:
    return Space(name, (A, B, C), constraints)


FEW = Constraint("few", ("a", "b"), lambda a, b: a * b <= 4, "At most 4.")
MANY = Constraint("many", ("a", "b"), lambda a, b: a * b >= 4, "At least 4.")
NO_Y = Constraint("no_y", ("c",), lambda c: c != "y", "No y.")
EVEN = Constraint("even", ("a",), lambda a: a % 2 == 0, "Even.")


@pytest.mark.parametrize(
    ("constraints", "settings", "point"),
    [
        pytest.param((), {}, (1, 1, "x"), id="first-values"),
        pytest.param((), {"b": "4", "c": "Y"}, (1, 4, "y"), id="set"),
        pytest.param((FEW, MANY), {}, (1, 4, "x"), id="nearest"),
        pytest.param((FEW, MANY), {"b": "2"}, (2, 2, "x"), id="nearest-to-the-setting"),
        pytest.param((EVEN,), {"b": "4"}, (2, 4, "x"), id="only-what-must-moves"),
    ],
)
def test_other_knobs_take_the_nearest_legal_point(
    constraints: tuple[Constraint, ...], settings: dict[str, str], point: tuple[Any, ...]
) -> None:
    chosen = chosen_point({"s": space("s", *constraints)}, settings)
    assert chosen.knobs == dict(zip("abc", point, strict=True))


@pytest.mark.parametrize(
    ("constraints", "settings", "says", "says_not"),
    [
        pytest.param((NO_Y, EVEN), {"c": "y"}, "no_y refuses 9 of 9", "even", id="the-one-that-refuses-all"),
        pytest.param((FEW, MANY), {"a": "1", "b": "2"}, "many refuses 2 of 2", "few", id="every-knob-it-reads-is-set"),
        pytest.param(
            (EVEN, FEW, MANY, Constraint("odd_b", ("a", "b"), lambda a, b: (b != 1) & (b != 2), "Neither.")),
            {"b": "2"},
            "odd_b refuses 6 of 6",
            "even",
            id="alone-before-together",
        ),
        pytest.param(
            (EVEN, Constraint("small", ("a",), lambda a: a < 2, "Small.")),
            {},
            "even refuses 6 of 18",
            "no_y",
            id="both",
        ),
    ],
)
def test_the_rules_that_refuse_are_named(
    constraints: tuple[Constraint, ...], settings: dict[str, str], says: str, says_not: str
) -> None:
    with pytest.raises(UsageFault, match="no legal point") as refused:
        chosen_point({"s": space("s", *constraints)}, settings)
    assert says in str(refused.value)
    assert says_not not in str(refused.value)


def test_the_first_space_that_has_the_point_is_taken() -> None:
    spaces = {"first": space("first", NO_Y), "second": space("second")}
    assert chosen_point(spaces, {"c": "x"}).scheduler == "first"
    assert chosen_point(spaces, {"c": "y"}).scheduler == "second"
    with pytest.raises(UsageFault, match=r"first has no knob 'd'.*\n.*second has no knob 'd'"):
        chosen_point(spaces, {"d": "y"})
