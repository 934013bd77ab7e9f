"""How many candidates a core ranks and drafts in a second, over the public and the varied cases.

    python -m benchmarks.search.candidates [--cases 'softmax*' ...] [--structures N] [--drafts N] [--json FILE]
                                           [--beside TREE]

Each case is ranked once by one process, as a search does it, with so many structures of each scheduler and no limit of
time; then the first candidates in the order in which the search tries them are drafted (traced, judged by every rule,
lowered, emitted, predicted), and after them neighbours of the first few that the ranking has not met. Counted is user
time of the processor. `--beside` names another tree of fusetune, which does the same in a process of its own, case
after case in turns: what else the machine does then slows both down. Nothing is compiled or run.

A line a case: candidates ranked, those of them whose kernel was made, milliseconds of each; milliseconds a draft of the
first, and of neighbours; the least predicted time among the first ten drafts. With `--beside`, how many times as many a
core-second the first tree does, and how much slower its best of ten is predicted to be.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from importlib import import_module
from math import exp, log
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve()
TREE = HERE.parents[2]
SUITES = ("suite_public.json", "suite_varied.json")
FORMAT = "fusetune.candidates/1"

_BEST = 10
"""Of so many first drafts the least predicted time is told."""

_PARENTS = 4
"""Candidates whose neighbours are drafted."""


@dataclass(frozen=True, slots=True)
class CaseSpeed:
    """One case in one tree; seconds are user time."""

    case: str
    schedulers: int
    ranked: int
    made: int
    ranking_s: float
    drafted: int
    drafting_s: float
    neighbours: int
    neighbours_s: float
    best_us: float | None

    @property
    def ranked_a_second(self) -> float:
        """Candidates that were given a predicted time, a core-second."""
        return self.ranked / self.ranking_s

    @property
    def drafted_a_second(self) -> float:
        """Drafts of ranked candidates, a core-second."""
        return self.drafted / self.drafting_s

    @property
    def neighbours_a_second(self) -> float:
        """Drafts of candidates that no ranking has met."""
        return self.neighbours / self.neighbours_s if self.neighbours else float("nan")


_FOLDERS = ("search.tuning.candidates", "search")
"""Where the modules that make candidates stand, in this tree and in older ones."""


def _ours(name: str) -> Any:
    """The module of that name, of the tree that this process imports."""
    for folder in _FOLDERS:
        with suppress(ModuleNotFoundError):
            return import_module(f"{folder}.{name}")
    raise SystemExit(f"this tree has no module {name} in {' or '.join(_FOLDERS)}.")


def user_s() -> float:
    """User time of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def measured(named: Any, structures: int, drafts: int) -> CaseSpeed | None:
    """The case by the fusetune that this process imports; None for one that it does not take."""
    from compiler.arch import card_or_default
    from compiler.errors import Unsupported

    candidate_of, spread, neighbours = (
        _ours("candidate").Candidate.of,
        _ours("spread").spread,
        _ours("hints").neighbours,
    )
    card = card_or_default(None)
    try:
        plan = _ours("plan").Plan.of(named.bound(), card)
        spaces = plan.searchable
    except Unsupported:
        return None
    with _ours("drafting").DraftPool(0) as pool:
        pool.start()
        makes = pool.of(plan.subject(card))
        made = 0

        def foresee(candidates: Iterable[Any]) -> Iterator[tuple[Any, list[float] | None]]:
            nonlocal made
            for one in makes.foresee(candidates):
                made += 1
                yield one

        def times(candidates: Sequence[Any]) -> tuple[list[float], float]:
            begun, found = user_s(), []
            for one in candidates:
                draft = makes.submit(one).result()
                found += [draft.predicted_us] if hasattr(draft, "predicted_us") else []
            return found, user_s() - begun

        begun = user_s()
        ranking = plan.ranking(foresee, structures, seed=0, seconds=1e9)
        ranking_s = user_s() - begun
        order = spread(ranking, drafts + _PARENTS)
        found, drafting_s = times(order[:drafts])
        known = {one.candidate for one in ranking}
        near = [
            candidate
            for parent in order[:_PARENTS]
            for point in neighbours(spaces[parent.scheduler], parent.knobs)
            if (candidate := candidate_of(parent.scheduler, point)) not in known
        ]
        near = list(dict.fromkeys(near))[: drafts // 2]
        _, neighbours_s = times(near)
    return CaseSpeed(
        case=named.name,
        schedulers=len(spaces),
        ranked=len(ranking),
        made=made,
        ranking_s=ranking_s,
        drafted=len(order[:drafts]),
        drafting_s=drafting_s,
        neighbours=len(near),
        neighbours_s=neighbours_s,
        best_us=min(found[:_BEST], default=None),
    )


def cases_of(patterns: Sequence[str]) -> list[Any]:
    """The cases of the suites that fit one of the patterns."""
    from search.cli.load import load_many

    named = load_many([TREE / "benchmarks" / "suite" / name for name in SUITES], {})
    return [one for one in named if any(fnmatch(one.name, pattern) for pattern in patterns)]


def serve(structures: int, drafts: int) -> None:
    """Answers the names of cases on standard input, a line each, with their figures as JSON or null."""
    by_name = {one.name: one for one in cases_of(["*"])}
    print("ready", flush=True)
    for line in sys.stdin:
        found = measured(by_name[line.strip()], structures, drafts)
        print(json.dumps(None if found is None else asdict(found)), flush=True)


class Tree:
    """A process that imports one tree, and measures cases when asked."""

    def __init__(self, path: Path, structures: int, drafts: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(HERE), "--serve", "--structures", str(structures), "--drafts", str(drafts)],
            env={"PYTHONPATH": f"{path}:{path / 'sdk'}", "OPENBLAS_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
            cwd=path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._input: IO[str] = _there(self._process.stdin)
        self._output: IO[str] = _there(self._process.stdout)
        self._read()

    def measure(self, case: str) -> CaseSpeed | None:
        """One case, measured there."""
        print(case, file=self._input, flush=True)
        found = json.loads(self._read())
        return None if found is None else CaseSpeed(**found)

    def close(self) -> None:
        """Ends the process."""
        self._input.close()
        self._process.wait()

    def _read(self) -> str:
        line = self._output.readline()
        if not line:
            raise SystemExit("the process of a tree ended; what it said stands above.")
        return line


def _there(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def line_of(one: CaseSpeed, other: CaseSpeed | None) -> str:
    """A case as a line, beside another tree's figures if there are any."""
    each = (
        f"{one.case:42} {one.ranked:5} {one.made:5} {_ms(one.ranking_s, one.ranked)} {_ms(one.drafting_s, one.drafted)}"
    )
    each += f" {_ms(one.neighbours_s, one.neighbours)} {one.best_us or 0.0:10.2f}"
    if other is None:
        return each
    loss = one.best_us / other.best_us - 1 if one.best_us and other.best_us else float("nan")
    return (
        f"{each} | {other.ranked:5} {_ms(other.ranking_s, other.ranked)} {_ms(other.drafting_s, other.drafted)}"
        f" {_ms(other.neighbours_s, other.neighbours)} | {one.ranked_a_second / other.ranked_a_second:6.1f}"
        f" {one.drafted_a_second / other.drafted_a_second:5.2f}"
        f" {one.neighbours_a_second / other.neighbours_a_second:5.2f} {loss:+7.2%}"
    )


def _ms(seconds: float, count: int) -> str:
    return f"{1e3 * seconds / count:7.2f}" if count else "      -"


_COUNTS = {
    "ranked": ("ranked", "ranking_s"),
    "drafted": ("drafted", "drafting_s"),
    "neighbours": ("neighbours", "neighbours_s"),
}
"""What is counted, and the field of the seconds that it took."""


def summary(found: Sequence[CaseSpeed], others: Sequence[CaseSpeed]) -> dict[str, float]:
    """Candidates a core-second over all cases, how many times as many as the other tree's, and the geometric mean of
    that over the cases; and how much slower than the other tree's the best of ten is predicted to be."""
    told: dict[str, float] = {}
    for name, (count, time) in _COUNTS.items():
        both = [(a, b) for a, b in zip(found, others, strict=False) if getattr(a, count) and getattr(b, count)]
        ratios = [_together([a], count, time) / _together([b], count, time) for a, b in both]
        told[f"{name}_a_second"] = _together(found, count, time)
        if others:
            told[f"{name}_a_second_beside"] = _together(others, count, time)
            told[f"{name}_times"] = told[f"{name}_a_second"] / told[f"{name}_a_second_beside"]
            told[f"{name}_times_mean"] = _mean(ratios)
    losses = [a.best_us / b.best_us for a, b in zip(found, others, strict=False) if a.best_us and b.best_us]
    return told | ({"best_of_ten_mean": _mean(losses), "best_of_ten_worst": max(losses)} if losses else {})


def _together(cases: Sequence[CaseSpeed], count: str, time: str) -> float:
    return float(sum(getattr(one, count) for one in cases) / sum(getattr(one, time) for one in cases))


def _mean(ratios: Sequence[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios)) if ratios else float("nan")


def main(args: Sequence[str] | None = None, ask: Callable[[str], CaseSpeed | None] | None = None) -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.candidates", description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", default=["*"], help="names of cases, with * for anything")
    parser.add_argument("--structures", type=int, default=100, help="structures of each scheduler that are ranked")
    parser.add_argument("--drafts", type=int, default=24, help="ranked candidates that are drafted")
    parser.add_argument("--beside", type=Path, help="another tree, measured in turns")
    parser.add_argument("--json", type=Path, help="file to write")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(args)
    if options.serve:
        serve(options.structures, options.drafts)
        return
    if options.beside is not None and not (options.beside / "search").is_dir():
        parser.error(f"--beside: {options.beside} holds no tree of fusetune")
    names = [one.name for one in cases_of(options.cases)]
    if not names:
        parser.error(f"--cases: no case is called {' or '.join(options.cases)}")
    paths = [TREE] if options.beside is None else [TREE, options.beside.resolve()]
    trees = [Tree(path, options.structures, options.drafts) for path in paths] if ask is None else []
    found: list[CaseSpeed] = []
    others: list[CaseSpeed] = []
    for name in names:
        own, *rest = [tree.measure(name) for tree in trees] if ask is None else [ask(name)]
        beside = rest[0] if rest else None
        if own is None or (rest and beside is None):
            print(f"{name:42} is not taken", flush=True)
            continue
        found.append(own)
        others += [] if beside is None else [beside]
        print(line_of(own, beside), flush=True)
    for tree in trees:
        tree.close()
    if not found:
        parser.error("none of the cases is taken")
    told = summary(found, others)
    for name, value in told.items():
        print(f"{name:34} {value:10.3f}")
    if options.json is not None:
        document = {
            "format": FORMAT,
            "structures": options.structures,
            "drafts": options.drafts,
            "summary": told,
            "cases": [asdict(one) for one in found],
            "beside": [asdict(one) for one in others],
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
