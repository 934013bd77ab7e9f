"""`python -m benchmarks.check.run`: how long verdicts on explicit schedules take, cold and after one that began alike.

Cold: every repetition has tensors of other names, so that nothing is remembered from the last. New step: the same,
but all steps except the last were judged just before. Shared: every repetition is the case with or without its last
step, in turn, so that both were judged before. Reading JSON is not counted.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from compiler.analysis.loops.axes import with_types_of_their_loops
from compiler.legality.rules import MODEL, Schedule
from compiler.schedule.replay import replay_document
from compiler.verdict import judge_document, least_arch

CASES = Path(__file__).parents[2] / "tests" / "data" / "document_cases.json"
NAMED = (
    "Tutorial.TMABankConflictFreeTranspose",
    "Tutorial.VectorizeStorePointwiseTMA",
    "Tutorial.PointwiseBroadcastTMA",
    "TMADocTest.Figure14a",
    "TMemTutorialR.Complicated1",
)
"""Cases with tensor maps, five tensors and more first; one of tensor memory."""

FACTS = ("graph", "tensor_maps", "tile_placements", "tensor_memory", "loops", "sync", "shared_bytes",
         "circular_buffers", "vector_accesses")  # fmt: skip
"""Analyses in the order in which they are timed; each needs some of those before it."""

Document = dict[str, Any]


def renamed(case: Document, n: int) -> Document:
    """The case with other names for its tensors."""
    names = {name: f"{name}_{n}" for name in case["tensors"]}

    def other(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: other(one) for key, one in value.items()}
        if isinstance(value, list):
            return [other(one) for one in value]
        return names.get(value, value) if isinstance(value, str) else value

    found: Document = other(case)
    for field in ("tensors", "runtime_inputs"):
        if field in found:
            found[field] = {names.get(name, name): one for name, one in found[field].items()}
    return found


def timed(work: Callable[[Document], object], documents: Iterable[Document]) -> list[float]:
    """Milliseconds of processor time of each call; the collector of garbage is off meanwhile."""
    taken = []
    gc.collect()
    gc.disable()
    try:
        for document in documents:
            start = time.thread_time()
            work(document)
            taken.append(1e3 * (time.thread_time() - start))
    finally:
        gc.enable()
    return taken


def cold_ms(case: Document, repeats: int) -> list[float]:
    """Verdicts without anything known."""
    return timed(judge_document, [renamed(case, n) for n in range(repeats)])


def shared_ms(case: Document, repeats: int) -> list[float]:
    """Verdicts on the case with and without its last step, in turn."""
    documents = [without_last_step(case), case] * ((repeats + 3) // 2)
    return timed(judge_document, documents)[2:]


def without_last_step(case: Document) -> Document:
    """The case that the last step is added to."""
    return {**case, "schedule": case["schedule"][:-1]}


def new_step_ms(case: Document, repeats: int) -> list[float]:
    """Verdicts on cases of which all but the last step was judged just before, which is not counted."""

    def prepared() -> Iterator[Document]:
        for document in (renamed(case, repeats + n) for n in range(repeats)):
            judge_document(without_last_step(document))
            yield document

    return timed(judge_document, prepared())


def parts_ms(case: Document, repeats: int) -> dict[str, float]:
    """Medians of each part of a cold verdict: replay, each analysis, each rule with its analyses known."""
    taken: dict[str, list[float]] = {}

    def lap(name: str, start: float) -> float:
        now = time.thread_time()
        taken.setdefault(name, []).append(1e3 * (now - start))
        return now

    for n in range(repeats):
        document = renamed(case, n)
        at = time.thread_time()
        done = replay_document(document)
        at = lap("replay", at)
        schedule = Schedule(with_types_of_their_loops(done.sf), least_arch(done.case))
        at = lap("types of loops", at)
        for name in FACTS:
            getattr(schedule, name)
            at = lap(f"analysis {name}", at)
        for rule in MODEL:
            tuple(rule(schedule))
            at = lap(f"rule {rule.__name__}", at)
    return {name: statistics.median(each) for name, each in taken.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a row a case, and with --parts where the time of each goes."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.check.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path, default=CASES, help="cases to judge; by default those of the documents")
    parser.add_argument("--case", action="append", help="a case by name; repeat it. Default: a choice; 'all' for all")
    parser.add_argument("--repeats", type=int, default=50, help="verdicts a figure, 50 by default")
    parser.add_argument("--parts", type=int, default=0, metavar="N", help="also the N parts that take longest")
    given = parser.parse_args(arguments)
    known = {case["name"]: case for case in json.loads(given.file.read_text(encoding="utf-8"))}
    wanted = given.case or [name for name in NAMED if name in known]
    names = list(known) if "all" in wanted else wanted
    if missing := [name for name in names if name not in known]:
        parser.error(f"--case {missing[0]}: no case of {given.file} has that name")
    if given.repeats < 1:
        parser.error("--repeats: at least 1")
    judge_document(known[names[0]])  # what is paid once a process
    figures = ("cold ms", "new step ms", "shared ms")
    print(f"{'case':44} {'tensors':>7} {'steps':>5}" + "".join(f" {figure:>11} {'p90':>7}" for figure in figures))
    for name in names:
        case = known[name]
        taken = [measure(case, given.repeats) for measure in (cold_ms, new_step_ms, shared_ms)]
        row = f"{name:44.44} {len(case['tensors']):7} {len(case['schedule']):5}"
        print(row + "".join(f" {statistics.median(each):11.2f} {p90(each):7.2f}" for each in taken))
        parts = parts_ms(case, given.repeats) if given.parts else {}
        for part, ms in sorted(parts.items(), key=lambda one: -one[1])[: given.parts]:
            print(f"    {ms:8.3f} ms  {part}")


def p90(taken: Sequence[float]) -> float:
    """What nine of ten take at most."""
    return sorted(taken)[int(0.9 * (len(taken) - 1))]


if __name__ == "__main__":
    main()
