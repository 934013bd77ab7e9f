"""From `.loc` to lines of the CUDA source (PTX ISA, "Debugging Directives")."""

from __future__ import annotations

import re

from compiler.emulate.ptx.module import SourceLine

FILE = re.compile(r'^\s*\.file\s+(\d{1,9})\s+"((?:\\.|[^"\\\n])*)"', re.MULTILINE)
LOC = re.compile(
    r"\s*(\d{1,9})\s+(\d{1,9})(?:\s+(\d{1,9}))?(?:\s*,\s*function_name\s+[^\s,]+\s*(?:\+\s*\d+\s*)?,\s*inlined_at\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9}))?\s*$"
)
_Place = tuple[int, int, int]


class Positions:
    """The source line of what follows, in one function.

    The user's file is the one in which the function itself begins, as its first `.loc` says. An instruction inlined
    from that file keeps its own line, which is where the mistake is; one inlined from a header (a wrapper around an
    instruction, say) gets the line of the user's file that called it, the innermost if there are several.
    """

    def __init__(self, files: dict[int, str]) -> None:
        self._files = files
        self._home: int | None = None
        self._callers: dict[_Place, _Place] = {}
        self._lines: dict[tuple[int, int], SourceLine] = {}
        self.current: SourceLine | None = None

    def loc(self, match: re.Match[str]) -> None:
        """A `.loc`, matched by LOC. Line 0 is code of no line: the one before goes on."""
        file, line, column = int(match[1]), int(match[2]), int(match[3] or 0)
        if self._home is None:
            self._home = file
        place = file, line, column
        if match[4] is not None:
            self._callers[place] = int(match[4]), int(match[5]), int(match[6])
        else:
            self._callers.pop(place, None)
        if line == 0:
            return
        at = self._in_home(place)
        known = self._lines.get(at[:2])
        if known is None:
            known = self._lines[at[:2]] = SourceLine(self._files.get(at[0], str(at[0])), at[1])
        self.current = known

    def _in_home(self, place: _Place) -> _Place:
        at = place
        for _ in range(len(self._callers) + 1):
            if at[0] == self._home and at[1]:
                return at
            if at not in self._callers:
                break
            at = self._callers[at]
        return place
