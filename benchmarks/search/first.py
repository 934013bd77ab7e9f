"""How long a post waits for its first kernel, with a worker that is up: by REST, as a client sees it.

    python -m benchmarks.search.first --url URL [--cases 'softmax*' ...] [--budget-s 60] [--limit-s N] [--json FILE]
                                      [--to-the-end] [--other-size]

Each case is posted with `want` "first" and `refresh`; the clock runs from before the post until the kernel's answer is
here. The tuning is then cancelled, and the next case is posted once it has ended, so the worker is idle and warm. The
first case is posted twice, and the first of these is not counted. `--limit-s` ends the run: cases that do not fit are
named. Without `--cases` all of the public and the varied suite are posted that are no matrix products.

With `--to-the-end` a tuning is waited for instead. It is told how much slower the first kernel was than what the search
ended with, and after how many seconds the best was which (`curve`; `benchmarks.search.goals` reads it). `--other-size`
posts each case at three quarters of its first size: a service that knows the case begins with what won there.

A line a case: seconds until the first kernel, its time and its share of the floor, and what the worker spent the time
on until its first kernel was compiled.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from math import prod
from pathlib import Path

from fusetune.client import Client
from fusetune.errors import ServiceError
from fusetune.wire.parse import parse_binding, parse_fusion
from fusetune.wire.problems import InvalidDocument
from fusetune.wire.service import ACTIVE, TuningView
from search.cli.load import Named, load_many

SUITE = Path(__file__).resolve().parents[1] / "suite"
SUITES = ("suite_public.json", "suite_varied.json")
ASIDE = ("mm_", "tmem_")
"""Beginnings of names of cases that are posted only where `--cases` asks for them."""

FORMAT = "fusetune.first/1"
_LEAST_SIZE = 64
"""The first size of at least so much is the one that another takes the place of."""

_PAUSE_S, _LOOK_S = 0.02, 0.1
"""How often it is asked whether a tuning has ended; and how its best is, seldom enough to leave its host alone."""


@dataclass(frozen=True, slots=True)
class FirstSpeed:
    """One case. `first_s`: from the post to the kernel's answer; None, and `why`, where none came. `curve`: each time
    that the tuning showed a better kernel, the seconds since the post and its median. `stages`: what the tuning spent
    its time on, as its timeline tells it (stage and process, how often, first and last second, seconds in all)."""

    case: str
    first_s: float | None
    median_us: float | None = None
    floor_us: float | None = None
    at_most: float | None = None
    final_us: float | None = None
    first_cubin_s: float | None = None
    gpu_idle: float | None = None
    why: str = ""
    ended: str | None = None
    begun_from: str = ""
    trials: int | None = None
    curve: tuple[tuple[float, float], ...] = ()
    stages: tuple[tuple[str, int, float, float, float], ...] = ()


def measured(client: Client, named: Named, budget_s: float, to_the_end: bool) -> FirstSpeed:
    """One case, posted to a worker that is idle."""
    begun, told = time.monotonic(), set[str]()
    try:
        kernel = client.tune(
            named.fusion, binding=named.binding, budget_s=budget_s, refresh=True, wait="first",
            progress=lambda view: told.add(view.id), timeout_s=budget_s + 60,
        )  # fmt: skip
    except ServiceError as error:
        return FirstSpeed(named.name, None, why=str(error).splitlines()[0])
    first_s, info = time.monotonic() - begun, kernel.info
    if info is None or not told:
        return FirstSpeed(named.name, None, why="it was answered without a tuning")
    view, curve = _ended(client, told.pop(), to_the_end, begun)
    final = None
    if to_the_end and view.kernel is not None:
        final = next((k.median_us for k in (client.kernel(named.fusion, binding=named.binding).info,) if k), None)
    at_most = None if info.provisional is None else info.provisional.at_most
    cubin_s = None if view.timeline is None else view.timeline.first_cubin_s
    idle = None if view.timeline is None or not to_the_end else view.timeline.gpu_idle
    found = FirstSpeed(
        named.name, first_s, info.median_us, info.floor_us, at_most, final, cubin_s, idle, stages=_stages(view)
    )
    if not to_the_end:
        return found
    began = "" if view.timeline is None else view.timeline.begun_from
    curve = ((round(first_s, 3), info.median_us or float("inf")), *curve)
    return replace(found, ended=view.ended, begun_from=began, trials=sum(view.trials.values()), curve=curve)


def _stages(view: TuningView) -> tuple[tuple[str, int, float, float, float], ...]:
    stages = () if view.timeline is None else view.timeline.stages
    return tuple(
        (f"{one.stage}, {one.process}", one.spans, round(one.begun_s, 3), round(one.ended_s, 3), round(one.wall_s, 3))
        for one in stages
    )


def at_other_size(named: Named) -> Named | None:
    """The case with its first size three quarters as large wherever the fusion has it, odd as before; None where that
    is no fusion, or where an input's elements are not dense."""
    document = named.fusion.model_dump(mode="json", by_alias=True, exclude_none=True)
    size = next((extent for extent in document["inputs"][0]["shape"] if extent >= _LEAST_SIZE), 0)
    other = (size * 3 // 4 | 1) if size % 2 else size * 3 // 4 // 8 * 8
    if any(
        not _is_dense(one["shape"], lies.strides)
        for one, lies in zip(document["inputs"], named.binding.inputs, strict=False)
    ):
        return None
    for one in [*document["inputs"], *document["ops"], *document["outputs"]]:
        if isinstance(shape := one.get("shape"), list):
            one["shape"] = [other if extent == size else extent for extent in shape]
    try:
        return Named(f"{named.name} at {other}", parse_fusion(document), parse_binding({}))
    except InvalidDocument:  # the size is also an attribute's
        return None


def _is_dense(shape: Sequence[int], strides: Sequence[int] | None) -> bool:
    """Whether elements lie one after the other."""
    return strides is None or list(strides) == [prod(shape[place + 1 :]) for place in range(len(shape))]


def chosen(patterns: Sequence[str] | None) -> list[Named]:
    """The cases whose name matches one of the patterns, in the order of the suites."""
    every = load_many([SUITE / name for name in SUITES], {})
    if patterns is None:
        return [one for one in every if not one.name.startswith(ASIDE)]
    return [one for one in every if any(fnmatch(one.name, pattern) for pattern in patterns)]


def _ended(
    client: Client, tuning: str, to_the_end: bool, begun: float
) -> tuple[TuningView, tuple[tuple[float, float], ...]]:
    """The tuning once it has ended, cancelled unless it is waited for, and each best time that it showed meanwhile,
    with the seconds since it was begun."""
    view = client.tuning(tuning) if to_the_end else client.cancel(tuning)
    best, curve = float("inf"), list[tuple[float, float]]()
    while view.state in ACTIVE:
        time.sleep(_LOOK_S if to_the_end else _PAUSE_S)
        view = client.tuning(tuning)
        if view.best is not None and view.best.median_us < best:
            best = view.best.median_us
            curve.append((round(time.monotonic() - begun, 3), round(best, 4)))
    return view, tuple(curve)


def line_of(one: FirstSpeed) -> str:
    """A case as a line."""
    if one.first_s is None or one.median_us is None:
        return f"{one.case:42} {'-':>7}  {one.why}"
    share = "" if one.floor_us is None else f" {one.median_us / one.floor_us:5.2f} of the floor"
    cubin = "" if one.first_cubin_s is None else f", first cubin {one.first_cubin_s:.2f} s"
    final = "" if one.final_us is None else f", {one.median_us / one.final_us - 1:+.1%} to the last"
    idle = "" if one.gpu_idle is None else f", GPU idle {one.gpu_idle:.0%}"
    return f"{one.case:42} {one.first_s:7.2f} s {one.median_us:9.2f} us{share}{cubin}{final}{idle}"


def summary(found: Sequence[FirstSpeed]) -> dict[str, float]:
    """Over the cases that got a kernel."""
    seconds = [one.first_s for one in found if one.first_s is not None]
    return {
        "cases": len(seconds),
        "without": len(found) - len(seconds),
        "median_s": statistics.median(seconds) if seconds else float("nan"),
        "worst_s": max(seconds, default=float("nan")),
    }


def main(args: Sequence[str] | None = None) -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.first", description=__doc__.split("\n")[0])
    parser.add_argument("--url", required=True, help="of a service with a worker that is up")
    parser.add_argument("--cases", nargs="+", help="names of cases, with * for anything")
    parser.add_argument("--budget-s", type=float, default=60.0, help="of each tuning")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="no case is begun after so many seconds")
    parser.add_argument("--to-the-end", action="store_true", help="wait for the end of each tuning")
    parser.add_argument("--other-size", action="store_true", help="post the cases at another size")
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(args)
    named = chosen(options.cases)
    if not named:
        parser.error(f"--cases: no case is called {' or '.join(options.cases)}")
    if options.other_size:
        named = [other for one in named if (other := at_other_size(one)) is not None]
    begun, found, left = time.monotonic(), list[FirstSpeed](), list[str]()
    with Client(options.url, store=None) as client:
        print(f"not counted: {line_of(measured(client, named[0], options.budget_s, False))}", flush=True)
        for one in named:
            if time.monotonic() - begun > options.limit_s:
                left.append(one.name)
                continue
            found.append(measured(client, one, options.budget_s, options.to_the_end))
            print(line_of(found[-1]), flush=True)
    told = summary(found)
    for name, value in told.items():
        print(f"{name:12} {value:10.3f}")
    if left:
        print(f"not begun: {', '.join(left)}")
    if options.json is not None:
        cases = [asdict(one) for one in found]
        document = {"format": FORMAT, "budget_s": options.budget_s, "summary": told, "cases": cases, "not_begun": left}
        options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
