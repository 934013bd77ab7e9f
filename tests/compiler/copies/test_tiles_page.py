"""The page on tiles shows what the code prints."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from compiler.copies.derived import derive_copy
from compiler.copies.tile import SharedTile
from compiler.schedule.explicit import read_case
from compiler.verdict import replay

ROOT = Path(__file__).parents[3]


def test_the_example_of_the_page_is_what_the_code_prints() -> None:
    cases = json.loads((ROOT / "tests" / "data" / "document_cases.json").read_text(encoding="utf-8"))
    case = next(c for c in cases if c["name"] == "Tutorial.TMABankConflictFreeTranspose")
    sf, _ = replay(read_case(case))
    load, read = (derive_copy(sf, op).plan() for op in sf.ops[:2])
    assert isinstance(read.source, SharedTile)
    plain = replace(read, source=replace(read.source, swizzle=None))
    page = (ROOT / "docs" / "concepts" / "tiles.md").read_text(encoding="utf-8")
    shown = re.findall(r"```\n(.*?)\n```", page, re.DOTALL)
    head, _, _ = str(plain).partition("\n\n")
    assert shown == [f"{load}\n\n{read}", head]
