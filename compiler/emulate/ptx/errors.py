"""What is wrong with a text that should be PTX."""

from __future__ import annotations

from compiler.errors import CompilerError


class PtxError(CompilerError):
    """The text is no PTX: in which line of it (from 1), what was found, what was expected, how to mend it."""

    def __init__(self, line: int, found: str, expected: str, fix: str) -> None:
        super().__init__(line, found, expected, fix)
        self.line = line
        self.found = found
        self.expected = expected
        self.fix = fix

    def __str__(self) -> str:
        return f"PTX line {self.line}: found {self.found}, expected {self.expected}. {self.fix}"
