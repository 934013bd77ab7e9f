"""What a tile, a layout or a copy plan cannot be."""

from __future__ import annotations

from compiler.errors import CompilerError, Problem


class TileError(CompilerError):
    """`problem` says where, what was found, what was expected and how to mend it."""

    def __init__(self, where: str, found: str, expected: str, fix: str) -> None:
        super().__init__(where, found, expected, fix)
        self.problem = Problem(where, found, expected, fix)

    def __str__(self) -> str:
        return str(self.problem)
