"""The table of mutants: how many of each kind were made, were wrong, and were found, and what became of the others.

`python -m tests.mutants.report` prints it as Markdown; `--count` says how many of each kind are made, `--order` how
many of each kind of order, and names of kinds which of them.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.mutants.choosing import Judged, judged_of
from tests.mutants.fusions import fusions
from tests.mutants.judging import Judgement
from tests.mutants.kinds import order
from tests.mutants.kinds.kind import Kind
from tests.mutants.kinds.table import KINDS, SUBJECTS
from tests.mutants.ordering import ordered_of
from tests.mutants.survivors import reason

EACH = 18
"""Mutants of a kind in the long run."""

EACH_OF_ORDER = 4


@dataclass(frozen=True)
class Row:
    """A kind and what came of its mutants. `slight`: of the survivors, those that differ by roundings alone."""

    kind: Kind
    made: int
    wrong: int
    found: int
    slight: int = 0

    def __str__(self) -> str:
        return f"| `{self.kind.name}` | {self.kind.says} | {self.made} | {self.wrong} | {self.found} |"


def row_of(kind: Kind, mutants: Sequence[Judged]) -> Row:
    """The row of a kind's mutants."""
    verdicts = [one.verdict for one in mutants]
    found = sum(v.judgement is Judgement.FOUND for v in verdicts)
    return Row(kind, len(verdicts), sum(v.is_wrong for v in verdicts), found, sum(v.is_slight for v in verdicts))


def row_of_order(kind: Kind, count: int) -> Row:
    """The row of a kind of order, all of whose mutants are wrong."""
    mutants = list(ordered_of(kind, count))
    return Row(kind, len(mutants), len(mutants), sum(bool(one.found) for one in mutants))


def survivors(mutants: Iterable[Judged]) -> list[Judged]:
    """Those that are wrong and were not found."""
    return [one for one in mutants if one.verdict.judgement is Judgement.SURVIVED]


def _print_rows(subject: str, rows: Sequence[Row]) -> None:
    print(f"\n**{subject}**\n\n| kind | what is wrong | made | wrong | found |\n|---|---|---:|---:|---:|")
    for row in rows:
        print(row, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Judges the mutants and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.report", description=__doc__)
    parser.add_argument("--count", type=int, default=EACH)
    parser.add_argument("--order", type=int, default=EACH_OF_ORDER)
    parser.add_argument("kinds", nargs="*")
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore", RuntimeWarning)
    names, chosen = tuple(fusions()), set(asked.kinds) or {kind.name for kind in (*KINDS, *order.KINDS)}
    left: list[Judged] = []
    total: list[Row] = []
    for subject, kinds in SUBJECTS.items():
        judged = {kind: judged_of(kind, names, asked.count) for kind in kinds if kind.name in chosen}
        rows = [row_of(kind, mutants) for kind, mutants in judged.items()]
        total += rows
        left += survivors(one for mutants in judged.values() for one in mutants)
        if rows:
            _print_rows(subject, rows)
    ordered = [row_of_order(kind, asked.order) for kind in order.KINDS if kind.name in chosen]
    if ordered:
        _print_rows("order, in the emulator", ordered)
    total += ordered
    made, wrong, found = (sum(getattr(row, name) for row in total) for name in ("made", "wrong", "found"))
    print(f"\n{len(total)} kinds, {made} mutants of {len(names)} fusions: {wrong} wrong, {found} of them found.")
    if left:
        print("\nSurvivors:\n")
    for one in left:
        print(f"- {one.mutant}: {one.verdict.why}. {reason(one) or '**No reason is known.**'}")


if __name__ == "__main__":
    main()
