"""A file's syntax tree, made once for all tests of this folder. Nobody changes it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


def syntax(path: Path) -> ast.Module:
    return parsed(path.read_text(encoding="utf-8"))


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)
