"""What is wrong with a document: data first, text made from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: where it is (`ops[3].in[1]`), what was found, what was expected, how to mend it."""

    where: str
    found: str
    expected: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: found {self.found}, expected {self.expected}. {self.fix}"


class InvalidDocument(ValueError):
    """A fusion, binding or request that cannot mean anything. `problems` lists every fault, not just the first."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(p) for p in self.problems)


class NotJson(InvalidDocument):
    """Text that is no JSON, or JSON that parsers would read differently."""
