"""PTX text to statements: comments, line numbers, the pieces of a statement (PTX ISA, "Syntax").

A statement of PTX is nearly always one line, so that one match of a regular expression finds it whole; this is several
times faster than going token by token.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from compiler.emulate.ptx.errors import PtxError

IDENTIFIER = r"(?:[A-Za-z][\w$]*|[_$%][\w$]+)"
"""PTX ISA, "Identifiers": a letter, or one of _ $ % with at least one more character."""

STATEMENT = re.compile(
    rf"""\s*(?:
      (?P<open>\{{)
    | (?P<close>\}})
    | (?P<label>{IDENTIFIER})\s*:(?!:)
    | (?P<directive>\.[a-z_]\w*)
    | (?P<end>;)
    | (?P<guard>@\s*!?\s*{IDENTIFIER}\s+)?(?P<name>[a-z]\w*(?:\.[\w:]+)*)(?P<rest>[^;]*);
    )""",
    re.VERBOSE,
)
"""The next statement of a function's body; the last group that matched says which kind. Of a directive, which may end
at a semicolon, at the end of the line or with a brace, it finds the first word only."""

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_PARTS = re.compile(r"(?:[^,{}\[\]]+|\{[^{}]*\}|\[[^\[\]]*\])+")
_BRACED = re.compile(r'"[^"\n]*"|[{}]')
_SPACES = re.compile(r"\s*")
_WORD = re.compile(rf"\.?{IDENTIFIER}|\S")


def without_comments(text: str) -> str:
    """The text with comments taken out, line for line the same."""
    return _COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else "\n" * m[0].count("\n") or " ", text)


def split(text: str) -> list[str] | None:
    """Cuts at the commas outside braces and brackets; None where these do not match. Empty text gives no pieces."""
    if not text or text.isspace():
        return []
    if "{" not in text and "[" not in text:
        return text.split(",")
    parts = _PARTS.findall(text)
    return parts if ",".join(parts) == text else None


class Cursor:
    """A place in the text. Positions are character offsets; lines count from 1."""

    def __init__(self, text: str) -> None:
        self.text = without_comments(text)
        self.pos = 0
        self._counted = 0
        self._line = 1

    def line(self, pos: int | None = None) -> int:
        """The line of a position, by default of the next thing to read. Fast where positions grow."""
        if pos is None:
            pos = self.skip()
        if pos < self._counted:
            return self.text.count("\n", 0, pos) + 1
        self._line += self.text.count("\n", self._counted, pos)
        self._counted = pos
        return self._line

    def skip(self) -> int:
        """Goes past white space; the position there."""
        self.pos = _end(_SPACES, self.text, self.pos)
        return self.pos

    @property
    def at_end(self) -> bool:
        """Whether nothing follows."""
        return self.skip() == len(self.text)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Matches here, after white space, and goes past the match."""
        match = pattern.match(self.text, self.skip())
        if match is not None:
            self.pos = match.end()
        return match

    def expect(self, pattern: re.Pattern[str], expected: str, fix: str) -> re.Match[str]:
        """As `take`. Raises PtxError, saying what was expected, where it does not match."""
        match = self.take(pattern)
        if match is None:
            raise self.error(expected, fix)
        return match

    def until(self, end: str, what: str) -> str:
        """The text up to the next `end`, which is passed. Raises PtxError where none follows."""
        before = self.pos
        start = self.skip()
        stop = self.text.find(end, start)
        if stop < 0:
            raise PtxError(self.line(before), "the end of the text", f"{end!r} after {what}", "Complete the statement.")
        self.pos = stop + len(end)
        return self.text[start:stop]

    def rest_of_line(self) -> str:
        """The text up to the end of the line, stripped."""
        stop = self.text.find("\n", self.pos)
        start, self.pos = self.pos, len(self.text) if stop < 0 else stop
        return self.text[start : self.pos].strip()

    def skip_braces(self) -> None:
        """Goes past `{ ... }`. Raises PtxError where it is not closed."""
        start = self.skip()
        depth = 0
        for match in _BRACED.finditer(self.text, start):
            depth += {"{": 1, "}": -1}.get(match[0], 0)
            if depth == 0:
                self.pos = match.end()
                return
        raise PtxError(self.line(start), "an opening brace", "its closing brace", "Close the section.")

    def error(self, expected: str, fix: str) -> PtxError:
        """That what follows here is not what was expected."""
        start = self.skip()
        word = _WORD.match(self.text, start)
        found = repr(word[0]) if word else "the end of the text"
        return PtxError(self.line(start), found, expected, fix)


def _end(pattern: re.Pattern[str], text: str, pos: int) -> int:
    match = pattern.match(text, pos)
    return pos if match is None else match.end()


Fail = Callable[[str, str, str], PtxError]
"""Makes an error of the statement at hand: found, expected, how to fix it."""
