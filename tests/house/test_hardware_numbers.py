"""What the hardware is stands in `compiler/arch.py` alone: a limit that changes is changed in one place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.syntax import syntax
from tests.test_import_directions import ROOT, sources

HOME = "compiler.arch"
EXEMPT = {
    "compiler.emulate": "has numbers of its own: it is the witness of what the rest believes",
    "benchmarks.emulate": "the emulator's kernels, written to PTX and not to our tables",
    "benchmarks.blackwell": "questions to a card, written to PTX and not to our tables: these are what is asked about",
    "fusetune": "a client that knows no compiler; its limits are the wire's and the driver's",
    "examples": "what a user writes",
}

NAMED = re.compile(
    r"^_?(MAX_|MIN_|LEAST_|MOST_)?"
    r"(WARPS?|WARP_(LANES|THREADS|SIZE)|LANES|WARPS_OF_A_GROUP|BANKS?|BANK_BYTES|SECTORS?|SECTOR_BYTES|LINE|LINE_BYTES"
    r"|CHUNK_BYTES|SPANS|REGISTERS?|REGISTER_(BYTES|UNIT|STEP)|REGISTERS_PER_(SM|BLOCK|THREAD)|WORD_BYTES|UNIT_BYTES"
    r"|CP_ASYNC_BYTES|BULK_BYTES|LOCAL_BYTES|STORE_BYTES|BARRIER_BYTES|BOX|BOX_ROWS|RANK|STRIDE_BYTES|ELEMENT_STRIDE|COORDINATE|TENSOR_MAP_\w+"
    r"|COLUMNS|COLUMN_BITS|SUBPARTITIONS?|SUBPARTITION_LANES|BASE_ALIGN|SMS?)$"
)
"""Names of constants that speak of hardware."""

UNMISTAKABLE = {65535, 65536, 227 * 1024, 228 * 1024, 32764}
"""Numbers that hardly stand for anything else than a limit of the hardware."""

GRAINS = {16, 32, 128}
"""What // and % by a number as it stands mostly mean: bytes of a bulk copy, lanes of a warp, bytes of a line."""

ALLOWED = {
    ("compiler.schedule.document", "MAX_RANK"): "of a document: what we read, not what a card takes",
    ("search.cost.written", "_SMS"): "of a measured ratio, in which the exact number cancels",
    ("search.cost.warps", "WARPS"): "how many warps are looked at",
    ("search.cost.spills", "_LEAST_REGISTERS"): "measured: what a kernel needs beside its values",
    ("search.space.schedulers.flat_worthwhile", "MIN_WORD_BYTES"): "measured: what is worth an access",
    ("search.space.schedulers.flat_worthwhile", "MAX_REGISTER_BYTES"): "measured: what a thread may hold",
    ("search.space.schedulers.tile2d_facts", "MAX_REGISTER_BYTES"): "measured: what a thread may hold",
    ("service.settings", "65535"): "the largest TCP port",
    ("service.cli.serve", "65535"): "the largest TCP port",
}
"""(module, name or number) -> why it is no number of the hardware."""


@cache
def numbers(root: Path) -> frozenset[tuple[str, str]]:
    """(module, name or number) of what looks like a number of the hardware under `root`, but for its home."""
    return frozenset(
        (module, name)
        for module, path in sources(root).items()
        if module != HOME and not any(module == name or module.startswith(f"{name}.") for name in EXEMPT)
        for node in ast.walk(syntax(path))
        for name in _found(node)
    )


def _found(node: ast.AST) -> Iterator[str]:
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            if NAMED.match(name) and value is not None and _is_number(value):
                yield name
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=value) if _is_number(value):
            yield from (n.id for n in names if isinstance(n, ast.Name) and NAMED.match(n.id))
        case ast.BinOp(op=ast.FloorDiv() | ast.Mod(), right=ast.Constant(value=int(number))) if number in GRAINS:
            yield str(number)
        case ast.Constant(value=int(number)) if number in UNMISTAKABLE:
            yield str(number)


def _is_number(value: ast.expr) -> bool:
    """Whether it is made of numbers alone."""
    parts = list(ast.walk(value))
    is_plain = all(isinstance(p, ast.Constant | ast.Tuple | ast.BinOp | ast.operator | ast.expr_context) for p in parts)
    return is_plain and any(isinstance(p, ast.Constant) and isinstance(p.value, int) for p in parts)


def test_numbers_of_the_hardware_stand_in_one_place() -> None:
    assert sorted(numbers(ROOT) - set(ALLOWED)) == []


def test_every_allowed_number_is_there() -> None:
    assert set(ALLOWED) <= numbers(ROOT)


@pytest.mark.parametrize(
    ("module", "text", "found"),
    [
        pytest.param("compiler.planted", "WARP = 32", {"WARP"}, id="name"),
        pytest.param("compiler.planted", "MAX_LOCAL_BYTES = 512 * 1024", {"MAX_LOCAL_BYTES"}, id="computed"),
        pytest.param("search.planted", "_SECTOR: int = 32", {"_SECTOR"}, id="private"),
        pytest.param("search.planted", "MAX_BOX, MAX_RANK = 256, 5", {"MAX_BOX", "MAX_RANK"}, id="several"),
        pytest.param("compiler.planted", "x = y // 32", {"32"}, id="lanes"),
        pytest.param("compiler.planted", "f(1 if n < 65536 else 2)", {"65536"}, id="registers"),
        pytest.param("compiler.planted", "MAX_BOX = arch.TENSOR_MAP_BOX", set(), id="read"),
        pytest.param("compiler.planted", "STAGES = (2, 3, 4)", set(), id="ours"),
        pytest.param("compiler.arch", "WARP = 32", set(), id="home"),
        pytest.param("compiler.emulate.planted", "WARP = 32", set(), id="witness"),
    ],
)
def test_a_planted_number_is_found(tmp_path: Path, module: str, text: str, found: set[str]) -> None:
    file = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert {name for _, name in numbers(tmp_path)} == found
